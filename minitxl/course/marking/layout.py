"""Submissions laid out for formgrader: the assignment's cells, the student's answers, the rubric."""

import re
import unicodedata
from contextlib import suppress
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from minitxl.course.marking.notebooks import Handed, flags, released

PICTURES = ("image/png", "image/jpeg")
SHOWN = (*PICTURES, "text/plain")
"""Kinds of output that a marker's browser is given: a student's HTML may hold a program."""
PROGRAM = re.compile(r"<(?=[A-Za-z/!?])|\\(?=href\b)|&(?=#|[A-Za-z])")
"""Signs that begin a tag, a link in mathematics, or a character reference, which may stand for either."""
SCHEME = re.compile(r"(script|data)(\s*):", re.IGNORECASE)
"""The end of an address that is a program: javascript:, vbscript:, data:."""
TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""Unicode's classes of characters that turn the text behind them around."""
STYLE = """<style>
td, th { padding-right: 1em }
.output_text pre { white-space: pre-wrap; word-break: normal }
</style>"""
"""Space between columns, and whole verdicts: formgrader sets tables without space, and cuts long lines."""
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def laid_out(handed: Handed, verdicts: dict[str, str]) -> NotebookNode:
    """Return the notebook that formgrader shows; ``verdicts`` are texts by the names of graded cells."""
    assignment = handed.assignment
    cells = _functions(handed, verdicts) if assignment.solutions else _project(handed)
    return new_notebook(cells=cells, metadata=assignment.notebook.metadata)


def _functions(handed: Handed, verdicts: dict[str, str]) -> list[NotebookNode]:
    """Return the assignment's cells with the student's solutions and answers in them."""
    cells = []
    for cell in handed.assignment.notebook.cells:
        name = flags(cell).get("grade_id")
        new = nbformat.from_dict(cell)
        if name and flags(cell)["solution"]:
            mine = handed.named.get(name)
            new.source = "(missing)" if mine is None else mine.source
            if new.cell_type == "markdown":
                new.source = harmless(new.source)
        if name in verdicts:
            text = new_output("stream", name="stdout", text=plain(verdicts[name]))
            new.source, new.outputs = "# marked outside this notebook", [text]
        cells.append(new)
        if name in handed.assignment.by_hand:
            rubric = f"{STYLE}\n\n**For who marks: rubric and an answer**\n\n{cell.source}"
            cells.append(new_markdown_cell(rubric))
    return cells


def _project(handed: Handed) -> list[NotebookNode]:
    """Return the student's cells, and each task with its mark scheme where the student left it."""
    left, cells = dict(handed.assignment.cells), list[NotebookNode]()
    for cell in handed.notebook.cells:
        name = flags(cell).get("grade_id")
        task = left.pop(name, None) if isinstance(name, str) else None
        if task is not None:
            cells.append(nbformat.from_dict(task))
        if task is None or cell.source.split() != released(task.source).split():
            cells.append(_shown(cell))
    return cells + [nbformat.from_dict(task) for task in left.values()]


def _shown(cell: NotebookNode) -> NotebookNode:
    """Return a student's cell without metadata, and with outputs that are text and pictures alone."""
    if cell.cell_type != "code":
        new = new_markdown_cell(harmless(cell.source))
        if isinstance(cell.get("attachments"), dict):
            new.attachments = {
                str(name): _pictures(data)
                for name, data in cell.attachments.items()
                if isinstance(data, dict)
            }
        return new
    outputs = []
    for output in cell.get("outputs", []):
        with suppress(Exception):  # of an output that is none
            outputs.append(_output(output))
    return new_code_cell(cell.source, outputs=outputs)


def _output(output: Any) -> NotebookNode:
    kind = output.output_type
    if kind == "stream":
        return new_output(kind, name="stdout", text=str(output.text))
    if kind == "error":
        words = {"ename": str(output.ename), "evalue": str(output.evalue)}
        return new_output(kind, **words, traceback=[str(line) for line in output.traceback])
    data = _pictures(output.data)
    if "text/plain" in output.data:
        data["text/plain"] = str(output.data["text/plain"])
    return new_output("display_data", data=data)


def harmless(markdown: str) -> str:
    """Return a student's Markdown in which nothing can begin HTML: a space stands behind each such sign.

    Formgrader shows Markdown with its HTML as the teacher's own page, where a script may give points.
    """
    return SCHEME.sub(r"\1\2 :", PROGRAM.sub(lambda sign: f"{sign[0]} ", markdown))


def plain(text: str) -> str:
    """Return a text with escapes for what turns it around, for control characters and half characters."""
    return "".join(one.encode("unicode_escape").decode() if _is_control(one) else one for one in text)


def _is_control(character: str) -> bool:
    if character in "\n\r\t":
        return False
    is_turning = unicodedata.bidirectional(character) in TURNING
    return is_turning or unicodedata.category(character) in ("Cc", "Cs")


def _pictures(data: Any) -> dict[str, str]:
    """Return the pictures of an output or an attachment whose content is base64 and nothing else."""
    pictures = {name: str(data[name]) for name in PICTURES if name in data}
    return {name: content for name, content in pictures.items() if BASE64.fullmatch(content)}
