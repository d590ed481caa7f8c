"""What holds for every assignment: its form, its points, its reference, and what students are given of it."""

import inspect
import re
from copy import deepcopy

import nbformat
import pytest
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearSolutions,
    LockCells,
)
from sheet import ALL, SOURCES
from traitlets.config import Config, PyFileConfigLoader

every_sheet = pytest.mark.parametrize("sheet", ALL, ids=lambda sheet: sheet.stem)
every_graded_function = pytest.mark.parametrize(
    ("sheet", "test"),
    [(sheet, test) for sheet in ALL for test in sheet.tests if test != "numbers-test"],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)


def prose(sheet):
    return "\n".join(cell.source for cell in sheet.notebook.cells if cell.cell_type == "markdown")


def released(sheet):
    """The notebook as nbgrader hands it out."""
    config = Config(PyFileConfigLoader("nbgrader_config.py", path=str(SOURCES)).load_config())
    notebook = deepcopy(sheet.notebook)
    for step in (LockCells, ClearSolutions, ClearHiddenTests, ClearMarkScheme, CheckCellMetadata):
        notebook, _ = step(config=config).preprocess(notebook, {})
    return notebook


@every_sheet
def test_the_rules_say_where_a_helper_must_not_stand(sheet):
    """In a check or a test cell it works for the student, and is not there when the notebook is marked."""
    words = " ".join(prose(sheet).split())
    assert "What you define or import in one of them, or in a test cell, is not there in the marking" in words


@every_sheet
def test_a_place_that_a_hint_names_is_a_heading_of_that_notebook(sheet):
    """``notebook 04, 'Write the memory'``: the words begin a heading or an exercise of notebook 04."""
    folder, named = SOURCES.parent, []
    for cell in sheet.notebook.cells:
        for number, quoted in re.findall(r"notebook (\d+b?), ((?:'[^']+'(?: and )?)+)", cell.source):
            (path,) = folder.glob(f"{number}_*.ipynb")
            text = "\n".join(
                one.source for one in nbformat.read(path, as_version=4).cells if one.cell_type == "markdown"
            )
            for words in re.findall(r"'([^']+)'", quoted):
                named.append(words)
                assert re.search(rf"(?m)^(#+ |\*\*\d+\. ){re.escape(words)}", text), (number, words)
    assert named


def test_there_are_six():
    assert [sheet.stem[0] for sheet in ALL] == list("123456")


@every_sheet
def test_a_source_is_a_valid_notebook_without_outputs_that_nbgrader_understands(sheet):
    text = (SOURCES / f"{sheet.stem}.ipynb").read_text("utf-8")
    assert nbformat.writes(sheet.notebook, version=4) + "\n" == text
    nbformat.validate(sheet.notebook)
    assert len(sheet.cells) == len(sheet.notebook.cells)
    for name, cell in sheet.cells.items():
        assert cell.metadata.keys() <= {"nbgrader"}
        assert cell.metadata.get("nbgrader", {"grade_id": name})["grade_id"] == name
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@every_sheet
def test_the_header_says_goals_time_and_points_and_they_add_up(sheet):
    title = sheet.notebook.cells[0].source
    assert "**You will be able to**" in title
    (low, high) = re.search(r"\*\*Time:\*\* (\d+) to (\d+) minutes", title).groups()
    assert 60 <= int(low) < int(high) <= 120
    rows = [int(points) for points in re.findall(r"^\| \d .*\| (\d+) \|.*\|$", title, re.MULTILINE)]
    assert rows == list(sheet.points.values())
    assert f"**{sum(rows)}**" in title
    for heading, points in zip(re.findall(r"^## \d.*$", prose(sheet), re.MULTILINE), rows, strict=True):
        assert f"({points} points" in heading


@every_sheet
def test_each_graded_cell_has_its_solution_and_one_question_is_marked_by_hand(sheet):
    assert sheet.tests == [f"{cell}-test" for cell in sheet.solutions]
    assert 4 <= len(sheet.solutions) <= 6
    (written,) = sheet.of_kind(grade=True, solution=True, kind="markdown")
    rubric = re.findall(r"^\| .* \| (\d+) \|$", sheet.cells[written].source, re.MULTILINE)
    assert sum(map(int, rubric)) == sheet.points[written]


@every_graded_function
def test_the_reference_passes_a_hundred_random_cases(sheet, test):
    names = sheet.handed_in()
    attempt, _ = sheet.trial(test)
    verdicts = [trial.judge(names[attempt]) for trial in sheet.trials(test)]
    assert all(verdict.right for verdict in verdicts), verdicts


