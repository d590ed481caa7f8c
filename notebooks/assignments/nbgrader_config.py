"""Configuration of nbgrader, which reads, clears and collects this course and runs no student's code."""

from nbconvert.exporters import NotebookExporter

c = get_config()


class MarkedOutside(NotebookExporter):
    """Stops nbgrader's Autograde and Generate Feedback before they begin.

    Autograde would run students' code as you, beside the gradebook. Generate Feedback would replace the
    students' pages by what the grader sees, with the rubric and an answer of each written question.
    """

    def __init__(self, **options):
        raise RuntimeError(
            "nothing was run or changed:\n"
            "submissions are marked by 'make mark', in a sandbox,\n"
            "and 'make feedback' writes the pages"
        )


c.CourseDirectory.course_id = "minitxl"
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ClearSolutions.text_stub = "*Your answer*"
c.Autograde.exporter_class = MarkedOutside
c.GenerateFeedback.exporter_class = MarkedOutside
c.FileNameCollectorPlugin.named_regexp = r".*/(?P<student_id>[^_/]+)_(?P<file_id>[^/]+\.ipynb)"
