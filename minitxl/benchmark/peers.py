"""The worker of the benchmark: runs one system on demand.

    PYTHON minitxl/benchmark/peers.py        JSON, one object a line, in and out

The first line in is a ``Job``, answered once the model is built. Then ``{"do": "fill"}``
runs as many iterations as fill the model's memory, ``{"do": "step"}`` runs some and answers the
seconds that one took, and ``{"do": "memory"}`` answers the most bytes of RAM that the process has held
beyond those it held before its model was built. The systems' libraries exclude each other,
so this file needs none but torch until it builds a system, and runs under each one's own
Python.

All have random weights, the same shapes, dropout at the same places as far as their
library has it, and read the same random tokens.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from itertools import count, islice
from math import ceil
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

SEGMENTS = 1024
"""Segments of the random text; then it begins anew."""
TURN, LONG = {"cpu": 0.5, "cuda": 0.2}, 2.0
"""Seconds that a turn is timed for, at least, by device, and of an iteration that is a turn by itself."""
LEARNING_RATE, CLIP = 2.5e-4, 1.0
OURS = "minitxl.benchmark.systems"
Precision = Literal["float32", "bfloat16"]
TRANSFO_XL = "transformers.models.deprecated.transfo_xl.modeling_transfo_xl"


@dataclass(frozen=True)
class Size:
    """The shapes of a work item."""

    n_layer: int
    d_model: int
    n_head: int
    d_head: int
    d_inner: int
    batch: int
    seg_len: int
    """Tokens of a segment."""
    mem_len: int
    """Tokens of memory."""
    dropout: float
    vocab_size: int = 205
    cutoffs: Sequence[int] = ()
    """Of the adaptive softmax; none is the ordinary softmax."""
    div_val: int = 1
    """By which each cluster is narrower than the one before."""


@dataclass(frozen=True)
class Job:
    """The job of a worker: a system, its work, and its size."""

    system: str
    work: str
    """training, cached evaluation, or generation."""
    size: Size
    threads: int
    device: str
    precision: Precision
    """float32, or bfloat16 for the matrix products."""
    seed: int

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bfloat16")


class System(NamedTuple):
    """A model as its users run it."""

    model: nn.Module
    memory: Any
    """The empty one."""
    read: Callable[[Tensor, Tensor | None, Any], tuple[Tensor, Any]]
    """From tokens, targets and memory to the mean loss in nats, or without targets to the
    scores of each next token, and to the new memory."""


AtWork = tuple[nn.Module, Iterator[Tensor]]
"""A model, and its iterations: each ``next`` is one, and gives what must be finite."""


def build_transformers(job: Job) -> AtWork:
    """Build Transformers' model; an empty memory is passed too, since None becomes zeros that queries see."""
    from transformers import TransfoXLConfig, TransfoXLLMHeadModel

    size, others = job.size, ("batch", "seg_len")
    same = {name: value for name, value in vars(size).items() if name not in others}
    plain = {"d_embed": size.d_model, "dropatt": 0.0, "clamp_len": -1, "untie_r": False}
    model = TransfoXLLMHeadModel(TransfoXLConfig(**same, **plain)).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, memory: Any) -> tuple[Tensor, Any]:
        """Labels are shifted inside, so that a segment's last target is not scored."""
        output = model(tokens, mems=memory, labels=None if targets is None else tokens, return_dict=True)
        return output.prediction_scores if targets is None else output.loss, output.mems

    empty = [torch.zeros(0, size.batch, size.d_model, device=job.device)] * size.n_layer
    return at_work(System(model, empty, read), job)


