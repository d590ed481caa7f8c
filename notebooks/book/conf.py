"""The course as a static site, built offline: `make book`. Nothing is run; what is stored is shown."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent.parent
COPIED = {"results": ("figures", ("*.json", "*.svg", "*.csv")), "source": ("minitxl", ("**/*.py",))}
"""Folders of the site, and what they are copied from: all that the course links to."""

project = "minitxl"
author = "the authors of minitxl"
project_copyright = "the authors of minitxl"
html_title = "minitxl: Transformer-XL from its parts"
extensions = ["myst_nb"]
root_doc = "index"
exclude_patterns = ["book", "assignments", "_build", "jupyter_execute", ".ipynb_checkpoints", "*.py"]
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_mime_priority_overrides = [("html", "image/png", 0), ("html", "text/html", 5)]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_favicon = "icon.svg"
html_static_path = ["tables.css"]
html_css_files = ["tables.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_show_copyright = False


def add_math_as_mathml(app: Sphinx) -> None:
    """Equations as MathML, which browsers draw and screen readers read without a script."""

    def inline(translator: Any, node: nodes.math) -> None:
        translator.body.append(convert(node.astext()))
        raise nodes.SkipNode

    def block(translator: Any, node: nodes.math_block) -> None:
        translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>\n')
        raise nodes.SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Links to results and code lead to the site's own copies; images get their words; nothing to install."""
    if app.env.doc2path(name).suffix != ".ipynb":
        source[0] = with_links(source[0], depth=name.count("/"))
        return
    notebook = json.loads(source[0])
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != "install"]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = with_links("".join(cell["source"]))
        for output in cell.get("outputs", []):
            if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
    source[0] = json.dumps(notebook)


def with_links(text: str, depth: int = 0) -> str:
    """Relative links out of the course, as links that the site can follow from so many folders down."""
    for folder, (origin, _) in COPIED.items():
        link = rf"(?<!!)\[([^\]]+)\]\((?:\.\./)+{origin}/([^)#]+)(#[^)]*)?\)"
        text = re.sub(link, rf'<a href="{"../" * depth}{folder}/\2\3">\1</a>', text)
    return text


SCROLLS = re.compile(r"<pre(?=>)|<div(?= class=\"(?:math|table)-wrapper)")
"""What may be wider than the page, and then scrolls within itself."""


def for_keyboards_and_readers(
    app: Sphinx, page: str, template: str, context: dict[str, Any], *_: Any
) -> None:
    """What scrolls can be reached by Tab, and scrolled by keys; a heading of the contents has a level."""
    for part in ("body", "furo_navigation_tree"):
        html = context.get(part, "").replace('role="heading"', 'role="heading" aria-level="2"')
        context[part] = SCROLLS.sub(r'\g<0> tabindex="0"', html)


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
    app.connect("source-read", prepare)
    app.connect("html-page-context", for_keyboards_and_readers, priority=900)  # once furo has done its part
    app.connect("build-finished", copy_linked)
