"""Notebook 13: its blanks, its checks, its widget and its pictures."""

import re

import pytest
import torch
from answers.loop_tests import by_a_loop_of_its_own, step_by_step, within
from answers.one_query import loop_by_layers, loop_by_tokens
from page import NOTEBOOKS, Page
from torch.utils.flop_counter import FlopCounterMode

from minitxl.config import ModelConfig
from minitxl.course.checks import batched_query, cached_layers, cached_loop, drawing, loop_tests, one_query
from minitxl.course.checks import generation as checks
from minitxl.course.checks import prompts as prompt_checks
from minitxl.experiments.evaluation_cost import sliding_operations
from minitxl.experiments.shared import results
from minitxl.figures.cost.generation import COLUMNS, LINES, MOST, throughput, what_memory_holds
from minitxl.inference import generation, sampling
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.training import checkpoints

PAGE = Page("13_generation")
TINIEST = ModelConfig(8, n_layer=1, d_model=4, n_head=1, d_head=4, d_inner=4)
NAMES = PAGE.cells["model"][PAGE.cells["model"].index("def tokens_of") :].partition("\nprint(")[0]
BLANKS = {
    "write": ("write-text", checks.check_generate),
    "is-right": ("twice-after", loop_tests.check_is_right),
    "attend-one": ("cache-build", one_query.check_attend_one),
    "read-cached": ("cached-loop-text", cached_layers.check_read_cached),
    "cached-loop": ("write-cached-text", cached_loop.check_write_cached),
    "my-probabilities": ("sampling-text", drawing.check_probs),
    "my-longest": ("exercise-longest", prompt_checks.check_longest),
    "fill-left": ("exercise-fill", prompt_checks.check_fill_left),
    "attend-batch": ("exercise-batch", batched_query.check_attend_batch),
}

JUDGED = PAGE.cells["cached-loop-check"].partition("\nbegin, rows")[0]
"""The judgement of the cached loop, without the table about a trained model."""


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = ModelConfig(256, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, tie_embeddings=False)
    model = TransformerLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10 if parameter.ndim > 1 else 1)
    return model


def solution(cell):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells[cell], flags=re.DOTALL)
    return code


def test_a_prompt_read_token_by_token_is_right_and_what_it_costs_is_said():
    def by_tokens(model, prompt, length, mem_len):
        memory, written = None, []
        with torch.no_grad():
            for new in [*prompt.split(1), *[None] * (length - 1)]:
                new = written[-1] if new is None else new
                log_probs, states = model(new[None], memory, window=mem_len + 1)
                memory = extend(memory, states, mem_len=mem_len)
                written.append(log_probs[0, -1].argmax(dim=-1, keepdim=True))
        return torch.cat(written[-length:])

    verdict = checks.check_generate(by_tokens)
    assert verdict.right
    assert "the prompt is read in more than one call" in verdict.message
    assert "more than one call" not in checks.check_generate(checks.solution_generate).message


@pytest.mark.parametrize("blank", BLANKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(blank):
    text, check = BLANKS[blank]
    stub = PAGE.cells[blank].partition("\n\n\n")[0]
    name = re.search(r"def (\w+)", stub)[1]
    state = torch.get_rng_state()
    # read_cached and write_cached call the blank before them
    given = {
        "attend_one": one_query.solution_attend_one,
        "read_cached": cached_layers.solution_read_cached,
    }
    assert check(PAGE.run(solution(text), **given)[name]).right
    assert check(PAGE.run(stub)[name]).word == "blank"
    assert torch.equal(torch.get_rng_state(), state)


def test_the_cells_below_the_blank_run_on_the_readers_function_if_it_is_right(model):
    blank = PAGE.cells["write"]
    assert PAGE.run(blank)["write"] is checks.solution_generate
    wrong = blank.replace("raise NotImplementedError", "return prompt")
    assert PAGE.run(wrong)["write"] is checks.solution_generate
    mine = blank.replace("raise NotImplementedError", "return written(model, prompt, length, mem_len)")
    written = PAGE.run(solution("write-text"))["write"]
    scope = PAGE.run(NAMES, mine, "same", "same-check", written=written, exact=model)
    assert scope["write"].__name__ == "write"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("memory = extend(memory, states, mem_len=mem_len)", "memory = states"),
        ("log_probs[0, -1]", "log_probs[0, 0]"),
        ("window=mem_len + 1", "window=mem_len"),
    ],
)
def test_a_loop_that_does_not_write_the_packages_text_stops_the_notebook(right, wrong, model):
    code = solution("write-text")
    assert code.replace(right, wrong) != code
    with pytest.raises(AssertionError):
        PAGE.run(NAMES, code.replace(right, wrong), "same-check", exact=model)