def build_labml(job: Job) -> AtWork:
    """Build labml's layers, whose time axis comes first, with an embedding and a tied output."""
    from labml_nn.transformers.feed_forward import FeedForward
    from labml_nn.transformers.xl import TransformerXL, TransformerXLLayer
    from labml_nn.transformers.xl.relative_mha import RelativeMultiHeadAttention

    size = job.size
    attention = RelativeMultiHeadAttention(size.n_head, size.d_model, 0.0)
    inner = FeedForward(size.d_model, size.d_inner, size.dropout)
    layer = TransformerXLLayer(
        d_model=size.d_model, self_attn=attention, feed_forward=inner, dropout_prob=size.dropout
    )
    embedding = nn.Embedding(size.vocab_size, size.d_model)
    nn.init.normal_(embedding.weight, std=0.02)
    body = TransformerXL(layer, size.n_layer)
    model = nn.ModuleList([embedding, body]).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, memory: Any) -> tuple[Tensor, Any]:
        seg, mem = tokens.shape[1], len(memory[0]) if memory else 0
        seen = torch.ones(seg, mem + seg, dtype=torch.bool, device=job.device).tril(mem)
        hidden, states = body(embedding(tokens.t()), memory, seen.unsqueeze(-1))
        joined = [torch.cat(pair) for pair in zip(memory, states, strict=True)] if memory else states
        scores = functional.linear(hidden, embedding.weight).transpose(0, 1)
        return loss_or_scores(scores, targets), [one[-size.mem_len :] for one in joined]

    return at_work(System(model, [], read), job)


def build_x_transformers(job: Job) -> AtWork:
    model = rotary_decoder(job.size).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, memory: Any) -> tuple[Tensor, Any]:
        scores, memory = model(tokens, mems=memory, return_mems=True)
        return loss_or_scores(scores, targets), memory

    return at_work(System(model, None, read), job)


def build_key_value(job: Job) -> AtWork:
    """Build a model that caches keys and values instead of states, without recurrence."""
    model = rotary_decoder(job.size).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, memory: Any) -> tuple[Tensor, Any]:
        scores, memory = model(tokens, cache=memory, input_not_include_cache=True, return_intermediates=True)
        for layer in memory.attn_intermediates:
            layer.cached_kv = tuple(one[..., -job.size.mem_len :, :] for one in layer.cached_kv)
        memory.cache_length = memory.attn_intermediates[0].cached_kv[0].shape[-2]
        return loss_or_scores(scores, targets), memory

    return at_work(System(model, None, read), job)


def rotary_decoder(size: Size) -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    shapes = {"dim": size.d_model, "depth": size.n_layer, "heads": size.n_head, "attn_dim_head": size.d_head}
    dropouts = ("attn_sublayer_dropout", "ff_dropout", "ff_sublayer_dropout")
    layers = Decoder(
        **shapes,
        **dict.fromkeys(dropouts, size.dropout),
        ff_mult=size.d_inner // size.d_model,
        attn_flash=True,
        rotary_pos_emb=True,
    )
    model: nn.Module = TransformerWrapper(
        num_tokens=size.vocab_size,
        max_seq_len=size.mem_len + size.seg_len,
        max_mem_len=size.mem_len,
        emb_dropout=size.dropout,
        tie_embedding=True,
        attn_layers=layers,
    )
    return model


def loss_or_scores(scores: Tensor, targets: Tensor | None) -> Tensor:
    return scores if targets is None else functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def at_work(system: System, job: Job) -> AtWork:
    work = {"training": training, "cached evaluation": evaluation, "generation": generation}[job.work]
    return system.model, work(system, job)


def training(system: System, job: Job) -> Iterator[Tensor]:
    """Yield the loss of each optimizer step, on the next segment with the memory of those before."""
    parameters = list(system.model.train().parameters())
    optimizer, memory = AdamW(parameters, lr=LEARNING_RATE, fused=True), system.memory
    for tokens, targets in segments(job):
        with job.autocast():
            loss, memory = system.read(tokens, targets, memory)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        yield loss.detach()


def evaluation(system: System, job: Job) -> Iterator[Tensor]:
    system.model.eval()
    memory = system.memory
    for tokens, targets in segments(job):
        with torch.inference_mode(), job.autocast():
            loss, memory = system.read(tokens, targets, memory)
        yield loss


def generation(system: System, job: Job) -> Iterator[Tensor]:
    """Yield tokens, each the likeliest after those before it; the first fill the memory."""
    system.model.eval()
    tokens, memory = text(job)[:, : job.size.mem_len].to(job.device, torch.int64), system.memory
    while True:
        with torch.inference_mode(), job.autocast():
            scores, memory = system.read(tokens, None, memory)
            tokens = scores[:, -1:].argmax(-1)
        yield scores


