"""Continuations: the model's own, drawn as asked, and no row in the way of another."""

from functools import cache
from itertools import islice
from math import inf, log, nan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import ENCODINGS, RELATIVE, VOCAB, small_model, some_tokens, unchanged_model

from minitxl.fast import kv_cache
from minitxl.inference import generation
from minitxl.inference.generation import draw_tokens, sample, until

PROMPT = some_tokens(1, 9)[0]
every_encoding = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
tokens = st.lists(st.integers(0, 2), max_size=30)
stops = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), max_size=3)


def tensors(texts):
    return [torch.tensor(text) for text in texts]


def cut(text, stops):
    """Up to where the first stop is complete, and the longest of those that are: read anew each time."""
    for end in range(1, len(text) + 1):
        found = [len(stop) for stop in stops if end >= len(stop) and text[end - len(stop) : end] == stop]
        if found:
            return text[: end - max(found)]
    return text


@pytest.mark.parametrize("clamp_len", [None, 1])
@every_encoding
def test_greedy_takes_what_the_model_itself_finds_likeliest(encoding, clamp_len):
    model, text = small_model(**encoding), PROMPT
    for parameter in model.parameters():
        parameter.data *= 20  # so that distances decide
    drawn = sample(model, [PROMPT], length=7, mem_len=40, clamp_len=clamp_len, temperature=0)[0]
    for token in drawn:
        log_probs, _ = model(text[None], clamp_len=clamp_len)
        assert token == log_probs[0, -1].argmax()
        text = torch.cat([text, token[None]])


@every_encoding
def test_a_token_sees_itself_and_mem_len_before_it(encoding):
    """One layer, so that what is seen is all that reaches."""
    model = small_model(n_layer=1, **encoding)
    other = PROMPT.clone()
    other[:4] = (other[:4] + 1) % 11

    def first(text, mem_len):
        return next(draw_tokens(model, [text], mem_len=mem_len, seed=3))

    assert torch.equal(first(PROMPT, 4), first(other, 4))
    texts = [sample(model, [text], length=20, mem_len=4, seed=3) for text in (PROMPT, other)]
    assert torch.equal(*texts)
    log_probs, _ = model(PROMPT[None, -5:])
    drawn = sample(model, [PROMPT] * 300, length=1, mem_len=4)[:, 0].bincount(minlength=11)
    likely = log_probs[0, -1].exp()
    assert ((drawn / 300 - likely).abs() < 5 * (likely * (1 - likely) / 300).sqrt() + 1e-9).all()


@every_encoding
def test_a_row_does_not_depend_on_the_others(encoding):
    model = small_model(**encoding)
    prompts = [PROMPT, PROMPT[:2], PROMPT[3:8]]
    together = sample(model, prompts, length=12, mem_len=6, seed=5)
    for row, prompt in enumerate(prompts):
        assert torch.equal(sample(model, [prompt], length=12, mem_len=6, seed=5 + row)[0], together[row])


@pytest.mark.parametrize("encoding", RELATIVE.values(), ids=RELATIVE)
def test_how_a_prompt_is_cut_changes_nothing(encoding, monkeypatch):
    model, prompts = small_model(**encoding), list(some_tokens(2, 23))
    whole = sample(model, prompts, length=10, mem_len=5)
    monkeypatch.setattr(generation, "PREFILL_CHUNK", 3)
    assert torch.equal(sample(model, prompts, length=10, mem_len=5), whole)