def check_reads(answer):
    return prompt_checks.check_reads(answer, prompt_len=100, length=1000)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((1100, 599500), "with memory, too many: nothing has to be read"),
        ((1000, 599500), "the number anew is right. But with memory, too few: the prompt is forgotten"),
        ((999, 599500), "with memory, too few: the prompt is forgotten"),
        ((100, 599500), "with memory, too few: those are the prompt's alone"),
        ((100_000, 599500), "with memory, too many: memory holds the prompt"),
        ((1098, 599500), "with memory, too few: the last token alone"),
        ((1099, 600_500), "anew, too many: each reading is counted one token too long"),
        ((1099, 600_600), "anew, too many: one reading too many"),
        ((1099, 598_401), "anew, too few: one reading is missing"),
        ((1099, 599_400), "anew, too few: the first reading is missing"),
        ((1099, 598_500), "anew, too few: each reading is counted one token too short"),
        ((1099, 499_500), "anew, too few: the prompt is forgotten, which is a part of each reading"),
        ((1099, 500_500), "anew, too few: the prompt is forgotten, which is a part of each reading"),
        ((1099, 100_000), "anew, too few: the text grows"),
        ((1099, 1_100_000), "anew, too many: each reading is counted as long as the whole text"),
        ((1099, 1), "anew, too few: the first token"),
        (
            (1100, 600_600),
            "with memory, too many: nothing has to be read after the last token is "
            "drawn. And anew, too many: one reading too many",
        ),
        ((1100, None), "with memory, too many: nothing has to be read"),
        (("many", None), "two numbers"),
        (torch.tensor([1099, 1]).unbind(), "the number with memory is right. But anew, too few"),
        ((599500, 1099), "interchanged"),
        ((None, 1099), "interchanged"),
        ((None, 1), "anew, too few: the first token"),
        ((1099, 1099), "the number with memory is right. But anew, too few: the first token"),
        ((599500, 599500), "the number anew is right. But with memory, too many: the prompt is read once"),
        ((599500, None), "interchanged"),
        (None, "two numbers"),
    ],
)
def test_a_wrong_bill_is_explained(answer, words):
    verdict = check_reads(answer)
    assert verdict.word == "not yet"
    assert words in verdict.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((None, None), "there is nothing here yet"),
        ((1099, None), "the number with memory is right"),
        ((..., 599500), "the number anew is right"),
    ],
)
def test_half_a_bill_is_blank_and_what_stands_there_is_judged(answer, words):
    verdict = check_reads(answer)
    assert verdict.word == "blank"
    assert words in verdict.message


def test_the_bill_is_right_as_the_solution_says_and_blank_as_the_notebook_begins():
    assert check_reads(PAGE.run(solution("exercise-reads"))["my_reads"]).right
    start = PAGE.cells["my-reads"].partition("\n")[0]
    assert check_reads(PAGE.run(start)["my_reads"]).word == "blank"


@pytest.mark.parametrize(("guess", "words"), [(8, "eight times"), (64, "square"), (16, "sixteen"), (3, "1")])
def test_a_wrong_price_with_a_full_memory_gets_its_own_sentence(guess, words):
    price, *_ = checks.predictions.questions
    verdict = price.judge(guess)
    assert not verdict.right
    assert words in verdict.message
    assert price.judge(1).right


def test_the_calls_of_the_loop_stand_after_the_blank_and_not_before():
    before = PAGE.cells["equation"]
    assert "extend(memory" not in before
    assert "rearrange(" not in before
    assert "extend(memory" in PAGE.cells["same-text"]


def test_the_answers_of_the_predictions_are_what_is_counted_and_stored():
    price, work, bug = checks.predictions.questions
    stored = results.read(NOTEBOOKS.parent / "figures" / "generation_cost.json").data
    assert stored["last_over_full"]["median"] == pytest.approx(price.answer, abs=price.tolerance)
    exact = TransformerLM(ModelConfig(dropout=0.0))
    source = PAGE.cells["why-not-32"].partition("\n\n\nrows, seconds")[0]
    operations = PAGE.run(source, exact=exact)["operations"]
    assert operations(2048) > 32 * operations(64)
    assert work.answer == "more than 32"
    assert bug.answer == "almost nothing"


