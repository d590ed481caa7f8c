"""Tensors and options that a caller passes: kind, rank and size are checked here, in one sentence each.

The modules of the paper call these functions where a value enters, so that a wrong one is told by the
argument's name, and not by a product of matrices far below. No check reads a value on a GPU,
which would wait for all work there, and none breaks ``torch.compile`` or ``torch.export``.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from minitxl import fields
from minitxl.fields import LONGEST, Rule, check, check_buckets, optional, positive, rate, whole

Kind = TypeVar("Kind")

OPTIONS = {
    "window": optional(whole(1, LONGEST)),
    "clamp_len": fields.SIZES["clamp_len"],
    "key_mask": lambda value: None,  # needs the number of keys: check_key_mask
}
"""Rules of ``AttentionOptions``."""


ATTENTION_ARGUMENTS: Mapping[str, Rule] = {
    **fields.SIZES,
    "dropout": rate,
    "attention_dropout": rate,
}
"""Rules of the arguments that an attention is built of."""
SHARED = {"u": ("n_head", "d_head"), "v": ("n_head", "d_head"), "table": ("n_head", "n_bucket")}
"""Sizes of the parameters that may be handed to an attention, or None."""


def check_kind(name: str, value: object, kind: type[Kind]) -> Kind:
    """Return the value. Raise a ValueError unless it is of the class, or of a subclass."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be of the class {kind.__name__}, got {type(value).__name__}")
    return value


def check_sizes(d_model: object, n_head: object, d_head: object, **more: Any) -> None:
    """Raise a ValueError unless an attention can be built of these (``ATTENTION_ARGUMENTS``, ``SHARED``)."""
    sizes = {"d_model": d_model, "n_head": n_head, "d_head": d_head, **more}
    for name, value in sizes.items():
        if name in ATTENTION_ARGUMENTS:
            check(name, value, ATTENTION_ARGUMENTS[name])
    if "n_bucket" in more:
        check_buckets(more["n_bucket"], more["bucket_distance"])
    for name in SHARED.keys() & more.keys():
        if more[name] is not None:
            shape = [sizes[axis] for axis in SHARED[name]]
            if list(check_kind(name, more[name], Tensor).shape) != shape:
                raise ValueError(f"{name} must have shape {shape}, got {list(more[name].shape)}")


def check_count(name: str, value: object, low: int = 0) -> None:
    """Raise a ValueError unless the value is a length, or a SymInt: a length not known yet, during export."""
    if not isinstance(value, torch.SymInt):
        check_length(name, value, low)


def check_distances(n_key: object, clamp_len: object) -> None:
    """Raise a ValueError unless both are valid: a number of keys, and a distance or None."""
    check_count("n_key", n_key)
    check("clamp_len", clamp_len, OPTIONS["clamp_len"])


def check_sinusoids(positions: object, d_model: object, dtype: torch.dtype | None, base: object) -> None:
    """Raise a ValueError unless ``sinusoids`` can be made: of numbers on one axis, for an even d_model."""
    positions = check_rank("positions", positions, "pos")
    if positions.is_complex() or positions.dtype == torch.bool:
        raise ValueError(f"positions must hold numbers, got {_dtype(positions)}")
    check_count("d_model", d_model, 1)
    if d_model % 2:  # type: ignore[operator]
        raise ValueError(f"d_model must be even to hold sines and cosines, got {d_model}")
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype must be one of floating-point numbers, got {_name(dtype)}")
    check("base", base, positive)


def check_vectors(x: object, positions: object) -> None:
    """Raise a ValueError unless each of the vectors has a position, and pairs of coordinates."""
    x, positions = check_floating("x", x, "batch head pos d_head"), check_rank("positions", positions, "pos")
    if len(positions) != x.shape[2]:
        raise ValueError(
            f"positions must be one for each of the {x.shape[2]} vectors of x, got {len(positions)}"
        )
    if x.shape[3] % 2:
        raise ValueError(f"x must have an even d_head, of pairs that turn, got {x.shape[3]}")


def check_by_distance(scores: object) -> None:
    """Raise a ValueError unless the last axes of the scores are queries and their distances."""
    if not isinstance(scores, Tensor) or scores.ndim < 2:
        got = f"shape {list(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"scores must be a tensor [... query dist], got {got}")
    n_query, n_key = scores.shape[-2:]
    if not 1 <= n_query <= n_key:
        raise ValueError(
            f"scores must have 1 query or more, and no more queries than distances, "
            f"got {n_query} queries and {n_key} distances"
        )


