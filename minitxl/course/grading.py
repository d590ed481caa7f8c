"""What a graded cell says of its function: a reference, cases, named mistakes, and what a case is worth.

A notebook's hidden cell defines a *trial* and ends with ``grade(function, trial)``. In an instructor's
kernel this judges the function in place, which shows whether the solution passes its own test.
Submissions are marked by ``make mark`` alone, outside any kernel: see ``marking``.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor
from typing import Any

from torch import Tensor

from minitxl.course.differences import Finding as Finding
from minitxl.course.differences import Observed as Observed
from minitxl.course.marking.variants import variant as variant
from minitxl.course.verdicts import NotAskedForError as NotAskedForError
from minitxl.course.verdicts import Outcome, Verdict, judge, names_of, outcomes, variants_of


class WrongAnswerError(AssertionError):
    """Says why in one sentence, which is all that a notebook shows of it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Gone(BaseException):
    """An attempt that will not answer: no case after this one can be tried, so judge must not catch it."""


def call(attempt: Callable[..., Any], *case: Any) -> Any:
    """Return what the attempt returns for the case."""
    return attempt(*case)


@dataclass(frozen=True)
class Shown:
    """An argument that a trial's probe makes for the attempt, as messages show it."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Trial:
    """The reference and the cases that a graded function is compared with.

    ``mistakes`` are wrong solutions, one or several, by the sentence that helps who wrote one, ``where``
    says where to look when none of them fits. ``probe(attempt, *case)`` gives what is compared, by default
    what the attempt returns. ``groups`` names what each case is about: the cases of one name are
    worth one share of the points. ``hidden`` keeps the cases' numbers from the attempt, which then
    computes with others of the same shapes: for functions that must be operations on tensors.
    ``names`` are those of a case's first arguments in messages: what comes after them, for the probe
    alone, is not shown. ``precise`` asks for float64 results that are right to the digits of float64.
    """

    reference: Callable[..., Any]
    cases: Sequence[tuple[Any, ...]]
    mistakes: Mapping[str, Callable[..., Any] | Sequence[Callable[..., Any]]]
    where: str
    probe: Callable[..., Any] = call
    groups: Sequence[str] = ()
    hidden: bool = False
    precise: bool = False
    names: Sequence[str] = ()

    def judge(self, attempt: Callable[..., Any], outcome: Callable[[int], Outcome] | None = None) -> Verdict:
        """Compare an attempt with the reference; a tensor it was given must stay as it was.

        ``outcome`` gives what the attempt does in a case, by its number, where it was called before.
        """
        mistakes = {
            why: [partial(self.probe, one) for one in variants_of(wrong)]
            for why, wrong in self.mistakes.items()
        }
        verdict = judge(
            partial(self.probe, attempt),
            reference=partial(self.probe, self.reference),
            cases=self.cases,
            mistakes=mistakes,
            names=self.names or names_of(self._told(), len(self.cases[0])),
            precise=self.precise,
            outcome=outcome,
        )
        if verdict.right or verdict.message in mistakes or verdict.word == "blank":
            return verdict
        return replace(verdict, message=f"{verdict.message}. Look at {self.where}")

    def _told(self) -> Callable[..., Any]:
        """Return a function of a case's arguments: ``probe`` without its attempt, else the reference."""
        return self.reference if self.probe is call else partial(self.probe, None)

    def shares(self, attempt: Callable[..., Any]) -> tuple[Verdict, dict[str, bool]]:
        """Return the verdict on all cases, and for each group of cases whether it is right.

        The attempt is called once for each case, so both say the same. Where no mistake is named, the
        verdict shows the smallest case that is wrong, and its group.
        """
        names = self.groups or ["all cases"] * len(self.cases)
        right = dict.fromkeys(names, False)
        done: dict[int, Callable[[], Outcome]] = {}
        try:
            for name in right:
                places = [place for place, one in enumerate(names) if one == name]
                group = replace(self, cases=[self.cases[place] for place in places], mistakes={})
                outcome = outcomes(partial(self.probe, attempt), group.cases)
                done |= {place: partial(outcome, number) for number, place in enumerate(places)}
                right[name] = group.judge(attempt, outcome).right
            if all(right.values()):
                return Verdict(True, "right"), right
            order = sorted(done, key=lambda place: _size(self.cases[place]))
            by_size = replace(self, cases=[self.cases[place] for place in order])
            verdict = by_size.judge(attempt, lambda number: done[order[number]]())
        except Gone as gone:
            return Verdict(False, str(gone)), right
        if verdict.case is None:
            return verdict, right
        place = order[verdict.case]
        words = f"{names[place]}: {verdict.message}" if self.groups else verdict.message
        return replace(verdict, message=words, case=place), right


