import pytest
import torch

from minitxl import memory
from minitxl.course import exercises
from minitxl.course.exercises import judge

NUMBERS = [(torch.arange(3.0),), (torch.zeros(2),)]


def double(x):
    return 2 * x


def judged(attempt, **changes):
    told = {"reference": double, "cases": NUMBERS, "mistakes": {"that is the square": lambda x: x * x}}
    return judge(attempt, **{**told, **changes})


def test_an_attempt_that_equals_the_reference_is_right():
    verdict = judged(lambda x: x + x, praise="yes")
    assert (verdict.right, repr(verdict)) == (True, "right: yes")


@pytest.mark.parametrize(
    ("attempt", "told"),
    [
        (lambda x: x**2, "that is the square"),
        (lambda x: 3 * x, "given a tensor [3], the values differ"),
        (lambda x: x[:1] * 2, "the result has the shape [1], and should have [3]"),
        (lambda x: (2 * x).tolist(), "the result is of type list, and should be of type Tensor"),
        (lambda x: None, "it returns nothing"),
        (lambda x: ..., "it returns nothing"),
        (lambda x: x.mul_(2), "it changes what it was given, in place"),
        (lambda x: x.nothing, "it raised AttributeError"),
    ],
)
def test_a_wrong_attempt_is_told_what_is_wrong(attempt, told):
    verdict = judged(attempt)
    assert not verdict.right
    assert told in verdict.message


def test_what_is_not_written_yet_is_not_called_wrong():
    def stub(x):
        raise NotImplementedError

    assert judged(stub).message == "there is nothing here yet"


def test_a_mistake_is_named_only_where_the_attempt_makes_it_in_every_case():
    assert "square" not in judged(lambda x: x * x if len(x) == 3 else x + 1).message


def test_names_functions_and_lists_among_the_arguments_are_compared_too():
    cases = [("name", len, [1, 2.0], torch.ones(1))]
    same = {"reference": lambda name, of, some, x: of(name), "cases": cases, "mistakes": {}}
    assert judge(lambda name, of, some, x: 4, **same).right
    assert "in place" in judge(lambda name, of, some, x: some.append(3) or 4, **same).message


def test_neither_the_cases_nor_the_global_random_state_are_touched():
    state, before = torch.get_rng_state(), [case[0].clone() for case in NUMBERS]
    judged(lambda x: x.add_(torch.zeros_like(x)) * 3)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(case[0], kept) for case, kept in zip(NUMBERS, before, strict=True))


def test_show_prints_the_source_as_it_stands():
    assert exercises.show(memory.extend).data.startswith("def extend(")


def test_the_profile_is_what_is_asked_for_or_what_the_device_allows(monkeypatch):
    monkeypatch.delenv("MINITXL_PROFILE", raising=False)
    assert exercises.profile() == ("full" if exercises.device() == "cuda" else "quick")
    monkeypatch.setenv("MINITXL_PROFILE", "full")
    assert exercises.profile() == "full"
    monkeypatch.setenv("MINITXL_PROFILE", "fast")
    with pytest.raises(ValueError, match="must be quick or full, got 'fast'"):
        exercises.profile()
