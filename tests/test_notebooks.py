"""What is stored of the notebooks, the book's pages and the README; nbval runs the notebooks themselves."""

import ast
import importlib.util
import json
import re
from base64 import b64decode
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_output
from PIL import Image

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RECIPES = sorted((ROOT / "notebooks" / "recipes").glob("*.md"))
MEASURED = [
    *NOTEBOOKS,
    ROOT / "README.md",
    ROOT / "notebooks" / "assignments" / "README.md",
    ROOT / "notebooks" / "results.md",
    ROOT / "notebooks" / "benchmark.md",
    *RECIPES,
]
"""Pages with numbers that come from results."""
PAGES = sorted({*MEASURED, *(ROOT / "notebooks").glob("*.md")})

spec = importlib.util.spec_from_file_location("execute", ROOT / "notebooks" / "execute.py")
execute = importlib.util.module_from_spec(spec)
spec.loader.exec_module(execute)

MOST_VISIBLE_LINES = 150

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


def images_of(path: Path) -> list[nbformat.NotebookNode]:
    """The outputs of a notebook that are pictures."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [output for output in outputs if "image/png" in output.get("data", {})]


@every_notebook
def test_nothing_is_cut_off_at_the_edge_of_a_stored_image(path):
    for output in images_of(path):
        pixels = np.asarray(Image.open(BytesIO(b64decode(output.data["image/png"]))).convert("RGB"))
        for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
            assert (edge == 255).all(), output.data["text/plain"]


@every_notebook
def test_every_stored_image_has_alternative_text_with_numbers(path):
    images = images_of(path)
    assert images
    for output in images:
        assert re.search(r"\d", output.metadata["image/png"]["alt"])
        assert output.data["text/plain"] == output.metadata["image/png"]["alt"]


def words_of(cell: nbformat.NotebookNode) -> float:
    """As read: what is folded, addresses of links and rules of tables are not, a word of code counts half."""
    if "hide-input" in cell.metadata.get("tags", []):
        return 0
    if cell.cell_type == "code":
        return len(cell.source.split()) / 2
    unfolded = re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL)
    return len(re.sub(r"\]\([^)]*\)|\|[-:]*", " ", unfolded).split())


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
def test_a_notebook_has_what_every_notebook_has(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    visible = [
        cell.source
        for cell in cells
        if cell.cell_type == "code" and "hide-input" not in cell.metadata.get("tags", [])
    ]
    prose = prose_of(path)
    wrong = re.search(r"## What people get wrong\n(.*?)(?=\n## |\Z)", prose, re.DOTALL)[1]
    assert len(re.findall(r"\*\*[\"“].+?[\"”]", wrong)) >= 4
    assert len(re.findall("Hint 1", prose)) == len(re.findall("A solution", prose)) >= 1
    assert re.search(r"^## .*[Pp]redict", prose, re.MULTILINE)
    assert re.search(r"^## Read on", prose, re.MULTILINE)
    assert any(re.search(r"^show\(", source, re.MULTILINE) for source in code)
    assert any(re.search(r"\b(explore|Explorer)\(", source) for source in code)
    assert any("assert" in source for source in code)
    assert max(source.count("\n") for source in visible) < 34


@every_notebook
def test_the_source_that_a_notebook_shows_is_that_of_today(path):
    package = [file.read_text("utf-8") for file in (ROOT / "minitxl").rglob("*.py")]
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and re.search(r"\bshow\(", cell.source):
            (shown,) = (output.data["text/plain"].strip() for output in cell.outputs if "data" in output)
            assert any(shown in text for text in package), (
                f"store {path.name} anew: {cell.id} shows other source"
            )


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


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_number_that_names_a_result_equals_it(path):
    prose = prose_of(path)
    assert execute.NUMBER_LINK.findall(prose) or execute.NUMBER_COMMENT.findall(prose)
    assert execute.with_current_numbers(prose) == prose


@every_page
def test_every_link_to_a_file_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose_of(path)):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), target


@every_page
def test_a_table_links_to_its_results_no_more_than_once_a_row(path):
    tables = [path] if path.suffix == ".md" and path.parent.name != "assignments" else []
    for line in (line for path in tables for line in path.read_text("utf-8").splitlines()):
        if line.startswith("|"):
            assert len(re.findall(r"\]\([^)]*figures/", line)) <= 1, line


@every_page
def test_every_comment_in_a_page_names_the_result_of_a_number(path):
    prose = prose_of(path)
    assert prose.count("<!--") == len(execute.NUMBER_COMMENT.findall(prose))


def test_a_number_that_differs_from_its_result_is_rewritten():
    name = "memory_and_positions"
    data = json.loads((ROOT / "figures" / f"{name}.json").read_text())
    key = "data.xl.bits.mean"
    true = f"{data['data']['xl']['bits']['mean']:.3f}"
    wrong = f"about [9.999](../figures/{name}.json#{key}) bits"
    assert execute.with_current_numbers(wrong) == f"about [{true}](../figures/{name}.json#{key}) bits"
    wrong = f"| 9.999<!-- {name} {key} --> |"
    assert execute.with_current_numbers(wrong) == f"| {true}<!-- {name} {key} --> |"
    link = "(../figures/copying.json#data.rows.3.stopped.2_hop.mean)"
    assert execute.with_current_numbers(f"right in [99 %]{link}") == f"right in [13 %]{link}"
    link = "(../figures/bench.json#data.items.1.matrix_rate)"
    assert execute.with_current_numbers(f"at [99 billion]{link}") == f"at [213 billion]{link}"
    assert execute.with_current_numbers(f"at [99.0 million]{link}") == f"at [213000.0 million]{link}"
    link = "(../figures/training_parts.json#data.rows.1.changes.constant_rate.cost.mean)"
    assert execute.with_current_numbers(f"by [-9.99]{link}") == f"by [−0.09]{link}"
    assert execute.with_current_numbers(f"by [−9.99]{link}") == f"by [−0.09]{link}"


def visible_code(cells) -> list[str]:
    """The code that a reader sees: that of cells that are not folded, but for the one that installs."""
    return [
        cell.source
        for cell in cells
        if cell.cell_type == "code"
        and cell.id != "install"
        and not ("hide-input" in cell.metadata.get("tags", []) or cell.metadata.get("jupyter"))
    ]


def lines_of(sources: list[str]) -> int:
    return sum(bool(line.strip()) for source in sources for line in source.splitlines())


def half_folded(cells) -> list[str]:
    """Cells that Jupyter folds and the book does not, or the other way round."""
    return [
        cell.id
        for cell in cells
        if bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
        != ("hide-input" in cell.metadata.get("tags", []))
    ]


def bare_outputs(cells) -> list[str]:
    """Results that are neither a picture nor a table nor a verdict, and tensors that are printed."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    results = [output.data for output in outputs if output.output_type == "execute_result"]
    rich = "text/html", "text/markdown", "image/png", "image/svg+xml", execute.WIDGET
    return [data["text/plain"] for data in results if not any(kind in data for kind in rich)] + [
        output.text for output in outputs if output.output_type == "stream" and "tensor(" in output.text
    ]