def test_the_same_seed_gives_the_same_text_and_another_another():
    model = small_model()
    one, same, other = (sample(model, [PROMPT], length=30, mem_len=6, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_sample_is_the_start_of_the_stream():
    model = small_model()
    streamed = torch.stack(list(islice(draw_tokens(model, [PROMPT, PROMPT[:4]], mem_len=6), 8)), dim=1)
    assert torch.equal(sample(model, [PROMPT, PROMPT[:4]], length=8, mem_len=6), streamed)


@every_encoding
@pytest.mark.parametrize("window", [None, 1, 5])
def test_recent_are_a_rows_own_last_tokens_and_no_padding(encoding, window):
    """Greedy, and token by token against the definition; no prompt but the first holds a 0, the padding."""
    model = small_model(tie_embeddings=False, **encoding)
    prompts = [PROMPT, torch.tensor([3, 4]), torch.tensor([5, 5, 1])]
    drawn = sample(
        model, prompts, length=9, mem_len=40, temperature=0, repetition=3.0, repetition_window=window
    )
    for prompt, row in zip(prompts, drawn, strict=True):
        text = prompt.tolist()
        log_probs, _ = model(torch.cat([prompt, row])[None])
        for token, next_log_probs in zip(
            row.tolist(), log_probs[0, len(prompt) - 1 : -1].tolist(), strict=True
        ):
            scores = [log_prob + log(VOCAB) for log_prob in next_log_probs]
            for recent in set(text if window is None else text[-window:]):
                scores[recent] = scores[recent] / 3 if scores[recent] > 0 else scores[recent] * 3
            assert token == scores.index(max(scores))
            text.append(token)
    if window != 1:  # a greedy text without penalty may hold no token twice in a row
        assert not torch.equal(drawn, sample(model, prompts, length=9, mem_len=40, temperature=0))


@given(
    st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=7), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=2), max_size=3),
    st.sampled_from([0.7, 1.0, 1.3, 4.0]),
    st.sampled_from([None, 1, 4, 64]),
    st.sampled_from(list(ENCODINGS.values())),
)
@settings(max_examples=15)
def test_a_batch_is_its_rows_one_by_one_with_repetition_and_stops(
    prompts, stop, repetition, window, encoding
):
    model = small_model(tie_embeddings=False, **encoding)
    ways = {"length": 10, "mem_len": 4, "repetition": repetition, "repetition_window": window}
    prompts, stop = tensors(prompts), tensors(stop)
    together = sample(model, prompts, stop=stop, seed=2, **ways)
    assert len(together) == len(prompts)
    for row, prompt in enumerate(prompts):
        (alone,) = sample(model, [prompt], stop=stop, seed=2 + row, **ways)
        assert torch.equal(alone, together[row])


def rows_until(stop=None):
    """The rows of three prompts up to these stops."""
    model, prompts = unchanged_model(tie_embeddings=False), [PROMPT, PROMPT[:1], PROMPT[2:5]]
    return sample(model, prompts, stop=stop, length=25, mem_len=6, top_k=3, temperature=2.0)


@cache
def whole_rows():
    return rows_until()


@given(stops)
@settings(max_examples=15)
def test_a_row_ends_where_a_stop_is_complete_and_the_others_go_on(stop):
    whole = whole_rows()
    kept = whole.unique()[:3]
    stop = [kept[torch.tensor(one)] for one in stop]
    rows = rows_until(stop)
    expected = [cut(row, [one.tolist() for one in stop]) for row in whole.tolist()]
    assert [row.tolist() for row in rows] == expected


def test_nothing_is_drawn_once_every_row_has_ended(monkeypatch):
    model, prompts, read = small_model(), [PROMPT, PROMPT[:4]], []
    whole = sample(model, prompts, length=6, mem_len=6)

    def step(model, tokens, cache, **ways):
        read.append(tokens.shape[1])
        return decoded(model, tokens, cache, **ways)

    decoded = kv_cache.step
    monkeypatch.setattr(kv_cache, "step", step)
    rows = sample(model, prompts, length=1000, mem_len=6, stop=list(whole[:, :6]))
    assert [row.tolist() for row in rows] == [cut(row, whole.tolist()) for row in whole.tolist()] == [[], []]
    assert read == [9, 1, 1, 1, 1, 1]


def test_a_stop_does_not_begin_in_the_prompt():
    model = small_model()
    first = sample(model, [PROMPT], length=1, mem_len=6)[0]
    spanning = torch.cat([PROMPT[-1:], first])
    (row,) = sample(model, [PROMPT], length=1, mem_len=6, stop=[spanning, PROMPT])
    assert torch.equal(row, first)


