"""The course as a static site, built offline: `make book`.

What is stored is shown, and the cells of widgets alone are run, to draw their states: `-D play=` names the
notebooks whose widgets play, all of them if it is left out. ``-D phones=`` names the figures that are drawn
once more for a phone, likewise.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from html import unescape
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
import result_pages
from mathml import as_mathml
from play import enlarging, html_of, or_for_phones, widgets_of

from minitxl import figures
from minitxl.course.checker import NOTHING
from minitxl.experiments.shared import results
from minitxl.figures.picture import for_phones

ROOT = Path(__file__).parent.parent.parent
COPIED = {"results": ("figures", ("*.json", "*.svg", "*.csv")), "source": ("minitxl", ("**/*.py",))}
"""Folders of the site, and what they are copied from: all that the course links to."""

project = "minitxl"
author = "the authors of minitxl"
project_copyright = "the authors of minitxl"
html_title = "minitxl: Transformer-XL from its parts"
extensions = ["myst_nb", "terms"]
root_doc = "index"
exclude_patterns = ["book", "assignments", "_build", "jupyter_execute", ".ipynb_checkpoints", "*.py"]
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_code_prompt_show, nb_code_prompt_hide = "Show code", "Hide code"
nb_mime_priority_overrides = [("html", "image/png", 0), ("html", "text/html", 5)]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_favicon = "icon.svg"
html_scaled_image_link = False
html_static_path = ["book.css", "book.js", "stix-two-math.woff"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_math_renderer = "mathml"
html_show_sphinx = False
smartquotes = False  # texts quote code
html_show_copyright = False


def add_math_as_mathml(app: Sphinx) -> None:
    """Equations as MathML, which browsers draw and screen readers read without a script."""

    def inline(translator: Any, node: nodes.math) -> None:
        translator.body.append(as_mathml(node.astext()))
        raise nodes.SkipNode

    def block(translator: Any, node: nodes.math_block) -> None:
        translator.body.append(f'<div class="math">{as_mathml(node.astext(), display="block")}</div>\n')
        raise nodes.SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Links to results and code lead to the site's own copies, and images get their words; there is nothing
    to install."""
    if app.env.doc2path(name).suffix != ".ipynb":
        source[0] = with_links(source[0], depth=name.count("/"))
        return
    notebook = json.loads(source[0])
    notebook["cells"] = [
        cell for cell in notebook["cells"] if cell["id"] != "install" and not is_silent_check(cell)
    ]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = with_links("".join(cell["source"]))
        elif widget := app.env.played.get(name, {}).get(cell["id"]):
            html = html_of(widget, f"play/{name}")
            cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": {"text/html": html}}]
        if outputs := cell.get("outputs"):
            cell["outputs"] = [output for output in outputs if not is_blank(output)]
        for output in cell.get("outputs", []):
            if about := output.get("metadata", {}).get("image/png", {}):
                width = {"width": f"{about['width']}px"} if "width" in about else {}
                cell["metadata"]["mystnb"] = {"image": {"alt": about["alt"], **width}}
    source[0] = json.dumps(notebook)


def is_blank(output: dict[str, Any]) -> bool:
    """Return True for a check's word on a stub that nobody has filled in: on a page nobody can."""
    said = "".join(output.get("data", {}).get("text/plain", ""))
    return f"blank: {NOTHING}" in said


def is_silent_check(cell: dict[str, Any]) -> bool:
    """Return True for a folded cell that has no output and only imports and asserts: a page needs none."""
    folded = "hide-input" in cell["metadata"].get("tags", [])
    if cell["cell_type"] != "code" or not folded or cell["outputs"]:
        return False
    tree = ast.parse("".join(cell["source"]))
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
    return all(
        isinstance(one, ast.Import | ast.ImportFrom | ast.Assert | ast.For | ast.If) for one in statements
    )


def with_links(text: str, depth: int = 0) -> str:
    """Relative links out of the course, as links that the site can follow from so many folders down."""
    text = result_pages.as_links(text, "../" * depth)
    for folder, (origin, _) in COPIED.items():
        link = rf"(?<!!)\[([^\]]+)\]\((?:\.\./)+{origin}/([^)#]+)(#[^)]*)?\)"
        text = re.sub(link, rf'<a href="{"../" * depth}{folder}/\2\3">\1</a>', text)
    return text


def render_widgets(app: Sphinx) -> None:
    """Draw the states of each notebook's widgets, two notebooks at a time; what is up to date stays."""
    every = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
    chosen = every if app.config.play == "all" else [one for one in app.config.play.split(",") if one]
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    folders = {stem: Path(app.outdir) / "play" / stem for stem in chosen if widgets_of_stem(stem)}
    command = [sys.executable, str(Path(__file__).parent / "play.py")]

    def render(stem: str) -> None:
        done = subprocess.run(
            [*command, stem, folders[stem]], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the widget of {stem} could not be drawn:\n{done.stderr}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(render, [stem for stem, folder in folders.items() if not is_fresh(stem, folder)]))
    app.env.played = {
        stem: json.loads((folder / "states.json").read_text("utf-8")) for stem, folder in folders.items()
    }


def is_fresh(stem: str, folder: Path) -> bool:
    """Return True if the states of a notebook are newer than all that they are made from."""
    patterns = (f"notebooks/{stem}.ipynb", "notebooks/book/*.py", "minitxl/**/*.py", "figures/*.json")
    made_from = [path for pattern in patterns for path in ROOT.glob(pattern)]
    states = folder / "states.json"
    return states.exists() and states.stat().st_mtime > max(path.stat().st_mtime for path in made_from)