def test_reading_anew_is_counted_like_a_window_with_the_products_of_the_distance():
    c = ModelConfig(n_layer=3, d_model=128, n_head=4, d_head=32, d_inner=512, dropout=0.0)
    source = PAGE.cells["why-not-32"].partition("\n\n\nrows, seconds")[0]
    operations = PAGE.run(source, exact=TransformerLM(c))["operations"]
    for n in (1, 64, 300):
        pairs = (c.n_layer - 1) * n * (n + 1) // 2 + n
        distances = c.n_layer * n * 2 * c.d_model**2
        window = sliding_operations(c, attention_len=n, pairs="seen")
        assert operations(n) == window + 2 * c.d_model * pairs + distances


def test_the_operations_are_those_that_are_counted_while_it_runs_but_for_hidden_pairs():
    c = ModelConfig(32, n_layer=3, d_model=16, n_head=2, d_head=8, d_inner=24, dropout=0.0)
    source, model = PAGE.cells["why-not-32"].partition("\n\n\nrows, seconds")[0], TransformerLM(c).eval()
    operations = PAGE.run(source, exact=model)["operations"]
    for n in (5, 64):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            model.last_hidden(torch.zeros(1, n, dtype=torch.int64), n_last=1)
        hidden_pairs = (c.n_layer - 1) * n * (n - 1) // 2
        counted = counter.get_total_flops() + 2 * c.d_model * c.vocab_size
        assert operations(n) == counted - 6 * c.d_model * hidden_pairs


def test_the_whole_text_fed_to_memory_stands_there_in_three_copies(model):
    corpus = type("Corpus", (), {"test": torch.arange(8000) % 251})
    source = PAGE.cells["twice"].replace("\nwhat_memory_holds(", "\ndrawn = what_memory_holds(")
    scope = PAGE.run(source, fast_model=model, corpus=corpus, device="cpu")
    once, twice = (axes.lines[0].get_ydata().tolist() for axes in scope["drawn"].figure.axes)
    assert once == list(range(64))
    assert twice == scope["twice"]
    assert [twice.count(place) for place in (0, 28, 29, 61, 62, 63)] == [2, 2, 3, 3, 2, 1]
    assert (scope["few"], scope["many"]) == (64, 32 + sum(range(33, 65)))
    assert "160 slots hold 64 tokens" in what_memory_holds({"a": [0], "b": twice}).alt


def test_the_figure_of_the_throughput_shows_what_was_measured_and_counts_the_tokens():
    data = {
        "lengths": [2, 4],
        "mem_len": 3,
        "anew": [[0.25, 0.375], [0.5, 0.5]],
        "states": [[0.04, 0.02], [0.03, 0.04]],
        "cache": [[0.01, 0.01], [0.01, 0.02]],
    }
    cost, total = throughput(data).figure.axes
    drawn = [lines for lines, _, _ in cost.containers]
    assert [line.get_ydata().tolist() for line in drawn] == [[250, 500], [20, 30], [10, 10]]
    reach = [[end for (_, (_, end)) in bars.get_segments()] for _, _, (bars,) in cost.containers]
    assert reach == [[375, 500], [40, 40], [10, 20]]
    assert list(cost.lines[-1].get_xdata()) == [3, 3]
    assert "hidden states kept 20 to 40 at 2, 30 to 40 at 4" in throughput(data).alt
    assert "memory full at 3" in throughput(data).alt
    assert [line.get_ydata().tolist() for line in total.lines] == [[3, 10], [2, 4]]
    assert "Tokens read in all for 4 tokens: 10 anew, 4 with memory" in throughput(data).alt


@pytest.fixture
def drawing_cells(model):
    source = PAGE.cells["widget"].partition("slider = ")[0]
    return PAGE.run(
        NAMES,
        PAGE.cells["draw-probabilities"].partition("\n\n\nopening = ")[0],
        source,
        exact=model,
        my_probabilities=drawing.solution_probs,
    )


