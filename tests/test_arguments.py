"""A wrong argument is told in one sentence, by the name the caller gave it, eager and fast alike."""

from pathlib import Path

import pytest
import torch
from models import CLASSES, ENCODINGS, VOCAB, small_model, some_tokens

from minitxl import fast
from minitxl.analysis.context_length import context_losses, memory_changes
from minitxl.analysis.dependency_reach import changes, gradients
from minitxl.arguments import OPTIONS
from minitxl.attention import AttentionOptions, MultiHeadAttention, ShawAttention, XLAttention, attention_mask
from minitxl.fast import kv_cache
from minitxl.inference import evaluation, generation
from minitxl.inference.config import EvaluateConfig
from minitxl.later_attention import RotaryAttention, T5Attention, buckets, rotate, slopes
from minitxl.lstm import LSTMLM, LSTMConfig
from minitxl.memory import extend, reach
from minitxl.model import TransformerLM
from minitxl.position_encodings import distances, sinusoids
from minitxl.pretrained.released import save_released
from minitxl.relative_shift import rel_shift
from minitxl.training import checkpointed_loop, checkpoints, loop, saved_run
from minitxl.training.config import TrainConfig

TOKENS = some_tokens(2, 5)
MASK = torch.ones(2, 5, dtype=torch.bool)


@pytest.fixture(autouse=True)
def without_shape_checks(as_users_run_it):
    pass


def test_every_option_of_attention_has_a_rule():
    assert OPTIONS.keys() == AttentionOptions.__annotations__.keys()


@pytest.mark.parametrize("implementation", [fast.to_plain, fast.to_fast])
@pytest.mark.parametrize("encoding", ["absolute sinusoidal", "shaw", "xl"])
@pytest.mark.parametrize(
    ("tokens", "options", "sentence"),
    [
        (TOKENS.tolist(), {}, r"tokens must be a tensor \[batch seg\], got list"),
        (TOKENS[0], {}, r"tokens must have the axes \[batch seg\], got shape \[5\]"),
        (TOKENS.double(), {}, "tokens must be int64 or int32, as tokens.long.* makes them, got float64"),
        (TOKENS.byte(), {}, "tokens must be int64 or int32, as tokens.long.* makes them, got uint8"),
        (TOKENS[:0], {}, r"tokens must have a batch and a segment of 1 or more, got shape \[0, 5\]"),
        (TOKENS[:, :0], {}, r"tokens must have a batch and a segment of 1 or more, got shape \[2, 0\]"),
        (TOKENS.to("meta"), {}, "tokens must be on the device of the weights, cpu, got meta"),
        (TOKENS + VOCAB, {}, f"tokens must lie in 0 … {VOCAB - 1}, got "),
        (TOKENS, {"window": 0}, "window must be 1 or more, got 0"),
        (TOKENS, {"window": 2.0}, "window must be a whole number, got 2.0"),
        (TOKENS, {"window": 2**70}, "window must be at most 2,147,483,647, got "),
        (TOKENS, {"clamp_len": -1}, "clamp_len must be 0 or more, got -1"),
        (TOKENS, {"n_last": 0}, "n_last must be 1 or more, got 0"),
        (TOKENS, {"n_last": -1}, "n_last must be 1 or more, got -1"),
        (TOKENS, {"n_last": 6}, "n_last must be at most 5, got 6"),
        (TOKENS, {"key_mask": MASK[:, 1:]}, "key_mask must hold one flag for each of the 5 keys, got 4"),
        (TOKENS, {"key_mask": MASK[:1]}, "key_mask must have the batch size 2, got 1"),
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
            "memory must have the batch size of tokens",
        ),
        (TOKENS, {"memory": torch.zeros(9, 2, 3, 8).double()}, "memory must come from a model of 2 layers"),
    ],
)
def test_a_model_names_the_argument_that_is_wrong(encoding, implementation, tokens, options, sentence):
    model = implementation(small_model(**ENCODINGS[encoding]))
    with pytest.raises(ValueError, match=f"^{sentence}"):
        model.last_hidden(tokens, **options)


