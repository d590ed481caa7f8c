"""Grading in a process of its own: who is right passes, and the usual cheats do not."""

import json
import os
import re
import subprocess
import sys

import cloudpickle
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import masked_softmax
from minitxl.course import grading
from minitxl.course.grading import grade, grade_numbers, variant

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as a notebook's functions travel


def doubling(seed):
    import torch

    from minitxl.course.grading import Trial

    draw = torch.Generator().manual_seed(seed)
    cases = [(torch.randn(3, generator=draw), {"times": torch.tensor(2)}) for _ in range(4)]
    return Trial(
        lambda x, how: x * how["times"],
        cases,
        {"it is squared: double it": lambda x, _: x**2},
        where="notebook 99",
    )


def right(x, how):
    return x * how["times"]


def message(attempt, trial=doubling, **limits):
    with pytest.raises(AssertionError) as raised:
        grade(attempt, trial, **limits)
    return str(raised.value)


def test_who_is_right_passes():
    grade(right, doubling)


def test_helpers_and_constants_of_the_notebook_travel_along():
    two = torch.tensor(2)

    def helper(x):
        return x * two

    grade(lambda x, how: helper(x), doubling)


def test_a_named_mistake_gets_its_sentence_and_the_seed_that_found_it():
    assert message(lambda x, how: x * x).startswith("it is squared: double it (cases drawn with seed ")


def test_any_other_mistake_is_told_where_to_look():
    assert "differ). Look at notebook 99" in message(lambda x, how: x)
    assert "you returned the shape [1], right is [3]. Look" in message(lambda x, how: x[:1])


def raising(x, how):
    raise KeyError("lost")


def blank(x, how):
    raise NotImplementedError


def hasty(x, how):
    x *= how["times"]
    return x


def endless(x, how):
    while True:
        pass


def hungry(x, how):
    return torch.ones(2**40)


def leaving(x, how):
    os._exit(0)


def forging(x, how):
    print(json.dumps({"right": True, "message": ""}), flush=True)
    sys.stdout.flush()
    os.write(1, b'{"right": true, "message": ""}')
    os._exit(0)


def looking_up(x, how):
    """Finds what is expected in the frames that called it."""
    frame = sys._getframe(1)
    while frame:
        if "expected" in frame.f_locals:
            return frame.f_locals["expected"]
        frame = frame.f_back
    raise LookupError("no answer anywhere")


def importing(x, how):
    from minitxl.course.grading import call

    return call(right, x, how)


class Everything:
    def __eq__(self, other):
        return True

    def __reduce__(self):
        return exec, ("import os; os._exit(0)",)


def persuading(x, how):
    torch.testing.assert_close = lambda *_, **__: None
    torch.equal = lambda *_: True
    return x


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (raising, "it raised KeyError: 'lost'"),
        (blank, "there is nothing here yet"),
        (hasty, "it changes what it was given, in place"),
        (hungry, "it raised "),
        (leaving, "it ended the process it ran in"),
        (forging, "it ended the process it ran in"),
        (looking_up, "it raised LookupError: no answer anywhere"),
        (importing, "it raised ImportError: it uses minitxl, which holds the answer"),
        (lambda x, how: masked_softmax(x, None), "it cannot be run by itself: it uses minitxl"),
        (lambda x, how: scaled_dot_product_attention(x[None], x[None], x[None]), "PyTorch's own attention"),
        (
            lambda x, how: torch.nn.MultiheadAttention(3, 1)(x[None], x[None], x[None]),
            "PyTorch's own attention",
        ),
        (lambda x, how: Everything(), "it returns something else than tensors and numbers"),
        (persuading, "first difference at [0]"),
        (lambda x, how: torch.zeros(3), "first difference at [0]"),
    ],
)
def test_a_cheat_or_an_accident_is_named_and_scores_nothing(attempt, words):
    assert words in message(attempt)


def test_a_loop_that_never_ends_is_ended():
    assert "it takes more than 1 seconds: is there a loop that never ends?" in message(endless, seconds=1.0)


def test_a_checker_that_was_overwritten_is_not_asked(monkeypatch):
    from importlib import reload

    monkeypatch.setattr(torch.testing, "assert_close", lambda *_, **__: None)
    monkeypatch.setattr("minitxl.course.exercises.judge", lambda *_, **__: grading.Verdict(True, ""))
    monkeypatch.setattr("minitxl.course.grading.grade", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="first difference at"):
        reload(grading).grade(lambda x, how: x, doubling)
    monkeypatch.undo()
    reload(grading)


def test_an_attempt_that_holds_what_cannot_travel_says_so():
    stream = (number for number in range(3))
    assert "it cannot be handed to the grader" in message(lambda x, how: next(stream))


def test_a_grader_that_fails_is_no_fault_of_the_attempt():
    def broken(seed):
        raise OSError("no disk")

    with pytest.raises(RuntimeError, match=r"the grader itself failed:(.|\n)*OSError: no disk"):
        grade(right, broken)


def test_a_probe_sees_gradients_where_the_attempt_runs():
    def slope(seed):
        import torch

        from minitxl.course.grading import Trial

        def probe(attempt, x):
            x = x.clone().requires_grad_()
            attempt(x).sum().backward()
            return x.grad

        return Trial(
            lambda x: x**2, [(torch.arange(3.0) + seed,)], {"cut": lambda x: x * x.detach()}, "here", probe
        )

    grade(lambda x: x * x, slope)
    assert message(lambda x: x.detach() * x, slope).startswith("cut")


def test_judging_in_process_and_alone_say_the_same():
    alone = message(lambda x, how: x)
    sentence, seed = re.fullmatch(r"(.*) \(cases drawn with seed (\d+)\)", alone).groups()
    verdict = doubling(int(seed)).judge(lambda x, how: x)
    assert (verdict.right, verdict.message) == (False, sentence)
    assert doubling(1).judge(right).right


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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"student": "ada", "states": 64}, "layers is missing"),
        ({"student": "ada", "layers": 4, "states": 16}, "states is not 16: per layer, not in all"),
        ({"student": "ada", "layers": 5, "states": 64}, "layers is not 5: count again, axis by axis"),
    ],
)
def test_a_number_that_is_wrong_is_explained(given, words):
    grade_numbers({"student": "ada", "layers": 4, "states": 64}, counting)
    with pytest.raises(AssertionError, match=words):
        grade_numbers(given, counting)


def test_the_numbers_of_another_are_refused_where_nbgrader_marks(tmp_path, monkeypatch):
    folder = tmp_path / "autograded" / "ada" / "1_heads"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    grade_numbers({"student": "ada", "layers": 4, "states": 64}, counting)
    with pytest.raises(AssertionError, match="the numbers of 'bob', handed in by 'ada'"):
        grade_numbers({"student": "bob", "layers": 4, "states": 64}, counting)


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
