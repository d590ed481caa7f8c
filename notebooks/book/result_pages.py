"""Pages of the results that the course links to, and the links of its numbers to their rows there.

``[2.59](../figures/NAME.json#data.key)`` leads to the row of ``data.key`` in ``results/NAME.html``, and a
link to a result as a whole leads to the page's top.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape, unescape
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from units import unit_of

from minitxl import figures
from minitxl.experiments.shared.results import leaves
from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training.curves import ONE_CHANGE_APART

ROOT = Path(__file__).parent.parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./)+figures/(\w+)\.json(?:#([\w.-]+))?\)")
MOST = 480_000
"""Bytes of a page's tables. Where it has more, long lists that nothing links into stay in the file alone."""
LENGTHS = (inf, 64, 32, 16, 8, 4, 2)
"""Entries of the longest list that is shown row by row, tried in turn until the page is small enough."""
DIGITS = 6
"""Significant digits of a number on a page and in the title of a link."""
FOLDED = 40
"""Rows of the longest group that is open at first; in a longer one, its own long groups are folds again."""


@cache
def stored(name: str) -> dict[str, Any]:
    """Return all that is in a result's file."""
    content: dict[str, Any] = json.loads((ROOT / "figures" / f"{name}.json").read_text("utf-8"))
    return content


@cache
def values_of(name: str) -> dict[str, Any]:
    """Return each single value of a result by its key."""
    return {key: value for part, tree in stored(name).items() for key, value in leaves(part, tree)}


def as_links(text: str, up: str) -> str:
    """Return the text with its links to results leading to their pages; ``up`` leads to the site's top."""

    def link(match: re.Match[str]) -> str:
        shown, name, key = match.groups()
        address = f"{up}results/{name}.html"
        if key is None:
            return f'<a href="{address}">{shown}</a>'
        if key not in values_of(name):
            raise ValueError(f"{match[0]}: figures/{name}.json has no value there")
        value = values_of(name)[key]
        said = f"{_printed(value)} {unit_of(name, key, value)}".strip()
        title = escape(f"{name}: {key} = {said}")
        return f'<a class="number" href="{address}#{key}" title="{title}">{shown}</a>'

    return LINK.sub(link, text)


def linked() -> dict[str, set[str]]:
    """Return the results that the course links to, and the keys of each that a number links to."""
    keys_by_result: dict[str, set[str]] = {}
    for path in sorted((ROOT / "notebooks").rglob("*")):
        if path.suffix in (".md", ".ipynb") and ".ipynb_checkpoints" not in path.parts:
            for _, name, key in LINK.findall(path.read_text("utf-8")):
                keys_by_result.setdefault(name, set()).update([key] if key else [])
    return keys_by_result


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield the page of each result that the course links to, as Sphinx asks for pages."""
    for name, keys in linked().items():
        yield (
            f"results/{name}",
            {"title": f"Result: {_in_words(name)}", "body": body_of(name, keys)},
            "page.html",
        )


def body_of(name: str, keys: set[str]) -> str:
    """Return a result's figures, and its values in tables: a row for each, with its key as the row's id."""
    parts = _parts(name)
    for length in LENGTHS:
        tables = "\n".join(
            _fold(
                f'<h2 id="{_id(heading)}">{escape(heading)}</h2>',
                [row for top, tree in trees.items() for row in _rows(name, top, tree, keys, length)],
            )
            for heading, trees in parts.items()
        )
        if len(tables.encode()) <= MOST:
            break
    else:
        raise ValueError(f"the page of {name} has more than {MOST} bytes, however many lists are left out")
    left_out = (
        f" So that this page stays small, a list of more than {length} entries is in the file alone, unless "
        "the course links into it."
        if length < inf
        else ""
    )
    links = " · ".join(f'<a href="#{_id(heading)}">{escape(heading)}</a>' for heading in parts)
    return f"""<section><h1>Result: {_in_words(name)}</h1>
{"".join(map(_figure, figures.OF_RESULT.get(name, ())))}
<p>Numbers of the course link to these rows. Each is one value of <a href="{name}.json">{name}.json</a>,
which has all its digits; here it has {DIGITS} significant ones. The key says where in the file it stands.
{_names_in_keys(name)} A value without a unit is a count, a name or a setting that has none.{left_out}
<a href="javascript:history.back()">Back to where you were</a></p>
<p>Parts: {links}</p>
<style>html {{ scroll-behavior: auto; }}</style>
{tables}
</section>"""


def _names_in_keys(name: str) -> str:
    """Say what the keys of Transformer-XL stand for, if a result has it with memory and without."""
    steps = {step for key in values_of(name) for step in key.split(".")}
    for systems, keys in ((ONE_CHANGE_APART, ("relative", "xl")), (SYSTEMS, ("xl", "xl_memory"))):
        if steps.issuperset(keys):
            said = (f"<code>{key}</code> is “{systems[key].name}” in the figures" for key in keys)
            return f"In keys, {', and '.join(said)}."
    return ""


Row = tuple[str, str, str]
"""Key, value and unit of a value."""


def _fold(heading: str, rows: Sequence[Row]) -> str:
    """Return a group of rows under its heading; one of many rows is closed until a reader opens it."""
    count = f"{len(rows):,} value{'s' * (len(rows) != 1)}"
    return (
        f'<details class="values"{" open" * (len(rows) <= FOLDED)}><summary>{heading} <small>{count}</small>'
        f"</summary>\n{_tables(rows)}</details>"
    )


def _tables(rows: Sequence[Row]) -> str:
    """Return rows as a table; of many, those that share one more step of their key are folds, if many too."""
    if len(rows) <= FOLDED:
        return _table(rows)
    paths, tables, few = [key.split(".") for key, _, _ in rows], list[str](), list[Row]()
    shared = next(depth for depth, steps in enumerate(zip(*paths, strict=False)) if len(set(steps)) > 1)
    for start, group in groupby(rows, lambda row: ".".join(row[0].split(".")[: shared + 1])):
        of_group = list(group)
        if len(of_group) <= FOLDED:
            few += of_group
        else:
            tables += [_table(few), _fold(f"<b>{_with_breaks(start)}</b>", of_group)]
            few = []
    return "".join([*tables, _table(few)])


def _table(rows: Sequence[Row]) -> str:
    """Return a table with a row for each value, or nothing where there are no rows."""
    if not rows:
        return ""
    lines = "\n".join(
        f'<tr id="{escape(re.sub(" ", "_", key))}"><th scope="row">{_with_breaks(key)}'
        f"<td>{escape(said)}<td>{escape(unit)}"
        for key, said, unit in rows
    )
    return f"""<div class="table-wrapper container"><table class="docutils values">
