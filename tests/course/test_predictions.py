import pytest

from minitxl.course.predictions import Predictions, Question

KEYS = Question("keys", "How many?", 512, "M + L", tolerance=2, wrong={256: "that is the segment alone"})
WHICH = Question("which", "Which?", "positions", "they are", choices=("memory", "positions"))
ROW = Question("row", "Which row?", [1, 2], "shifted", wrong={(2, 1): "turned around"})
MEASURED = Question("worst", "Which is worst?", None, "see the table", choices=(1, 4))
T5 = Question("best", "Which?", "XL", "by far", choices=("XL", "T5"))
LENGTH = Question("length", "How long?", answer=8, choices=(88, 44, 8), why="it gains nothing")
SHARE = Question("share", "How many per cent?", 69, "more than half", tolerance=6, per_cent=True)
LEARNS = Question("learns", "True or False?", True, "it does")


@pytest.mark.parametrize(
    ("question", "guess", "said"),
    [
        (KEYS, None, "blank: keys: no prediction yet"),
        (KEYS, 512, "right: keys: M + L"),
        (KEYS, 513.5, "right: keys: M + L"),
        (KEYS, 256, "not yet: keys: you said 256. That is the segment alone"),
        (KEYS, 100, "not yet: keys: you said 100. The answer is 512. M + L"),
        (KEYS, True, "blank: keys: give a number, not True"),
        (KEYS, "many", "blank: keys: give a number, not 'many'"),
        (ROW, (1, 2), "right: row: shifted"),
        (ROW, [2, 1], "not yet: row: you said (2, 1). Turned around"),
        (MEASURED, 4, "right: worst: see the table"),
        (WHICH, " Positions", "right: which: they are"),
        (WHICH, "memory", "not yet: which: you said 'memory'. The answer is 'positions'. They are"),
        (WHICH, "Memory", "not yet: which: you said 'memory'. The answer is 'positions'. They are"),
        (T5, "t5", "not yet: best: you said 'T5'. The answer is 'XL'. By far"),
        (WHICH, "both", "blank: which: choose among 'memory', 'positions'"),
        (LENGTH, "8", "blank: length: choose among 88, 44, 8, without quotes"),
        (LENGTH, 7, "blank: length: choose among 88, 44, 8"),
        (SHARE, 66, "right: share: more than half"),
        (SHARE, 0.69, "blank: share: give per cent, 69 in place of 0.69"),
        (LEARNS, True, "right: learns: it does"),
        (LEARNS, 1, "right: learns: it does"),
        (LEARNS, False, "not yet: learns: you said False. The answer is True. It does"),
    ],
)
def test_each_guess_is_answered_on_its_own(question, guess, said):
    assert repr(question.judge(guess, 4 if question is MEASURED else None)) == said


def test_answers_stand_in_the_order_of_the_questions_and_an_unknown_name_is_refused():
    questions = Predictions(KEYS, WHICH)
    assert repr(questions.check({"which": "memory"})).splitlines()[0].startswith("blank: ")
    assert questions.check({})._repr_html_().count("<div") == 2
    with pytest.raises(ValueError, match="predictions are named keys, which, got other"):
        questions.check({"other": 1})


def test_an_answer_that_is_measured_is_handed_in():
    assert repr(Predictions(MEASURED).check({"worst": 1}, worst=1)).startswith("right: ")
    with pytest.raises(ValueError, match="worst is measured"):
        Predictions(MEASURED).check({"worst": 1})