def check_mask(n_query: object, n_key: object, window: object, key_mask: object) -> None:
    """Raise a ValueError unless ``attention_mask`` can be made of these arguments."""
    check_count("n_key", n_key)
    check_count("n_query", n_query)
    if n_query > n_key:  # type: ignore[operator]
        raise ValueError(f"n_query must be at most n_key = {n_key}, got {n_query}")
    check("window", window, OPTIONS["window"])
    if key_mask is not None:
        key_mask = check_rank("key_mask", key_mask, "batch key")
        check_key_mask(key_mask, batch=len(key_mask), n_key=n_key)  # type: ignore[arg-type]


def check_length(name: str, value: object, low: int = 0) -> None:
    """Raise a ValueError unless the value is a length of ``low`` or more."""
    check(name, value, whole(low, LONGEST))


def check_rank(name: str, tensor: object, axes: str) -> Tensor:
    """Return the tensor. Raise a ValueError unless it has the axes, such as "batch seg"."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor [{axes}], got {type(tensor).__name__}")
    if tensor.ndim != len(axes.split()):
        raise ValueError(f"{name} must have the axes [{axes}], got shape {list(tensor.shape)}")
    return tensor


def check_floating(name: str, tensor: object, axes: str) -> Tensor:
    """Return the tensor. Raise a ValueError unless it has the axes and holds floating-point numbers."""
    tensor = check_rank(name, tensor, axes)
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must hold floating-point numbers, got {_dtype(tensor)}")
    return tensor


def check_whole(name: str, tensor: Tensor) -> None:
    """Raise a ValueError unless the tensor holds whole numbers, of any integer format."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must hold whole numbers, got {_dtype(tensor)}")


def check_format(name: str, tensor: Tensor, weight: Tensor) -> None:
    """Raise a ValueError unless the tensor is on the weight's device and of its number format.

    Under autocast PyTorch chooses the format itself.
    """
    if tensor.device != weight.device:
        raise ValueError(f"{name} must be on the device of the weights, {weight.device}, got {tensor.device}")
    if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(tensor.device.type):
        raise ValueError(f"{name} must be {_dtype(weight)} as the weights are, got {_dtype(tensor)}")


def check_tokens(name: str, ids: object, *, vocab_size: int, weight: Tensor) -> None:
    """Raise a ValueError unless the ids are [batch seg], int32 or int64, and of the vocabulary."""
    ids = check_rank(name, ids, "batch seg")
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} must be int64 or int32, as {name}.long() makes them, got {_dtype(ids)}")
    if 0 in ids.shape:
        raise ValueError(f"{name} must have a batch and a segment of 1 or more, got shape {list(ids.shape)}")
    if ids.device != weight.device:
        raise ValueError(f"{name} must be on the device of the weights, {weight.device}, got {ids.device}")
    check_range(ids, name, vocab_size)


def check_range(ids: Tensor, name: str, vocab_size: int) -> None:
    """Raise a ValueError for an id outside the vocabulary, where looking costs nothing.

    On a GPU, reading one value would wait for all work; a compiled graph can't read one.
    """
    if ids.numel() and ids.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = ids.aminmax()
        if low < 0 or high >= vocab_size:
            worst = (low if low < 0 else high).item()
            raise ValueError(f"{name} must lie in 0 … {vocab_size - 1}, got {worst}")


def check_memory(
    memory: object, options: Mapping[str, Any], sizes: tuple[int, int, int], *, seg: int, weight: Tensor
) -> None:
    """Raise an error unless the memory can precede the segment, and the options are right for both.

    ``sizes`` are n_layer, batch and d_model.
    """
    n_layer, batch, d_model = sizes
    memory = check_floating("memory", memory, "layer batch mem model")
    layer, memory_batch, _, width = memory.shape
    if (layer, width) != (n_layer, d_model):
        raise ValueError(
            f"memory must come from a model of {n_layer} layers of width {d_model}, "
            f"got {layer} of width {width}"
        )
    if memory_batch != batch:
        raise ValueError(f"memory must have the batch size of tokens, {batch}, got {memory_batch}")
    check_format("memory", memory, weight)
    check_options(options, batch=batch, n_key=memory.shape[2] + seg)