def text(job: Job) -> Tensor:
    """Return random ids, [batch time]: characters, all equally often, or words, as often as Zipf's law says.

    A word's frequency is in proportion to 1 / rank. How much an adaptive softmax computes depends on that.
    """
    shape, random = (job.size.batch, SEGMENTS * job.size.seg_len + 1), torch.Generator().manual_seed(job.seed)
    if job.size.vocab_size <= 256:
        return torch.randint(job.size.vocab_size, shape, dtype=torch.uint8, generator=random)
    below = (1 / torch.arange(1, job.size.vocab_size + 1, dtype=torch.float64)).cumsum(0)
    drawn = torch.rand(shape, dtype=torch.float64, generator=random) * below[-1]
    return torch.searchsorted(below, drawn, right=True, out_int32=True)


def segments(job: Job) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield tokens and targets of segment after segment."""
    ids, seg = text(job), job.size.seg_len
    for index in count():
        first = index % SEGMENTS * seg
        here = ids[:, first : first + seg + 1].to(job.device, torch.int64)
        yield here[:, :-1], here[:, 1:]


SYSTEMS = {
    "transformers": (build_transformers, "transformers", TRANSFO_XL),
    "labml-nn": (build_labml, "labml-nn", "labml_nn.transformers.xl"),
    "x-transformers": (build_x_transformers, "x-transformers", "x_transformers"),
    "x-transformers-cache": (build_key_value, "x-transformers", "x_transformers"),
}
"""Each system's function that builds it, and its library's distribution and module."""


def timed(iterations: Iterator[Tensor], device: str) -> dict[str, Any]:
    """Return seconds of one iteration, the mean of a turn's, and whether the last gave finite numbers.

    The first of a turn finds the caches full of another system's work, and is not counted
    where it is short enough to feel that. A GPU's memory is given back at the end, for the next system.
    """
    seconds: list[float] = []
    while len(seconds) < 2 or sum(seconds[1:]) < TURN[device]:
        began = perf_counter()
        output = next(iterations)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(perf_counter() - began)
        if seconds[0] > LONG:
            break
    finite = bool(output.isfinite().all())
    if device == "cuda":
        torch.cuda.empty_cache()
    return {"seconds": mean(seconds[1:] or seconds), "finite": finite}


def warm_up(device: str) -> None:
    """Have torch load what it loads at the first step, 80 MB, before RAM is measured."""
    layer = nn.Linear(1, 1, device=device)
    layer(torch.ones(1, 1, device=device)).sum().backward()
    AdamW(layer.parameters(), fused=True).step()


def memory_held(device: str, most: bool) -> int:
    """Return bytes of RAM held now, or at most so far; on a Mac the most either way."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() if most else torch.cuda.memory_allocated()
    status = Path("/proc/self/status")
    if status.exists():
        (kilobytes,) = re.findall(rf"{'VmHWM' if most else 'VmRSS'}:\s*(\d+) kB", status.read_text())
        return int(kilobytes) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Answer the lines of standard input; whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        for answer in serve(json.loads(line) for line in sys.stdin):
            print(json.dumps(answer), file=answers, flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)


def serve(questions: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an answer to each question."""
    described = next(questions)
    job = Job(**{**described, "size": Size(**described["size"])})
    torch.set_num_threads(job.threads)
    torch.manual_seed(job.seed)
    systems = SYSTEMS if job.system in SYSTEMS else import_module(OURS).SYSTEMS
    build, distribution, module = systems[job.system]
    import_module(module)
    warm_up(job.device)
    before = memory_held(job.device, most=False)
    model, iterations = build(job)
    yield {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "versions": {name: version(name) for name in ("torch", distribution)},
    }
    for question in questions:
        if question["do"] == "fill":
            needed = 1 if job.work == "generation" else ceil(job.size.mem_len / job.size.seg_len)
            yield {"filled": len(list(islice(iterations, needed)))}
            if job.device == "cuda":  # what was held to choose a kernel is not held by a step
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
        elif question["do"] == "step":
            yield timed(iterations, job.device)
        else:
            yield {"bytes": memory_held(job.device, most=True) - before}


if __name__ == "__main__":
    main()
