"""``minitxl figures``."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

from tqdm import tqdm
from tyro.conf import Positional

from minitxl.commands.shared import Device, bars, device_of, make_folder, path_flag
from minitxl.data import corpora
from minitxl.data.corpus import Corpus
from minitxl.experiments import EXPERIMENTS, Experiment, conclusions
from minitxl.experiments.shared import fingerprints, results, smaller
from minitxl.experiments.shared.runner import compute, seconds_taken


@dataclass(frozen=True)
class Figures:
    """Rebuild the results and figures of the experiments that are missing or out of date."""

    names: Positional[tuple[Experiment, ...]] = EXPERIMENTS
    """Which experiments."""
    folder: Annotated[Path, path_flag("folder")] = Path("figures")
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

    def _rebuild(self, corpus: Corpus, device: str) -> None:
        from minitxl import figures
        from minitxl.figures.picture import for_phones

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
                text = experiment.corpus() if hasattr(experiment, "corpus") else corpus
                parts = experiment.parts(
                    settings, text, seeds=seeds, device=device, **self._models(experiment)
                )
                parts_file, about = path.with_suffix(".parts"), [settings, seeds, fingerprint, device]
                with bars() as report, tqdm(desc=name, total=len(parts), unit="part") as bar:
                    computed = compute(
                        parts, report=report, done=lambda _: bar.update(), stored=parts_file, about=about
                    )
                data = experiment.collect(settings, text, computed)
                machine = results.provenance(device, seconds=seconds_taken(parts_file))
                results.write(results.Result(name, settings, seeds, fingerprint, data, machine), self.folder)
                parts_file.unlink()
            data = results.read(path).data
            results.write_csv(data, path.with_suffix(".csv"))
            for draw in figures.OF_RESULT[name]:
                draw(data).save(self.folder / f"{draw.__name__}.svg")
                if draw in figures.FOR_PHONES:
                    with for_phones():
                        draw(data).save(self.folder / f"{draw.__name__}-phone.svg")
            print(f"{path}, its numbers as CSV, and its figures are up to date")

    def _check(self, corpus: Corpus, device: str) -> None:
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
