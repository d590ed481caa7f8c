"""The command line: ``minitxl --help`` lists the commands; here are those that measure."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Annotated, Literal, NoReturn, TextIO, cast

import torch
import tyro
from tqdm import tqdm
from tyro.conf import Positional

from minitxl.benchmark import bench
from minitxl.benchmark.peers import Precision
from minitxl.commands import original_options
from minitxl.commands.evaluate import Evaluate
from minitxl.commands.generate import Generate
from minitxl.commands.shared import Device, RefusedFlagError, TextFlags, bars, device_of, make_folder, place
from minitxl.commands.streams import Enduring, discard, open_streams, readable_width
from minitxl.commands.train import Train, starting_point
from minitxl.data import corpora
from minitxl.experiments import (
    EXPERIMENTS,
    Experiment,
    conclusions,
    demo,
    fingerprints,
    results,
    smaller,
)
from minitxl.experiments.runner import compute, seconds_taken
from minitxl.files import in_words
from minitxl.training.config import TrainConfig

STOPPED_READING = 128 + 13
"""Exit code where output was no longer read: that of a program that SIGPIPE ended."""
LONGEST_SENTENCE = 900
"""Characters of a refusal that are shown; of a longer one, the beginning and the end."""


@dataclass(frozen=True)
class Demo:
    """Train a vanilla segment model, then with relative positions, then with memory as well; compare them."""

    folder: Annotated[Path, place("folder")] = Path("runs/demo")
    """Where demo.svg and its data, demo.json, are written."""
    steps: int = TrainConfig.steps
    """Training steps of each model."""
    seed: int = 0
    """Seed of the weights."""
    text: Annotated[Path, place("text")] | None = None
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


@dataclass(frozen=True)
class Figures:
    """Rebuild the results and figures of the experiments that are missing or out of date."""

    names: Positional[tuple[Experiment, ...]] = EXPERIMENTS
    """Which experiments."""
    folder: Annotated[Path, place("folder")] = Path("figures")
    """The folder of results and figures."""
    profile: Literal["auto", "quick", "full"] = "auto"
    """quick: two cores and some minutes; full: a GPU; auto: full where there is a GPU."""
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""
    again: bool = False
    """Run even what is up to date."""
    check: bool = False
    """Rebuild nothing: compute the cheapest of each kind anew, smaller, and compare what they say."""

    def __call__(self) -> None:
        corpus, device = corpora.embedded(), device_of(self.device)
        make_folder(self.folder)
        if self.check:
            self._check(corpus, device)
        else:
            self._rebuild(corpus, device)

    def _rebuild(self, corpus: corpora.Corpus, device: str) -> None:
        from minitxl import figures

        profile = self.profile if self.profile != "auto" else "full" if device == "cuda" else "quick"
        for name in self.names:
            experiment = import_module(f"minitxl.experiments.{name}")
            settings, seeds = experiment.settings(profile, corpus), experiment.SEEDS
            fingerprint = fingerprints.compute(name) if name in fingerprints.TINY else None
            path = self.folder / f"{name}.json"
            if (
                self.again
                or results.asks_otherwise(path, settings=settings, seeds=seeds)
                or not fingerprints.same(results.read(path).fingerprint, fingerprint)
            ):
                parts = experiment.parts(
                    settings, corpus, seeds=seeds, device=device, **self._models(experiment)
                )
                parts_file, about = path.with_suffix(".parts"), [settings, seeds, fingerprint, device]
                with bars() as report, tqdm(desc=name, total=len(parts), unit="part") as bar:
                    computed = compute(
                        parts, report=report, done=lambda _: bar.update(), stored=parts_file, about=about
                    )
                data = experiment.collect(settings, corpus, computed)
                machine = results.provenance(device, seconds=seconds_taken(parts_file))
                results.write(results.Result(name, settings, seeds, fingerprint, data, machine), self.folder)
                parts_file.unlink()
            data = results.read(path).data
            results.write_csv(data, path.with_suffix(".csv"))
            for draw in figures.OF_RESULT[name]:
                draw(data).save(self.folder / f"{draw.__name__}.svg")
            print(f"{path}, its numbers as CSV, and its figures are up to date")

    def _check(self, corpus: corpora.Corpus, device: str) -> None:
        names = [name for name in self.names if name in smaller.SMALLER]
        stored = {name: results.read(self.folder / f"{name}.json").data for name in names}
        for name in names:
            where = self._models(import_module(f"minitxl.experiments.{name}"))
            with bars() as report, tqdm(desc=name, unit="part") as bar:
                repeated = smaller.check(
                    name, corpus, device=device, report=report, done=lambda _: bar.update(), **where
                )
            expected = conclusions.holding(name, stored[name])
            for sentence, holds in repeated.items():
                print(f"{name}: {sentence}: {'holds' if holds else 'does not hold'}")
            if changed := [sentence for sentence in repeated if repeated[sentence] != expected[sentence]]:
                raise ValueError(
                    f"{name} must say again what its result says, got another answer to: {changed}"
                )

    def _models(self, experiment: ModuleType) -> dict[str, Path]:
        """Return the folder of trained models as a keyword, for an experiment that asks for it."""
        return {"models": self.folder / "models"} if hasattr(experiment, "MODELS") else {}


@dataclass(frozen=True)
class Bench:
    """Time this package and others of the same shapes side by side, at the same work.

    The others are run where make bench has installed them; without them, minitxl's own two
    ways and a vanilla model are compared.
    """

    items: Positional[tuple[bench.Name, ...]] = bench.DEFAULT
    """What is measured, at which size; large wants a GPU."""
    folder: Annotated[Path, place("folder")] = Path("figures")
    """Where the figures and their data, bench.json, are written."""
    peers: Annotated[Path, place("peers")] = Path(".venv-peers/bin/python")
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
    """Of the matrix products: bfloat16 on a CUDA GPU alone."""

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
        machine = results.provenance(device, seconds=perf_counter() - began)
        path = results.write(
            results.Result(
                name="bench",
                settings=settings,
                seeds=[self.seed],
                fingerprint=None,
                data=data,
                provenance=machine | {"threads": self.threads, "systems": data["versions"]},
            ),
            self.folder,
        )
        drawn = [self.folder / f"{draw.__name__}.svg" for draw in figures.OF_RESULT["bench"]]
        for draw, picture in zip(figures.OF_RESULT["bench"], drawn, strict=True):
            draw(data).save(picture)
        print(bench.table(data))
        print(f"\nfigures: {', '.join(map(str, drawn))}   data: {path}")


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what is wrong with its input is told in one sentence, with exit code 2."""
    open_streams()
    try:
        _run(_parsed(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(STOPPED_READING)
    except (RefusedFlagError, ValueError, OSError) as error:
        _fail(in_words(error), code=2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error).lower():
            raise
        _fail(
            f"there is not enough memory: {str(error).splitlines()[0] if str(error) else 'none is left'}",
            code=2,
        )
    except KeyboardInterrupt:
        _fail("interrupted", code=130)
    finally:
        _flush()


def _parsed(arguments: list[str]) -> Callable[[], None]:
    original_options.refuse(arguments)
    preset = tyro.conf.subcommand(default=starting_point(arguments) or tyro.MISSING_NONPROP)
    with readable_width():
        return tyro.cli(
            Annotated[Train, preset] | Evaluate | Generate | Demo | Figures | Bench,
            args=arguments,
            prog="minitxl",
            description="Transformer-XL: train it, score it, see what its memory buys.",
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )


def _run(command: Callable[[], None]) -> None:
    """Run a command to its end, also where nobody reads what it says; ``generate`` then stops."""
    out = sys.stdout if isinstance(command, Generate) else Enduring(sys.stdout)
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, Enduring(sys.stderr))):
        command()


def _fail(words: str, *, code: int) -> NoReturn:
    """End with a sentence of one line: control characters as escapes, a long word or list cut at "…"."""
    short = re.sub(r"(\S{200})\S{200,}", r"\1…", words)
    if len(short) > LONGEST_SENTENCE:
        short = f"{short[: 2 * LONGEST_SENTENCE // 3]} … {short[-LONGEST_SENTENCE // 3 :]}"
    shown = (one if one.isprintable() else ascii(one)[1:-1] for one in short)
    with suppress(OSError):  # on a full disk the exit code is all that can be told
        print(f"minitxl: {''.join(shown)}", file=sys.stderr, flush=True)
    sys.exit(code)


def _flush() -> None:
    """Write what is left to be written; what can't be, perhaps because its reader has gone, is dropped."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard(stream)


if __name__ == "__main__":
    main()
