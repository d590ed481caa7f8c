"""Run the notebooks and store them in canonical form, so that a re-run changes outputs alone.

    python notebooks/execute.py               run all, in the profile of MINITXL_PROFILE
    python notebooks/execute.py 00 03         run these
    python notebooks/execute.py --check       run none; fail if one is not in canonical form

Numbers in the prose are links into results, ``[2.59](../figures/NAME.json#data.key)``. They
are rewritten from the results, with as many digits as they have. How long each notebook
took, and its memory, is a result too: ``figures/notebooks.json``.
"""

import argparse
import json
import os
import re
import resource
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

from minitxl import results
from minitxl.files import replacing

HERE = Path(__file__).parent
FIGURES = HERE.parent / "figures"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NUMBER_LINK = re.compile(r"\[([-+0-9.,]+)\]\((?:\.\./)?figures/(\w+)\.json#([\w.-]+)\)")
WIDGET = "application/vnd.jupyter.widget-view+json"


def value_at(key: str, tree: Any) -> Any:
    """What ``data.xl.bits.mean`` or ``data.rows.0.bits`` points to."""
    for step in key.split("."):
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    return tree


def as_printed(value: float, example: str) -> str:
    """The value with the digits and separators of the example."""
    decimals = len(example.partition(".")[2])
    return f"{value:{',' if ',' in example else ''}.{decimals}f}"


def with_current_numbers(text: str) -> str:
    """The text, each number link showing what its result holds."""

    def current(match: re.Match[str]) -> str:
        shown, name, key = match.groups()
        value = value_at(key, json.loads((FIGURES / f"{name}.json").read_text("utf-8")))
        return match[0].replace(f"[{shown}]", f"[{as_printed(value, shown)}]", 1)

    return NUMBER_LINK.sub(current, text)


def canonical(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Fixed metadata, current numbers, and pictures in place of the widgets of a past session."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k in ("tags", "jupyter")}
        )
        if cell.cell_type == "markdown":
            cell.source = with_current_numbers(cell.source)
        else:
            for output in cell.outputs:
                output.get("data", {}).pop(WIDGET, None)
            cell.outputs = [output for output in cell.outputs if output.get("data", True)]
    return notebook


def text_of(notebook: nbformat.NotebookNode) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def execute(path: Path, profile: str) -> None:
    """Run one notebook and write it back, with its time and memory."""
    notebook = nbformat.read(path, as_version=4)
    began = perf_counter()
    client = NotebookClient(notebook, timeout=3600, record_timing=False, coalesce_streams=True)
    client.execute(cwd=str(HERE))
    measured = {
        "seconds": perf_counter() - began,
        "megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    _record(path.stem, profile, measured)
    with replacing(path) as temporary:
        temporary.write_text(text_of(canonical(notebook)), "utf-8")


def _record(name: str, profile: str, measured: dict[str, float]) -> None:
    stored = FIGURES / "notebooks.json"
    data = dict(results.read(stored).data) if stored.exists() else {}
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    provenance = results.provenance(device, seconds=measured["seconds"])
    data.setdefault(name, {})[profile] = {
        **measured,
        "device": provenance["device"],
        "threads": provenance["threads"],
    }
    results.write(results.Result("notebooks", {}, [], "", data, provenance), FIGURES)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the notebooks and store them in canonical form.")
    parser.add_argument("names", nargs="*", help="beginnings of the notebooks' names; none means all")
    parser.add_argument("--check", action="store_true", help="run none; fail if one is not in canonical form")
    asked = parser.parse_args()
    paths = [
        path
        for path in sorted(HERE.glob("*.ipynb"))
        if not asked.names or path.name.startswith(tuple(asked.names))
    ]
    if asked.check:
        wrong = [
            path.name
            for path in paths
            if path.read_text("utf-8") != text_of(canonical(nbformat.read(path, as_version=4)))
        ]
        sys.exit(f"not in canonical form, run make notebooks: {', '.join(wrong)}" if wrong else 0)
    for path in tqdm(paths, unit="notebook"):
        execute(path, os.environ.get("MINITXL_PROFILE", "quick"))


if __name__ == "__main__":
    main()
