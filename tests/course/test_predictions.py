import pytest

from minitxl.course.predictions import Predictions, Question

KEYS = Question("keys", "How many?", 512, "M + L", tolerance=2, wrong={256: "that is the segment alone"})
WHICH = Question("which", "Which?", "positions", "they are", choices=("memory", "positions"))
LEARNS = Question("learns", "True or False?", True, "it does")


@pytest.mark.parametrize(
    ("question", "guess", "said"),
    [
        (KEYS, None, "blank: there is nothing here yet (keys)"),
        (KEYS, 512, "right: keys: M + L"),
        (KEYS, 513.5, "right: keys: M + L"),
        (KEYS, 256, "not yet: keys: that is the segment alone"),
        (KEYS, 100, "not yet: keys: the answer is 512. M + L"),
        (KEYS, True, "not yet: keys: the answer is 512. M + L"),
        (WHICH, " Positions", "right: which: they are"),
        (WHICH, "memory", "not yet: which: the answer is 'positions'. they are"),
        (WHICH, "both", "not yet: which: choose among 'memory', 'positions'"),
        (LEARNS, True, "right: learns: it does"),
        (LEARNS, 1, "right: learns: it does"),
        (LEARNS, False, "not yet: learns: the answer is True. it does"),
    ],
)
def test_each_guess_is_answered_on_its_own(question, guess, said):
    assert repr(question.judge(guess)) == said


def test_answers_stand_in_the_order_of_the_questions_and_an_unknown_name_is_refused():
    questions = Predictions(KEYS, WHICH)
    assert repr(questions.check({"which": "memory"})).splitlines()[0].startswith("blank: ")
    assert questions.check({})._repr_html_().count("<div") == 2
    with pytest.raises(ValueError, match="predictions are named keys, which, got other"):
        questions.check({"other": 1})