@pytest.mark.parametrize("ways", [(0.8, 0.95), (0.1, 1.0), (1.7, 0.5), (2.0, 1.0)])
def test_the_controls_show_what_the_reader_s_function_draws_from(ways, drawing_cells):
    cells, log_probs = drawing_cells, drawing_cells["log_probs"]
    drawn = cells["draw"](*ways)
    temperature, top_p = ways
    probs = sampling.sampling_probs(log_probs, temperature=temperature, top_p=top_p)[0]
    order = log_probs[0].argsort(descending=True)[:MOST]
    bars, page = drawn.figure.axes
    heights = [bar.get_height() for bar in bars.patches]
    assert heights == probs[order].tolist() + log_probs[0, order].exp().tolist()
    assert f"Drawn from {int((probs > 0).sum())} of 256" in drawn.alt
    written = cells["text_of"](
        torch.cat([cells["first_words"], cells["draw_text"](cells["first_words"], 240, *ways)])
    )
    whole_text = drawn.alt.partition("The text: ")[2]
    assert len(whole_text) == len(written)
    assert all(one in (other, "�") for one, other in zip(whole_text, written, strict=True))
    shown = page.texts[0].get_text().split("\n")
    assert len(shown) == min(LINES, whole_text.count("\n") + 1)
    for line, whole in zip(shown, whole_text.split("\n"), strict=False):
        assert line == whole or (len(line) == COLUMNS and whole.startswith(line[:-1]) and line[-1] == "…")


def test_a_drawn_text_without_chance_is_the_package_s(drawing_cells, model):
    begin = drawing_cells["first_words"]
    (likeliest,) = generation.sample(model, [begin], length=40, mem_len=8, temperature=0)
    assert torch.equal(drawing_cells["draw_text"](begin, 40, 1.0, 1e-9, mem_len=8), likeliest)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("r[:, -keys.shape[1] :]", "r[:, : keys.shape[1]]"),
        ("(q + u) @", "q @"),
        ("keys[:, begin:]", "keys"),
    ],
)
def test_an_attention_of_one_token_that_is_not_the_model_s_stops_the_notebook(right, wrong, model):
    code = solution("cache-build")
    assert code.replace(right, wrong) != code
    cells = solution("cached-loop-text"), solution("write-cached-text"), JUDGED
    space = {"exact": model, "write": checks.solution_generate, "is_right": loop_tests.solution_is_right}
    PAGE.run(NAMES, code, *cells, **space)
    with pytest.raises((AssertionError, RuntimeError)):
        PAGE.run(NAMES, code.replace(right, wrong), *cells, **space)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("window=mem_len + 1", "window=mem_len"),
        ("mem_len=mem_len)", "mem_len=mem_len - 1)"),
        ("(attention.W_kE, attention.W_v)", "(attention.W_v, attention.W_kE)"),
    ],
)
def test_a_cached_loop_with_other_predictions_stops_the_notebook(right, wrong, model):
    code = solution("write-cached-text")
    assert code.replace(right, wrong) != code
    space = {"exact": model, "write": checks.solution_generate, "is_right": loop_tests.solution_is_right}
    space["read_cached"] = cached_layers.solution_read_cached
    with pytest.raises(AssertionError):
        PAGE.run(NAMES, code.replace(right, wrong), JUDGED, **space)


def test_a_cache_that_is_cut_too_short_is_found_though_its_text_is_the_same():
    path = NOTEBOOKS.parent / "figures" / "models" / "xl_memory-0.safetensors"
    exact = checkpoints.load_model(path).double().eval()
    begin = torch.tensor(list(b"class Reader:\n    def __init__(self"))
    text = checks.solution_generate(exact, begin, 40, 64)
    for kept in (64, 60):
        written, predicted = cached_loop.solution_write_cached(exact, begin, 40, kept)
        assert torch.equal(written, text)
        right = loop_tests.solution_is_right(exact, begin, 40, 64, written, predicted)
        assert right == (kept == 64)


def test_a_test_that_is_a_loop_or_reads_more_than_once_is_right_and_told():
    for attempt, words in (
        (step_by_step, "calls the model 5 times"),
        (by_a_loop_of_its_own, "itself a loop with a memory"),
        (loop_tests.solution_is_right, ""),
    ):
        verdict = loop_tests.check_is_right(attempt)
        assert verdict.right
        assert words in verdict.message
        assert ("But" in verdict.message) == bool(words)


@pytest.mark.parametrize("atol", [0.0, 1e-12, 1e-6, 1e-4])
def test_a_test_that_allows_a_share_of_each_number_besides_is_right_and_told(atol):
    verdict = loop_tests.check_is_right(within(atol=atol))
    assert verdict.right
    assert "Give rtol=0" in verdict.message
    absolute = loop_tests.check_is_right(within(atol=max(atol, 1e-12), rtol=0))
    assert absolute.right
    assert "But" not in absolute.message


def test_a_cached_loop_that_reads_the_prompt_token_by_token_is_right_and_what_it_costs_is_said():
    verdict = cached_loop.check_write_cached(loop_by_tokens)
    assert verdict.right
    assert "the prompt is read in more than one call" in verdict.message
    praised = cached_loop.check_write_cached(cached_loop.solution_write_cached)
    assert "more than one call" not in praised.message


