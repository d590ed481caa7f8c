"""What a graded cell says of its function: a reference, cases, named mistakes, and what a case is worth.

A notebook's hidden cell defines a *trial* and ends with ``grade(function, trial)``. In an instructor's
kernel this judges the function in place, which shows whether the solution passes its own test.
Submissions are marked by ``make mark`` alone, outside any kernel: see ``marking``.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor, isclose
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from minitxl.course.checker import NotAskedForError as NotAskedForError
from minitxl.course.checker import Outcome, Verdict, judge, names_of, outcomes, variants_of
from minitxl.course.differences import Finding as Finding
from minitxl.course.differences import Observed as Observed
from minitxl.course.differences import equal, kind_of, written
from minitxl.course.marking.variants import variant as variant

LEFT_ALONE = "leaves its arguments as they were (1 point)"
"""Name of what a function loses a point for: it changes an argument in place."""
ROUNDING = 1e-6
"""Share of a number by which a computation in float32, or in another order, may miss it."""


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


class Watched:
    """An attempt, and the places of the arguments that it has changed in place, in any call so far.

    It gets copies of lists, dicts and tensors, so what it changes is not changed for a probe that goes on to
    use them. A tensor that needs a gradient is handed over as it is, since the gradient must come to it:
    to cut it from its graph changes it too.
    """

    def __init__(self, attempt: Callable[..., Any]) -> None:
        self.__wrapped__, self.changed = attempt, set[int]()

    def __call__(self, *case: Any) -> Any:
        with _disable_current_modes():  # which count operations for a probe
            given, before = ([_copy(one, graph) for one in case] for graph in (True, False))
            graphs = list(map(_graphs, given))
        try:
            return self.__wrapped__(*given)
        finally:
            with _disable_current_modes():
                pairs = enumerate(zip(given, before, strict=True))
                self.changed |= {place for place, (now, was) in pairs if not equal(now, was)}
                cut = (graph - _graphs(now) for graph, now in zip(graphs, given, strict=True))
                self.changed |= {place for place, gone in enumerate(cut) if gone}


def _graphs(value: Any) -> set[int]:
    """Return the identities of an argument's tensors that need a gradient; detach_() makes them need none."""
    if isinstance(value, Tensor):
        return {id(value)} if value.requires_grad else set()
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set[int]().union(*map(_graphs, inside))


def _copy(value: Any, graph: bool) -> Any:
    """Return a copy of tensors, lists and dicts; with ``graph``, tensors that need a gradient themselves."""
    if isinstance(value, Tensor):
        return value if graph and value.requires_grad else value.detach().clone()
    if isinstance(value, dict):
        return {name: _copy(one, graph) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copy(one, graph) for one in value)
    return value


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

    def judge(self, attempt: Callable[..., Any]) -> Verdict:
        """Compare an attempt with the reference; a tensor it was given must stay as it was."""
        watched = Watched(attempt)
        return self._of_changes(watched, self._of_results(watched, self._outcomes(watched)))

    def _outcomes(self, watched: Watched) -> Callable[[int], Outcome]:
        """Return what an attempt gives in each case; what it changes in place is watched, and told apart."""
        return outcomes(partial(self.probe, watched), self.cases, may_change=True)

    def _of_changes(self, watched: Watched, verdict: Verdict) -> Verdict:
        """Return the verdict on results, with a sentence on the arguments that were changed in place."""
        if verdict.blank or not watched.changed:
            return verdict
        names = self._names()
        changed = " and ".join(names[place] for place in sorted(watched.changed))
        was, it = ("was", "it") if len(watched.changed) == 1 else ("were", "them")
        words = f"{changed} {was} changed in place, and whoever calls the function may still need {it}: "
        words += "make a new value. One point less"
        words = words if verdict.right else f"{verdict.message}. {words}"
        return replace(verdict, right=False, message=words)

    def _of_results(self, attempt: Callable[..., Any], outcome: Callable[[int], Outcome]) -> Verdict:
        """Compare what an attempt gives in each case, by its number, with the reference."""
        mistakes = {
            why: [partial(self.probe, one) for one in variants_of(wrong)]
            for why, wrong in self.mistakes.items()
        }
        verdict = judge(
            partial(self.probe, attempt),
            reference=partial(self.probe, self.reference),
            cases=self.cases,
            mistakes=mistakes,
            names=self._names(),
            precise=self.precise,
            outcome=outcome,
        )
        if verdict.right or verdict.message in mistakes or verdict.word == "blank":
            return verdict
        return replace(verdict, message=f"{verdict.message}. Look at {self.where}")

    def _names(self) -> Sequence[str]:
        """Return the names of a case's arguments in messages."""
        return self.names or names_of(self._told(), len(self.cases[0]))

    def _told(self) -> Callable[..., Any]:
        """Return a function of a case's arguments: ``probe`` without its attempt, else the reference."""
        return self.reference if self.probe is call else partial(self.probe, None)

    def shares(self, attempt: Callable[..., Any]) -> tuple[Verdict, dict[str, bool]]:
        """Return the verdict on all cases, and for each group of cases whether it is right.

        The attempt is called once for each case, so both say the same. Where no mistake is named, the
        verdict shows the smallest case that is wrong, and its group. Where an argument was changed in place,
        ``LEFT_ALONE`` is one more group, which is wrong.
        """
        names = self.groups or ["all cases"] * len(self.cases)
        right = dict.fromkeys(names, False)
        watched = Watched(attempt)
        try:
            verdict = self._of_changes(watched, self._of_groups(watched, names, right))
        except Gone as gone:
            verdict = Verdict(False, str(gone))
        return verdict, right | ({LEFT_ALONE: False} if watched.changed else {})

    def _of_groups(self, watched: Watched, names: Sequence[str], right: dict[str, bool]) -> Verdict:
        """Return the verdict on all results, and write into ``right`` which groups are right."""
        done: dict[int, Callable[[], Outcome]] = {}
        for name in right:
            places = [place for place, one in enumerate(names) if one == name]
            group = replace(self, cases=[self.cases[place] for place in places], mistakes={})
            outcome = group._outcomes(watched)
            done |= {place: partial(outcome, number) for number, place in enumerate(places)}
            right[name] = group._of_results(watched, outcome).right
        if all(right.values()):
            return Verdict(True, "right")
        order = sorted(done, key=lambda place: _size(self.cases[place]))
        by_size = replace(self, cases=[self.cases[place] for place in order])
        verdict = by_size._of_results(watched, lambda number: done[order[number]]())
        if verdict.case is None:
            return verdict
        place = order[verdict.case]
        words = f"{names[place]}: {verdict.message}" if self.groups else verdict.message
        return replace(verdict, message=words, case=place)


