"""Weights of a run and of a released folder, in which a single bit is flipped, drawn at random."""

import shutil
import struct
from pathlib import Path
from random import Random

from soak.areas.bits import READERS, same
from soak.attempt import Attempt, outcome
from soak.world import UNITS, World

from minitxl.pretrained.released import load_released
from minitxl.training import run_folder

NAME = "tensors of checkpoints and weights, single bits flipped"


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Flip a bit: of a checkpoint's tensors, or anywhere in released weights; refused, or nothing changed."""
    if draw.random() < 0.5:
        source = run_folder.newest(world.run(draw.choice(UNITS)))
        assert source is not None
        path, (name, read) = place / source.name, draw.choice(list(READERS.items()))
        given = _flip(draw, source, path, header=False)
        wrong, result, refused = outcome(lambda: read(path), named=[path])
        right = read(source)
    else:
        folder, source, name = place / "released", world.released, "load_released"
        folder.mkdir()
        path = folder / "model.safetensors"
        shutil.copy(source / "config.json", folder)
        given = _flip(draw, source / path.name, path, header=True)
        wrong, result, refused = outcome(lambda: load_released(folder)[0], named=[path])
        right = load_released(source)[0]
    if not wrong and not refused and not same(result, right):
        wrong = "silent: other weights were accepted"
    came_out = str(result) if wrong or refused else "as it was"
    return Attempt(f"{name}({path.name!r})", given, came_out, wrong, refused)


def _flip(draw: Random, source: Path, path: Path, *, header: bool) -> str:
    """Write the file to ``path`` with one bit flipped, of its tensors or of the header too; say which."""
    content = bytearray(source.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    bit = draw.randrange(0 if header else 8 * (8 + length), 8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bit {bit % 8} of byte {bit // 8} of {len(content)}, of which {8 + length} are the header"
