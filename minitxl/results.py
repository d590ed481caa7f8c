"""Results: numbers that were measured, with all it takes to measure them again."""

import ast
import csv
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from minitxl.files import replacing

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Result:
    """The outcome of one experiment. Everything in it can be written as JSON."""

    name: str
    settings: Mapping[str, Any]
    """What was asked for: models, training, evaluation, the text's digest."""
    seeds: list[int]
    code: str
    """Digest of the code that computed it."""
    data: Mapping[str, Any]
    provenance: Mapping[str, Any]
    """Where and when it was computed, and with which versions."""


def write(result: Result, folder: Path) -> Path:
    """Write ``folder/NAME.json``, whole or not at all."""
    path = folder / f"{result.name}.json"
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def write_csv(data: Any, path: Path) -> None:
    """Every value of ``data`` in a line of its own, after its key: that which a sentence cites it by."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["key", "value"])
        lines.writerows(_leaves("data", data))


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | list):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, one in inner:
            yield from _leaves(f"{key}.{name}", one)
    else:
        yield key, value


def read(path: Path) -> Result:
    """The result in a file."""
    try:
        return Result(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a result that minitxl wrote: {error}") from error


def is_stale(path: Path, *, settings: Mapping[str, Any], seeds: list[int], code: str) -> bool:
    """Whether the experiment has to be run: no result, or one of other settings, seeds or code."""
    if not path.exists():
        return True
    stored = read(path)
    asked = json.loads(json.dumps(settings))
    return (stored.settings, stored.seeds, stored.code) != (asked, seeds, code)


def provenance(device: torch.device | str, *, seconds: float) -> dict[str, Any]:
    """The machine and versions of a measurement that took ``seconds`` and ends now."""
    cuda = torch.device(device).type == "cuda"
    model = torch.cpu.get_capabilities().get("cpu_name")
    cpu = f"CPU ({', '.join(filter(None, [model, platform.machine()]))})"
    return {
        "device": torch.cuda.get_device_name(device) if cuda else cpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        PACKAGE: version(PACKAGE),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
    }


def code_digest(module: str) -> str:
    """Digest of a module of this package and of all it imports from the package.

    Docstrings, comments and layout do not count: they can't change a number.
    """
    sources: dict[str, str] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        spec = find_spec(name)
        if name in sources or spec is None or spec.origin is None:
            continue
        tree = ast.parse(Path(spec.origin).read_text("utf-8"))
        pending += _imports(tree)
        sources[name] = ast.dump(_Bare().visit(tree))
    return hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()


def _imports(tree: ast.AST) -> list[str]:
    """Modules of this package that a module's text imports."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names += [f"{PACKAGE}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}."):
            names.append(node.module)
    return names


class _Bare(ast.NodeTransformer):
    """Removes every expression that is only a text."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node