def _size(value: Any) -> int:
    """Return how many numbers an argument holds."""
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, Mapping):
        return _size(list(value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def of_results(right: Mapping[str, bool]) -> dict[str, bool]:
    """Return which groups of cases have right results, whatever was changed in place."""
    return {name: is_right for name, is_right in right.items() if name != LEFT_ALONE}


def points(most: float, right: Mapping[str, bool]) -> float:
    """Return the points for the groups that are right, rounded down to halves.

    A function that changed an argument in place loses one point of them, whatever it changed and how often.
    """
    groups = of_results(right)
    earned = floor(2 * most * sum(groups.values()) / len(groups)) / 2
    return earned if len(groups) == len(right) else max(0.0, earned - 1)


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
    given: Any, trial: NumbersTrial, owner: str, others: Sequence[str] = ()
) -> tuple[Verdict, dict[str, bool]]:
    """Return the verdict on a student's numbers, and for each of them whether it is right.

    ``given`` is what the function returned: the student's name and the numbers. ``owner`` handed it in,
    and ``others`` are the full name and the email address by which the course's list knows who that is.
    Numbers may be drawn with each of these, of which the one with most right numbers counts.
    """
    expected, mistakes = trial(owner)
    right = dict.fromkeys(expected, False)
    if given is None or given is Ellipsis:
        return Verdict.of_nothing(), right
    if not isinstance(given, Mapping):
        return Verdict(False, f"a dict is asked for, and this is {kind_of(given)}"), right
    student = given.get("student")
    if not is_name_of(student, [owner, *others]):
        return Verdict(
            False,
            f"student is {student!r}, and must be the user name {owner!r}, by which this was handed in: "
            "write it there, and draw your numbers with it",
        ), right
    if not is_name_of(student, [owner]):  # the numbers may be drawn with either
        drawn = max((trial(owner), trial(str(student))), key=lambda one: _n_right(given, one[0]))
        expected, mistakes = drawn
    said = []
    for name, number in expected.items():
        mine = number_in(given.get(name))
        if is_right(mine, number):
            right[name] = True
        elif mine is None:
            said.append(f"{name} is missing")
        elif not _is_number(mine):
            said.append(f"{name} must be a number, and this is {kind_of(mine)}")
        else:
            named = [why for why, (of, wrong) in mistakes.items() if of == name and is_right(mine, wrong)]
            why = named[0] if named else "work it out again from its definition in the sheet"
            shown = f"{mine:.9g}" if isinstance(mine, float) and mine % 1 else written(mine)
            said.append(f"{name} is not {shown}: {why}")
    return Verdict(not said, "; ".join(said) or "right"), right


def number_in(value: Any) -> Any:
    """Return the number that a tensor or an array of one number holds, and anything else as it is."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.item()
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.size == 1 else value


def _is_number(value: Any) -> bool:
    """Return True for a number of Python's own, which decides itself what it is equal to."""
    return type(value) in (int, float)


def is_right(mine: Any, number: float) -> bool:
    """Return True for a number that is right; a fraction may be off by what float32 rounds away.

    A whole number is not: it may have been counted wrongly.
    """
    if not _is_number(mine):
        return False
    if isinstance(mine, int) or mine.is_integer():
        return bool(mine == number)
    return isclose(mine, number, rel_tol=ROUNDING)


def _n_right(given: Mapping[str, Any], expected: Mapping[str, float]) -> int:
    """Return how many of a student's numbers are right."""
    return sum(is_right(number_in(given.get(name)), number) for name, number in expected.items())


def name_said(said: Any) -> str:
    """Return the name that a text or a whole number is, and "" for anything else."""
    return str(said) if type(said) in (str, int) else ""


def is_name_of(said: Any, names: Sequence[str]) -> bool:
    """Return True if a text or a whole number is one of a student's names, whatever its case and spaces."""
    every = {" ".join(name.casefold().split()) for name in names} - {""}
    return " ".join(name_said(said).casefold().split()) in every


def _refuse_nbgrader() -> None:
    """Refuse to decide in a kernel that a student's code runs in too."""
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        raise RuntimeError("submissions are marked by 'make mark', and not in their own kernel")