def check_extension(memory: object, states: object) -> None:
    """Raise a ValueError unless the states of a segment can follow the memory, if there is one."""
    states = check_floating("states", states, "layer batch seg model")
    if memory is not None:
        memory = check_floating("memory", memory, "layer batch mem model")
        theirs, mine = list(states.shape), list(memory.shape)
        if theirs[:2] + theirs[3:] != mine[:2] + mine[3:] or memory.device != states.device:
            raise ValueError(
                f"memory must have the layers, batch size, width and device of states, {theirs} on "
                f"{states.device}, got {mine} on {memory.device}"
            )
        if memory.dtype != states.dtype:
            raise ValueError(f"memory must be {_dtype(states)} as the states are, got {_dtype(memory)}")


def check_hidden(hidden: object, targets: Tensor, *, d_model: int) -> None:
    """Raise a ValueError unless hidden is [batch seg model], with a vector for each target."""
    hidden = check_floating("hidden", hidden, "batch seg model")
    if hidden.shape[2] != d_model:
        raise ValueError(f"hidden must have the model's width {d_model}, got {hidden.shape[2]}")
    if targets.shape != hidden.shape[:2]:
        got = f"{tuple(targets.shape)} for {tuple(hidden.shape[:2])}"
        raise ValueError(f"targets must hold one id for each token of hidden, got {got}")


def check_states(weight: Tensor, **states: object) -> int:
    """Return how many tokens all states have together; each is [batch pos model] or None.

    Raises a ValueError, by the argument's name, unless a product with ``weight`` takes them.
    """
    total, first = 0, None
    for name, value in states.items():
        if value is not None:
            tensor = check_floating(name, value, "batch pos model")
            if tensor.shape[2] != weight.shape[1]:
                raise ValueError(f"{name} must have the width {weight.shape[1]}, got {tensor.shape[2]}")
            check_format(name, tensor, weight)
            first = tensor if first is None else first
            if len(tensor) != len(first):
                raise ValueError(f"{name} must have the batch size of x, {len(first)}, got {len(tensor)}")
            total += tensor.shape[1]
    return total


def check_segment(x: Tensor, memory: Tensor | None, options: Mapping[str, Any], *, weight: Tensor) -> None:
    """Raise an error unless an attention can read a segment, its memory and these options.

    ``weight`` is the attention's W_q.
    """
    n_key = check_states(weight, x=x, memory=memory)
    check_options(options, batch=len(x), n_key=n_key)


def check_context(
    x: Tensor,
    context: Tensor | None,
    mask: object,
    clamp_len: object = None,
    *,
    weight: Tensor,
    ends_with_x: bool = False,
) -> None:
    """Raise a ValueError unless x can attend to the context, or to itself, under this mask."""
    check("clamp_len", clamp_len, OPTIONS["clamp_len"])
    check_states(weight, x=x, context=context)
    if ends_with_x and context is not None and context.shape[1] < x.shape[1]:
        raise ValueError(
            f"context must end with the {x.shape[1]} tokens of x, got {context.shape[1]} tokens in all"
        )
    if mask is not None:
        mask = check_rank("mask", mask, "batch query key")
        if mask.dtype != torch.bool:
            raise ValueError(f"mask must hold booleans, True where a query may attend, got {_dtype(mask)}")
        batch, n_query, n_key = len(x), x.shape[1], (x if context is None else context).shape[1]
        if mask.shape[0] not in (1, batch) or mask.shape[1:] != (n_query, n_key):
            raise ValueError(
                f"mask must have shape {[batch, n_query, n_key]}, or 1 in place of the batch, "
                f"got {list(mask.shape)}"
            )


def check_options(options: Mapping[str, Any], *, batch: int, n_key: int) -> None:
    """Raise a TypeError for an option that attention does not have, a ValueError for a wrong value."""
    for name, value in options.items():
        if name not in OPTIONS:
            raise TypeError(f"the options of attention are {', '.join(OPTIONS)}, got {name}")
        check(name, value, OPTIONS[name])
    if options.get("key_mask") is not None:
        check_key_mask(options["key_mask"], batch=batch, n_key=n_key)


def check_key_mask(key_mask: object, *, batch: int, n_key: int) -> None:
    """Raise a ValueError unless the mask has a flag for each key of each element of the batch."""
    key_mask = check_rank("key_mask", key_mask, "batch key")
    if key_mask.dtype != torch.bool:
        raise ValueError(f"key_mask must hold booleans, False for a masked key, got {_dtype(key_mask)}")
    if key_mask.shape[1] != n_key:
        raise ValueError(f"key_mask must hold one flag for each of the {n_key} keys, got {key_mask.shape[1]}")
    if len(key_mask) != batch:
        raise ValueError(f"key_mask must have the batch size {batch}, got {len(key_mask)}")


def _dtype(tensor: Tensor) -> str:
    return _name(tensor.dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
