"""Calls of the package from Python with arguments of the wrong kind, rank, size or value."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import torch
from models import ENCODINGS, VOCAB, small_model, some_tokens
from soak import generators
from soak.attempt import Attempt, outcome
from soak.world import World

import minitxl
from minitxl import fast
from minitxl.analysis import context_length, dependency_reach
from minitxl.attention import MultiHeadAttention, ShawAttention, XLAttention, attention_mask
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches, spread_lanes
from minitxl.data.corpora import from_bytes
from minitxl.fast import kv_cache
from minitxl.inference import generation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached, sliding
from minitxl.later_attention import ALiBiAttention, RotaryAttention, T5Attention, buckets, rotate
from minitxl.memory import extend, longest_reach, reach
from minitxl.model import TransformerLM
from minitxl.position_encodings import distances, sinusoids
from minitxl.pretrained import released
from minitxl.relative_shift import rel_shift
from minitxl.training import checkpoints, loop, run_folder
from minitxl.training.config import RunConfig, TrainConfig

NAME = "Python API"
PACKAGE = str(Path(minitxl.__file__).parent)
NAN = float("nan")
TOKENS, STREAM = some_tokens(2, 5), some_tokens(1, 60)[0]
WHOLE = (1.5, "2", NAN, 2**70, -1, [2], torch.tensor(2.5), 2.0)
"""What is no whole number from 0 up to the largest length; see ``COUNT`` for 0 and None."""
COUNT = (0, None, *WHOLE)
NO_TOKENS = (
    *(TOKENS.tolist(), TOKENS[0], TOKENS[None], TOKENS.double(), TOKENS.byte(), TOKENS > 3, TOKENS[:0]),
    *(TOKENS[:, :0], TOKENS + VOCAB, TOKENS - VOCAB, TOKENS.to(torch.complex64), None, "to be", 3),
)
NO_STREAM = (
    *(STREAM.tolist(), STREAM[:1], STREAM[:0], STREAM[None], STREAM.double(), STREAM > 3, STREAM + VOCAB),
    *(STREAM - VOCAB, STREAM.to(torch.complex64), None, "to be", 3, torch.tensor(3)),
)
STATES = torch.zeros(2, 2, 3, 8, dtype=torch.float64)
NO_STATES = (
    *([1], "x", 3, STATES[0], STATES[None], STATES.long(), STATES[..., :-1], STATES[:, :1], STATES > 0),
    STATES.to(torch.complex64),
)
NO_MASK = (
    torch.ones(2, 5),
    torch.ones(5, dtype=torch.bool),
    torch.ones(2, 4, dtype=torch.bool),
    "x",
    [True],
    1,
)
NO_PROMPTS = (
    [],
    [[]],
    [STREAM[:0]],
    [STREAM[:3].double()],
    [STREAM[:3] + VOCAB],
    ["to be"],
    [TOKENS],
    [None],
)
SHAPE = (0, None, True, 2**40, *WHOLE)
RATE = (1, 2, -0.1, NAN, "x", None)
ATTENTION = {"d_model": 8, "n_head": 2, "d_head": 4, "attention_dropout": 0.1}
NO_ATTENTION = {"d_model": SHAPE, "n_head": SHAPE, "d_head": SHAPE, "attention_dropout": RATE}
NO_SIZES = {
    "max_distance": (None, *WHOLE),
    "dropout": RATE,
    "u": (torch.zeros(4, 2), [1], "x", 3),
    "table": (torch.zeros(2, 5), [1], "x", 3),
    "n_bucket": (1, None, 2**40, *WHOLE),
    "bucket_distance": (1, 0, None, *WHOLE),
}
ATTENTIONS: Mapping[type, Mapping[str, Any]] = {
    MultiHeadAttention: {},
    ShawAttention: {"max_distance": 2},
    XLAttention: {"dropout": 0.1, "u": None},
    RotaryAttention: {},
    ALiBiAttention: {},
    T5Attention: {"n_bucket": 6, "bucket_distance": 10, "table": None},
}
"""Attentions, with the arguments that each alone has."""


def other_than(right: object) -> tuple:
    """Return objects that are not of the class of ``right``."""
    others = (None, 3, "x", [1], {"n_layer": 2}, ModelConfig(), TrainConfig(), EvaluateConfig(), STREAM)
    return tuple(other for other in others if type(other) is not type(right))


Call = tuple[Callable[..., Any], Mapping[str, Any], Mapping[str, tuple]]
"""A function, arguments with which it works, and for each those with which it does not."""


def calls(model: minitxl.TransformerLM, released_folder: Path, checkpoint: Path) -> dict[str, Call]:
    """Return the calls by name."""
    option = {"window": (0, *WHOLE), "clamp_len": WHOLE, "key_mask": NO_MASK}
    read = {"tokens": TOKENS, "memory": STATES[:, :, :0], "window": None, "clamp_len": None}
    no_read = {"tokens": NO_TOKENS, "memory": NO_STATES, **option}
    x = torch.zeros(2, 5, 8, dtype=torch.float64)
    no_x = (x[0], x[..., :-1], x.long(), x.float(), [1], "x", x[None])
    sampling = {
        "temperature": (-1, NAN, "x", None, 1e-40),
        "top_k": (0, *WHOLE),
        "top_p": (0, -1, 2, NAN, "x"),
    }
    sampling |= {
        "repetition": (0, -1, NAN, "x", None),
        "repetition_window": (0, *WHOLE),
        "seed": (None, *WHOLE),
    }
    prompts = {"prompts": [STREAM[:3]], "length": 3, "mem_len": 4}
    no_prompts = {"prompts": NO_PROMPTS, "length": COUNT, "mem_len": (None, *WHOLE), **sampling}
    cache = kv_cache.start(model, batch=2, mem_len=4)
    no_cache = (
        kv_cache.start(model, batch=3, mem_len=4),
        kv_cache.start(small_model(1), batch=2, mem_len=4),
    )
    reaching = {"n_layer": 2, "seg_len": 4, "mem_len": 4}
    no_reaching = {"n_layer": COUNT, "seg_len": COUNT, "mem_len": (None, *WHOLE), "window": (0, *WHOLE)}
    depending = {"model": model, "tokens": STREAM[:6], "seg_len": 3, "mem_len": 2}
    no_depending = {
        **{"model": other_than(model), "tokens": NO_STREAM[6:] + NO_STREAM[2:4]},
        **{"seg_len": COUNT, "mem_len": (None, *WHOLE), "window": (0, *WHOLE)},
    }
    lanes = {"stream": STREAM, "batch": 2, "seg_len": 4}
    run = loop.start(model.config, TrainConfig(seg_len=4, mem_len=4, batch=2, steps=3, warmup=1))
    right = ContiguousBatches(STREAM, batch=2, seg_len=4)
    no_lanes = (
        ContiguousBatches(STREAM, batch=3, seg_len=4),
        ContiguousBatches(STREAM, batch=2, seg_len=5),
    )
    return {
        "model": (model, read, no_read),
        "model.last_hidden": (model.last_hidden, {**read, "last": 2}, {**no_read, "last": (0, 6, *WHOLE)}),
        "model.token_losses": (
            model.token_losses,
            {**read, "targets": TOKENS, "ignore_index": None},
            {**no_read, "targets": (*NO_TOKENS, TOKENS[:, 1:], TOKENS[:1]), "ignore_index": (1.5, "x", NAN)},
        ),
        "model.attention_weights": (model.attention_weights, read, no_read),
        "extend": (
            extend,
            {"memory": STATES, "states": STATES, "mem_len": 4},
            {"memory": NO_STATES, "states": (None, *NO_STATES), "mem_len": (None, *WHOLE)},
        ),
        "kv_cache.start": (
            kv_cache.start,
            {"model": model, "batch": 2, "mem_len": 4},
            {
                "model": other_than(model),
                "batch": COUNT,
                "mem_len": (None, *WHOLE),
                **{k: option[k] for k in ("window", "clamp_len")},
            },
        ),
        "kv_cache.step": (
            kv_cache.step,
            {"model": model, "tokens": TOKENS, "cache": cache},
            {
                "tokens": NO_TOKENS,
                "model": other_than(model),
                "cache": (*no_cache, *other_than(cache)),
                "key_mask": NO_MASK,
            },
        ),
        "kv_cache.token_losses": (
            kv_cache.token_losses,
            {"model": model, "tokens": TOKENS, "targets": TOKENS, "cache": cache},
            {"tokens": NO_TOKENS, "targets": (*NO_TOKENS, TOKENS[:, 1:]), "cache": no_cache},
        ),
        "generation.sample": (
            generation.sample,
            {"model": model, **prompts},
            {"model": other_than(model), **no_prompts},
        ),
        "cached": (
            cached,
            {"model": model, "stream": STREAM, "settings": EvaluateConfig(4, 4)},
            {
                "model": other_than(model),
                "stream": NO_STREAM,
                "settings": other_than(EvaluateConfig()),
            },
        ),
        "sliding": (
            sliding,
            {"model": model, "stream": STREAM, "attention_len": 6, "stride": 2},
            {
                "stream": NO_STREAM,
                "attention_len": COUNT,
                "stride": COUNT,
                "clamp_len": WHOLE,
            },
        ),
        "ContiguousBatches": (
            ContiguousBatches,
            lanes,
            {"stream": NO_STREAM[:6], "batch": COUNT, "seg_len": COUNT},
        ),
        "spread_lanes": (
            spread_lanes,
            {"stream": STREAM, "batch": 2, "tokens": 6},
            {"stream": NO_STREAM[:6], "batch": COUNT, "tokens": COUNT},
        ),
        "train_steps": (
            lambda segments, valid: next(loop.train_steps(run, segments, valid)),
            {"segments": right, "valid": STREAM},
            {"segments": (*no_lanes, *other_than(right)), "valid": NO_STREAM},
        ),
        "loop.start": (
            loop.start,
            {"config": model.config, "settings": run.settings, "accumulate": 1},
            {
                "config": other_than(model.config),
                "settings": other_than(run.settings),
                "accumulate": (0, 3, *WHOLE),
            },
        ),
        "reach": (reach, {"offset": 3, **reaching}, {"offset": (4, None, *WHOLE), **no_reaching}),
        "longest_reach": (longest_reach, reaching, no_reaching),
        "attention_mask": (
            attention_mask,
            {"n_query": 3, "n_key": 5},
            {
                "n_query": (6, None, *WHOLE),
                "n_key": (2, None, *WHOLE),
                "window": (0, *WHOLE),
                "key_mask": NO_MASK,
            },
        ),
        "attention": (
            model.blocks[0].attention,
            {"x": x},
            {"x": no_x, "memory": no_x[:4], **option},
        ),
        **{
            kind.__name__: (kind, {**ATTENTION, **own}, {**NO_ATTENTION, **{n: NO_SIZES[n] for n in own}})
            for kind, own in ATTENTIONS.items()
        },
        "sinusoids": (
            sinusoids,
            {"positions": torch.arange(3), "d_model": 4},
            {"positions": (*NO_STREAM[3:6], [1], None, 3), "d_model": (3, *COUNT)},
        ),
        "distances": (distances, {"n_key": 5}, {"n_key": (None, *WHOLE), "clamp_len": WHOLE}),
        "rel_shift": (
            rel_shift,
            {"scores": torch.zeros(2, 3)},
            {"scores": (torch.zeros(3), torch.zeros(3, 2), torch.zeros(0, 2), [[1.0]], None, "x", 3)},
        ),
        "rotate": (
            rotate,
            {"x": torch.zeros(2, 2, 3, 4), "positions": torch.arange(3)},
            {
                "x": (torch.zeros(2, 3, 4), torch.zeros(2, 2, 3, 5), torch.zeros(2, 2, 3, 4).long(), [1], 3),
                "positions": (torch.arange(4), torch.zeros(3, 1), [1], None, 3),
            },
        ),
        "buckets": (
            buckets,
            {"away": torch.arange(3), "n_bucket": 6, "bucket_distance": 10},
            {
                "away": (torch.zeros(2, 3), [1], None, 3),
                "n_bucket": NO_SIZES["n_bucket"],
                "bucket_distance": NO_SIZES["bucket_distance"],
            },
        ),
        "dependency changes": (dependency_reach.changes, depending, no_depending),
        "dependency gradients": (dependency_reach.gradients, depending, no_depending),
        "context_losses": (
            context_length.context_losses,
            {"model": model, "stream": STREAM, "context_len": 3, "targets": 2},
            {"model": other_than(model), "stream": NO_STREAM, "context_len": (99, *COUNT), "targets": COUNT},
        ),
        "memory_changes": (
            context_length.memory_changes,
            {
                **{"model": model, "stream": STREAM, "settings": EvaluateConfig(4, 4)},
                **{"ages": (1, 2), "how": "hide", "batch": 1},
            },
            {
                **{"model": other_than(model), "stream": NO_STREAM, "settings": other_than(EvaluateConfig())},
                **{"ages": ((2, 1), (0, 1)), "how": ("x", None), "batch": (99, *COUNT)},
            },
        ),
        "TransformerLM": (TransformerLM, {"config": model.config}, {"config": other_than(model.config)}),
        "to_fast": (fast.to_fast, {"model": model}, {"model": other_than(model)}),
        "from_bytes": (from_bytes, {"name": "x", "text": b"to be"}, {"text": (b"",)}),
        "load_released": (
            released.load_released,
            {"path_or_repo": released_folder},
            {"path_or_repo": ("", "/missing/folder", Path("/dev/null"))},
        ),
        "load_model": (
            checkpoints.load_model,
            {"path": checkpoint},
            {"path": ("/missing", Path("/dev/zero"), Path("/missing"), Path("/dev/null"), "")},
        ),
        "ModelConfig": (
            ModelConfig,
            asdict(model.config),
            dict.fromkeys(asdict(model.config), generators.JSON),
        ),
        "TrainConfig": (
            TrainConfig,
            asdict(run.settings),
            dict.fromkeys(asdict(run.settings), generators.JSON),
        ),
        "RunConfig": (RunConfig, asdict(RunConfig()), dict.fromkeys(asdict(RunConfig()), generators.JSON)),
        "EvaluateConfig": (
            EvaluateConfig,
            {"seg_len": 4, "mem_len": 4},
            dict.fromkeys(asdict(EvaluateConfig(4, 4)), generators.JSON),
        ),
    }


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Call a function with one argument that is not as it should be."""
    model = small_model(**ENCODINGS[draw.choice(sorted(ENCODINGS))])
    if draw.random() < 0.5:
        model = fast.to_fast(model)
    checkpoint = run_folder.newest(world.run())
    assert checkpoint is not None
    table = calls(model, world.released, checkpoint)
    name = draw.choice(sorted(table))
    function, right, wrong_ones = table[name]
    argument = draw.choice(sorted(wrong_ones))
    value = draw.choice(wrong_ones[argument])
    given = f"{argument}={_short(value)}"
    right_out = outcome(lambda: function(**right))
    if right_out[0] or right_out[2]:
        return Attempt(f"{name}({', '.join(right)})", "all as it should be", str(right_out[1]), right_out[0])
    wrong, came_out, refused = outcome(lambda: function(**{**right, argument: value}))
    if wrong and isinstance(came_out, str) and _told_by_package(came_out):
        wrong, refused = "", True
    return Attempt(f"{name}({given})", f"{given} in {name}", str(came_out)[:3000], wrong, refused)


def _told_by_package(told: str) -> bool:
    """Return True for a TypeError or IndexError that the package itself raises, in a sentence."""
    files = [line for line in told.splitlines() if line.startswith("  File ")]
    words = told.strip().splitlines()[-1]
    return (
        bool(files)
        and f'"{PACKAGE}' in files[-1]
        and words.startswith(("TypeError", "IndexError"))
        and ", got " in words
    )


def _short(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)} of {value.dtype}"
    return f"{value!r:.80}"
