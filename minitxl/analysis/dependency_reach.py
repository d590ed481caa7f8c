"""Dependency reach: the distance of the oldest token that matters, in four ways that agree.

- ``memory.reach``: a formula.
- ``propagate``: follow which state attends to which.
- ``changes``: replace a token, and look for a change of the output.
- ``gradients`` with ``extend_with_gradient``: look where the gradient is not zero. With
  ``memory.extend``, which stops the gradient, it ends at the start of the segment: training never
  reaches farther.

These are limits of what a query can depend on. How much of it a trained model uses is measured in
``context_length``. A query is the last token of its stream, and the stream is cut into segments
from its first token on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from einops import pack, rearrange, repeat
from jaxtyping import Bool, Float, Int, Integer, Num
from torch import Tensor, nn

from minitxl.arguments import check_kind, check_rank, check_whole
from minitxl.fast import fast_evaluation, to_plain
from minitxl.fields import LONGEST, check, whole
from minitxl.memory import check_query, extend
from minitxl.model import Memory, States, TransformerLM

Stream = Integer[Tensor, " time"]


@dataclass(frozen=True)
class Propagation:
    """The dependency graph of a stream, and which states can influence its last token, the query.

    Depth 0 is the input tokens, depth n the output of layer n. Layer n of 0 … N-1 reads depth n
    and writes depth n + 1. These are the nodes and edges of the paper's figures 1 and 2.
    """

    seg_len: int
    """Tokens of a segment: an edge to an earlier one reads memory, and no gradient takes it."""
    sees: Bool[Tensor, "time time"]
    """True where a query (row) attends to a key (column); the same in every layer."""
    reached: Bool[Tensor, "depth time"]
    """True where a state can influence the query's output."""

    def edges(self, layer: int) -> Int[Tensor, "edge 2"]:
        """Return times (query, key) of what this layer reads on the way to the query's output."""
        return (self.sees & rearrange(self.reached[layer + 1], "time -> time 1")).nonzero()


def propagate(
    offset: int,
    *,
    n_layer: int,
    seg_len: int,
    mem_len: int,
    window: int | None = None,
    n_segment: int | None = None,
) -> Propagation:
    """Follow the query at ``offset`` of the last segment down through the layers.

    The stream holds ``n_segment`` segments, the last one up to the query; without a number, so
    many that its first token is out of reach, whatever reach may be.

    >>> propagate(0, n_layer=2, seg_len=2, mem_len=2, n_segment=3).reached.int().tolist()
    [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]
    """
    check_query(offset, seg_len=seg_len, mem_len=mem_len, window=window)
    if n_segment is None:
        n_segment = 2 + n_layer * -(-(mem_len + seg_len) // seg_len)
    if n_segment < 1:
        raise ValueError(f"n_segment must be 1 or more, got {n_segment}")
    time = torch.arange((n_segment - 1) * seg_len + offset + 1)
    query, key = rearrange(time, "query -> query 1"), rearrange(time, "key -> 1 key")
    first_kept = query - query % seg_len - mem_len
    sees = (key <= query) & (key >= first_kept) & (query - key < (window or len(time)))
    reached = [time == len(time) - 1]
    for _ in range(n_layer):
        reached.insert(0, (sees & rearrange(reached[0], "query -> query 1")).any(dim=0))
    return Propagation(seg_len, sees, torch.stack(reached))


def farthest(influence: Num[Tensor, " time"] | Bool[Tensor, " time"]) -> int:
    """Return how many tokens the first one that is not zero stands before the last.

    >>> farthest(torch.tensor([0.0, 0.3, 0.0, 1.0]))
    2
    """
    return len(influence) - 1 - int(influence.nonzero().min())


def extend_with_gradient(
    memory: Memory | None, states: States, *, mem_len: int
) -> Float[Tensor, "layer batch new_mem model"]:
    """``extend`` without its stop-gradient: the same values, still part of the graph.

    It is for measuring what the stop-gradient cuts. Training with it would keep the graph of
    the whole stream.
    """
    check("mem_len", mem_len, whole(0, LONGEST))
    context = states if memory is None else pack([memory, states], "layer batch * model")[0]
    return context[:, :, max(0, context.shape[2] - mem_len) :]


def changes(
    model: TransformerLM, tokens: Stream, *, seg_len: int, mem_len: int, window: int | None = None
) -> Float[Tensor, " time"]:
    """Return for each token the largest change, in nats, of the query's log-probabilities if it is replaced.

    Element t of a batch has token t replaced by the next id. It is compared with element t of an
    equal batch without replacements, so that a token without influence changes it by exactly 0.
    """
    unchanged = repeat(_on_device(tokens, model), "time -> batch time", batch=len(tokens))
    one_more = torch.eye(len(tokens), dtype=unchanged.dtype, device=unchanged.device)
    changed = (unchanged + one_more) % model.config.vocab_size
    with fast_evaluation(model) as fast_model:
        before, after = (
            _at_query(fast_model, batch, extend, seg_len=seg_len, mem_len=mem_len, window=window)
            for batch in (unchanged, changed)
        )
    return (after - before).abs().amax(dim=1)


def gradients(
    model: TransformerLM,
    tokens: Stream,
    *,
    seg_len: int,
    mem_len: int,
    window: int | None = None,
    update: Callable[..., Memory] = extend_with_gradient,
) -> Float[Tensor, " time"]:
    """Return for each token the norm of the gradient with respect to its embedding.

    It is that of the largest log-probability at the query. ``update`` makes the memory:
    ``extend_with_gradient`` or ``extend``.
    """
    embedded: list[Tensor] = []
    stream = _on_device(tokens, model)

    def keep(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    model = to_plain(model).eval()  # the modules of the paper: their gradients reach every embedding
    hook = model.embedding.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            batch = rearrange(stream, "time -> 1 time")
            log_probs = _at_query(model, batch, update, seg_len=seg_len, mem_len=mem_len, window=window)
        slopes = torch.autograd.grad(log_probs.max(), embedded, materialize_grads=True)
    finally:
        hook.remove()
    return pack(slopes, "batch * model")[0].norm(dim=2)[0]


def _on_device(tokens: Stream, model: TransformerLM) -> Int[Tensor, " time"]:
    check_kind("model", model, TransformerLM)
    check_whole("tokens", check_rank("tokens", tokens, "time"))
    return tokens.to(next(model.parameters()).device, torch.int64)


def _at_query(
    model: TransformerLM,
    tokens: Int[Tensor, "batch time"],
    update: Callable[..., Memory],
    *,
    seg_len: int,
    mem_len: int,
    window: int | None,
) -> Float[Tensor, "batch vocab"]:
    """Return log-probabilities after the last token of streams that are read segment after segment."""
    check("seg_len", seg_len, whole(1, LONGEST))
    memory = None
    for segment in tokens.split(seg_len, dim=1):
        hidden, states = model.last_hidden(segment, memory, window=window)
        memory = update(memory, states, mem_len=mem_len)
    return rearrange(model.output.log_probs(hidden[:, -1:]), "batch 1 vocab -> batch vocab")
