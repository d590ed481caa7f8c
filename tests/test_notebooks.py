"""What is stored of the notebooks and the README; nbval runs the notebooks themselves."""

import importlib.util
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RECIPES = sorted((ROOT / "notebooks" / "recipes").glob("*.md"))
PAGES = [*NOTEBOOKS, ROOT / "README.md", ROOT / "notebooks" / "assignments" / "README.md", *RECIPES]

spec = importlib.util.spec_from_file_location("execute", ROOT / "notebooks" / "execute.py")
execute = importlib.util.module_from_spec(spec)
spec.loader.exec_module(execute)

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def prose_of(path: Path) -> str:
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@every_notebook
def test_a_notebook_is_valid_and_in_canonical_form(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    once = execute.text_of(execute.canonical(notebook, path.stem))
    assert path.read_text("utf-8") == once
    assert execute.text_of(execute.canonical(nbformat.reads(once, as_version=4), path.stem)) == once
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert not any(re.fullmatch(r"[0-9a-f]{8}(-.*)?", cell.id) for cell in notebook.cells)


@every_notebook
def test_a_notebook_was_run_from_top_to_bottom_without_error(path):
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]


@every_notebook
def test_every_stored_image_has_alternative_text_with_numbers(path):
    images = [
        output
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert images
    for output in images:
        assert re.search(r"\d", output.metadata["image/png"]["alt"])
        assert output.data["text/plain"] == output.metadata["image/png"]["alt"]


def words_of(cell: nbformat.NotebookNode) -> float:
    """As read: what is folded away and addresses of links are not, a word of code counts half."""
    if cell.cell_type == "code":
        return len(cell.source.split()) / 2
    unfolded = re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL)
    return len(re.sub(r"\]\([^)]*\)", "]", unfolded).split())


@every_notebook
def test_two_minutes_of_reading_bring_a_picture(path):
    read, longest = 0.0, 0.0
    for cell in nbformat.read(path, as_version=4).cells:
        read += words_of(cell) if cell.id != "install" else 0
        longest = max(longest, read)
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            read = 0
    assert longest <= 600


@every_notebook
def test_a_notebook_can_be_started_alone_from_the_tagged_version(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    repository, tag = project["urls"]["Repository"], f"v{project['version']}"
    _, links, install, *_ = nbformat.read(path, as_version=4).cells
    assert f"blob/{tag}/notebooks/{path.name})" in links.source
    assert f"/{tag}?labpath=notebooks/{path.name})" in links.source
    assert f"--branch {tag} {repository} minitxl\n    %cd minitxl/notebooks\n    %pip install --quiet .." in (
        install.source
    )
    assert install.outputs == []
    assert "google.colab" in install.source.splitlines()[2]


@every_notebook
def test_a_notebook_has_what_every_notebook_has(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    prose = prose_of(path)
    wrong = re.search(r"## What people get wrong\n(.*?)(?=\n## |\Z)", prose, re.DOTALL)[1]
    assert len(re.findall(r"\*\*[\"“].+?[\"”]", wrong)) >= 4
    assert len(re.findall("Hint 1", prose)) == len(re.findall("A solution", prose)) >= 1
    assert re.search(r"^## .*[Pp]redict", prose, re.MULTILINE)
    assert re.search(r"^## Read on", prose, re.MULTILINE)
    assert any(re.search(r"^show\(", source, re.MULTILINE) for source in code)
    assert any(re.search(r"\b(explore|Explorer)\(", source) for source in code)
    assert any("assert" in source for source in code)
    assert max(source.count("\n") for source in code) < 34


@every_notebook
def test_no_cell_asks_the_network_or_is_compared_output_by_output(path):
    cells = nbformat.read(path, as_version=4).cells
    for cell in cells:
        if cell.cell_type == "code" and cell.id != "install":
            assert not re.search(r"https?://|urllib|requests|NBVAL|^[!%]", cell.source, re.MULTILINE), cell.id


@every_page
def test_headings_are_in_order(path):
    prose = re.sub(r"```.*?```", "", prose_of(path), flags=re.DOTALL)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", prose, flags=re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@every_page
def test_every_number_that_links_to_a_result_equals_it(path):
    prose = prose_of(path)
    assert execute.NUMBER_LINK.findall(prose)
    assert execute.with_current_numbers(prose) == prose


@every_page
def test_every_link_to_a_file_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose_of(path)):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), target


def test_a_number_that_differs_from_its_result_is_rewritten():
    name = "memory_and_positions"
    data = json.loads((ROOT / "figures" / f"{name}.json").read_text())
    key = "data.xl.bits.mean"
    true = f"{data['data']['xl']['bits']['mean']:.3f}"
    wrong = f"about [9.999](../figures/{name}.json#{key}) bits"
    assert execute.with_current_numbers(wrong) == f"about [{true}](../figures/{name}.json#{key}) bits"


def test_the_hand_built_extend_equals_the_packages_or_the_notebook_stops():
    source = next(
        cell.source for cell in nbformat.read(NOTEBOOKS[0], as_version=4).cells if cell.id == "extend-by-hand"
    )
    broken = source.replace("max(0, joined.shape[2] - mem_len)", "max(0, joined.shape[2] - mem_len - 1)")
    assert broken != source
    names = "import torch\nfrom einops import pack\nfrom minitxl import memory\n"
    exec(names + source, {})
    with pytest.raises(AssertionError):
        exec(names + broken, {})
