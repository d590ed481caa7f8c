"""Predictions that a reader writes down before an experiment, and that are answered after it.

questions = Predictions(Question("keys", "How many keys …?", answer=512, why="…", wrong={256: "…"}))
questions.check({"keys": None})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitxl.course.checker import Verdict
from minitxl.course.differences import equal, written


@dataclass(frozen=True)
class Question:
    """A question, its answer, and what is said to each guess."""

    name: str
    text: str
    answer: Any
    """None where the notebook measures it."""
    why: str
    """Reason of the answer; said to a right guess, and to a wrong one that ``wrong`` does not know."""
    tolerance: float | int = 0
    """How far a number may be off, at most."""
    per_cent: bool = False
    """Whether the answer is in per cent, so that a share such as 0.5 is asked for again."""
    choices: Sequence[Any] = ()
    """Words to choose among; empty for numbers and for True or False."""
    wrong: Mapping[Any, str] = field(default_factory=dict)
    """What to say to a guess that is wrong in a way of its own."""

    def judge(self, guess: Any, measured: Any = None) -> Verdict:
        """Return the verdict on one guess; None is no guess yet, ``measured`` the answer if it has none."""
        answer = self.answer if measured is None else measured
        guess = _plain(guess)
        if guess is None or guess is Ellipsis or guess == "":
            return Verdict.of_nothing(f"{self.name}: no prediction yet")
        if self.choices and guess not in map(_plain, self.choices):
            quoted = isinstance(guess, str) and not any(isinstance(one, str) for one in self.choices)
            among = ", ".join(map(repr, self.choices))
            return Verdict.of_nothing(f"{self.name}: choose among {among}{', without quotes' * quoted}")
        if _is_number(answer) and not _is_number(guess):
            return Verdict.of_nothing(f"{self.name}: give a number, not {guess!r}")
        if self.per_cent and 0 < guess < 1:
            return Verdict.of_nothing(f"{self.name}: give per cent, {100 * guess:g} in place of {guess:g}")
        if isinstance(answer, bool) and isinstance(guess, str):
            return Verdict.of_nothing(f"{self.name}: write True or False, without quotes")
        if self._fits(guess, answer):
            return Verdict(True, f"{self.name}: {self.why}")
        said = next((why for known, why in self.wrong.items() if _plain(known) == guess), None)
        said = said or f"the answer is {written(answer)}. {_sentence(self.why)}"
        guess = next((choice for choice in self.choices if _plain(choice) == guess), guess)
        return Verdict(False, f"{self.name}: you said {written(guess)}. {_sentence(said)}")

    def _fits(self, guess: Any, answer: Any) -> bool:
        if _is_number(answer):
            return bool(abs(guess - answer) <= self.tolerance)
        return equal(guess, _plain(answer))


class Predictions:
    """The questions of one notebook."""

    def __init__(self, *questions: Question) -> None:
        self.questions = questions

    def check(self, guesses: Mapping[str, Any], **measured: Any) -> "Answers":
        """Return a verdict on each guess; a name that no question has is refused.

        ``measured`` holds the answers that only the notebook knows: a question without an answer needs one.
        """
        names = [question.name for question in self.questions]
        if unknown := (guesses.keys() | measured.keys()) - set(names):
            raise ValueError(f"predictions are named {', '.join(names)}, got {min(unknown)}")
        for q in self.questions:
            if q.answer is None and q.name not in measured:
                raise ValueError(f"{q.name} is measured: hand its answer to check({q.name}=…), got none")
        return Answers([q.judge(guesses.get(q.name), measured.get(q.name)) for q in self.questions])


@dataclass(frozen=True)
class Answers:
    """Verdicts in the order of the questions, shown one under another."""

    verdicts: Sequence[Verdict]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.verdicts))

    def _repr_html_(self) -> str:
        return "".join(verdict._repr_html_() for verdict in self.verdicts)


def _plain(value: Any) -> Any:
    """Return words without capitals and blanks around them, and lists as tuples."""
    if isinstance(value, str):
        return value.strip().casefold()
    return tuple(value) if isinstance(value, list) else value


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