def guesses(sources: list[str]) -> dict[str, object]:
    """What my_predictions holds when the notebook is opened."""
    assigned = [
        node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)
    ]
    dicts = [node.value for node in assigned if ast.unparse(node.targets[0]) == "my_predictions"]
    return {name: value for node in dicts for name, value in ast.literal_eval(node).items()}


def blanks(sources: list[str]) -> list[tuple[str, bool]]:
    """Functions that the reader writes, and whether the cells below run on them once they are right."""
    pattern = r"def (\w+)\((?:(?!\ndef ).)*?\n    raise NotImplementedError"
    names = [(name, source) for source in sources for name in re.findall(pattern, source, re.DOTALL)]
    assert all(re.search(rf"\b(use|check_\w+)\({name}\b", source) for name, source in names)
    return [
        (name, re.search(rf"^{name} = use\({name}, ", source, re.M) is not None) for name, source in names
    ]


@every_notebook
def test_what_is_folded_is_folded_everywhere_and_the_central_code_is_the_readers(path):
    cells = nbformat.read(path, as_version=4).cells
    sources = visible_code(cells)
    assert half_folded(cells) == []
    assert lines_of(sources) <= MOST_VISIBLE_LINES
    assert bare_outputs(cells) == []
    assert set(guesses(sources).values()) == {None}
    assert any(in_the_flow for _, in_the_flow in blanks(sources))


@every_notebook
def test_folded_code_begins_with_a_comment_that_says_what_it_does(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if "hide-input" in cell.metadata.get("tags", []) and cell.id != "install":
            assert cell.source.startswith("# "), f"{cell.id}: {cell.source[:60]}"


def test_what_a_reader_would_have_to_scroll_past_or_decipher_is_counted():
    folded = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
    blank = (
        "def f(x):\n    raise NotImplementedError  # your lines here\n\n\nf = use(f, check_f, otherwise=g)"
    )
    exercise = "def h(x):\n    raise NotImplementedError\n\n\nchecks.check_h(h)"
    table = new_output("execute_result", {"text/plain": "a  b", "text/html": "<table></table>"})
    cells = [
        new_code_cell(blank, outputs=[table]),
        new_code_cell(exercise, outputs=[new_output("execute_result", {"text/plain": "{'a': 1}"})]),
        new_code_cell("y = 1\n" * 200, metadata=folded),
        new_code_cell("z = 1", metadata={"tags": ["hide-input"]}, id="half"),
        new_code_cell(
            'my_predictions = {"a": None, "b": 3}', outputs=[new_output("stream", text="tensor(1)")]
        ),
    ]
    sources = visible_code(cells)
    assert lines_of(sources) == 3 + 3 + 1
    assert half_folded(cells) == ["half"]
    assert bare_outputs(cells) == ["{'a': 1}", "tensor(1)"]
    assert guesses(sources) == {"a": None, "b": 3}
    assert blanks(sources) == [("f", True), ("h", False)]


@every_notebook
def test_each_choice_of_a_prediction_stands_quoted_in_the_text(path):
    cells = nbformat.read(path, as_version=4).cells
    sources = "\n".join(cell.source for cell in cells if cell.cell_type == "code" and cell.id != "install")
    (check,) = re.findall(r"^((?:\w+\.)?predictions)\.check\(my_predictions", sources, re.M | re.I)
    imports = [
        ast.unparse(node)
        for node in ast.parse(sources).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minitxl.course.checks")
    ]
    names: dict[str, object] = {}
    exec("\n".join(imports), names)
    questions = eval(check, names).questions
    text = prose_of(path).lower()  # a guess may be written with capitals
    choices = [choice for question in questions for choice in question.choices]
    missing = [choice for choice in choices if isinstance(choice, str) and f'"{choice.lower()}"' not in text]
    assert missing == []