@given(tokens, stops)
def test_until_gives_every_token_as_soon_as_no_stop_can_take_it_back(text, stop):
    taken, given = [], []

    def coming():
        for token in text:
            could = max(
                (n for one in stop for n in range(len(one)) if taken[len(taken) - n :] == one[:n]), default=0
            )
            assert given == taken[: len(taken) - could]
            taken.append(token)
            yield token

    for token in until(coming(), tensors(stop)):
        given.append(token)
    assert given == cut(text, stop)
    assert len(given) == len(text) or cut(taken, stop) != taken == text[: len(taken)]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"prompts": []}, "prompts must hold 1 prompt or more, got none"),
        ({"prompts": [PROMPT, PROMPT[:0]]}, r"each prompt must hold 1 token .* \[9, 0\] tokens"),
        ({"length": 0}, "length must be 1 or more, got 0"),
        ({"mem_len": -1}, "mem_len must be 0 or more, got -1"),
        ({"clamp_len": -1}, "clamp_len must be 0 or more, got -1"),
        ({"temperature": -0.1}, "temperature must be 0 or more, got -0.1"),
        ({"temperature": nan}, "temperature must be finite, got nan"),
        ({"temperature": 1e-40}, "temperature must be 0, or 1e-06 or more, got 1e-40"),
        ({"top_k": 2**64}, "top_k must be at most 2,147,483,647, got 18446744073709551616"),
        (
            {"repetition_window": 2**64},
            "repetition_window must be at most 2,147,483,647, got 18446744073709551616",
        ),
        ({"seed": 2**64}, "seed must be at most 4,611,686,018,427,387,904, got 18446744073709551616"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"top_k": 0}, "top_k must be 1 or more, got 0"),
        ({"top_p": 0.0}, "top_p must be above 0, got 0.0"),
        ({"repetition": 0}, "repetition must be 0.01 or more, got 0"),
        ({"repetition": 1e-308}, "repetition must be 0.01 or more, got 1e-308"),
        ({"repetition": inf}, "repetition must be finite, got inf"),
        ({"repetition": nan}, "repetition must be finite, got nan"),
        ({"repetition_window": 0}, "repetition_window must be 1 or more, got 0"),
        (
            {"stop": [PROMPT, PROMPT[:0]]},
            r"each stop must hold 1 token or more, got shape \[0\]",
        ),
    ],
)
def test_what_can_not_be_asked_is_refused(wrong, sentence):
    asked = {"prompts": PROMPT[None], "length": 3, "mem_len": 4, **wrong}
    with pytest.raises(ValueError, match=sentence):
        sample(small_model(), asked.pop("prompts"), **asked)


@pytest.mark.parametrize("positions", ["learned", "per-layer"])
def test_a_memory_longer_than_the_learned_positions_is_refused_before_anything_is_drawn(positions):
    model = small_model(attention="absolute", positions=positions, max_seg_len=12)
    assert sample(model, [PROMPT], length=9, mem_len=11).shape == (1, 9)
    with pytest.raises(
        ValueError, match="mem_len must be at most max_seg_len - 1 = 11 with learned positions"
    ):
        next(draw_tokens(model, [PROMPT], mem_len=12))


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_nothing_is_drawn_from_weights_that_are_too_large(temperature):
    model = small_model()
    with torch.no_grad():
        model.embedding.tables[0].weight.fill_(1e300)
    with pytest.raises(
        ValueError, match="log-probabilities must be finite, got NaN: its weights are too large"
    ):
        sample(model, [PROMPT], length=3, mem_len=4, temperature=temperature)


NOT_TEXTS = [
    (PROMPT, r"each {one} must have the axes \[time\], got shape \[\]$"),
    ([3], r"each {one} must be a tensor \[time\], got int$"),
    ("a", r"each {one} must be a tensor \[time\], got str$"),
    ([PROMPT[None]], r"each {one} must have the axes \[time\], got shape \[1, \d+\]$"),
    (5, r"{name} must be a list of tensors \[time\], got int$"),
    (torch.tensor(5), r"{name} must be a list of tensors \[time\], got a single number$"),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("wrong", "sentence"), NOT_TEXTS)
def test_prompts_and_stops_that_are_no_list_of_texts_are_refused_in_one_sentence(wrong, sentence):
    model = small_model()
    for name, one, call in (
        ("stop", "stop", lambda: sample(model, [PROMPT], length=3, mem_len=4, stop=wrong)),
        ("stop", "stop", lambda: until([1], wrong)),
        ("prompts", "prompt", lambda: sample(model, wrong, length=3, mem_len=4)),
        ("prompts", "prompt", lambda: draw_tokens(model, wrong, mem_len=4)),
    ):
        with pytest.raises(ValueError, match=f"^{sentence.format(name=name, one=one)}"):
            call()
