"""A checkpoint's description and names, every single bit flipped, one after another."""

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from soak.attempt import Attempt, outcome
from soak.world import World

from minitxl.training import checkpoints, run_folder, saved_run

NAME = "a checkpoint's description, every single bit flipped"
READERS: dict[str, Callable[[Path], Any]] = {
    "saved_run.resume": saved_run.resume,
    "checkpoints.load_model": checkpoints.load_model,
}


def attempt(draw: Random, world: World, place: Path, number: int) -> Attempt:
    """Flip bit ``number`` of the header: refused by name, or nothing has changed."""
    source = run_folder.newest(world.run("words"))
    assert source is not None
    content = bytearray(source.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    bit = number % (8 * (8 + length))
    content[bit // 8] ^= 1 << bit % 8
    path = place / source.name
    path.write_bytes(content)
    name, read = draw.choice(list(READERS.items()))
    wrong, result, refused = outcome(lambda: read(path), named=[path])
    if not wrong and not refused and not same(result, read(source)):
        wrong = "silent: another run was accepted"
    came_out = str(result) if wrong or refused else "as it was"
    return Attempt(f"{name}({path.name!r})", f"bit {bit % 8} of byte {bit // 8}", came_out, wrong, refused)


def same(one: Any, other: Any) -> bool:
    """Return True for two runs, or two models, of the same settings and weights."""
    if hasattr(one, "optimizer"):
        theirs = (one.step, one.tokens, one.settings, one.best, one.random)
        same = str(theirs) == str((other.step, other.tokens, other.settings, other.best, other.random))
        return same and same(one.model, other.model)
    state = other.state_dict()
    return one.config == other.config and all(torch.equal(t, state[n]) for n, t in one.state_dict().items())
