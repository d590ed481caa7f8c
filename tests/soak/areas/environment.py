"""The environment that a command finds: its variables, and the streams that it writes to."""

import io
from pathlib import Path
from random import Random

import pytest
from soak.attempt import Attempt, call, changes, tree, wrong_with
from soak.world import SMALL, World
from support.streams import Abandoned

NAME = "environment, streams"
VARIABLES = {
    "LOCAL_RANK": ("abc", "-1", "", "1.5", "٣", "9" * 30),
    "RANK": ("abc", "-1", "5"),
    "WORLD_SIZE": ("abc", "0", "-1"),
    "MASTER_PORT": ("abc", "-1", "99999999"),
    "COLUMNS": ("0", "1", "-5", "abc", "9" * 30, "39"),
    "LINES": ("0", "abc"),
    "TERM": ("", "dumb", "nonsense"),
    "NO_COLOR": ("", "1"),
    "PYTHONIOENCODING": ("ascii", "nonsense"),
    "MINITXL_DATA": ("", "/dev/null", "/proc/nowhere", "a file", "/dev/null/inside", "~", "relative"),
    "MINITXL_PROFILE": ("", "nonsense"),
    "HF_HUB_CACHE": ("", "/dev/null"),
    "HOME": ("", "/dev/null", "/nowhere"),
    "TMPDIR": ("", "/dev/null", "/nowhere"),
    "LANG": ("", "C", "nonsense"),
}
DISTRIBUTED = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
DISTRIBUTED |= {"MASTER_PORT": "0", "LOCAL_RANK": "0"}


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Run a command with some variables set to odd values, or with streams that can't take what it says."""
    run = world.copy(world.run(draw.choice(["bytes", "words"])), place / "run")
    words: list[object] = draw.choice(
        [
            ["train", place / "new", "--text", world.text, *SMALL],
            ["train", run],
            ["evaluate", run, "--text", world.text, "--tokens", 40],
            ["generate", run, "--prompt", "to be", "--length", 5],
            ["--help"],
            [draw.choice(["train", "evaluate", "generate", "demo"]), "--help"],
        ]
    )
    variables = {
        name: draw.choice(VARIABLES[name]) for name in draw.sample(sorted(VARIABLES), draw.randrange(1, 4))
    }
    launched = draw.random() < 0.2
    if launched:
        name = draw.choice(["LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_PORT"])
        variables = {**DISTRIBUTED, name: draw.choice(VARIABLES[name])}
    stream = draw.choice(["usual", "usual", "ascii", "abandoned"])
    (place / "a file").write_text("")
    before = tree(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, value in variables.items():
            patch.setenv(name, value)
        said = call(words, stdout=_stream(stream))
    wrong = "" if stream == "abandoned" and said.code == 128 + 13 else wrong_with(said)
    if not wrong and said.code == 2:
        wrong = changes(before, tree(place), but=r"^run/\.lock$")
    given = f"{variables}, {stream} output"
    return Attempt(f"minitxl {' '.join(map(str, words))}", given, str(said), wrong, bool(said.code))


def _stream(kind: str) -> io.TextIOBase | None:
    if kind == "abandoned":
        return Abandoned()
    return io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True) if kind == "ascii" else None
