"""What a graded cell says in place: who is right passes, mistakes are named, groups of cases have shares."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from minitxl.course.differences import difference
from minitxl.course.grading import (
    LEFT_ALONE,
    Gone,
    NotAskedForError,
    Trial,
    grade,
    grade_numbers,
    number_shares,
    points,
    variant,
)


def doubling(seed):
    draw = torch.Generator().manual_seed(seed)
    cases = [(torch.randn(3, generator=draw), {"times": torch.tensor(2)}) for _ in range(4)]
    return Trial(
        lambda x, how: x * how["times"],
        cases,
        {"it is squared: double it": lambda x, _: x**2},
        where="notebook 99",
        groups=["first", "others", "others", "others"],
    )


def right(x, how):
    return x * how["times"]


def blank(x, how):
    raise NotImplementedError


def raising(x, how):
    raise KeyError("lost")


def hasty(x, how):
    x *= how["times"]
    return x


def test_a_list_of_tensors_of_wrong_shapes_is_told_as_a_list():
    of = [torch.zeros(6, 3, 5), torch.zeros(6, 3, 5)]
    right = [torch.ones(6, 4, 5), torch.ones(6, 4, 5)]
    assert difference(of, right) == (
        "in the value at [0], you returned the shape [6, 3, 5], right is [6, 4, 5]"
    )
    assert difference(right[:1], right) == "you returned 1 values, right are 2"


def test_who_is_right_passes():
    grade(right, doubling)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda x, how: x * x, "it is squared: double it"),
        (lambda x, how: x, "Look at notebook 99"),
        (lambda x, how: x[:1], r"you returned the shape \[1\], right is \[3\]"),
        (raising, "it raised KeyError: 'lost'"),
        (blank, "there is nothing here yet"),
        (hasty, "x was changed in place, and whoever calls the function may still need it"),
        (lambda x, how: torch.zeros(3), r"first difference at \[0\]"),
    ],
)
def test_a_mistake_is_named_or_told_where_to_look(attempt, words):
    with pytest.raises(AssertionError, match=words):
        grade(attempt, doubling)


def test_a_changed_argument_is_told_beside_another_mistake():
    def hasty_square(x, how):
        return x.mul_(x)

    verdict, shares = doubling(0).shares(hasty_square)
    assert verdict.message.startswith("it is squared: double it. x was changed in place")
    assert shares == {"first": False, "others": False, LEFT_ALONE: False}


def test_a_probe_that_goes_on_with_the_arguments_finds_them_unchanged():
    def probe(attempt, x, how):
        return attempt(x, how), x * how["times"]

    trial = replace(doubling(0), probe=probe)

    def hiding(x, how):
        result = x * how.pop("times")
        x.zero_()
        return result

    _, shares = trial.shares(hiding)
    assert shares == {"first": True, "others": True, LEFT_ALONE: False}


def test_a_group_of_cases_is_right_or_wrong_by_itself():
    calls = iter(range(100))

    def first_alone(x, how):
        return right(x, how) if next(calls) == 0 else x

    verdict, shares = doubling(0).shares(first_alone)
    assert (verdict.right, shares) == (False, {"first": True, "others": False})
    assert doubling(0).shares(right)[1] == {"first": True, "others": True}


def test_what_fails_at_first_and_then_succeeds_is_wrong_in_its_shares_and_in_its_verdict():
    calls = iter(range(100))

    def late(x, how):
        return x if next(calls) < 2 else right(x, how)

    verdict, shares = doubling(0).shares(late)
    assert (verdict.right, shares) == (False, {"first": False, "others": False})
    assert next(calls) == 2  # each group ended with its first case, and the verdict called none again


def test_a_mistake_without_a_name_is_shown_by_its_group_and_the_smallest_case_that_is_wrong():
    cases = [(torch.ones(size),) for size in (20, 3, 8, 2)]
    groups = ["large", "small", "large", "small"]
    trial = Trial(torch.neg, cases, {}, where="notebook 99", groups=groups, names=("x",))
    verdict, _ = trial.shares(lambda x: x)
    assert verdict.message.startswith("small: called with x = [1, 1], you returned [1, 1], right is")
    assert verdict.case == 3
    verdict, _ = trial.shares(lambda x: x if len(x) > 4 else -x)
    assert verdict.message.startswith("large: called with x = [1, 1, 1, 1, 1, 1, 1, 1], you returned")
    assert verdict.case == 2


def test_a_result_of_another_kind_is_told_and_nothing_was_raised():
    def probe(attempt, x):
        got = attempt(x)
        if not isinstance(got, torch.Tensor):
            raise NotAskedForError(got, "a tensor")
        return got

    trial = Trial(torch.neg, [(torch.ones(2),)], {}, where="notebook 99", probe=probe)
    words = "called with x = [1, 1], it returns [[1, 1], 1], and a tensor is asked for. Look at notebook 99"
    assert trial.judge(lambda x: [x, 1]).message == words


def test_an_attempt_that_will_not_answer_gets_no_share_and_its_reason():
    def gone(x, how):
        raise Gone("it ended the process it ran in")

    verdict, shares = doubling(0).shares(gone)
    assert verdict.message == "it ended the process it ran in"
    assert not any(shares.values())


@pytest.mark.parametrize(
    ("most", "right", "got"), [(5, 4, 5), (5, 3, 3.5), (7, 1, 1.5), (5, 0, 0), (3, 2, 1.5)]
)
def test_points_go_by_groups_and_are_rounded_down_to_halves(most, right, got):
    assert points(float(most), {str(one): one < right for one in range(4)}) == got


@pytest.mark.parametrize(
    ("most", "right", "got"), [(5, 4, 4), (5, 3, 2.5), (7, 1, 0.5), (3, 1, 0), (5, 0, 0)]
)
def test_a_changed_argument_costs_one_point_of_those_that_were_earned(most, right, got):
    groups = {str(one): one < right for one in range(4)}
    assert points(float(most), groups | {LEFT_ALONE: False}) == got


def test_a_students_kernel_decides_nothing(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(RuntimeError, match="submissions are marked by 'make mark'"):
        grade(right, doubling)
    with pytest.raises(RuntimeError, match="submissions are marked by 'make mark'"):
        grade_numbers(lambda: {"student": "ada"}, counting)


def test_a_variant_is_a_students_own_and_stays():
    choices = {"layers": range(2, 9), "memory": [16, 32, 48, 64]}
    ada = variant("ada", **choices)
    assert ada == variant(" Ada", **choices)
    assert ada["layers"] in choices["layers"]
    assert ada["memory"] in choices["memory"]
    drawn = {tuple(variant(f"student {number}", **choices).values()) for number in range(60)}
    assert len(drawn) > 20
    assert variant("ada", layers=range(2, 9))["layers"] == ada["layers"]


def counting(student):
    return {"layers": 4, "states": 64}, {"per layer, not in all": ("states", 16)}


class Agreeable(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("given", "words", "shares"),
    [
        ({"student": "ada", "states": 64}, "layers is missing", [False, True]),
        (
            {"student": "ada", "layers": 4, "states": 16},
            "states is not 16: per layer, not in all",
            [True, False],
        ),
        (
            {"student": "ada", "layers": 5, "states": 64},
            "layers is not 5: work it out again from its definition in the sheet",
            [False, True],
        ),
        (
            {"student": "bob", "layers": 4, "states": 64},
            "student is 'bob', and must be the user name 'ada', by which this was handed in: write it there",
            [False] * 2,
        ),
        ({"student": None, "layers": 4, "states": 64}, "student is None, and must be the user", [False] * 2),
        ({"student": "Ada Lovelace", "layers": 4, "states": 64}, "must be the user name 'ada'", [False] * 2),
        ({"student": "ada", "layers": Agreeable(1), "states": 64}, "layers must be a number", [False, True]),
        (
            {"student": "ada", "layers": "4", "states": 64},
            "layers must be a number, and this is a str",
            [False, True],
        ),
        ({"student": "ada", "layers": True, "states": 64}, "layers must be a number", [False, True]),
        (
            {"student": "ada", "layers": 4, "states": 10**400},
            "states is not 100000… (401 digits): work it out again",
            [True, False],
        ),
        ({"student": "ada", "layers": 4.0, "states": 64.00001}, "right", [True, True]),
        ({"student": "ada", "layers": math.exp(math.log(4)), "states": 63.99999999}, "right", [True, True]),
        ({"student": "ada", "layers": 4, "states": 16.000001}, "per layer, not in all", [True, False]),
        ({"student": "ada", "layers": 4, "states": 64.001}, "states is not 64.001:", [True, False]),
        (
            {"student": "ada", "layers": torch.tensor(4), "states": torch.tensor([64.0])},
            "right",
            [True, True],
        ),
        ({"student": "ada", "layers": np.int64(4), "states": np.array([64])}, "right", [True, True]),
        (
            {"student": "ada", "layers": torch.tensor(5), "states": torch.ones(2)},
            "from its definition in the sheet; states must be a number, and this is a Tensor",
            [False, False],
        ),
        ({"student": "ada", "layers": 4, "states": np.array([1, 2])}, "this is an ndarray", [True, False]),
        ([4, 64], "a dict is asked for, and this is a list", [False, False]),
        (None, "there is nothing here yet", [False, False]),
        (..., "there is nothing here yet", [False, False]),
    ],
)
def test_each_number_counts_by_itself_and_what_is_wrong_is_explained(given, words, shares):
    verdict, found = number_shares(given, counting, "ada")
    assert words in verdict.message
    assert list(found.values()) == shares


@pytest.mark.parametrize("number", [10**7 + 1, 10**7 + 1.0])
def test_a_whole_number_that_is_one_too_many_is_wrong_however_large(number):
    verdict, _ = number_shares({"student": "ada", "kept": number}, lambda _: ({"kept": 10**7}, {}), "ada")
    assert not verdict.right


def test_right_numbers_pass():
    grade_numbers(lambda: {"student": "ada", "layers": 4, "states": 64}, counting)
    assert all(number_shares({"student": " Ada", "layers": 4, "states": 64}, counting, "ada")[1].values())


@pytest.mark.parametrize("name", ["ada", "Ada Lovelace", " ada  lovelace ", "A@x.org"])
def test_a_student_is_known_by_the_user_name_and_the_names_of_the_list(name):
    given = {"student": name, "layers": 4, "states": 64}
    assert number_shares(given, counting, "ada", ["Ada Lovelace", "a@x.org"])[0].right


@pytest.mark.parametrize(
    ("layers", "places", "right"), [(12, 24, [True, True]), (3, 6, [True, True]), (12, 6, [True, False])]
)
def test_numbers_may_be_drawn_with_the_full_name_too_and_not_with_each_in_turn(layers, places, right):
    def by_name(student):
        return {"layers": len(student), "places": 2 * len(student)}, {}

    given = {"student": "Ada Lovelace", "layers": layers, "places": places}
    verdict, found = number_shares(given, by_name, "ada", ["Ada Lovelace", "a@x.org"])
    assert (sum(found.values()), verdict.right) == (sum(right), all(right))


@pytest.mark.parametrize("said", ["4711", 4711])
def test_a_user_name_of_digits_may_be_written_as_a_number(said):
    assert number_shares({"student": said, "layers": 4, "states": 64}, counting, "4711")[0].right
    assert variant(said, layers=range(99)) == variant("4711", layers=range(99))


@pytest.mark.parametrize("said", [1, True, None, [1], 1.0])
def test_a_number_that_is_another_name_or_none_is_not_the_users(said):
    assert not number_shares({"student": said, "layers": 4, "states": 64}, counting, "True")[0].right


def test_no_name_is_nobodys():
    assert not number_shares({"student": " ", "layers": 4, "states": 64}, counting, "ada", [""])[0].right


def test_the_grader_needs_nothing_but_what_is_installed():
    found = subprocess.run(
        [sys.executable, "-I", "-c", "import minitxl.course.grading"],
        capture_output=True,
        cwd="/",
        check=False,
    )
    assert found.returncode == 0, found.stderr


def test_a_notebook_shows_the_sentence_alone():
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell()
    with capture_output() as shown:
        shell.run_cell(
            "from minitxl.course.grading import WrongAnswerError\nraise WrongAnswerError('it is halved')"
        )
    assert shown.stdout.strip() == "it is halved"


def test_a_case_is_told_by_the_names_of_what_makes_the_arguments_of_it():
    """A probe makes the attempt's arguments, here a function, from those of the case."""

    def probe(attempt, matrix, size):
        return attempt(lambda x: matrix @ x, size)

    trial = Trial(lambda layer, n: layer(torch.ones(n)), [(torch.eye(2), 2)], {}, where="it", probe=probe)
    verdict = trial.judge(lambda layer, n: layer(torch.zeros(n)))
    assert "called with matrix = [[1, 0], [0, 1]], size = 2, " in str(verdict)
