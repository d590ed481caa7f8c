"""``minitxl bench``."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import torch
from tqdm import tqdm
from tyro.conf import Positional

from minitxl.benchmark import bench
from minitxl.benchmark.peers import Precision
from minitxl.commands.shared import Device, device_of, make_folder, path_flag
from minitxl.experiments.shared import results


@dataclass(frozen=True)
class Bench:
    """Time this package and others of the same shapes side by side, at the same work.

    The others are run where make bench has installed them; without them, minitxl's own two
    ways and a vanilla model are compared.
    """

    items: Positional[tuple[bench.Name, ...]] = bench.DEFAULT
    """What is measured, at which size; large wants a GPU."""
    folder: Annotated[Path, path_flag("folder")] = Path("figures")
    """Folder of the figures and their data: bench.json, or bench_words.json of large vocabularies alone; in
    bfloat16 on a CPU, beside float32, bench_bfloat16.json and bench_words_bfloat16.json."""
    peers: Annotated[Path, path_flag("peers")] = Path(".venv-peers/bin/python")
    """The Python that has the others' libraries."""
    rounds: int = 9
    """How often every system is timed."""
    warm_up: int = 2
    """Rounds before those, which are not counted."""
    threads: int = torch.get_num_threads()
    """Threads of every system."""
    seed: int = 0
    """Seed of weights, text and dropout."""
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""
    precision: Precision = "float32"
    """Of the matrix products: bfloat16 on a CUDA GPU, or a CPU with avx512_bf16 or amx_bf16."""

    def __call__(self) -> None:
        from minitxl import figures

        device, there = device_of(self.device), self.peers.exists()
        if there and not (self.peers.is_file() and os.access(self.peers, os.X_OK)):
            raise ValueError(f"peers must be a Python that can be run, got {self.peers}")
        settings = bench.settings(
            self.items,
            rounds=self.rounds,
            warm_up=self.warm_up,
            threads=self.threads,
            peers=there,
            precision=self.precision,
            device=device,
        )
        make_folder(self.folder)
        if not there:
            print(f"{self.peers} is missing, so no other library is timed: make bench installs them")
        began, bars = perf_counter(), dict[str, tqdm]()

        def report(label: str, total: int) -> None:
            if label not in bars:
                bars[label] = tqdm(desc=label, total=total, unit="round")
            bars[label].update()
            if bars[label].n == total:
                bars[label].close()

        data = bench.run(settings, peers=self.peers, device=device, seed=self.seed, report=report)
        name = bench.result_name(settings)
        machine = results.provenance(device, seconds=perf_counter() - began)
        path = results.write(
            results.Result(
                name=name,
                settings=settings,
                seeds=[self.seed],
                fingerprint=None,
                data=data,
                provenance=machine | {"threads": self.threads, "systems": data["versions"]},
            ),
            self.folder,
        )
        print(f"{bench.table(data)}\n\ndata: {path}")
        for draw in figures.OF_RESULT.get(name, ()):
            picture = self.folder / f"{draw.__name__}.svg"
            draw(data).save(picture)
            print(f"figure: {picture}")
