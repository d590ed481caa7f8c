"""Results: numbers that were measured, with all it takes to measure them again."""

import csv
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from minitxl.config import ModelConfig
from minitxl.files import atomic_write
from minitxl.training.config import TrainConfig

PACKAGE = __name__.partition(".")[0]
DEFAULTS: dict[str, dict[str, Any]] = {
    "model": json.loads(json.dumps(asdict(ModelConfig()))),
    "train": json.loads(json.dumps(asdict(TrainConfig()))),
}
"""Default settings of a model and a training, by the name under which settings of experiments hold them."""


@dataclass(frozen=True)
class Result:
    """The outcome of one experiment. Everything in it can be written as JSON."""

    name: str
    settings: Mapping[str, Any]
    """The settings: models, training, evaluation, the text's digest."""
    seeds: list[int]
    fingerprint: Mapping[str, Any] | None
    """Numbers of the experiment's tiny run (``shared.fingerprints``); None where times are measured."""
    data: Mapping[str, Any]
    provenance: Mapping[str, Any]
    """Machine, date, commit and versions of the computation."""


def write(result: Result, folder: Path) -> Path:
    """Write ``folder/NAME.json``, whole or not at all."""
    path = folder / f"{result.name}.json"
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def write_csv(data: Any, path: Path) -> None:
    """Every value of ``data`` in a line of its own, after its key: that which a sentence cites it by."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["key", "value"])
        lines.writerows(leaves("data", data))


def leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | list):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, one in inner:
            yield from leaves(f"{key}.{name}", one)
    else:
        yield key, value


def read(path: Path) -> Result:
    """Return the result in a file."""
    try:
        return Result(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a result that minitxl wrote: {error}") from error


def asks_otherwise(path: Path, *, settings: Mapping[str, Any], seeds: list[int]) -> bool:
    """True if there is no result, or one of other settings or seeds."""
    if not path.exists():
        return True
    stored = read(path)
    current = json.loads(json.dumps(settings))
    return (completed(stored.settings), stored.seeds) != (completed(current), seeds)


def completed(settings: Any) -> Any:
    """Return settings in which every model and training has all fields, those of later versions by default.

    A field that ``ModelConfig`` or ``TrainConfig`` gained after a result was stored has its default there:
    nothing about the result changed.
    """
    if isinstance(settings, list):
        return [completed(one) for one in settings]
    if not isinstance(settings, Mapping):
        return settings
    filled = {name: completed(value) for name, value in settings.items()}
    for name, defaults in DEFAULTS.items():
        if isinstance(filled.get(name), Mapping) and filled[name].keys() <= defaults.keys():
            filled[name] = defaults | filled[name]
    return filled


def provenance(device: torch.device | str, *, seconds: float) -> dict[str, Any]:
    """Return the machine and versions of a measurement that took ``seconds`` and ends now."""
    cuda = torch.device(device).type == "cuda"
    model = torch.cpu.get_capabilities().get("cpu_name")
    cpu = f"CPU ({', '.join(filter(None, [model, platform.machine()]))})"
    return {
        "device": torch.cuda.get_device_name(device) if cuda else cpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        PACKAGE: version(PACKAGE),
        "commit": _commit(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
    }


def _commit() -> str | None:
    """Return the commit of the checkout that the package runs from, "+" behind it where files differ.

    None where the package was installed without its history.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit, changed = (
            subprocess.run([*git, *command], capture_output=True, check=True, text=True).stdout.strip()
            for command in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+" if changed else commit
