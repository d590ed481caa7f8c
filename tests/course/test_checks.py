"""What each check says to right answers in several styles, and to wrong ones.

A module of ``answers`` has a table for the checks of a notebook: ``right``, answers that are accepted, and
``wrong``, answers by words of the sentence that each must get.
"""

import importlib
import sys
from itertools import count
from pathlib import Path

import pytest
import torch

from minitxl.course import checker
from minitxl.course.differences import equal

TOPICS = sorted(path.stem for path in (Path(__file__).parent / "answers").glob("[a-z]*.py"))
TABLES = {
    f"{topic}.{check.__name__}": (check, answers)
    for topic in TOPICS
    for check, answers in importlib.import_module(f"answers.{topic}").ANSWERS.items()
}
EACH_RIGHT = [
    (name, number) for name, (_, answers) in TABLES.items() for number in range(len(answers["right"]))
]
EACH_WRONG = [(name, words) for name, (_, answers) in TABLES.items() for words in answers["wrong"]]


class Known:
    """The cases and the mistakes of a check, and what the reference and each mistake give in each case.

    A check tells them to ``judge`` anew for every answer, and ``judge`` runs them anew; here once.
    """

    def __init__(self, cases, mistakes):
        self.cases, self.mistakes = cases, mistakes
        self.ours = {id(one) for wrong in mistakes.values() for one in checker.variants_of(wrong)}
        self.outcomes = {}
        """By the ids of mistake and case."""
        self.expected = {}
        """Results of the reference, by the id of the case."""

    def are(self, cases, mistakes):
        return list(mistakes) == list(self.mistakes) and equal(cases, self.cases)

    def right(self, reference, case, run=checker._expected):
        if id(case) not in self.expected:
            self.expected[id(case)] = run(reference, case)
        return self.expected[id(case)]

    def outcome(self, function, case, models=None, run=checker._outcome):
        if id(function) not in self.ours:  # an answer is run each time
            return run(function, case, models)
        place = id(function), id(case)
        if place not in self.outcomes:
            self.outcomes[place] = run(function, case)
        return self.outcomes[place]


KNOWN: dict[tuple[str, int], Known] = {}
"""By check, and by the number of its call of ``judge``."""


def answered(name, answer):
    """The verdict, which leaves the random numbers of everybody else alone."""
    check, number = TABLES[name][0], count()
    module = sys.modules[check.__module__]
    judge = getattr(module, "judge", None)

    def judge_by_known(attempt, *, cases, mistakes, **arguments):
        cases = list(cases)
        known = KNOWN.setdefault((name, next(number)), Known(cases, mistakes))
        if not known.are(cases, mistakes):
            return judge(attempt, cases=cases, mistakes=mistakes, **arguments)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(checker, "_outcome", known.outcome)
            inner.setattr(checker, "_expected", known.right)
            return judge(attempt, cases=known.cases, mistakes=known.mistakes, **arguments)

    state = torch.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "judge", judge_by_known, raising=False)
        verdict = check(answer)
    assert torch.equal(torch.get_rng_state(), state)
    return verdict


@pytest.mark.parametrize(("name", "number"), EACH_RIGHT)
def test_a_right_answer_is_accepted_whatever_its_style(name, number):
    verdict = answered(name, TABLES[name][1]["right"][number])
    assert verdict.right, verdict


@pytest.mark.parametrize(("name", "words"), EACH_WRONG)
def test_a_wrong_answer_gets_the_sentence_that_helps(name, words):
    verdict = answered(name, TABLES[name][1]["wrong"][words])
    assert not verdict.right
    assert words in verdict.message


@pytest.mark.parametrize("name", TABLES)
def test_a_check_is_tried_on_many_answers_and_an_empty_one_is_not_called_wrong(name):
    _, answers = TABLES[name]
    assert len(answers["right"]) >= 2
    assert len(answers["wrong"]) >= 5
    if callable(answers["right"][0]):

        def stub(*case, **options):
            raise NotImplementedError

        for blank in (stub, lambda *case, **options: ..., lambda *case, **options: None):
            assert answered(name, blank).word == "blank"


@pytest.mark.parametrize(
    "name", [name for name in TABLES if "training_step" not in name]
)  # no mistakes, bugs
@pytest.mark.usefixtures("as_users_run_it")  # checks of shapes take most of the time, and others make them
def test_each_mistake_that_a_check_knows_gets_its_own_sentence(name, monkeypatch):
    module, mistakes = sys.modules[TABLES[name][0].__module__], {}

    def judge(attempt, **arguments):
        mistakes.update(arguments["mistakes"])
        return checker.judge(attempt, **arguments)

    monkeypatch.setattr(module, "judge", judge)
    answered(name, lambda *case: 0)
    monkeypatch.undo()
    assert len(mistakes) >= 3
    for sentence, wrong in mistakes.items():
        for mistake in checker.variants_of(wrong):
            assert answered(name, mistake).message == sentence
