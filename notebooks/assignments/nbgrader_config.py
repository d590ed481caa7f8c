"""Configuration of nbgrader, which reads, clears and collects this course and runs no student's code."""

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.preprocessors import ClearHiddenTests, GetGrades, NbGraderPreprocessor

c = get_config()


class MarkedOutside(NbGraderPreprocessor):
    """Stops nbgrader's own Autograde, which runs students' code as you, beside the gradebook."""

    def preprocess(self, notebook, resources):
        raise RuntimeError("submissions are marked by 'make mark', in a sandbox: nothing was run or changed")


c.CourseDirectory.course_id = "minitxl"
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ClearSolutions.text_stub = "*Your answer*"
c.Autograde.sanitize_preprocessors = [MarkedOutside]
c.FileNameCollectorPlugin.named_regexp = r".*/(?P<student_id>[^_/]+)_(?P<file_id>[^/]+\.ipynb)"
c.GenerateFeedback.preprocessors = [ClearHiddenTests, GetGrades, CSSHTMLHeaderPreprocessor]
