import pytest
import torch

from minitxl.course import checker
from minitxl.course.checker import judge
from minitxl.course.differences import Finding, Observed, kind_of, written

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
        (
            lambda x: 3 * x,
            "called with x = [0, 1, 2], you returned [0, 3, 6], right is [0, 2, 4]; "
            "first difference at [1]: you 3, right 2 (2 of 3 differ)",
        ),
        (lambda x: x[:1] * 2, "called with x = [0, 1, 2], you returned the shape [1], right is [3]"),
        (lambda x: (2 * x).tolist(), "the values are right, but they stand in a list: return a tensor"),
        (
            lambda x: 2 * x + 0j,
            "the values are right, but the dtype is torch.complex64, and must be torch.float32",
        ),
        (lambda x: 2 * x + 1j, "first difference at [0]: you 1j, right 0 (3 of 3 differ)"),
        (lambda x: (2 * x).numpy(), "the values are right, but they stand in an ndarray: return a tensor"),
        (
            lambda x: (3 * x).numpy(),
            "you returned [0, 3, 6], right is [0, 2, 4]; first difference at [1]: you 3, right 2",
        ),
        (lambda x: None, "it returns nothing"),
        (lambda x: x.mul_(2), "it changes what it was given, in place"),
        (lambda x: x.nothing, "it raised AttributeError"),
    ],
)
def test_a_wrong_attempt_is_told_what_is_wrong(attempt, told):
    verdict = judged(attempt)
    assert not verdict.right
    assert told in verdict.message


@pytest.mark.parametrize(
    ("attempt", "right"),
    [
        (lambda x: x + x, True),
        (lambda x: x.float() * 2, False),
        (lambda x: (x.float() * 2).double(), False),
        (lambda x: 2.001 * x, False),
    ],
)
def test_float64_is_compared_to_its_digits_where_that_is_asked_for(attempt, right):
    cases = [(torch.arange(1.0, 9).double().sqrt(),)]
    assert judged(attempt, cases=cases, precise=True).right is right
    assert judged(lambda x: x.float() * 2, cases=cases).right
    message = judged(lambda x: x.float() * 2, cases=cases, precise=True).message
    assert message.endswith("compute in the dtype of the arguments, and return it")


