"""``minitxl demo``."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

from minitxl.commands.shared import Device, TextFlags, bars, device_of, make_folder, path_flag
from minitxl.experiments import demo
from minitxl.experiments.shared import fingerprints, results
from minitxl.training.config import TrainConfig


@dataclass(frozen=True)
class Demo:
    """Train a vanilla segment model, then with relative positions, then with memory as well; compare them."""

    folder: Annotated[Path, path_flag("folder")] = Path("runs/demo")
    """Where demo.svg and its data, demo.json, are written."""
    steps: int = TrainConfig.steps
    """Training steps of each model."""
    seed: int = 0
    """Seed of the weights."""
    text: Annotated[Path, path_flag("text")] | None = None
    """Your own text, read as bytes; without it, the source of Python's standard library."""
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        from minitxl import figures

        corpus, device = TextFlags(text=self.text).corpus(), device_of(self.device)
        settings = demo.settings(corpus, steps=self.steps)
        make_folder(self.folder)
        print(corpus.summary(), flush=True)
        began = perf_counter()
        with bars() as report:
            data = demo.run(settings, corpus, seed=self.seed, device=device, report=report)
        result = results.Result(
            name="demo",
            settings=settings,
            seeds=[self.seed],
            fingerprint=fingerprints.compute("demo"),
            data=data,
            provenance=results.provenance(device, seconds=perf_counter() - began),
        )
        path = results.write(result, self.folder)
        picture = path.with_suffix(".svg")
        figures.demo(data).save(picture)
        print(demo.table(data))
        print(f"\nfigure: {picture}   data: {path}")
        print("next: make lab opens notebooks/00_start_here.ipynb, which says what you have just seen")