@pytest.mark.parametrize(
    ("targets", "options", "sentence"),
    [
        (TOKENS[0], {}, r"targets must have the axes \[batch seg\], got shape \[5\]"),
        (TOKENS.double(), {}, "targets must be int64 or int32"),
        (
            TOKENS[:, 1:],
            {},
            r"targets must hold one id for each token of hidden, got \(2, 4\) for \(2, 5\)",
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


@pytest.mark.parametrize("implementation", [fast.to_plain, fast.to_fast])
@pytest.mark.parametrize("kind", [MultiHeadAttention, ShawAttention, XLAttention])
@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        ((X[0],), {}, ValueError, r"x must have the axes \[batch pos model\], got shape \[5, 8\]"),
        (([1],), {}, ValueError, r"x must be a tensor \[batch pos model\], got list"),
        ((X[..., 1:],), {}, ValueError, "x must have the width 8, got 7"),
        ((X.double(),), {}, ValueError, "x must be float32 as the weights are, got float64"),
        ((X.long(),), {}, ValueError, "x must hold floating-point numbers, got int64"),
        ((X, X[:1]), {}, ValueError, "memory must have the batch size of x, 2, got 1"),
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
        (X[:1], None, "context must have the batch size of x, 2, got 1"),
        (None, torch.ones(2, 5, 5), "mask must hold booleans, True where a query may attend, got float32"),
        (None, torch.ones(2, 5, 4).bool(), r"mask must have shape \[2, 5, 5\], or 1 .*, got \[2, 5, 4\]"),
        (None, MASK, r"mask must have the axes \[batch query key\], got shape \[2, 5\]"),
    ],
)
def test_a_wrong_context_or_mask_is_named(context, mask, sentence):
    for attention in (MultiHeadAttention(8, 2, 4), ShawAttention(8, 2, 4, max_distance=2)):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            attention.context_output(X, context, mask)


def test_a_context_that_cannot_end_with_x_is_refused_where_distances_count():
    with pytest.raises(ValueError, match=r"^context must end with the 5 tokens of x, got 3 tokens in all"):
        ShawAttention(8, 2, 4, max_distance=2).context_output(X, X[:, :3])
    assert MultiHeadAttention(8, 2, 4).context_output(X, X[:, :3]).shape == X.shape


def test_hidden_states_of_another_width_are_named():
    with pytest.raises(ValueError, match=r"^hidden must have the model's width 8, got 7"):
        LSTMLM(LSTMConfig(d_model=8, vocab_size=11)).losses(X[..., 1:], TOKENS)
    model = small_model()
    width = model.config.d_model
    with pytest.raises(ValueError, match=rf"^hidden must have the model's width {width}, got 3"):
        model.losses(torch.zeros(2, 5, 3), TOKENS)


STATES = torch.zeros(2, 2, 5, 8)


@pytest.mark.parametrize(
    ("memory", "states", "mem_len", "sentence"),
    [
        (None, STATES, -1, "mem_len must be 0 or more, got -1"),
        (None, STATES, 1.5, "mem_len must be a whole number, got 1.5"),
        (None, STATES[0], 3, r"states must have the axes \[layer batch seg model\], got shape \[2, 5, 8\]"),
        (STATES[:1], STATES, 3, "memory must have the layers, batch size, width and device of states"),
        (STATES.double(), STATES, 3, "memory must be float32 as the states are, got float64"),
        (STATES.to("meta"), STATES, 3, "memory must have the layers, batch size, width and device of states"),
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
        ({"batch": 1, "mem_len": 10**15}, "mem_len must be at most 2,147,483,647, got 1000000000000000"),
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


SIZES = {"d_model": 8, "n_head": 2, "d_head": 4}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *(({name: "8"}, f"{name} must be a whole number, got '8'") for name in SIZES),
        *(({name: 8.0}, f"{name} must be a whole number, got 8.0") for name in SIZES),
        *(({name: True}, f"{name} must be a whole number, got True") for name in SIZES),
        *(({name: 0}, f"{name} must be 1 or more, got 0") for name in SIZES),
        *(({name: 2**40}, f"{name} must be at most .*, got 1099511627776") for name in SIZES),
        ({"attention_dropout": 1}, "attention_dropout must be below 1, got 1"),
        ({"attention_dropout": -0.1}, "attention_dropout must be 0 or more, got -0.1"),
        ({"attention_dropout": float("nan")}, "attention_dropout must be finite, got nan"),
        ({"attention_dropout": None}, "attention_dropout must be a number, got None"),
    ],
)
def test_no_attention_is_built_of_a_wrong_size(kind, wrong, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        kind(**{**SIZES, **CLASSES[kind], **wrong})


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (ShawAttention, {"max_distance": -1}, "max_distance must be 0 or more, got -1"),
        (XLAttention, {"dropout": "0.1"}, "dropout must be a number, got '0.1'"),
        (XLAttention, {"u": [1.0]}, "u must be of the class Tensor, got list"),
        (XLAttention, {"v": torch.zeros(4, 2)}, r"v must have shape \[2, 4\], got \[4, 2\]"),
        (RotaryAttention, {"d_head": 3}, "d_head must be even, since rotary positions turn pairs, got 3"),
        (T5Attention, {"n_bucket": 1}, "n_bucket must be 2 or more, got 1"),
        (T5Attention, {"n_bucket": None}, "n_bucket must be a whole number, got None"),
        (
            T5Attention,
            {"bucket_distance": 2},
            "bucket_distance must be greater than n_bucket / 2 = 2, got 2",
        ),
        (T5Attention, {"table": torch.zeros(2, 8)}, r"table must have shape \[2, 4\], got \[2, 8\]"),
    ],
)
def test_what_one_attention_alone_is_built_of_is_checked(kind, wrong, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        kind(**{**SIZES, **CLASSES[kind], **wrong})


ROW = torch.arange(3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sinusoids([1, 2], 4), r"positions must be a tensor \[pos\], got list"),
        (lambda: sinusoids(ROW[None], 4), r"positions must have the axes \[pos\], got shape \[1, 3\]"),
        (lambda: sinusoids(ROW > 0, 4), "positions must hold numbers, got bool"),
        (lambda: sinusoids(ROW, 4.0), "d_model must be a whole number, got 4.0"),
        (lambda: sinusoids(ROW, 0), "d_model must be 1 or more, got 0"),
        (lambda: sinusoids(ROW, 3), "d_model must be even to hold sines and cosines, got 3"),
        (
            lambda: sinusoids(ROW, 4, dtype=torch.long),
            "dtype must be one of floating-point numbers, got int64",
        ),
        (lambda: sinusoids(ROW, 4, base=-1), "base must be 0 or more, got -1"),
        (lambda: sinusoids(ROW, 4, base=0.0), "base must be positive, got 0.0"),
        (lambda: distances("5"), "n_key must be a whole number, got '5'"),
        (lambda: distances(-1), "n_key must be 0 or more, got -1"),
        (lambda: distances(5, clamp_len=-1), "clamp_len must be 0 or more, got -1"),
        (lambda: rel_shift([[1.0]]), r"scores must be a tensor \[... query dist\], got list"),
        (lambda: rel_shift(ROW.double()), r"scores must be a tensor \[... query dist\], got shape \[3\]"),
        (
            lambda: rel_shift(torch.zeros(3, 2)),
            "scores must have 1 query or more, and no more queries than distances, "
            "got 3 queries and 2 distances",
        ),
        (lambda: attention_mask(3, 2), "n_query must be at most n_key = 2, got 3"),
        (lambda: attention_mask(None, 2), "n_query must be a whole number, got None"),
        (lambda: attention_mask(2, 3, key_mask=MASK[0]), r"key_mask must have the axes \[batch key\]"),
        (lambda: attention_mask(2, 5, key_mask=MASK.int()), "key_mask must hold booleans"),
        (lambda: slopes(0), "n_head must be 1 or more, got 0"),
        (
            lambda: extend(None, [1], mem_len=1),
            r"states must be a tensor \[layer batch seg model\], got list",
        ),
        (
            lambda: ShawAttention(8, 2, 4, max_distance=2).context_output(X, clamp_len="3"),
            "clamp_len must be a whole number, got '3'",
        ),
        (lambda: XLAttention(8, 2, 4).terms(X, clamp_len=-3), "clamp_len must be 0 or more, got -3"),
        (lambda: rotate(torch.zeros(1, 1, 3, 4), torch.arange(2)), "positions must be one for each of the 3"),
        (lambda: rotate(torch.zeros(1, 1, 3, 5), torch.arange(3)), "x must have an even d_head"),
        (lambda: buckets(torch.zeros(2, 3), 6, 10), r"dist must have the axes \[dist\]"),
        (lambda: buckets(torch.arange(3), 1, 10), "n_bucket must be 2 or more, got 1"),
    ],
)
def test_a_function_of_the_paper_names_the_argument_that_is_wrong(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        call()


MODEL, EVALUATE = small_model(), EvaluateConfig(4, 4)
CONFIG, TRAIN = MODEL.config, TrainConfig()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TransformerLM(MODEL), "config must be of the class ModelConfig, got TransformerLM"),
        (lambda: TransformerLM({"n_layer": 2}), "config must be of the class ModelConfig, got dict"),
        (lambda: fast.to_fast(CONFIG), "model must be of the class Module, got ModelConfig"),
        (
            lambda: kv_cache.start(CONFIG, batch=1, mem_len=3),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (lambda: kv_cache.step(MODEL, TOKENS, None), "cache must be of the class Cache, got NoneType"),
        (
            lambda: kv_cache.step(MODEL, TOKENS, kv_cache.start(small_model(1), batch=2, mem_len=3)),
            "cache must be one that start made for this model, got another model's",
        ),
        (
            lambda: generation.sample(CONFIG, [TOKENS[0]], length=1, mem_len=3),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: evaluation.cached(CONFIG, TOKENS[0], EVALUATE),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: evaluation.cached(MODEL, TOKENS[0], TRAIN),
            "settings must be of the class EvaluateConfig, got TrainConfig",
        ),
        (
            lambda: evaluation.sliding(EVALUATE, TOKENS[0], attention_len=3, stride=1),
            "model must be of the class TransformerLM, got EvaluateConfig",
        ),
        (lambda: loop.start(MODEL, TRAIN), "config must be of the class ModelConfig, got TransformerLM"),
        (
            lambda: loop.start(CONFIG, EVALUATE),
            "settings must be of the class TrainConfig, got EvaluateConfig",
        ),
        (lambda: next(loop.train_steps(MODEL, None)), "run must be of the class Run, got TransformerLM"),
        (
            lambda: next(loop.train_steps(loop.start(CONFIG, TRAIN), TOKENS)),
            "segments must be of the class ContiguousBatches, got Tensor",
        ),
        (
            lambda: checkpointed_loop.train(MODEL, TOKENS, valid=TOKENS[0], folder=Path("x")),
            "run must be of the class Run, got TransformerLM",
        ),
        (lambda: saved_run.save(MODEL, Path("x")), "run must be of the class Run, got TransformerLM"),
        (
            lambda: context_losses(CONFIG, TOKENS[0], context_len=1, targets=1),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: memory_changes(CONFIG, TOKENS[0], EVALUATE, ages=(1, 1), how="hide"),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: changes(CONFIG, TOKENS[0], seg_len=2, mem_len=1),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: gradients(CONFIG, TOKENS[0], seg_len=2, mem_len=1),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: checkpoints.save_model("x", CONFIG),
            "model must be of the class TransformerLM, got ModelConfig",
        ),
        (
            lambda: save_released(MODEL, "x", CONFIG),
            "evaluate must be of the class EvaluateConfig, got ModelConfig",
        ),
    ],
)
def test_an_object_of_another_class_is_refused_by_name(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        call()