def widgets_of_stem(stem: str) -> list[str]:
    """Return the ids of a notebook's cells with widgets."""
    return widgets_of(ROOT / "notebooks" / f"{stem}.ipynb")


SCROLLS = re.compile(r"<div(?= class=\"(?:math|table)-wrapper)")
"""What may be wider than the page, and then scrolls within itself."""


def for_keyboards_and_readers(
    app: Sphinx, page: str, template: str, context: dict[str, Any], *_: Any
) -> None:
    """What scrolls can be reached by Tab, and scrolled by keys; headings have levels; figures open large."""
    for part in ("body", "furo_navigation_tree"):
        html = context.get(part, "").replace('role="heading"', 'role="heading" aria-level="2"')
        context[part] = SCROLLS.sub(r'\g<0> tabindex="0"', html)
    context["body"] = CODE.sub(_in_lines, context["body"])
    context["body"] = PLAY_OR_IMAGE.sub(partial(_large_or_stacked, drawn_for_phones(app)), context["body"])


CODE = re.compile(r"(<pre>)<span></span>(.*?)(?=</pre>)", re.DOTALL)
WORD = re.compile(
    r'(?:<span class="\w+">[^<\s]+</span>){2,}?(?:(?<=\(</span>)|(?!<span class="\w+">[^<\s]))'
    r"|(?<=[\s>])[^<>\s]*-[^<>\s]+(?=[\s<])"
)
"""Neighbouring parts of code with no blank in them, up to an opening bracket; an option with its hyphens."""


def _in_lines(match: re.Match[str]) -> str:
    """Return highlighted code whose lines wrap between words, and go on below their own beginning."""
    lines = [
        WORD.sub(lambda word: f'<span class="word">{word[0]}</span>', line)
        for line in re.findall(r".*\n|.+", match[2])
    ]
    texts = [re.sub("<.*?>", "", line) for line in lines]
    indents = [len(text) - len(text.lstrip(" ")) for text in texts]
    return match[1] + "".join(
        f'<span class="line" style="--indent: {indent}ch">{line}</span>'
        for indent, line in zip(indents, lines, strict=True)
    )


PLAY_OR_IMAGE = re.compile(r'<div class="play">.*?</div>|<img\b[^>]*?>', re.DOTALL)
ON_A_PHONE = {
    draw.__name__: (result, draw)
    for result, all_of_it in figures.OF_RESULT.items()
    for draw in all_of_it
    if draw is not figures.mechanism
}
"""Figures that have panels one below the other for a phone, and the results that they draw."""


def drawn_for_phones(app: Sphinx) -> frozenset[str]:
    """Return the names of the figures that get a layout for phones: all, or those of ``-D phones=``."""
    return frozenset(ON_A_PHONE if app.config.phones == "all" else filter(None, app.config.phones.split(",")))


def _large_or_stacked(for_phone: frozenset[str], match: re.Match[str]) -> str:
    """An image opens large by a link. A stored figure has its layout for phones beside it."""
    tag = match[0]
    source = re.search(r'src="([^"]+)"', tag)
    if not tag.startswith("<img") or source is None:
        return tag
    path, alt = PurePosixPath(source[1]), re.search(r'alt="([^"]+)"', tag)
    words = unescape(alt[1]) if alt else ""
    name = path.stem if path.suffix == ".svg" else _by_words(for_phone).get(words)
    if name in for_phone:
        narrow = str(path.with_name(f"{name}-phone.svg"))
        tag = or_for_phones(narrow, tag)
    return enlarging(source[1], tag)


@cache
def _by_words(names: frozenset[str]) -> dict[str, str]:
    """Return the name of each of these stored figures by its words: notebooks draw some of them, as PNG."""
    drawn = {name: draw(_data(result)) for name, (result, draw) in ON_A_PHONE.items() if name in names}
    return {picture.alt: name for name, picture in drawn.items()}


def _data(result: str) -> dict[str, Any]:
    return results.read(ROOT / "figures" / f"{result}.json").data


def draw_for_phones(app: Sphinx, error: Exception | None) -> None:
    """Draw the stacked layout of each stored figure."""
    for name in () if error else drawn_for_phones(app):
        result, draw = ON_A_PHONE[name]
        with for_phones():
            picture = draw(_data(result))
        picture.save(Path(app.outdir) / "_images" / f"{name}-phone.svg")


def copy_linked(app: Sphinx, error: Exception | None) -> None:
    """The files that numbers and names link to."""
    if error is not None:
        return
    for folder, (origin, patterns) in COPIED.items():
        for path in (path for pattern in patterns for path in (ROOT / origin).glob(pattern)):
            target = Path(app.outdir) / folder / path.relative_to(ROOT / origin)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    add_math_as_mathml(app)
    app.add_config_value("play", "all", "env")
    app.add_config_value("phones", "all", "env")
    app.connect("builder-inited", render_widgets)
    app.connect("source-read", prepare)
    app.connect("html-collect-pages", result_pages.pages)
    app.connect("html-page-context", for_keyboards_and_readers, priority=900)  # once furo has done its part
    app.connect("build-finished", copy_linked)
    app.connect("build-finished", draw_for_phones)
