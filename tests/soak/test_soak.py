"""A sample of ``make soak``, and its judge: what it counts as wrong, and the table that it prints."""

import pytest
from soak import programme, world
from soak.areas import bits
from soak.attempt import Attempt, Said, changes, outcome, tree, wrong_with

SEED = 1
EACH = 8
"""Attempts of each area, but for those of single bits, which are cheap, and of signals, which are not."""


@pytest.fixture(autouse=True)
def without_shape_checks(as_users_run_it):
    pass


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return world.make(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("area", programme.AREAS, ids=lambda area: area.name)
def test_a_sample_of_attempts_is_answered_well(area, here):
    for number in range(int(EACH * area.share) + 1):
        made = programme.attempt(area, here, seed=SEED, number=number)
        assert not made.wrong, f"{made}, number {number}"


def test_the_same_seed_and_number_give_the_same_attempt(here):
    for area in programme.AREAS[:2]:
        one, again = (programme.attempt(area, here, seed=SEED, number=3) for _ in range(2))
        assert (one.verdict, one.refused) == (again.verdict, again.refused)
        assert len(one.given) == len(again.given)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (Said(0, "1.5 bits per byte", ""), ""),
        (Said(0, "nan and inf are what was prompted", ""), ""),
        (Said(0, "nan bits per byte", ""), "silent: a score that is no number"),
        (Said(2, "", "minitxl: steps must be 1 or more, got 0\n"), ""),
        (Said(2, "", "minitxl: [Errno 2] No such file\n"), "unclear: the sentence has the raw '[Errno'"),
        (Said(2, "", ""), "unclear: no sentence"),
        (Said(1, "", "minitxl: no\n"), "unclear: exit code 1"),
        (Said(2, "", "minitxl: no\nand more\n"), "unclear: words after the sentence"),
        (Said(1, "", "", "Traceback …\nKeyError: 1"), "traceback: KeyError: 1"),
    ],
)
def test_an_end_is_judged_by_its_exit_code_and_its_sentence(said, wrong):
    assert wrong_with(said) == wrong


def test_a_sentence_has_to_name_what_was_wrong():
    said = Said(2, "", "minitxl: the file can't be read\n")
    assert wrong_with(said, named=["a.txt"]) == "unclear: the sentence names none of a.txt"


def test_a_file_that_is_lost_changed_or_new_is_told(tmp_path):
    for name in ("lost", "changed", "same", "but"):
        (tmp_path / name).write_text(name)
    before = tree(tmp_path)
    assert changes(before, tree(tmp_path)) == ""
    (tmp_path / "lost").unlink()
    (tmp_path / "changed").write_text("another")
    (tmp_path / "but").write_text("another")
    (tmp_path / "new").mkdir()
    told = changes(before, tree(tmp_path), but="^but$")
    assert told == "lost: changed is changed, lost is lost, new is new"


def test_an_error_that_is_no_sentence_counts_as_a_traceback():
    assert outcome(lambda: 1) == ("", 1, False)
    assert outcome(lambda: int("x", 99))[2]
    assert outcome(lambda: {}[1])[0] == "traceback: KeyError: 1"


def test_an_attempt_that_takes_too_long_is_stopped_and_counted(here, monkeypatch):
    def attempt(*_):
        while True:
            pass

    monkeypatch.setattr(bits, "attempt", attempt)
    made = programme.attempt(programme.Area(bits, seconds=0.05), here, seed=SEED, number=0)
    assert made.wrong == "slow: more than 0.05 seconds"
    assert made.verdict == "slow"


def test_the_table_counts_each_verdict_of_each_area():
    counts = {"one": {"answered well": 1200, "lost": 1}, "two": {"refused well": 5}}
    head, _, one, two, together = programme.table(counts).splitlines()
    assert head.startswith("| kind | attempts | answered well | refused well | traceback | lost |")
    assert one == "| one | 1,201 | 1,200 | 0 | 0 | 1 | 0 | 0 | 0 |"
    assert two == "| two | 5 | 0 | 5 | 0 | 0 | 0 | 0 | 0 |"
    assert together == "| together | 1,206 | 1,200 | 5 | 0 | 1 | 0 | 0 | 0 |"
    assert programme.faults(counts) == 1
    assert programme.faults({"one": {"answered well": 3}}) == 0


def test_a_verdict_is_the_kind_of_the_fault():
    assert Attempt("x", wrong="lost: a file").verdict == "lost"
    assert Attempt("x", refused=True).verdict == "refused well"
    assert Attempt("x").verdict == "answered well"
