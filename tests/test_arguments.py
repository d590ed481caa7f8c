"""A wrong argument is told in one sentence, by the name the caller gave it, eager and fast alike."""

import pytest
import torch
from models import ENCODINGS, VOCAB, small_model, some_tokens

from minitxl import fast
from minitxl.arguments import OPTIONS
from minitxl.attention import AttentionOptions, MultiHeadAttention, ShawAttention, XLAttention
from minitxl.fast import kv_cache
from minitxl.memory import extend, reach

TOKENS = some_tokens(2, 5)
MASK = torch.ones(2, 5, dtype=torch.bool)


@pytest.fixture(autouse=True)
def without_shape_checks(as_users_run_it):
    pass


def test_every_option_of_attention_has_a_rule():
    assert OPTIONS.keys() == AttentionOptions.__annotations__.keys()


@pytest.mark.parametrize("implementation", [fast.restore, fast.optimize])
@pytest.mark.parametrize("encoding", ["absolute sinusoidal", "shaw", "xl"])
@pytest.mark.parametrize(
    ("tokens", "options", "sentence"),
    [
        (TOKENS.tolist(), {}, r"tokens must be a tensor \[batch seg\], got list"),
        (TOKENS[0], {}, r"tokens must have the axes \[batch seg\], got shape \[5\]"),
        (TOKENS.double(), {}, "tokens must be int64 or int32, as tokens.long.* makes them, got float64"),
        (TOKENS.byte(), {}, "tokens must be int64 or int32, as tokens.long.* makes them, got uint8"),
        (TOKENS[:0], {}, r"tokens must hold 1 row and 1 position or more, got shape \[0, 5\]"),
        (TOKENS[:, :0], {}, r"tokens must hold 1 row and 1 position or more, got shape \[2, 0\]"),
        (TOKENS.to("meta"), {}, "tokens must be on the device of the weights, cpu, got meta"),
        (TOKENS + VOCAB, {}, f"tokens must lie in 0 … {VOCAB - 1}, got "),
        (TOKENS, {"window": 0}, "window must be 1 or more, got 0"),
        (TOKENS, {"window": 2.0}, "window must be a whole number, got 2.0"),
        (TOKENS, {"window": 2**70}, "window must be at most 2147483647, got "),
        (TOKENS, {"clamp_len": -1}, "clamp_len must be 0 or more, got -1"),
        (TOKENS, {"last": 0}, "last must be 1 or more, got 0"),
        (TOKENS, {"last": -1}, "last must be 1 or more, got -1"),
        (TOKENS, {"last": 6}, "last must be at most 5, got 6"),
        (TOKENS, {"key_mask": MASK[:, 1:]}, "key_mask must hold one flag for each of the 5 keys, got 4"),
        (TOKENS, {"key_mask": MASK[:1]}, "key_mask must have a row for each of 2 rows, got 1"),
        (TOKENS, {"key_mask": MASK.double()}, "key_mask must hold booleans, .*, got float64"),
        (TOKENS, {"key_mask": MASK[0]}, r"key_mask must have the axes \[batch key\], got shape \[5\]"),
        (TOKENS, {"memory": [1]}, r"memory must be a tensor \[layer batch mem model\], got list"),
        (TOKENS, {"memory": torch.zeros(2, 3, 8)}, r"memory must have the axes \[layer batch mem model\]"),
        (TOKENS, {"memory": torch.zeros(2, 2, 3, 8).long()}, "memory must hold floating-point numbers"),
        (
            TOKENS,
            {"memory": torch.zeros(2, 2, 3, 8)},
            "memory must be float64 as the weights are, got float32",
        ),
        (
            TOKENS,
            {"memory": torch.zeros(2, 3, 3, 8).double()},
            "memory must have a row for each row of tokens",
        ),
        (TOKENS, {"memory": torch.zeros(9, 2, 3, 8).double()}, "memory must come from a model of 2 layers"),
    ],
)
def test_a_model_names_the_argument_that_is_wrong(encoding, implementation, tokens, options, sentence):
    model = implementation(small_model(**ENCODINGS[encoding]))
    with pytest.raises(ValueError, match=f"^{sentence}"):
        model.hidden(tokens, **options)


