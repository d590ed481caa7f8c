"""Folders of runs: damaged, edited, incomplete, or somebody else's."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from soak import generators
from soak.attempt import Attempt, Said, call, changes, tree, wrong_with
from soak.world import SMALL, UNITS, World

from minitxl.training import checkpoints, run_folder

NAME = "run folders"
FOREIGN = (
    "notes.txt",
    "text.json",
    "log.jsonl",
    "words.json",
    "config.json",
    ".notes.json.20240101",
    "data/a.npy",
)
"""Files of somebody else, in a folder that is no run's."""


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Train, score or write with a folder that is not as a run left it."""
    kinds: list[Callable[[Random, World, Path], Attempt]] = [_foreign, _file_altered, _described_otherwise]
    return draw.choices(kinds, weights=[1, 4, 3])[0](draw, world, place)


def _foreign(draw: Random, world: World, place: Path) -> Attempt:
    """A folder with files of somebody else is refused, and left as it is."""
    folder = place / "folder"
    folder.mkdir()
    given = draw.sample(FOREIGN, draw.randrange(1, 4))
    for name in given:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(draw.choice([b"mine\n", b"{}", generators.noise(draw)]))
    before = tree(folder)
    said = call(["train", folder, "--text", world.text, "--unit", draw.choice(UNITS), *SMALL])
    wrong = wrong_with(said, named=[folder])
    if not wrong and (lost := changes(before, tree(folder), but=r"^\.lock$" if said.code == 0 else r"$^")):
        wrong = lost
    if not wrong and said.code == 0:
        wrong = "lost: trained in a folder with other files"
    return Attempt(
        f"minitxl train {folder}", f"a folder with {', '.join(given)}", str(said), wrong, bool(said.code)
    )


def _file_altered(draw: Random, world: World, place: Path) -> Attempt:
    """A file of the run is another: the same score or training, or a sentence that names the folder."""
    unit = draw.choice(UNITS)
    run = world.copy(world.run(unit), place / "run")
    path = draw.choice(sorted(path for path in run.iterdir() if path.name != ".lock"))
    given = _alter(draw, path)
    before = tree(run)
    words, expected = _command(draw, run, world, place, unit)
    said = call(words)
    wrong = wrong_with(said, named=[run])
    if not wrong and said.code:
        wrong = changes(before, tree(run), but=r"^\.lock$")
    older = path.name.startswith("checkpoint") and not path.exists()  # the one before is then the run's last
    if not wrong and not said.code and not older:
        wrong = _differs(said, expected, run, world.whole(unit), words[0] == "train")
    return Attempt(f"minitxl {' '.join(map(str, words))}", given, str(said), wrong, bool(said.code))


def _alter(draw: Random, path: Path) -> str:
    kind = draw.choice(["damaged", "damaged", "noise", "gone", "odd", "json", "lines"])
    content = path.read_bytes()
    if kind == "json" and path.suffix == ".json":
        path.write_text(generators.json_text(draw, json.loads(content)))
    elif kind == "lines" and path.suffix == ".jsonl":
        lines = content.decode().splitlines()
        lines.insert(draw.randrange(len(lines) + 1), generators.json_text(draw, json.loads(lines[0])))
        path.write_text("\n".join(lines) + "\n")
    elif kind == "gone":
        path.unlink()
    elif kind == "odd":
        return generators.odd_file(draw, path)
    elif kind == "noise":
        path.write_bytes(generators.noise(draw))
    else:
        path.write_bytes(generators.damaged(draw, content))
    return f"{path.name}, {kind}: {path.read_bytes()[:300]!r}" if path.exists() else f"{path.name} is {kind}"


def _command(
    draw: Random, run: Path, world: World, place: Path, unit: str
) -> tuple[list[object], Callable[[Path], list[object]] | None]:
    """Return the words of a command, and those that give the right answer, of the run as it was."""
    evaluate = [*("--text", world.text, "--tokens", 40)]
    write = ["--length", 8, "--prompt", "to be"]
    of_run: list[Callable[[Path], list[object]]] = [
        lambda folder: ["evaluate", folder, *evaluate],
        lambda folder: ["evaluate", folder, *evaluate, "--best"],
        lambda folder: ["generate", folder, *write],
    ]
    choice = draw.randrange(6)
    if choice < 3:
        again = of_run[choice]
        return again(run), lambda _: again(world.run(unit))
    if choice == 3:
        return ["train", place / "new", "--from", run, "--text", world.text, "--steps", 2, "--batch", 2], None
    return ["train", run], None


def _differs(
    said: Said, expected: Callable[[Path], list[object]] | None, run: Path, whole: Path, trained: bool
) -> str:
    """Return what is another result than that of the run as it was; "" if it is the same."""
    if expected is not None:
        right = call(expected(run))
        told, wanted = (re.sub(r".* microseconds per token|.*/run\S*.*", "", s.out) for s in (said, right))
        return "" if told == wanted else f"silent: another answer than {wanted!r}"
    last = run_folder.newest(run)
    if trained and last is not None and last.read_bytes() != (whole / last.name).read_bytes():
        return f"silent: {last.name} is another than without the fault"
    return ""


def _described_otherwise(draw: Random, world: World, place: Path) -> Attempt:
    """A checkpoint whose description was edited, and whose digest was made to fit: a sentence, or a run."""
    unit = draw.choice(UNITS)
    run = world.copy(world.run(unit), place / "run")
    path = run_folder.newest(run)
    assert path is not None
    with safe_open(path, framework="pt") as file:
        described = json.loads(file.metadata()["minitxl"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    about = _small(generators.altered(draw, described["about"]))
    digest = checkpoints._digest(checkpoints.tensor_digest(tensors), about) if draw.random() < 0.9 else "0"
    content = {"about": about, "sha256": digest} if draw.random() < 0.95 else draw.choice(generators.JSON)
    save_file(tensors, path, metadata={"minitxl": json.dumps(content, sort_keys=True)})
    before, words = tree(run), _command(draw, run, world, place, unit)[0]
    said = call(words)
    wrong = wrong_with(said, named=[run])
    if not wrong and said.code:
        wrong = changes(before, tree(run), but=r"^\.lock$")
    given = f"{path.name} described as {json.dumps(content)[:3000]}"
    return Attempt(f"minitxl {' '.join(map(str, words))}", given, str(said), wrong, bool(said.code))


def _small(about: Any) -> Any:
    """Return the description with as many steps as an attempt can take."""
    train = about.get("train") if isinstance(about, dict) else None
    if isinstance(train, dict) and isinstance(train.get("steps"), int | float) and train["steps"] > 100:
        train["steps"] = 10**30
    return about
