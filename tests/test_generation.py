"""Continuations: the model's own, drawn as asked, and no row in the way of another."""

from itertools import islice

import pytest
import torch
from models import ENCODINGS, RELATIVE, small_model, some_tokens

from minitxl import generation
from minitxl.generation import keep_likely, sample, stream

PROMPT = some_tokens(1, 9)[0]
every_encoding = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)


@every_encoding
def test_greedy_takes_what_the_model_itself_finds_likeliest(encoding):
    model, text = small_model(**encoding), PROMPT
    drawn = sample(model, [PROMPT], length=7, mem_len=40, temperature=0)[0]
    for token in drawn:
        log_probs, _ = model(text[None])
        assert token == log_probs[0, -1].argmax()
        text = torch.cat([text, token[None]])


@every_encoding
def test_a_token_sees_itself_and_mem_len_before_it(encoding):
    """One layer, so that what is seen is all that reaches."""
    model = small_model(n_layer=1, **encoding)
    other = PROMPT.clone()
    other[:4] = (other[:4] + 1) % 11

    def first(text, mem_len):
        return next(stream(model, [text], mem_len=mem_len, seed=3))

    assert torch.equal(first(PROMPT, 4), first(other, 4))
    texts = [sample(model, [text], length=20, mem_len=4, seed=3) for text in (PROMPT, other)]
    assert torch.equal(*texts)
    log_probs, _ = model(PROMPT[None, -5:])
    drawn = torch.cat(
        [sample(model, [PROMPT], length=1, mem_len=4, seed=seed)[0] for seed in range(300)]
    ).bincount(minlength=11)
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
    monkeypatch.setattr(generation, "PIECE", 3)
    assert torch.equal(sample(model, prompts, length=10, mem_len=5), whole)


def test_the_same_seed_gives_the_same_text_and_another_another():
    model = small_model()
    one, same, other = (sample(model, [PROMPT], length=30, mem_len=6, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_sample_is_the_start_of_the_stream():
    model = small_model()
    streamed = torch.stack(list(islice(stream(model, [PROMPT, PROMPT[:4]], mem_len=6), 8)), dim=1)
    assert torch.equal(sample(model, [PROMPT, PROMPT[:4]], length=8, mem_len=6), streamed)


def test_temperature_top_k_and_top_p_shape_the_probabilities():
    probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64)

    def kept(**settings):
        return keep_likely(probs.log(), **settings)[0].tolist()

    assert kept() == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(temperature=0) == [0, 1, 0, 0]
    assert kept(temperature=0.5) == pytest.approx([1 / 30, 16 / 30, 4 / 30, 9 / 30])
    assert kept(top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(top_k=9) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(top_p=0.6) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(top_p=0.75) == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9])
    assert kept(top_p=0.01) == [0, 1, 0, 0]
    assert kept(top_p=1.0) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(top_k=2, top_p=0.5) == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"prompts": []}, r"each prompt must hold 1 token or more, got prompts of \[\] tokens"),
        ({"prompts": [PROMPT, PROMPT[:0]]}, r"each prompt must hold 1 token .* \[9, 0\] tokens"),
        ({"length": 0}, "length must be 1 or more, got 0"),
        ({"mem_len": -1}, "mem_len must be 0 or more, got -1"),
        ({"temperature": -0.1}, "temperature must be 0 or more, got -0.1"),
        ({"top_k": 0}, "top_k must be 1 or more, got 0"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got 0.0"),
    ],
)
def test_what_can_not_be_asked_is_refused(wrong, sentence):
    asked = {"prompts": PROMPT[None], "length": 3, "mem_len": 4, **wrong}
    with pytest.raises(ValueError, match=sentence):
        sample(small_model(), asked.pop("prompts"), **asked)
