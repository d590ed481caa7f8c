"""The course's own file: due dates, extensions, what a late day costs, and what is refused."""

from datetime import UTC, datetime, timedelta

import pytest

from minitxl.course.marking.rules import EXAMPLE, Rules
from minitxl.course.marking.variants import variant

DUE = datetime(2026, 10, 12, 21, 59, tzinfo=UTC)
FILE = """
year = "2026"
[due]
"3_memory" = 2026-10-12T23:59:00+02:00
[late]
grace_minutes = 15
percent_a_day = 10
at_most_percent = 50
[extensions."3_memory"]
ada = 2026-10-19T23:59:00+02:00
"""


def rules(course, text=FILE):
    (course / "course.toml").write_text(text, "utf-8")
    return Rules.of(course)


@pytest.mark.parametrize(
    ("late", "points"),
    [
        (timedelta(days=-3), 0),
        (timedelta(minutes=15), 0),
        (timedelta(minutes=16), 3),
        (timedelta(days=1, minutes=15), 3),
        (timedelta(days=1, minutes=16), 6),
        (timedelta(days=40), 15),
    ],
)
def test_each_day_that_has_begun_costs_its_share_up_to_the_most(tmp_path, late, points):
    found = rules(tmp_path)
    assert found.penalty("3_memory", "van_dijk", DUE + late, 30.0) == points
    assert found.penalty("3_memory", "ada", DUE + timedelta(days=7) + late, 30.0) == points
    assert found.penalty("4_shaw", "van_dijk", DUE + late, 30.0) == 0


def test_without_a_file_and_with_the_example_nothing_is_late(tmp_path):
    assert Rules.of(tmp_path).penalty("3_memory", "ada", DUE, 30.0) == 0
    example = rules(tmp_path, EXAMPLE)
    example.check(["3_memory"], ["ada"])
    assert example.penalty("3_memory", "ada", DUE, 30.0) == 0


def test_the_example_has_its_dates_beside_it(tmp_path):
    found = rules(tmp_path, EXAMPLE.replace("# [", "[").replace("# ada", "ada").replace('# "', '"'))
    assert found.penalty("1_heads_and_masks", "bob", DUE + timedelta(days=1), 30.0) == 3
    assert found.penalty("1_heads_and_masks", "ada", DUE + timedelta(days=7), 30.0) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("due = [", "must be TOML"),
        ("[deu]", "must not have deu: it may have due, extensions, late, year"),
        (
            "[late]\npercent = 3",
            "must not have percent: late may have at_most_percent, grace_minutes, percent_a_day",
        ),
        ("[late]\npercent_a_day = -1", "percent_a_day must be a number of at least 0, got -1"),
        ("[late]\npercent_a_day = true", "percent_a_day must be a number of at least 0, got True"),
        ('[due]\n"3_memory" = 2026-10-12', r"the date of 3_memory must be like 2026-10-12T23:59:00\+02:00"),
        ('[due]\n"3_memory" = 2026-10-12T23:59:00', "the date of 3_memory must be like"),
        ("due = 3", r"due must be a table, as in \[due\], got 3"),
        ("[extensions]\nada = 2026-10-12T23:59:00Z", "ada must be a table"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        rules(tmp_path, text)


def test_a_misspelt_assignment_or_student_is_refused_and_not_forgotten(tmp_path):
    found = rules(tmp_path)
    found.check(["3_memory"], ["ada", "van_dijk"])
    found.check(["3_memory"], [])
    with pytest.raises(ValueError, match=r"assignments of this course \(4_shaw\), got 3_memory"):
        found.check(["4_shaw"], ["ada"])
    with pytest.raises(ValueError, match=r"students of students\.csv, got ada"):
        found.check(["3_memory"], ["van_dijk"])


def test_another_year_draws_other_numbers_and_the_same_year_the_same():
    sizes = {"d_model": range(64, 1000), "n_layer": range(4, 900)}
    assert variant("ada", year="2026", **sizes) == variant(" Ada ", year="2026", **sizes)
    drawn = [tuple(variant("ada", year=year, **sizes).values()) for year in ("", "2026", "2027")]
    assert len({*drawn}) == 3