def test_a_cached_loop_that_projects_the_distances_at_each_token_is_right_and_told():
    def read_cached(model, token, cache, r, mem_len):
        again = cached_layers.projected_distances(model, mem_len)
        return cached_layers.solution_read_cached(model, token, cache, again, mem_len)

    verdict = cached_loop.check_write_cached(cached_loop.writing_by(read_cached))
    assert verdict.right
    assert "r was projected at each token" in verdict.message
    for once in (cached_loop.solution_write_cached, loop_by_tokens, loop_by_layers):
        assert "r was projected" not in cached_loop.check_write_cached(once).message


def test_a_blank_loop_with_the_cache_runs_on_the_readers_model():
    calls = []

    def read_cached(*case):
        calls.append(case)
        return cached_layers.solution_read_cached(*case)

    write_cached = PAGE.run("cached-loop", read_cached=read_cached)["write_cached"]
    assert cached_loop.check_write_cached(write_cached).right
    assert calls


def test_a_blank_model_of_the_cache_runs_on_the_readers_attention():
    calls = []

    def attend_one(*case):
        calls.append(case)
        return one_query.solution_attend_one(*case)

    read_cached = PAGE.run("read-cached", attend_one=attend_one)["read_cached"]
    assert cached_layers.check_read_cached(read_cached).right
    assert calls


def test_a_token_is_timed_at_its_length_and_those_around_it():
    model = TransformerLM(TINIEST).eval()
    scope = PAGE.run(
        "throughput",
        corpus=type("Corpus", (), {"test": torch.zeros(2048, dtype=torch.int64)}),
        device="cpu",
        profile="quick",
        model=model,
    )
    read = []
    scope["now"] = lambda: (
        float(sum(read)) ** 2
    )  # the token at length n begins at (n - 1)², and takes 2 n - 1
    model.embedding.register_forward_hook(lambda module, given, output: read.append(given[0].numel()))

    def loop(model, prompt, length, mem_len):
        for tokens in [prompt] + [prompt[:1]] * (length - 1):
            model.embedding(tokens[None])

    for length in (64, 2048):
        read.clear()
        assert scope["token_seconds"](loop, length) == 2 * (length - scope["around"]) + 1
        assert sum(read) == length + scope["around"] + 1


def test_prompts_in_one_batch_predict_what_each_predicts_alone(model):
    given = {"exact": model, "attend_one": one_query.solution_attend_one}
    scope = PAGE.run(NAMES, "fill-left", "attend-batch", "fill-left-figure", **given)
    assert scope["key_mask"].sum(1).tolist() == [4, 6, 18]
    shown = scope["rows"]
    assert [row["hidden"] for row in shown] == [list(range(14)), list(range(12)), []]
    assert shown[1]["letters"] == " " * 12 + "import"


def test_a_step_of_the_batch_without_its_mask_stops_the_notebook(model):
    code = solution("exercise-batch")
    given = {"exact": model, "attend_one": one_query.solution_attend_one}
    PAGE.run(NAMES, "fill-left", code, "fill-left-figure", **given)
    unmasked = code.replace("scores = scores.masked_fill", "_ = scores.masked_fill")
    assert unmasked != code
    with pytest.raises(AssertionError):
        PAGE.run(NAMES, "fill-left", unmasked, "fill-left-figure", **given)


def test_one_token_more_at_a_tie_and_a_graph_that_is_kept_are_right_and_told():
    def as_widely_used(log_probs, temperature, top_p):
        probs, order = (log_probs / temperature).softmax(-1).sort(descending=True, dim=-1)
        probs = probs.masked_fill(probs.cumsum(-1) - probs > top_p, 0.0)
        return torch.zeros_like(probs).scatter(-1, order, probs / probs.sum(-1, keepdim=True))

    verdict = drawing.check_probs(as_widely_used)
    assert verdict.right
    assert "yours keeps one token more" in verdict.message
    assert "one token more" not in drawing.check_probs(drawing.solution_probs).message

    def with_a_graph(model, prompt, length, mem_len):
        memory, new, written = None, prompt, []
        for _ in range(length):
            log_probs, states = model(new[None], memory, window=mem_len + 1)
            memory = extend(memory, states, mem_len=mem_len)
            new = log_probs[0, -1].argmax(dim=-1, keepdim=True)
            written.append(new)
        return torch.cat(written)

    verdict = checks.check_generate(with_a_graph)
    assert verdict.right
    assert "torch.no_grad()" in verdict.message