<thead><tr><th scope="col">key<th scope="col">value<th scope="col">unit
<tbody>
{lines}
</table></div>
"""


def _in_words(name: str) -> str:
    return name.replace("_", " ")


def _id(heading: str) -> str:
    """Return a part's own id, which no key of a row has."""
    return "part-" + re.sub(r"\W+", "-", heading)


def _parts(name: str) -> dict[str, dict[str, Any]]:
    """Return the trees of each part by their keys; the data are first, and each of its trees is a part."""
    parts: dict[str, dict[str, Any]] = {"data": {}}
    for top, tree in stored(name).items():
        if top != "data":
            parts[top] = {top: tree}
    for key, tree in stored(name)["data"].items():
        part = f"data: {key}" if isinstance(tree, dict | list) else "data"
        parts.setdefault(part, {})[f"data.{key}"] = tree
    first = sorted(parts, key=lambda part: not part.startswith("data"))
    return {part: parts[part] for part in first if parts[part]}


def _figure(draw: Callable[..., Any]) -> str:
    """Return the stored figure that a function draws, with its words."""
    svg = (ROOT / "figures" / f"{draw.__name__}.svg").read_text("utf-8")
    words = re.search(r"<(?:dc:description|desc)>(.*?)</", svg, re.DOTALL)
    alt = escape(unescape(words[1])) if words else ""
    return f'<p><img src="../_images/{draw.__name__}.svg" alt="{alt}"></p>'


def _rows(name: str, key: str, tree: Any, keys: set[str], length: float) -> Iterator[Row]:
    """Yield key, value and unit of each row; a list that is too long is one row, which says how long."""
    if isinstance(tree, list) and len(tree) > length and not any(one.startswith(f"{key}.") for one in keys):
        yield key, f"a list of {len(tree):,} entries", ""
    elif isinstance(tree, dict | list):
        for step, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _rows(name, f"{key}.{step}", inner, keys, length)
    else:
        yield key, _printed(tree), unit_of(name, key, tree)


def _with_breaks(key: str) -> str:
    """Return a key that can go on on the next line after each of its dots, but not before a number."""
    return re.sub(r"\.(?=[^\d.])", ".<wbr>", escape(key))


def _printed(value: Any) -> str:
    """Return a value as a reader can take it in: a text without its quotes, a number of few digits."""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 10**DIGITS else f"{value:.{DIGITS}g}"
    return value if isinstance(value, str) else json.dumps(value)
