"""Predictions that a reader writes down before an experiment, and that are answered after it.

questions = Predictions(Question("keys", "How many keys …?", answer=512, why="…", wrong={256: "…"}))
questions.check({"keys": None})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitxl.course.exercises import NOTHING, Verdict


@dataclass(frozen=True)
class Question:
    """A question, its answer, and what is said to each guess."""

    name: str
    text: str
    answer: Any
    why: str
    """Reason of the answer; said to a right guess, and to a wrong one that ``wrong`` does not know."""
    tolerance: float | int = 0
    """How far a number may be off, at most."""
    choices: Sequence[Any] = ()
    """Words to choose among; empty for numbers and for True or False."""
    wrong: Mapping[Any, str] = field(default_factory=dict)
    """What to say to a guess that is wrong in a way of its own."""

    def judge(self, guess: Any) -> Verdict:
        """Return the verdict on one guess; None is no guess yet."""
        if guess is None or guess is Ellipsis:
            return Verdict(False, f"{NOTHING} ({self.name})")
        guess = guess.strip().casefold() if isinstance(guess, str) else guess
        if self.choices and guess not in {_plain(choice) for choice in self.choices}:
            return Verdict(False, f"{self.name}: choose among {', '.join(map(repr, self.choices))}")
        if self._fits(guess):
            return Verdict(True, f"{self.name}: {self.why}")
        said = next((why for known, why in self.wrong.items() if _plain(known) == guess), None)
        return Verdict(False, f"{self.name}: {said or f'the answer is {self.answer!r}. {self.why}'}")

    def _fits(self, guess: Any) -> bool:
        if (
            isinstance(self.answer, bool)
            or isinstance(guess, bool)
            or not isinstance(self.answer, int | float)
        ):
            return bool(guess == _plain(self.answer))
        return isinstance(guess, int | float) and abs(guess - self.answer) <= self.tolerance


class Predictions:
    """The questions of one notebook."""

    def __init__(self, *questions: Question) -> None:
        self.questions = questions

    def check(self, guesses: Mapping[str, Any]) -> "Answers":
        """Return a verdict on each guess; a name that no question has is refused."""
        if unknown := guesses.keys() - {question.name for question in self.questions}:
            raise ValueError(
                f"predictions are named {', '.join(q.name for q in self.questions)}, got {min(unknown)}"
            )
        return Answers([question.judge(guesses.get(question.name)) for question in self.questions])


@dataclass(frozen=True)
class Answers:
    """Verdicts in the order of the questions, shown one under another."""

    verdicts: Sequence[Verdict]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.verdicts))

    def _repr_html_(self) -> str:
        return "".join(verdict._repr_html_() for verdict in self.verdicts)


def _plain(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
