"""Run the notebooks and store them in canonical form, so that a re-run changes outputs alone.

    python notebooks/execute.py               run all, in the profile of MINITXL_PROFILE
    python notebooks/execute.py 00 03         run these
    python notebooks/execute.py --check       run none; fail if one is not in canonical form

Numbers in the prose are links into results, ``[2.59](../figures/NAME.json#data.key)``, or, in tables of
pages, stand before a comment that names the result, ``2.59<!-- NAME data.key -->``. They are rewritten from
the results, with as many digits as they have. Large ones are ``[567 million](…)`` or ``[213 billion](…)``.
How long each notebook took, and its memory, is a result too: ``figures/notebooks.json``.
"""

import argparse
import json
import os
import re
import resource
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell
from tqdm import tqdm

from minitxl.experiments.shared import results
from minitxl.files import atomic_write

HERE = Path(__file__).parent
FIGURES = HERE.parent / "figures"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
FACTORS = {" %": 100, " million": 1e-6, " billion": 1e-9}
"""Factor from a value to the number that is shown, by the unit behind that."""
NUMBER_LINK = re.compile(
    rf"\[([-−+0-9.,]+(?:{'|'.join(FACTORS)})?)\]\((?:\.\./)*figures/(\w+)\.json#([\w.-]+)\)"
)
NUMBER_COMMENT = re.compile(r"(?<![-−+0-9.,])([-−+0-9.,]+)<!-- (\w+) ([\w.-]+) -->")
WIDGET = "application/vnd.jupyter.widget-view+json"


FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
"""Metadata of a cell whose code is folded."""
START = ("run-elsewhere", "install")
"""Ids of the two cells after the title, which are the same in every notebook but for its name."""
HERE_ALONE = (
    "Run the cells in order, and change their code, in JupyterLab, which `make lab` opens.",
    """# Is the course's package there?
from importlib.util import find_spec

assert find_spec("minitxl"), "open this notebook by make lab, which installs the course's package\"""",
)
"""Both cells where the repository has no public address."""


def project() -> tuple[str, str]:
    """Return the repository's public address, which may be empty, and the version."""
    settings = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))
    return settings["tool"]["minitxl"]["repository"], settings["project"]["version"]


def start_of(stem: str, address: str, version: str) -> tuple[str, str]:
    """Return the two cells: links to Colab and Binder, and the cell that installs what Colab lacks."""
    if not address:
        return HERE_ALONE
    name, tag = address.removeprefix("https://github.com/"), f"v{version}"
    colab = f"https://colab.research.google.com/github/{name}/blob/{tag}/notebooks/{stem}.ipynb"
    binder = f"https://mybinder.org/v2/gh/{name}/{tag}?labpath=notebooks/{stem}.ipynb"
    install = f"""import sys

if "google.colab" in sys.modules:  # on your machine, make lab has installed it
    !git clone --quiet --depth 1 --branch {tag} {address} minitxl
    %cd minitxl/notebooks
    %pip install --quiet .."""
    words = (
        f"Run it [in Colab]({colab}), [in Binder]({binder}), or on your machine in JupyterLab, which "
        "`make lab` opens."
    )
    return words, install


def numbered(text: str, stem: str) -> str:
    """Return a text whose title begins with the number of the notebook of this name, once."""
    return re.sub(r"\A# (?:\w+ · )?", f"# {stem.partition('_')[0]} · ", text)


def with_start(
    notebook: nbformat.NotebookNode, stem: str, *, address: str | None = None, version: str | None = None
) -> nbformat.NotebookNode:
    """The notebook with its number and its two first cells, for the repository's address or for another."""
    own_address, own_version = project()
    found = {cell.id: cell for cell in notebook.cells}
    links = found.get(START[0]) or new_markdown_cell(id=START[0])
    code = found.get(START[1]) or new_code_cell(id=START[1])
    links.source, code.source = start_of(
        stem, own_address if address is None else address, version or own_version
    )
    code.metadata = nbformat.from_dict(FOLDED)
    title, *rest = (cell for cell in notebook.cells if cell.id not in START)
    title.source = numbered(title.source, stem)
    notebook.cells = [title, links, code, *rest]
    return notebook


def value_at(key: str, tree: Any) -> Any:
    """What ``data.xl.bits.mean`` or ``data.rows.0.bits`` points to."""
    for step in key.split("."):
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    return tree


def as_printed(value: float, example: str) -> str:
    """The value with the digits and separators of the example, in per cent, millions or billions as it is."""
    for end, factor in FACTORS.items():
        if example.endswith(end):
            return as_printed(factor * value, example.removesuffix(end)) + end
    decimals = len(example.partition(".")[2])
    return f"{value:{',' if ',' in example else ''}.{decimals}f}".replace("-", "−")


def with_current_numbers(text: str) -> str:
    """The text, each number that names its result showing what the result holds."""

    def current(match: re.Match[str]) -> str:
        shown, name, key = match.groups()
        value = value_at(key, json.loads((FIGURES / f"{name}.json").read_text("utf-8")))
        return match[0].replace(shown, as_printed(value, shown), 1)

    return NUMBER_COMMENT.sub(current, NUMBER_LINK.sub(current, text))


def canonical(notebook: nbformat.NotebookNode, stem: str, **home: str) -> nbformat.NotebookNode:
    """Fixed metadata and start, current numbers, and pictures in place of the widgets of a past session."""
    notebook = with_start(notebook, stem, **home)
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k in ("tags", "jupyter")}
        )
        if cell.cell_type == "markdown":
            cell.source = with_current_numbers(cell.source)
        else:
            cell.outputs = [output for output in map(without_widget, cell.outputs) if output]
    return notebook


def without_widget(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    """The output less the view of a past session's widget; nothing where no picture stands in for it."""
    view = output.get("data", {}).pop(WIDGET, None)
    return None if view and "image/png" not in output.data else output


def text_of(notebook: nbformat.NotebookNode) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def execute(path: Path, profile: str) -> None:
    """Run one notebook and write it back, with its time and memory."""
    notebook = with_start(nbformat.read(path, as_version=4), path.stem)
    began = perf_counter()
    client = NotebookClient(notebook, timeout=3600, record_timing=False, coalesce_streams=True)
    client.execute(cwd=str(HERE))
    measured = {
        "seconds": perf_counter() - began,
        "megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    _record(path.stem, profile, measured)
    with atomic_write(path) as temporary:
        temporary.write_text(text_of(canonical(notebook, path.stem)), "utf-8")


def _record(name: str, profile: str, measured: dict[str, float]) -> None:
    stored = FIGURES / "notebooks.json"
    earlier = results.read(stored).data if stored.exists() else {}
    data = {name: of for name, of in earlier.items() if (HERE / f"{name}.ipynb").exists()}
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    provenance = results.provenance(device, seconds=measured["seconds"])
    data.setdefault(name, {})[profile] = {
        **measured,
        "device": provenance["device"],
        "threads": provenance["threads"],
    }
    results.write(results.Result("notebooks", {}, [], None, data, provenance), FIGURES)


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
            if path.read_text("utf-8") != text_of(canonical(nbformat.read(path, as_version=4), path.stem))
        ]
        sys.exit(f"not in canonical form, run make notebooks: {', '.join(wrong)}" if wrong else 0)
    profile = os.environ.get("MINITXL_PROFILE", "quick")
    with ProcessPoolExecutor(1, max_tasks_per_child=1) as each_alone:  # so that its memory is its own
        for path in tqdm(paths, unit="notebook"):
            each_alone.submit(execute, path, profile).result()


if __name__ == "__main__":
    main()
