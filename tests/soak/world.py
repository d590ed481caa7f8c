"""Small runs, texts and released models that attempts begin with; made once, and copied by each attempt."""

import json
import os
import shutil
from pathlib import Path
from random import Random

import torch
from soak.attempt import call
from support.released import released_model

from minitxl.inference.config import EvaluateConfig
from minitxl.pretrained.released import save_released
from minitxl.training import run_folder

WORDS = ("to", "be", "or", "not", "that", "is", "the", "question", "slings", "and", "arrows")
MODEL = "--n-layer 1 --d-model 8 --n-head 1 --d-head 8 --d-inner 8"
LENGTHS = "--batch 2 --seg-len 4 --mem-len 4 --warmup 1"
SMALL = (
    f"{MODEL} {LENGTHS} --steps 4 --validate-every 2 --validate-tokens 20 --checkpoint-every 1 "
    f"--log-every 1 --device cpu"
).split()
"""Flags of a training that takes a fifth of a second."""
UNITS = ("bytes", "characters", "words")


class World:
    """A folder with all that attempts begin with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = folder / "text.txt"
        self.released = folder / "released"
        os.environ["MINITXL_DATA"] = str(folder / "data")

    def run(self, unit: str = "bytes") -> Path:
        """Return the folder of a run that was killed after step 3 of 4."""
        return self.folder / f"run-{unit}"

    def whole(self, unit: str = "bytes") -> Path:
        """Return the folder of the same run that nothing happened to."""
        return self.folder / f"whole-{unit}"

    def copy(self, folder: Path, to: Path) -> Path:
        """Return a copy of one of the folders."""
        shutil.copytree(folder, to, symlinks=True)
        return to


def make(folder: Path) -> World:
    """Return the world in a folder, which is filled if it is new."""
    world = World(folder)
    if (folder / "ready").exists():
        return world
    folder.mkdir(parents=True, exist_ok=True)
    words = Random(0).choices(WORDS, k=900)
    world.text.write_text("".join(word + ("\n" if n % 9 == 8 else " ") for n, word in enumerate(words)))
    for unit in UNITS:
        whole, run = world.whole(unit), world.run(unit)
        said = call(["train", whole, "--text", world.text, "--unit", unit, "--checkpoints", 9, *SMALL])
        assert said.code == 0, said
        world.copy(whole, run)
        last = run_folder.newest(run)
        assert last is not None
        last.unlink()
        for old in sorted(run.glob("checkpoint-*"))[:-2]:
            old.unlink()
    vocabulary = json.loads((world.run("words") / "words.json").read_text())["symbols"]
    world.released.mkdir()
    model = released_model(len(vocabulary)).eval()
    save_released(model, world.released, EvaluateConfig(seg_len=8, mem_len=8, window=8))
    torch.save({"idx2sym": vocabulary, "sym2idx": {}}, world.released / "vocab.bin")
    (folder / "ready").touch()
    return world