@every_graded_function
def test_random_cases_differ_from_seed_to_seed_and_have_six_named_mistakes(sheet, test):
    one, other = (sheet.trial(test)[1](seed) for seed in (1, 2))
    assert repr(one.cases) != repr(other.cases)
    assert repr(one.cases) == repr(sheet.trial(test)[1](1).cases)
    assert len(one.mistakes) >= 6


@every_graded_function
def test_a_message_names_the_arguments_as_the_sheet_does(sheet, test):
    def raising(*case):
        raise KeyError("lost")

    attempt, trial = sheet.trial(test)
    call = trial(0).judge(raising).message.partition(", it raised")[0]
    known = list(inspect.signature(sheet.handed_in()[attempt]).parameters)
    assert re.findall(r"(?:^called with|,) (\w+) = ", call) == known


@every_graded_function
def test_what_it_was_given_or_nothing_or_a_constant_is_no_answer(sheet, test):
    _, trial = sheet.trial(test)
    for lazy in (lambda *case: case[0], lambda *case: case[-1], lambda *case: None, lambda *case: 0.0):
        assert not trial(0).judge(lazy).right


@every_sheet
def test_a_blank_one_gets_no_points(sheet):
    names = {}
    exec(sheet.cells["imports"].source, names)
    for cell in sheet.solutions:
        exec(sheet.blank(cell), names)
    assert set(sheet.mark(names).values()) == {"there is nothing here yet"}


@every_sheet
def test_one_blank_function_costs_no_points_of_another(sheet):
    for cell in sheet.solutions:
        said = sheet.mark(sheet.handed_in(cell, sheet.blank(cell)))
        assert {test for test, message in said.items() if message} == {f"{cell}-test"}


@every_sheet
def test_the_checks_for_oneself_pass_for_the_reference_and_explain_what_fails(sheet):
    names = sheet.handed_in()
    checks = [name for name in sheet.cells if name.endswith("-check")]
    assert len(checks) == len(sheet.solutions) - 1  # your numbers have none
    for check in checks:
        exec(sheet.cells[check].source, dict(names))
        source = sheet.cells[check].source
        assert source.startswith("# Check yourself")
        assert len(re.findall(r"^ *assert ", source, re.MULTILINE)) >= 2
        cell = check.removesuffix("-check")
        blank = names.copy()
        exec(sheet.blank(cell), blank)
        with pytest.raises(NotImplementedError):
            exec(source, blank)


@pytest.mark.parametrize(
    "function",
    [
        "1/attend",
        "1/layer",
        "2/score",
        "3/look",
        "3/weigh",
        "4/scores",
        "4/collect",
        "4/layer",
        "5/keys",
        "5/terms",
        "5/layer",
        "6/likely",
    ],
)
@pytest.mark.parametrize("error", [-3e-7, 3e-7])
def test_a_check_for_oneself_passes_what_other_operations_round_otherwise(function, error):
    number, cell = function.split("/")
    (sheet,) = (one for one in ALL if one.stem.startswith(number))
    attempt, _ = sheet.trial(f"{cell}-test")
    names = sheet.handed_in()
    right = names[attempt]
    names[attempt] = lambda *case, **named: right(*case, **named) * (1 + error)
    exec(sheet.cells[f"{cell}-check"].source, names)


@every_sheet
def test_no_solution_hidden_test_or_answer_is_handed_out(sheet):
    given = released(sheet)
    assert not [cell for cell in given.cells if re.search(r"BEGIN|END|Trial|grade\(|mistakes", cell.source)]
    marked = [*sheet.solutions, *sheet.points]
    text = "\n".join(cell.source for cell in given.cells if cell.id in marked)
    for name in marked:
        cell = sheet.cells[name]
        (now,) = (one.source for one in given.cells if one.id == name)
        secret = set(cell.source.splitlines()) - set(now.splitlines())
        assert secret
        for line in map(str.strip, secret):
            assert len(line) < 20 or line.startswith(("import ", "from ")) or line not in text, (name, line)
        if cell.metadata.nbgrader.solution:
            assert "raise NotImplementedError" in now or now == "*Your answer*"
        else:
            assert re.fullmatch(r"(# .*\n?)+", now)


def test_a_question_defines_the_attention_length_that_its_rubric_counts_with():
    (sheet,) = (one for one in ALL if one.stem == "6_evaluation_and_generation")
    question, rubric = (sheet.cells[name].source for name in ("written-text", "written"))
    n_layer, attention_len = 12, 3800
    assert f"{n_layer} layers" in question
    assert f"attention length {attention_len:,}" in question
    words = " ".join(question.split())
    assert "keys that one query sees in each layer, from memory and segment together and itself" in words
    farther_back = n_layer * (attention_len - 1)  # each layer's query sees itself and so many before it
    assert f"{farther_back + 1:,} tokens" in rubric