@pytest.mark.parametrize(
    ("targets", "options", "sentence"),
    [
        (TOKENS[0], {}, r"targets must have the axes \[batch seg\], got shape \[5\]"),
        (TOKENS.double(), {}, "targets must be int64 or int32"),
        (
            TOKENS[:, 1:],
            {},
            r"targets must hold one id for each position of hidden, got \(2, 4\) for \(2, 5\)",
        ),
        (TOKENS, {"ignore_index": 0.5}, "ignore_index must be a whole number, got 0.5"),
    ],
)
def test_wrong_targets_are_named(targets, options, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        small_model().token_losses(TOKENS, targets, **options)


@pytest.mark.parametrize("cutoffs", [(), (4, 7)])
def test_ids_of_32_bits_score_as_those_of_64(cutoffs):
    model = small_model(cutoffs=cutoffs)
    expected, _ = model.token_losses(TOKENS, TOKENS)
    assert torch.equal(model.token_losses(TOKENS.int(), TOKENS.int())[0], expected)


X = torch.zeros(2, 5, 8)


@pytest.mark.parametrize("implementation", [fast.restore, fast.optimize])
@pytest.mark.parametrize("kind", [MultiHeadAttention, ShawAttention, XLAttention])
@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        ((X[0],), {}, ValueError, r"x must have the axes \[batch pos model\], got shape \[5, 8\]"),
        (([1],), {}, ValueError, r"x must be a tensor \[batch pos model\], got list"),
        ((X[..., 1:],), {}, ValueError, "x must have the width 8, got 7"),
        ((X.double(),), {}, ValueError, "x must be float32 as the weights are, got float64"),
        ((X.long(),), {}, ValueError, "x must hold floating-point numbers, got int64"),
        ((X, X[:1]), {}, ValueError, "memory must have a row for each row of x, 2, got 1"),
        ((X, X[..., 1:]), {}, ValueError, "memory must have the width 8, got 7"),
        (
            (X, X),
            {"key_mask": MASK},
            ValueError,
            "key_mask must hold one flag for each of the 10 keys, got 5",
        ),
        (
            (X,),
            {"windw": 3},
            TypeError,
            "the options of attention are window, clamp_len, key_mask, got windw",
        ),
    ],
)
def test_an_attention_names_the_argument_that_is_wrong(
    kind, implementation, arguments, options, error, sentence
):
    more = {"max_distance": 2} if kind is ShawAttention else {}
    attention = implementation(kind(8, 2, 4, **more))
    for call in (attention, attention.attention_weights):
        with pytest.raises(error, match=f"^{sentence}"):
            call(*arguments, **options)


@pytest.mark.parametrize(
    ("context", "mask", "sentence"),
    [
        (X[:1], None, "context must have a row for each row of x, 2, got 1"),
        (None, torch.ones(2, 5, 5), "mask must hold booleans, True where a query may attend, got float32"),
        (None, torch.ones(2, 5, 4).bool(), r"mask must have shape \[2, 5, 5\], got \[2, 5, 4\]"),
        (None, MASK, r"mask must have the axes \[batch query key\], got shape \[2, 5\]"),
    ],
)
def test_a_wrong_context_or_mask_is_named(context, mask, sentence):
    for attention in (MultiHeadAttention(8, 2, 4), ShawAttention(8, 2, 4, max_distance=2)):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            attention.attend(X, context, mask)


STATES = torch.zeros(2, 2, 5, 8)


@pytest.mark.parametrize(
    ("memory", "states", "mem_len", "sentence"),
    [
        (None, STATES, -1, "mem_len must be 0 or more, got -1"),
        (None, STATES, 1.5, "mem_len must be a whole number, got 1.5"),
        (None, STATES[0], 3, r"states must have the axes \[layer batch seg model\], got shape \[2, 5, 8\]"),
        (STATES[:1], STATES, 3, "memory must have the layers, rows, width and device of states"),
        (STATES.to("meta"), STATES, 3, "memory must have the layers, rows, width and device of states"),
        ([STATES], STATES, 3, r"memory must be a tensor \[layer batch mem model\], got list"),
    ],
)
def test_memory_is_not_extended_by_what_does_not_fit(memory, states, mem_len, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        extend(memory, states, mem_len=mem_len)


def test_a_reach_of_no_layers_or_half_an_offset_is_refused():
    with pytest.raises(ValueError, match="n_layer must be 1 or more, got 0"):
        reach(3, n_layer=0, seg_len=4, mem_len=4)
    with pytest.raises(ValueError, match=r"offset must lie in 0 … seg_len - 1 = 3, got 0\.5"):
        reach(0.5, n_layer=1, seg_len=4, mem_len=4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch": 0, "mem_len": 3}, "batch must be 1 or more, got 0"),
        ({"batch": 1, "mem_len": -1}, "mem_len must be 0 or more, got -1"),
        ({"batch": 1, "mem_len": 10**15}, "mem_len must be at most 2147483647, got 1000000000000000"),
        ({"batch": 1, "mem_len": 3, "window": 0}, "window must be 1 or more, got 0"),
        ({"batch": 1, "mem_len": 3, "clamp_len": -2}, "clamp_len must be 0 or more, got -2"),
    ],
)
def test_a_cache_of_wrong_sizes_is_not_begun(options, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        kv_cache.start(small_model(), **options)


def test_a_cache_takes_a_mask_of_the_segment_alone():
    model = small_model()
    cache = kv_cache.start(model, batch=2, mem_len=3)
    with pytest.raises(ValueError, match="key_mask must hold one flag for each of the 5 keys, got 4"):
        kv_cache.step(model, TOKENS, cache, key_mask=MASK[:, 1:])
    with pytest.raises(ValueError, match=r"tokens must have the axes \[batch seg\], got shape \[5\]"):
        kv_cache.step(model, TOKENS[0], cache)