class Equal(torch.nn.Module):
    """A type whose name begins with a vowel."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Equal(), "an Equal"),
        (torch.nn.Linear(1, 1), "a Linear"),
        (torch.zeros(1).numpy(), "an ndarray"),
        (1, "an int"),
        ([], "a list"),
    ],
)
def test_the_name_of_a_type_has_the_article_that_belongs_to_it(value, words):
    assert kind_of(value) == words
    assert not isinstance(value, torch.nn.Module) or written(value) == words


def test_an_array_is_compared_with_a_mistake_that_raises():
    mistakes = {"that raises": lambda x: x.nothing, "that is one less": lambda x: 2 * x - 1}
    assert judged(lambda x: (2 * x).numpy() - 1, mistakes=mistakes).message == "that is one less"
    assert "return a tensor" in judged(lambda x: (2 * x).numpy(), mistakes=mistakes).message


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
    judged(lambda x: x.add_(torch.rand_like(x)) * 3)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(case[0], kept) for case, kept in zip(NUMBERS, before, strict=True))


def test_whole_numbers_and_shapes_of_one_number_are_compared_by_value():
    same = {"reference": lambda n: 2.0 * n, "cases": [(3,)], "mistakes": {}}
    assert judge(lambda n: 6, **same).right
    assert judge(lambda n: torch.tensor(6.0), **same).right
    assert judge(lambda n: 7, **same).message == "called with n = 3, you returned 7, right is 6"


def test_a_whole_number_too_large_for_a_float_is_compared_and_shortened():
    same = {"reference": lambda n: 10**400, "cases": [(3,)], "mistakes": {}}
    assert judge(lambda n: 10**400, **same).right
    message = judge(lambda n: -(10**30), **same).message
    assert message == "called with n = 3, you returned -10000… (31 digits), right is 100000… (401 digits)"


def test_a_mask_of_numbers_is_not_yet_a_mask():
    masks = {"reference": lambda x: x > 1, "cases": NUMBERS, "mistakes": {}}
    assert judge(lambda x: x > 1, **masks).right
    assert (
        "the dtype is torch.int64, and must be torch.bool" in judge(lambda x: (x > 1).long(), **masks).message
    )


def test_a_difference_inside_several_values_names_its_place():
    pairs = {"reference": lambda x: (x, {"twice": 2 * x}), "cases": NUMBERS, "mistakes": {}}
    message = judge(lambda x: (x, {"twice": 3 * x}), **pairs).message
    assert "in the value at [1]['twice'], you returned [0, 3, 6], right is [0, 2, 4]" in message


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (
            {"": torch.ones(2), "calls": [2, 2]},
            "you returned [1, 1], right is [0, 0]; first difference at [0]",
        ),
        ({"": {"a": 1}, "calls": [2, 2]}, "you returned {'a': 1}, right is [0, 0]"),
        (
            {"": torch.zeros(2), "calls": [1, 2]},
            "calls: here [1, 2], right is [2, 2]",
        ),
        ({"": torch.zeros(2), "calls": [2]}, "calls: here [2], right is [2, 2]"),
        (
            {"": torch.zeros(2), "calls": [2, 2], "graph": Finding("there is a graph")},
            "the values are right, but there is a graph",
        ),
        (
            {"": torch.zeros(2), "calls": [2, 2], "slope": torch.ones(2)},
            "slope: here [1, 1], right is [2, 2]; first difference at [0]",
        ),
        (
            {"": torch.zeros(2), "calls": [2, 2], "long": [5] * 20},
            "long: from number 14 on, here [5, 5, 5, 5, 5, 5, 5], right is [6, 5]",
        ),
    ],
)
def test_a_result_is_what_was_returned_and_what_a_probe_saw_has_a_name(got, words):
    right = {"graph": None, "slope": 2 * torch.ones(2), "long": [5] * 13 + [6, 5]}
    expected = {"": torch.zeros(2), "calls": [2, 2]} | {key: right[key] for key in got if key in right}
    verdict = judged(lambda: Observed(got), cases=[()], reference=lambda: Observed(expected))
    assert f", {words}" in f", {verdict.message}"
    assert "['']" not in verdict.message


def test_a_finding_of_a_probe_is_told_in_its_own_words():
    verdict = judged(lambda: Finding("there is a loop"), cases=[()], reference=lambda: torch.ones(2))
    assert "the values are right, but there is a loop" in verdict.message


def test_the_cells_below_run_on_the_learners_function_only_if_it_is_right(capsys):
    def check(attempt):
        return judged(attempt)

    def mine(x):
        return x + x

    def blank(x):
        raise NotImplementedError

    assert checker.use(mine, check, otherwise=double) is mine
    assert checker.use(blank, check, otherwise=double) is double
    assert checker.use(lambda x: x, check, otherwise=double) is double
    shown = capsys.readouterr().out
    assert shown.index("right: ") < shown.index("blank: ") < shown.index("not yet: ")


def test_a_verdict_shows_its_word_beside_its_colour_and_escapes_what_it_says():
    html = checker.Verdict(False, "M < L")._repr_html_()
    assert "✗ not yet" in html
    assert "M &lt; L" in html


def test_two_dollars_in_a_verdict_make_no_formula():
    html = checker.Verdict(False, "called with text = 'a$b$'")._repr_html_()
    assert html.startswith('<div class="mathjax_ignore"')


def test_a_named_mistake_is_shown_with_the_call_and_both_results():
    verdict = judged(lambda x: x**2)
    assert verdict.details == (
        "called with x = [0, 1, 2], you returned [0, 1, 4], right is [0, 2, 4]; "
        "first difference at [1]: you 1, right 2 (1 of 3 differ)"
    )
    assert repr(verdict) == f"not yet: that is the square\n  ({verdict.details})"
    assert verdict.details in verdict._repr_html_()


def test_a_sentence_may_stand_for_several_wrong_functions():
    mistakes = {"a power": (lambda x: x**2, lambda x: x**3)}
    assert judged(lambda x: x * x * x, mistakes=mistakes).message == "a power"


@pytest.mark.parametrize("attempt", [None, ..., lambda x: ..., lambda x: None])
def test_what_returns_nothing_is_blank(attempt):
    verdict = judged(attempt)
    assert (verdict.right, verdict.word) == (False, "blank")
    assert "nothing" in verdict.message


def test_what_can_be_read_only_once_is_compared_as_a_list_where_a_check_says_so():
    def pairs(x):
        yield x, 2 * x

    told = {"reference": lambda x: [(x, 2 * x)], "cases": NUMBERS}
    assert judged(checker.listed(pairs), **told).right
    assert judged(checker.listed(lambda x: zip([x], [2 * x], strict=True)), **told).right
    assert not judged(pairs, **told).right
    assert judged(checker.listed(None)).blank


def test_what_a_case_holds_beside_the_named_arguments_is_not_shown():
    verdict = judge(
        lambda x, hidden: x, reference=lambda x, hidden: 2 * x, cases=[(2, "text")], mistakes={}, names=["x"]
    )
    assert verdict.message == "called with x = 2, you returned 2, right is 4"


def test_the_words_for_a_difference_can_be_the_checks_own():
    verdict = judged(lambda x: x, say=lambda got, expected: f"{got[1]:.0f} is half of {expected[1]:.0f}")
    assert verdict.message == "called with x = [0, 1, 2], 1 is half of 2"


def test_an_attempt_that_names_no_arguments_is_shown_with_the_references_and_whole_numbers_in_full():
    verdict = judge(lambda *case: 12900.0, reference=lambda tokens, width: 1, cases=[(3, 4)], mistakes={})
    assert verdict.message == "called with tokens = 3, width = 4, you returned 12900, right is 1"


def test_a_long_call_shows_shapes_and_keys_so_that_the_difference_is_in_sight():
    given = {name: torch.zeros(6, 6) for name in ("q", "kE", "v", "kR", "o")}
    case = torch.zeros(2, 5, 6), None, given, torch.rand(2, 4), torch.rand(2, 3), 4
    verdict = judge(lambda x, memory, W, u, v, n_head: 1, reference=lambda *_: 2, cases=[case], mistakes={})
    assert verdict.message == (
        "called with x = a tensor [2, 5, 6], memory = None, W = a dict of q, kE, v, kR, o, "
        "u = a tensor [2, 4], v = a tensor [2, 3], n_head = 4, you returned 1, right is 2"
    )


def test_a_long_call_shows_a_list_of_tensors_by_their_shapes():
    case = [torch.rand(1, 2, 3)] * 4, [torch.rand(2, 2)] * 3, 4
    verdict = judge(lambda hidden, memory, n: 1, reference=lambda *_: 2, cases=[case], mistakes={})
    hidden, memory = (", ".join([f"a tensor {size}"] * n) for size, n in (("[1, 2, 3]", 4), ("[2, 2]", 3)))
    call = f"called with hidden = [{hidden}], memory = [{memory}], n = 4"
    assert verdict.message == f"{call}, you returned 1, right is 2"


def test_the_largest_result_is_counted_by_the_numbers_that_it_holds():
    row = torch.zeros(3)
    with checker.Largest() as watch:
        row.expand(1000, 3)
    assert watch.numbers == 3
    with checker.Largest() as watch:
        row.repeat(1000, 1)[:2]
    assert watch.numbers == 3000
    with checker.Largest() as watch:
        torch.zeros(8).view(torch.complex128).repeat(1000)
    assert (watch.numbers, watch.total) == (8000, 8008)
