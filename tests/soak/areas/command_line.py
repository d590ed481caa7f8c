"""Values of flags: every flag of every command, alone and with others."""

import os
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import get_type_hints

from soak import generators
from soak.attempt import Attempt, call, changes, tree, wrong_with
from soak.world import SMALL, World

from minitxl.commands.bench import Bench
from minitxl.commands.demo import Demo
from minitxl.commands.evaluate import Evaluate
from minitxl.commands.figures import Figures
from minitxl.commands.generate import Generate
from minitxl.commands.train import Train

NAME = "command-line values"
LONG = {
    "steps",
    "length",
    "until-step",
    "decay-now",
    "rounds",
    "warm-up",
    "n-layer",
    "tokens",
    "d-head",
    "n-head",
}
"""Flags that, large, ask for more work than an attempt should take."""
FOR_LONG = (
    "0",
    "-1",
    "1",
    "3",
    "9223372036854775808",
    "1" + "0" * 30,
    "nan",
    "0.5",
    "x",
    "",
    "1e3",
    "٣",
    "2 ",
)
PATHS = {"folder", "text", "from", "released", "peers"}


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Run a command with one to three bad flags; refused, it leaves nothing behind and changes nothing."""
    command, words = _base(draw, world, place)
    flags = dict(_flags(command))
    for name in draw.sample(sorted(flags), draw.choice([1, 1, 1, 2, 3])):
        words += _bad(draw, name, place, boolean=flags[name])
    (place / "a file").write_text("a file\n")
    os.mkfifo(place / "a pipe")
    before = tree(place)
    said = call(words)
    wrong = wrong_with(said)
    diverged = "the loss must be finite" in said.sentence  # after steps that were saved
    if not wrong and said.code and not diverged and (lost := changes(before, tree(place))):
        wrong = lost
    if not wrong and (diverged or not said.code):
        wrong = _lost(before, tree(place))
    return Attempt(
        f"minitxl {' '.join(map(repr, map(str, words)))}",
        came_out=str(said),
        wrong=wrong,
        refused=bool(said.code),
    )


def _base(draw: Random, world: World, place: Path) -> tuple[type, list[object]]:
    """Return a command's class, and words with which it works, or is refused before it computes."""
    run = world.copy(world.run(draw.choice(["bytes", "words"])), place / "run")
    beginnings: list[tuple[type, list[object]]] = [
        (Train, ["train", place / "new", "--text", world.text, *SMALL]),
        (Train, ["train", run]),
        (
            Train,
            ["train", place / "new", "--from", run, "--text", world.text, "--steps", "2", "--batch", "2"],
        ),
        (Evaluate, ["evaluate", run, "--text", world.text, "--tokens", "40"]),
        (Evaluate, ["evaluate", "--released", world.released, "--text", world.text, "--tokens", "40"]),
        (Generate, ["generate", run, "--prompt", "to be", "--length", "5"]),
        (Demo, ["demo", "--text", world.text, "--folder", world.text]),
        (Figures, ["figures", "--folder", world.text]),
        (Bench, ["bench", "--folder", world.text]),
    ]
    return draw.choices(beginnings, weights=[6, 4, 2, 4, 3, 4, 1, 0.1, 1])[0]


def _flags(of: type) -> Iterator[tuple[str, bool]]:
    """Yield the name of each flag of a command, and whether it is one of two words."""
    hints = get_type_hints(of)
    for field in fields(of):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield from _flags(hint)
        elif field.name not in ("folder", "names", "items", "schedule_steps", "decay_from"):
            yield {"start_from": "from"}.get(field.name, field.name.replace("_", "-")), hint is bool


def _bad(draw: Random, name: str, place: Path, *, boolean: bool) -> list[str]:
    if boolean:
        return [f"--{draw.choice(['', 'no-'])}{name}"]
    if name in PATHS and draw.random() < 0.7:
        odd = [
            "",
            ".",
            "/",
            "a file",
            "a pipe",
            "missing",
            "/dev/null",
            "/dev/zero",
            "/proc/self/mem",
            "a" * 300,
        ]
        word = draw.choice(odd)
        return [f"--{name}", str(place / word) if word.startswith(("a ", "missing")) else word]
    word = draw.choice(FOR_LONG) if name in LONG else generators.value(draw)
    words = [word, generators.value(draw)] if draw.random() < 0.05 and name not in LONG else [word]
    return (
        [f"--{name}={words[0]}"]
        if words[0].startswith("-") and draw.random() < 0.5
        else [f"--{name}", *words]
    )


def _lost(before: dict[str, str], after: dict[str, str]) -> str:
    """Return what a command that ended well has taken: of others all, of a run all but what it replaces."""
    return changes(
        before, {**after, **{name: before[name] for name in before if re.match("(run|new)/", name)}}, but=""
    )
