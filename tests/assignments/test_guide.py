"""The teacher's pages: plans, quiz, project and commands are as they must be for a class to use them."""

import contextlib
import io
import re
from collections import Counter
from pathlib import Path
from shutil import copy
from textwrap import dedent

import pytest
import torch
from sheet import ALL
from support.markdown import blocks_of, commands_of, words_of

from minitxl.__main__ import main
from minitxl.course.differences import equal
from minitxl.course.grading import points
from minitxl.course.marking.notebooks import Assignment, read
from minitxl.course.marking.owners import Roster, told, way_to_be_found
from minitxl.course.marking.rules import Rules
from minitxl.course.marking.suspicion import COMMON, FEW, LONG, length

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks" / "assignments"
GUIDE = (FOLDER / "README.md").read_text("utf-8")
PROJECT = (FOLDER / "project.md").read_text("utf-8")
BOOK = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted(FOLDER.glob("*.md"))
START = (ROOT / "notebooks" / "without_installing.md").read_text("utf-8")


def table(page: str, head: str) -> list[list[str]]:
    """Return the cells of the table whose head begins so, without head and rule."""
    (lines,) = re.findall(rf"^\| {re.escape(head)} \|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()[1:]]


def notebooks_in(text: str) -> set[str]:
    return set(re.findall(r"\b\d\d[bc]?\b(?! *×)", text))


def treated_in(together: str) -> set[str]:
    """Return the notebooks of a meeting: minutes are none."""
    return notebooks_in(re.sub(r"\(\d+\)", "", together))


# Lesson plans

NEEDS = {row[0]: notebooks_in(row[2]) for row in table(GUIDE, "no.")}
"""What notebooks each assignment needs."""


def test_the_guides_due_date_is_one_that_a_course_takes(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "course.toml").write_text(text)
    rules = Rules.of(tmp_path)
    rules.check([path.stem for path in FOLDER.glob("*.ipynb")], [])
    assert rules.due_of("1_heads_and_masks", "ada") is not None


def test_the_guide_names_the_solved_functions_that_are_too_short_to_be_compared():
    sheets = [Assignment(path.stem, read(path)) for path in sorted(FOLDER.glob("*.ipynb"))]
    sources = [sheet.cells[name].source for sheet in sheets for name in sheet.solutions]
    short = [source for source in sources if length(source) <= LONG]
    names = [re.match(r"def (\w+)", source)[1] for source in short]
    (said,) = re.findall(r"Of the solved functions (.*?)\. ", GUIDE)
    assert re.findall(r"`(\w+)`", said) == names


def test_the_guide_says_what_to_rename_as_the_table_does():
    roster, folder = Roster(), FOLDER / "downloaded" / "3_memory"
    said = dict(table(GUIDE, "what decided"))
    old, new = re.findall(r"`([^`]+)`", said["Moodle's folder"])
    part = told(folder / old / "my.ipynb", FOLDER, "3_memory", roster).part
    way = way_to_be_found(folder / old / "my.ipynb", FOLDER, "3_memory", part, "ada")
    assert way == f"rename the folder {old} to {new}"
    (new,) = re.findall(r"`([^`]+)`", said["the file's own name, or none"])
    way = way_to_be_found(folder / "my.ipynb", FOLDER, "3_memory", "", "ada")
    assert way == f"rename it to {new}".replace("ASSIGNMENT", "3_memory")


@pytest.mark.parametrize(
    "words",
    [
        "Answers in words are not compared",
        "Read your old comment before you confirm: it stays",
        "They are read from the outside inwards, and the first one that names a student counts",
        "`torch.load`), run text",
        'The groups "one query" have none',
        "the page says in which of these two kinds of cell it stands",
    ],
)
def test_the_guide_says(words):
    assert words in GUIDE


def test_the_guide_says_how_many_may_write_a_function_alike():
    assert (FEW, COMMON, FEW / COMMON) == (8, 0.1, 80)
    assert "at most eight students, or a tenth of a class of more than eighty" in GUIDE


def test_the_guide_says_on_which_clock_the_times_in_a_zip_file_are_read_and_how_to_set_it():
    (said,) = re.findall(r"\*\*Times in a zip file have no time zone\.\*\*.*?\n## ", GUIDE, re.DOTALL)
    assert "on the clock of the machine that marks" in said
    assert "TZ=Europe/Berlin make mark COURSE=" in said


GRADED = [(sheet.stem, sheet.trial(test)[0]) for sheet in ALL for test in sheet.tests]
"""All functions that the marking gives points for, with their assignments."""


@pytest.mark.parametrize(("name", "function"), GRADED)
def test_the_guides_lines_for_an_appeal_draw_a_case_of_any_function_and_show_what_is_right(
    name, function, tmp_path, capsys
):
    (lines, numbers), *_ = re.findall(
        r"```python\n(.*?trial_of.*?)```\n\n *`my_numbers`.*?the last three lines are `(.*?)`",
        GUIDE,
        re.DOTALL,
    )
    (tmp_path / "source" / name).mkdir(parents=True)
    copy(FOLDER / f"{name}.ipynb", tmp_path / "source" / name)
    lines = dedent(lines).replace("../classroom", str(tmp_path)).replace("3_memory", name)
    lines = lines.replace('"weigh"', f'"{function}"').replace("cases[3]", "cases[0]")
    shown = {}
    if function == "my_numbers":
        exec(lines[: lines.index("drawn = ")] + numbers, shown)
        expected = f"{shown['trial']('ada')[0]}\n"
    else:
        exec(lines, shown)
        drawn, (sheet,) = shown["trial"](17), (one for one in ALL if one.stem == name)
        case = str(drawn.cases[0])  # before a probe has it need a gradient
        functions = drawn.reference, sheet.handed_in()[function]
        right, mine = (drawn.probe(one, *drawn.cases[0]) for one in functions)
        assert equal(right, mine)
        expected = f"{case}\n{right}\n"
    torch.set_printoptions(profile="default")
    assert capsys.readouterr().out == expected


HARSH = {
    "attend": ("1_heads_and_masks", "attend", "scores / sqrt(q.shape[-1])", "scores"),
    "attend`, too": (
        "1_heads_and_masks",
        "attend",
        ('float("-inf")', "-1e9"),
        ("    weights = weights.masked_fill(~seen, 0.0)\n", ""),
    ),
    "seen_keys": ("1_heads_and_masks", "seen", "j < lengths", "j <= lengths"),
    "layer": ("1_heads_and_masks", "layer", ' @ W["o"]', ""),
    "xl_attention": ("5_xl_attention", "layer", "memory.detach()", "memory"),
    "window_losses": ("2_segments", "score", "model.train(mode)", "model.train()"),
    "look_back": ("3_memory", "look", "back < window", "back <= window"),
    "write": (
        "6_evaluation_and_generation",
        "write",
        "if ended.all() or len(written) == length:",
        "if (ended.all() or len(written) == length) and (step(token[:, None], cache) or True):",
    ),
    "score": ("6_evaluation_and_generation", "score", "torch.no_grad()", "torch.enable_grad()"),
    "weigh": ("3_memory", "weigh", "begins.cumsum(dim=1)", "(begins.cumsum(dim=1) > 0).long()"),
}
"""Mistakes whose price the guide names, by function, with what comes behind its name if there are two."""


@pytest.mark.parametrize("function", HARSH)
def test_the_guide_says_what_a_mistake_in_most_groups_costs(function):
    name, cell, *change = HARSH[function]
    (sheet,) = (one for one in ALL if one.stem == name)
    attempt, trial = sheet.trial(f"{cell}-test")
    _, right = trial(0).shares(sheet.handed_in(cell, *change)[attempt])
    most = sheet.points[f"{cell}-test"]
    said = re.search(rf"costs ([\d.]+) of the (\d+) points of `{function}", GUIDE)
    assert [float(number) for number in said.groups()] == [most - points(most, right), most]


def test_the_guide_rounds_points_as_the_marking_does():
    said = re.search(r"of (\d) points for three numbers, one.*? gives ([\d.]+) .*?two give ([\d.]+) ", GUIDE)
    most, *given = map(float, said.groups())
    shares = [dict(zip("abc", [True] * n + [False] * (3 - n), strict=True)) for n in (1, 2)]
    assert given == [points(most, right) for right in shares]


def test_guide_and_sheets_say_that_a_function_fails_with_one_that_it_calls():
    assert "as `layer` of assignment 1 may call `attend`. Then that one loses points with it" in GUIDE
    for path in sorted(FOLDER.glob("*.ipynb")):
        assert "Where one of yours calls another, it fails with it" in path.read_text("utf-8"), path.name


def test_the_guide_says_how_to_mark_as_a_user_who_is_not_root():
    assert "`useradd --create-home marker`" in GUIDE
    assert "`runuser -u marker -- make mark COURSE=" in GUIDE


def test_an_assignment_needs_what_its_own_header_says():
    import nbformat

    for path in sorted(FOLDER.glob("*.ipynb")):
        title = nbformat.read(path, as_version=4).cells[0].source
        before = re.search(r"\*\*Before you start:\*\*(.*?)\*\*Time", title, re.DOTALL)[1]
        assert notebooks_in(before) == NEEDS[path.name[0]], path.name


def test_in_the_plan_of_ten_meetings_nothing_is_due_before_what_it_needs():
    seen: set[str] = set()
    due = []
    for _, _, together, dues in table(GUIDE, "meeting"):
        for number in re.findall(r"\d", dues):
            assert NEEDS[number] <= seen, number
            due.append(number)
        seen |= treated_in(together)
    assert due == list("123456")


def test_in_the_plan_of_ten_meetings_a_prediction_comes_before_its_notebook():
    """And not after: a notebook that was treated is no one's to predict any more."""
    treated: set[str] = set()
    for _, before, together, _ in table(GUIDE, "meeting"):
        assert not notebooks_in(before) & treated
        treated |= treated_in(together)


def test_in_the_plan_of_ten_meetings_every_notebook_with_predictions_is_predicted_before_it_is_treated():
    """At home, or at the beginning of the meeting, as the table says."""
    have = {path.name.partition("_")[0] for path in BOOK if "my_predictions" in path.read_text("utf-8")}
    predicted: set[str] = set()
    treated: set[str] = set()
    for _, before, together, _ in table(GUIDE, "meeting"):
        predicted |= notebooks_in(before) | {*re.findall(r"(\d\d[bc]?): predict,", together)}
        treated |= treated_in(together)
        assert treated & have <= predicted
    assert have == treated


def test_in_ten_meetings_each_takes_eighty_minutes():
    for meeting, _, together, _ in table(GUIDE, "meeting"):
        minutes = [int(number) for number in re.findall(r"\((\d+)\)", together)]
        assert sum(minutes) == (80 if meeting.isdigit() else 0), meeting


def test_both_plans_have_time_for_the_quiz_in_the_first_and_the_last_meeting_and_none_spoils_it():
    first, *between, last, _ = [together for _, _, together, _ in table(GUIDE, "meeting")]
    assert first.startswith("the quiz (15); ")
    assert "the quiz again (15)" in last
    assert not [together for together in between if "quiz" in together]
    (short,) = re.findall(r"\*\*50 minutes, fourteen meetings\*\*.*?\n\n", GUIDE, re.DOTALL)
    rhythm, rest = short.split("With the meeting on 03")
    minutes = [int(number) for number in re.findall(r"\((\d+)\)", rhythm)]
    assert (sum(minutes), minutes[2]) == (50, 15)
    words = " ".join(rest.split())
    assert "meeting on 00, and at the end of the one on 13, the quiz takes the place of the piece" in words


def test_in_the_plan_of_fourteen_meetings_nothing_is_due_before_what_it_needs():
    every = [f"{number:02}" for number in range(14)]
    rows = table(GUIDE, "assignment | due when the meeting begins on")
    assert [row[0] for row in rows] == list("123456")
    for number, when in rows:
        last = when.removeprefix("a week after ")
        before = every if last != when else every[: every.index(last)]
        home = {"12"} if "03" in before else set()  # one section, read at home after the meeting on 03
        assert NEEDS[number] <= {*before, *home}, number


# The quiz

QUESTIONS = re.findall(r"^(\d+)\. .*\n +\(a\) (.*?) \(b\) (.*?) \(c\) (.*)$", GUIDE, re.MULTILINE)
KEY = {row[0]: row[1] for row in table(GUIDE, "question")}


def test_the_quiz_has_a_key_with_the_notebook_of_each_answer():
    assert [number for number, *_ in QUESTIONS] == list(KEY) == [str(one) for one in range(1, 17)]
    files = {path.name.partition("_")[0] for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {row[3] for row in table(GUIDE, "question")} <= files


def test_no_letter_is_the_right_one_more_often_than_chance_would_have_it():
    letters = "".join(KEY.values())
    assert all(4 <= count <= 7 for count in Counter(letters).values())
    assert not any(letters == (letters[:period] * 16)[:16] for period in range(1, 9))


def test_the_right_answer_is_not_told_by_its_length():
    places = Counter[str]()
    for number, *options in QUESTIONS:
        right = len(options.pop("abc".index(KEY[number])))
        lengths = [len(option) for option in options]
        places["longest"] += right > max(lengths)
        places["shortest"] += right < min(lengths)
    assert max(places.values()) <= 5, places


def test_a_question_says_what_its_letters_stand_for():
    for number, question in re.findall(r"^(\d+)\. (.*)", GUIDE, re.MULTILINE):
        for letter in {*re.findall(r"`[a-z] \+ ([A-Z])`", question)}:
            assert re.search(rf"of `{letter}` ", question), number


def test_the_questions_can_be_copied_without_the_key():
    assert "✓" not in GUIDE


# Links and commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_teachers_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_numbered_one_after_the_other(page):
    lines = [
        line
        for block in blocks_of(page.read_text("utf-8"))
        if block.language == "sh"
        for line in block.text.splitlines()
        if not re.match(r"git clone |cd [\w-]+$", line)  # where there is an address; see make home
    ]
    numbers = [re.search(r" # (\d+)(?:: .*)?$", line) for line in lines]
    assert [number and int(number[1]) for number in numbers] == list(range(1, len(lines) + 1))


# The project

TINY = (
    "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8 --warmup 2 "
    "--validate-every 3 --validate-tokens 100"
)


def test_the_projects_commands_and_its_snippet_work_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    Path("my.txt").write_text("def f(x):\n    return x\n\n" * 400)
    blocks = blocks_of(PROJECT)
    commands = [one for block in blocks if block.language == "sh" for one in commands_of(block)]
    for command in commands:
        words = words_of(command)[1:]
        if words[0] == "train":
            words[words.index("--steps") + 1] = "6"
            words += TINY.split()
        main(words)
    assert capsys.readouterr().out.count("bits per byte") >= 4
    (snippet,) = [block.text for block in blocks if block.language == "python"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(snippet, "project.md", "exec"), {})
    assert len(re.findall(r"without ages \d+ to \d+: -?\d+\.\d{4} nats", said.getvalue())) == 4


def test_the_projects_rubric_adds_up():
    rows = table(PROJECT, "part")
    *parts, total = [int(row[3].strip("*")) for row in rows]
    assert sum(parts) == total == 100


def test_the_page_for_those_who_install_nothing_promises_no_service():
    assert not re.search(r"colab|binder|kaggle|sagemaker|codespace", START, re.IGNORECASE)
    assert "`make book`" in START
    assert "`pip wheel --no-deps --wheel-dir build .`" in START