def _size(value: Any) -> int:
    """Return how many numbers an argument holds."""
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, Mapping):
        return _size(list(value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def points(most: float, right: Mapping[str, bool]) -> float:
    """Return the points for the groups that are right, rounded down to halves."""
    return floor(2 * most * sum(right.values()) / len(right)) / 2


def grade(attempt: Callable[..., Any], trial: Callable[[int], Trial], *, seed: int = 0) -> None:
    """Raise WrongAnswerError with the verdict's sentence, unless the attempt is right."""
    _refuse_nbgrader()
    verdict = trial(seed).judge(attempt)
    if not verdict.right:
        raise WrongAnswerError(verdict.message)


def grade_numbers(attempt: Callable[[], Any], trial: "NumbersTrial") -> None:
    """Raise WrongAnswerError where a number of a student's variant is missing or wrong."""
    _refuse_nbgrader()
    given = attempt()
    verdict, _ = number_shares(given, trial, str(given["student"]))
    if not verdict.right:
        raise WrongAnswerError(verdict.message)


NumbersTrial = Callable[[str], tuple[Mapping[str, float], Mapping[str, tuple[str, float]]]]
"""The right numbers of a student, and by the sentence that helps, what a usual mistake leads to."""


def number_shares(
    given: Any, trial: NumbersTrial, owner: str, full_name: str = ""
) -> tuple[Verdict, dict[str, bool]]:
    """Return the verdict on a student's numbers, and for each of them whether it is right.

    ``given`` is what the function returned: the student's name and the numbers. ``owner``, whom the
    course's list may know by a full name too, handed it in.
    """
    expected, mistakes = trial(owner)
    right = dict.fromkeys(expected, False)
    if given is None or given is Ellipsis:
        return Verdict.of_nothing(), right
    if not isinstance(given, Mapping):
        return Verdict(False, f"a dict is asked for, and this is a {type(given).__name__}"), right
    student = given.get("student")
    if not is_name_of(student, owner, full_name):
        return Verdict(
            False,
            f"student is {student!r}, and must be the user name {owner!r}, by which this was handed in: "
            "write it there, and draw your numbers with it",
        ), right
    said = []
    for name, number in expected.items():
        mine = given.get(name)
        if type(mine) in (int, float) and mine == number:
            right[name] = True
        elif mine is None:
            said.append(f"{name} is missing")
        elif type(mine) not in (int, float):
            said.append(f"{name} must be a number, and this is a {type(mine).__name__}")
        else:
            named = [why for why, wrong in mistakes.items() if wrong == (name, mine)]
            why = named[0] if named else "work it out again from its definition in the sheet"
            said.append(f"{name} is not {mine}: {why}")
    return Verdict(not said, "; ".join(said) or "right"), right


def is_name_of(said: Any, owner: str, full_name: str) -> bool:
    """Return True if a text is a student's user name or full name, whatever its case and spaces."""
    names = {" ".join(name.casefold().split()) for name in (owner, full_name)} - {""}
    return isinstance(said, str) and " ".join(said.casefold().split()) in names


def _refuse_nbgrader() -> None:
    """Refuse to decide in a kernel that a student's code runs in too."""
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        raise RuntimeError("submissions are marked by 'make mark', and not in their own kernel")
