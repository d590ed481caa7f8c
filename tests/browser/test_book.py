"""The static site, as a reader meets it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from html import unescape
from http.server import SimpleHTTPRequestHandler
from importlib.resources import files
from itertools import pairwise
from math import prod
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urldefrag

import ipywidgets
import play
import pytest
import requests
import sites
from excerpt import excerpt, value_of
from playwright.sync_api import Page, Request
from playwright.sync_api import TimeoutError as NotInTime

from minitxl.course.checker import NOTHING
from minitxl.figures.picture import PHONE as PHONE_INCHES
from minitxl.figures.picture import Picture, drawing, panels

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
RECIPES = sorted(f"recipes/{path.stem}" for path in (ROOT / "notebooks/recipes").glob("*.md"))
TEXTS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.md"))
PAGES = [*NOTEBOOKS, *RECIPES, *TEXTS]
RESULT = "results/demo"
"""A page of a result, which the contents do not list."""
AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
EACH_COLOUR_ONCE = """() => {
    const seen = new Set();
    for (const word of document.querySelectorAll(".highlight span")) {
        if (seen.has(word.className)) word.replaceWith(word.textContent);
        seen.add(word.className);
    }
}"""
"""Code has some thousands of words on a page, in a few colours; axe looks at each word."""
CONTRASTS = """async ([options, known]) => {
    const looks = new Map();
    const look = element => {
        if (!element) return ["", 1];
        if (!looks.has(element)) {
            const { backgroundColor, opacity } = getComputedStyle(element);
            const [behind, visible] = look(element.parentElement);
            const clear = /^rgba.*, 0\\)$/.test(backgroundColor);
            looks.set(element, [clear ? behind : backgroundColor, visible * opacity]);
        }
        return looks.get(element);
    };
    const linked = link => [
        getComputedStyle(link).textDecorationLine,
        getComputedStyle(link.parentElement).color,
        link.parentElement.tagName,
        link.parentElement.textContent.trim() !== link.textContent.trim(),
    ];
    const first = new Map();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
        const { color, fontSize, fontWeight } = getComputedStyle(element), link = element.closest("a");
        const kind = [color, fontSize, fontWeight, ...look(element), ...(link ? linked(link) : [])].join();
        if (!known.includes(kind) && !first.has(kind)) first.set(kind, link ?? element);
    }
    const found = first.size ? await axe.run({ include: [...first.values()] }, options) : { violations: [] };
    return [[...first.keys()], found.violations];
}"""
"""Kinds of texts that are not known yet, and those too faint to read or, in a link, too like the text around.
Texts of one colour, size, weight and background, and links that stand alike beside texts of one colour, are
of one kind, which is looked at once: axe takes a millisecond for each of the thousands of pieces of a page,
and half a second for the page."""
SEEN = ["color-contrast", "link-in-text-block"]
"""Rules of axe on colours, to be looked at in light and in dark."""
TOO_WIDE = """() => {
    const scrolls = element => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
    const boxes = element => element.matches("article") ? [] : [element, ...boxes(element.parentElement)];
    const right = document.documentElement.clientWidth + 1;
    const closed = [...document.querySelectorAll("article details:not([open])")];
    closed.forEach(fold => fold.open = true);
    const wide = [...document.querySelectorAll("article *")]
        .filter(element => element.getBoundingClientRect().right > right && !boxes(element).some(scrolls))
        .map(element => element.outerHTML.slice(0, 100));
    closed.forEach(fold => fold.open = false);
    return wide;
}"""
"""What sticks out of the page and is not in a box that scrolls, in folds too."""
CUT_OFF = """() => {
    const closed = [...document.querySelectorAll("article details:not([open])")];
    closed.forEach(fold => fold.open = true);
    const cutOff = [...document.querySelectorAll("article pre")]
        .filter(pre => pre.scrollWidth > pre.clientWidth)
        .map(pre => pre.textContent.slice(0, 100));
    closed.forEach(fold => fold.open = false);
    return cutOff;
}"""
"""Code and output that scroll sideways, folded ones too."""
WRAPPED = """() => [...document.querySelectorAll("article .cell_input .line")]
    .filter(line => line.offsetHeight > 1.5 * parseFloat(getComputedStyle(line).lineHeight))
    .map(line => line.textContent)"""
"""Lines of a notebook's code that go on below, folded ones not."""
CONTINUED = """() => [...document.querySelectorAll(".cell_input .line")].flatMap(line => {
    const words = document.createRange(), indent = line.textContent.search(/\\S/);
    words.selectNodeContents(line);
    const boxes = [...words.getClientRects()], [{ top, left, bottom }] = boxes;
    const below = boxes.find(box => box.top >= bottom);
    const letter = parseFloat(getComputedStyle(line).getPropertyValue("text-indent")) / -(indent + 2);
    return below ? [Math.round((below.left - left) / letter) - indent] : [];
})"""
"""Letters from the beginning of each line of code that goes on below, to where it goes on."""
COMMENTS = """() => [...document.querySelectorAll(".cell_input .line .c1")].flatMap(comment => {
    const words = document.createRange();
    words.selectNodeContents(comment);
    const boxes = [...words.getClientRects()].filter(box => box.width), [{ left, bottom }] = boxes;
    const letter = parseFloat(getComputedStyle(comment).paddingLeft) / 2;
    return boxes.filter(box => box.top >= bottom).slice(0, 1).map(below => (below.left - left) / letter);
})"""
"""Letters from the sign of each comment that goes on below, to where it goes on."""
NARROW_PICTURES = """() => [...document.querySelectorAll("a.enlarge img")]
    .filter(image => image.checkVisibility())
    .filter(image => image.clientWidth < image.closest("a").parentElement.clientWidth - 1)
    .map(image => image.outerHTML.slice(0, 100))"""
"""Pictures that are less wide than their place."""
NOT_FADED = """() => [
    ...document.querySelectorAll(
        ":is(.table-wrapper, .output.text_html, div.math):not(details:not([open]) *)"
    ),
].filter(box => {
    const goesOn = box.scrollWidth - box.clientWidth > box.scrollLeft + 1;
    return goesOn !== getComputedStyle(box).maskImage.includes("gradient");
}).map(box => box.outerHTML.slice(0, 100))"""
"""What is wider than its box and does not fade at the edge, and what fades and is not."""
LONE_LINKS = """links => links.filter(link => {
    const words = document.createRange();
    words.selectNodeContents(link.parentElement);
    words.setEndBefore(link);
    return link.getBoundingClientRect().top >= [...words.getClientRects()].at(-1).bottom;
}).map(link => link.parentElement.textContent)"""
"""Headings whose own link is on a line by itself."""
BACKGROUNDS = """images => images.map(image => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [1, 1];
    const corner = canvas.getContext("2d");
    corner.drawImage(image, 0, 0, 1, 1, 0, 0, 1, 1);
    return corner.getImageData(0, 0, 1, 1).data[3];
})"""
"""How opaque the corner of each image is, of 255."""
PLAYED = ("06b_context_length", "09_relative_shift")
"""Notebooks whose widgets play here: few states, and each kind of control. `make book` draws those of all."""
KEPT = ("index", "01_attention", "10_training", "recipes/scaling")
"""Pages of which there are screenshots."""
BROKEN_WORDS = """() => [...document.querySelectorAll("td:nth-child(2) p")].flatMap(({firstChild: text}) =>
    [...text.data.matchAll(/\\p{Script=Han}+/gu)].filter(word => {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        return range.getClientRects().length > 1;
    }).map(word => word[0])
)"""
"""Chinese words of a table's second column that stand on more than one line."""
BROKEN_CODE = """() => {
    const fits = word => {
        const line = word.closest(".line");
        const room = line.clientWidth - parseFloat(getComputedStyle(line).paddingLeft);
        word.style.whiteSpace = "nowrap";
        const { width } = word.getBoundingClientRect();
        word.style.whiteSpace = "";
        return width <= room;
    };
    return [...document.querySelectorAll(".highlight .line span")].filter(span => {
        const lines = new Set([...span.getClientRects()].map(box => Math.round(box.top)));
        return lines.size > 1 && !/\\s/.test(span.textContent) && fits(span.closest(".word") ?? span);
    }).map(span => span.textContent);
}"""
"""Words of code that stand on more than one line, and would fit on one."""
CAPTIONS = """boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).flatMap(box => {
    const words = document.createRange();
    words.selectNodeContents(box.querySelector("caption"));
    return [0, box.scrollWidth].map(place => {
        box.scrollLeft = place;
        return [box, words].flatMap(one => {
            const { left, right } = one.getBoundingClientRect();
            return [left, right];
        });
    });
})"""
"""Left and right of each box that scrolls, and of its caption's words: unscrolled, and at its end."""
ADDRESSES = "links => links.map(link => link.href)"
DESKTOP = {"width": 1280, "height": 1100}
PHONE = {"width": 390, "height": 844}


@dataclass(frozen=True)
class Visit:
    """A page of the site that was opened, and what happened meanwhile."""

    name: str
    page: Page
    errors: list[str] = field(default_factory=list)
    """Complaints of its console and of its requests."""
    requested: list[str] = field(default_factory=list)
    """Addresses that it asked for."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The address of the site, built with every warning an error, as `make book` does."""
    folder = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", folder / "trees"]
    command += ["-D", f"play={','.join(PLAYED)}", "-D", "phones=memory_and_positions"]  # the rest takes long
    built = subprocess.run(
        [*command, "-c", ROOT / "notebooks/book", ROOT / "notebooks", folder / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    with sites.serving(partial(Quiet, directory=str(folder / "html"))) as address:
        yield address


def failed(request: Request) -> list[str]:
    """A request without an answer, unless the page took it back: a key chose another picture meanwhile."""
    return [] if request.failure == "net::ERR_ABORTED" else [f"failed: {request.url}"]


@contextmanager
def visiting(window: Page, home: str, name: str) -> Iterator[Visit]:
    """Show a page in the window, until it asks for nothing more; the window is as before then.

    A window shows one page after the other, as a reader's does: to open and close one takes more of the
    processor's time than to show a page.
    """
    visit, size = Visit(name, window), window.viewport_size
    errors, requested = visit.errors, visit.requested
    heard = {
        "console": lambda said: errors.append(said.text) if said.type == "error" else None,
        "pageerror": lambda error: errors.append(str(error)),
        "request": lambda request: requested.append(request.url),
        "requestfailed": lambda request: errors.extend(failed(request)),
        "response": lambda got: errors.append(f"{got.status}: {got.url}") if got.status > 399 else None,
    }
    for event, listener in heard.items():
        window.on(event, listener)
    window.goto(f"{home}/{name}.html", wait_until="networkidle")
    yield visit
    for event, listener in heard.items():
        window.remove_listener(event, listener)
    window.set_viewport_size(size)
    window.emulate_media(color_scheme="null")


@pytest.fixture(scope="module")
def windows(browser):
    """Two windows of one reader: one for the pages that all tests look at, the other for single visits."""
    context = browser.new_context(viewport=DESKTOP)
    yield context.new_page(), context.new_page()
    context.close()


@pytest.fixture(scope="module")
def window(windows):
    return windows[1]


@pytest.fixture(scope="module", params=[*PAGES, RESULT])
def visit(request, windows, home):
    """Each page in turn, opened once for all tests that take it, which run in the order of this file."""
    with visiting(windows[0], home, request.param) as visit:
        yield visit


@pytest.fixture
def index(window, home):
    with visiting(window, home, "index") as visit:
        yield visit


@pytest.fixture(scope="module")
def text_at():
    """Return the text at an address of the site, or None where there is none. Each is asked for once."""

    @cache
    def text(address):
        response = requests.get(address, timeout=60)
        response.encoding = "utf-8"  # which a page itself says, and the server does not
        return response.text if response.ok else None

    return text


def test_the_whole_course_is_listed(index, home):
    links = index.page.eval_on_selector_all(".sidebar-tree a", ADDRESSES)
    listed = [link.removeprefix(f"{home}/").removesuffix(".html") for link in links]
    assert listed[: len(NOTEBOOKS)] == NOTEBOOKS
    assert sorted([*listed, "index"]) == sorted(PAGES)


def test_a_page_has_its_equations_and_images_and_complains_of_nothing(visit, home):
    page, name = visit.page, visit.name
    assert visit.errors == []
    assert all(url.startswith((home, "data:")) for url in visit.requested)
    for image in page.query_selector_all("main img, article img"):
        assert image.evaluate("image => image.complete && image.naturalWidth > 0")
        assert re.search(r"\d", image.get_attribute("alt") or "")
    assert not re.search(r"\$\$|\\frac|\\text\{", page.inner_text("article"))
    if name in NOTEBOOKS:
        assert page.query_selector("article img")
        assert page.query_selector("math")
        assert NOTHING not in page.inner_text("article")  # a check's word on a stub that no reader can fill
    assert not page.query_selector("article .math:not(:has(math)), article mjx-container, article .katex")


def test_no_link_leads_nowhere(visit, home, text_at):
    broken = []
    for link in visit.page.eval_on_selector_all("article a[href], .sidebar-tree a[href]", ADDRESSES):
        address, anchor = urldefrag(link)
        if address.startswith(home):
            text = text_at(address)
            if text is None or (anchor and address.endswith(".html") and f'id="{anchor}"' not in text):
                broken.append(link)
    assert broken == []


def test_a_number_leads_to_its_value(visit, text_at):
    target = "links => links.map(link => [link.href, link.title])"
    numbers = visit.page.eval_on_selector_all("article a.number", target)
    assert numbers or visit.name not in NOTEBOOKS
    for link, title in numbers:
        address, key = urldefrag(link)
        text = text_at(address)
        assert len(text.encode()) < 500_000
        row = rf'<tr id="{re.escape(key)}"><th scope="row">{re.escape(key)}<td>(.*)<td>(.*)'
        ((value, unit),) = re.findall(row, text.replace("<wbr>", ""))
        assert title == f"{Path(address).stem}: {key} = {unescape(value)} {unescape(unit)}".rstrip()
    assert visit.page.query_selector("article a[href*='.json#']") is None


def test_on_a_desktop_a_line_of_code_is_one_line(visit):
    visit.page.set_viewport_size(DESKTOP)
    assert visit.page.evaluate(WRAPPED) == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") == DESKTOP["width"]


def test_on_a_phone_nothing_sticks_out_of_the_page(visit, keep):
    page, name = visit.page, visit.name
    page.set_viewport_size(PHONE)
    assert page.eval_on_selector_all("article :is(h1, h2, h3) > .headerlink", LONE_LINKS) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(NARROW_PICTURES) == []
    with suppress(NotInTime):  # a box hears of its size with one of the next frames
        page.wait_for_function(f"({NOT_FADED})().length === 0", polling=50, timeout=5000)
    assert page.evaluate(NOT_FADED) == []
    signs = "links => links.map(link => getComputedStyle(link, '::after').content)"
    assert {*page.eval_on_selector_all("a.enlarge", signs)} <= {'""'}  # a magnifier and no words
    if name in KEPT:
        keep(page, f"book-{name}-phone", near="article img")


def serious(violations):
    """Say where the rules of axe are broken in earnest."""
    return [
        f"{violation['id']}: {node['html']}"
        for violation in violations
        for node in violation["nodes"]
        if violation["impact"] in ("serious", "critical")
    ]


@pytest.fixture(scope="module")
def kinds_of_text():
    """By scheme, the kinds of texts that were looked at on some page."""
    return {"light": [], "dark": []}


def test_a_page_is_accessible_in_light_and_in_dark(visit, keep, kinds_of_text):
    page, name = visit.page, visit.name
    page.set_viewport_size(DESKTOP)
    for scheme, kept in (("light", ""), ("dark", "-dark")) if name in KEPT else ():
        page.emulate_media(color_scheme=scheme)
        keep(page, f"book-{name}{kept}", near="article img")
    page.evaluate(EACH_COLOUR_ONCE)
    page.evaluate(AXE)
    slow = (*SEEN, "region")  # those are below; this is never serious
    rules = {rule: {"enabled": False} for rule in slow}
    options = {"resultTypes": ["violations"], "rules": rules}
    assert serious(page.evaluate("async options => (await axe.run(options)).violations", options)) == []
    backgrounds = set()
    for scheme, known in kinds_of_text.items():
        page.emulate_media(color_scheme=scheme)
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        options = {"resultTypes": ["violations"], "runOnly": SEEN}
        kinds, violations = page.evaluate(CONTRASTS, [options, known])
        assert serious(violations) == []
        known += kinds
    assert len(backgrounds) == 2
    assert set(page.eval_on_selector_all("article img[src$='.png']", BACKGROUNDS)) <= {255}


@pytest.mark.parametrize("visit", [RESULT], indirect=True)
def test_the_head_of_a_results_table_stands_only_above_its_columns(visit):
    for size in (DESKTOP, PHONE):
        visit.page.set_viewport_size(size)
        assert visit.page.locator("details[open] > div thead").first.is_visible() == (size == DESKTOP)


@pytest.mark.parametrize("visit", [RESULT], indirect=True)
def test_a_link_to_a_row_in_a_closed_fold_opens_it(visit, home):
    page, key = visit.page, "data.evaluation.6.bits"
    page.set_viewport_size(DESKTOP)
    row = page.locator(f'[id="{key}"]')
    assert not row.is_visible()
    page.goto(f"{home}/{RESULT}.html#{key}")
    row.wait_for()
    assert 0 < row.bounding_box()["y"] < DESKTOP["height"]


@pytest.mark.parametrize("visit", ["glossary"], indirect=True)
def test_a_chinese_word_stands_on_one_line(visit):
    page = visit.page
    assert "注意力" in page.inner_text("td:nth-child(2) >> nth=0")
    assert page.evaluate(BROKEN_WORDS) == []


@pytest.mark.parametrize("visit", ["glossary"], indirect=True)
def test_on_a_desktop_the_glossarys_widest_column_is_the_meaning(visit):
    visit.page.set_viewport_size(DESKTOP)
    widths = "tables => tables.map(table => [...table.querySelectorAll('th')].map(head => head.clientWidth))"
    tables = visit.page.eval_on_selector_all("table.terms", widths)
    assert tables
    assert all(max(table) == table[2] for table in tables)


@pytest.mark.parametrize("visit", ["glossary"], indirect=True)
def test_on_a_phone_the_glossary_does_not_scroll_sideways(visit):
    visit.page.set_viewport_size(PHONE)
    wide = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    assert visit.page.eval_on_selector_all(".table-wrapper", wide) == 0
    assert "term-perplexity" in visit.page.eval_on_selector_all("tbody tr", "rows => rows.map(row => row.id)")
    visit.page.set_viewport_size(DESKTOP)


def test_the_search_knows_every_term_of_the_glossary(home, text_at):
    rows = re.findall(r"<tr\b[^>]*>(?=\s*<td)", text_at(f"{home}/glossary.html"))
    anchors = [re.search(r'id="(term-[^"]+)"', row)[1] for row in rows]
    assert len(set(anchors)) == len(anchors) > 50
    listed = text_at(f"{home}/searchindex.js")
    assert [anchor for anchor in anchors if f'"{anchor}"' not in listed] == []


@pytest.mark.parametrize(
    ("words", "anchor"),
    [
        ("stop-gradient", "stop-gradient"),
        ("stop gradient", "stop-gradient"),
        ("perplexity", "perplexity"),
        ("困惑度", "perplexity"),
        ("memory", "memory"),
        ("relative shift", "relative-shift-left-shift"),
    ],
)
def test_search_shows_the_term_first_and_prose(index, words, anchor):
    page = index.page
    page.fill(".sidebar-search", words)
    page.press(".sidebar-search", "Enter")
    page.wait_for_selector("#search-results li p.context")
    page.wait_for_load_state("networkidle")
    links = page.eval_on_selector_all(
        "#search-results li > a", "links => links.map(link => link.pathname + link.hash)"
    )
    assert links[0] == f"/glossary.html#term-{anchor}"
    assert len(links) > 1
    shown = page.eval_on_selector_all("#search-results p.context", "all => all.map(one => one.textContent)")
    assert not re.search(r"\b(import|def) \w+|torch\.|\\frac|self\.", " ".join(shown))
    assert not [one for one in shown if one.startswith("...") or one.endswith("...")]  # cut within a word
    assert any(one.startswith("… ") for one in shown)
    assert index.errors == []


@pytest.mark.parametrize(
    ("words", "first", "later"),
    [
        ("relative shift", ["09_relative_shift", "02_positions", "03_vanilla_segments"], []),
        ("window", ["03_vanilla_segments", "12_evaluation_cost", "14_what_came_after"], ["other_systems"]),
        ("sliding window", ["03_vanilla_segments", "12_evaluation_cost", "14_what_came_after"], []),
        ("Windows", ["other_systems"], ["03_vanilla_segments"]),
    ],
)
def test_search_lists_titles_before_texts_and_equals_in_the_order_of_the_course(index, words, first, later):
    page = index.page
    page.fill(".sidebar-search", words)
    page.press(".sidebar-search", "Enter")
    page.wait_for_selector("#search-results li p.context")
    page.wait_for_load_state("networkidle")
    names = [Path(link).stem for link in page.eval_on_selector_all("#search-results li > a", ADDRESSES)]
    pages = list(dict.fromkeys(name for name in names if name != "glossary"))
    assert pages[: len(first)] == first
    assert all(pages.index(name) >= len(first) for name in later)


@pytest.mark.parametrize(("words", "offers"), [("memory", 1), ("zyzzyva", 0)])
def test_matches_can_be_hidden_where_there_are_some(index, words, offers):
    index.page.evaluate("words => localStorage.setItem('sphinx_highlight_terms', words)", words)
    index.page.reload(wait_until="networkidle")
    index.page.wait_for_timeout(300)  # matches are marked a moment after the page is there
    assert index.page.locator(".highlight-link").count() == offers


@pytest.mark.parametrize("name", ["glossary", "12_evaluation_cost"])
def test_a_page_opens_at_its_beginning_and_is_seen_in_the_contents(browser, home, name):
    context = browser.new_context(viewport={"width": 1280, "height": 700})
    with visiting(context.new_page(), home, name) as visit:
        assert visit.page.evaluate("scrollY") == 0
        place = visit.page.locator(".sidebar-tree .current-page > a").bounding_box()
        assert 0 < place["y"] < 700 - place["height"]
    context.close()


def test_titles_have_numbers_on_the_page_and_in_the_contents(index):
    shown = index.page.eval_on_selector_all(".sidebar-tree a", "links => links.map(link => link.textContent)")
    numbers = [name.partition("_")[0] for name in NOTEBOOKS]
    assert [title.partition(" · ")[0] for title in shown[: len(numbers)]] == numbers
    listed = index.page.eval_on_selector_all(
        "article li > p > a", ADDRESSES + ".filter(l => l.endsWith('html'))"
    )
    assert {Path(link).stem for link in listed} >= set(NOTEBOOKS)


def test_brackets_stretch_in_a_font_that_ships_along(window, home):
    with visiting(window, home, "08_xl_four_terms") as visit:
        page = visit.page
        assert any(url.endswith("stix-two-math.woff") for url in visit.requested)
        assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"')")
        page.set_content(
            page.evaluate(
                "[...document.querySelectorAll('link[rel=stylesheet]')].map(l => l.outerHTML).join('')"
            )
            + "<math display=block><mo>(</mo><mfrac><mi>a</mi><mfrac><mi>b</mi><mi>c</mi></mfrac></mfrac>"
            "<mo>)</mo></math>"
        )
        page.wait_for_load_state("networkidle")
        bracket, fraction = (page.locator(name).first.bounding_box()["height"] for name in ("mo", "mfrac"))
        assert bracket > 0.9 * fraction


def test_the_aligned_lines_of_an_equation_meet_at_their_sign(window, home):
    with visiting(window, home, "02_positions") as visit:
        gaps = visit.page.eval_on_selector_all(
            "mtd[columnalign=right]:not(:empty)",
            "cells => cells.map(cell => cell.getBoundingClientRect().right"
            " - cell.lastElementChild.getBoundingClientRect().right)",
        )
        assert len(gaps) > 2
        assert gaps == pytest.approx([0] * len(gaps), abs=1)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_search_page_without_a_word_to_search_for_has_a_field_that_takes_it(window, home, size):
    with visiting(window, home, "search") as visit:
        visit.page.set_viewport_size(size)
        (field,) = visit.page.locator("input[name=q]:visible").all()
        assert visit.page.get_by_role("heading", level=1).all_text_contents() == ["Search the book"]
        links = visit.page.locator("article p a").evaluate_all("all => all.map(one => one.href)")
        words = ("relative+shift", "mem_len")
        assert links == [*(f"{home}/search.html?q={one}" for one in words), f"{home}/glossary.html"]
        visit.page.evaluate(f"async () => {{ {AXE} }}")
        found = visit.page.evaluate("axe.run()")
        assert [one["id"] for one in found["violations"]] == []
        assert field.evaluate("field => field === document.activeElement")
        visit.page.keyboard.type("gradient")
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_selector("#search-results li")
        assert visit.page.get_by_role("searchbox", name="Search the book").input_value() == "gradient"
        assert visit.page.locator("article p a[href='glossary.html']").count() == 0
        for link in links[:2]:
            visit.page.goto(link)
            visit.page.wait_for_selector("#search-results li")


# A search's hits: the word that is asked for, the text of their page, and the excerpt
EXCERPTS = (
    ("two", "One two three.", "One two three."),
    ("none", "Words. " * 99, "Words. " * 34 + "…"),
    (
        "it",
        "relevant " * 99 + "it" + " relevant" * 99,
        "… " + "relevant " * 14 + "it" + " relevant" * 12 + " …",
    ),
)


@pytest.mark.parametrize(("word", "text", "expected"), EXCERPTS)
def test_an_excerpt_begins_and_ends_with_a_whole_word(window, home, word, text, expected):
    with visiting(window, home, "search") as visit:
        shown = visit.page.evaluate("([text, word]) => around(text, [word])", [text.strip(), word])
        assert shown == expected


def test_an_excerpt_quotes_no_table_but_the_terms_names_and_meaning(index):
    for words in ("sampling temperature", "relative shift"):
        index.page.fill(".sidebar-search", words)
        index.page.press(".sidebar-search", "Enter")
        index.page.wait_for_selector("#search-results li p.context")
        index.page.wait_for_load_state("networkidle")
        shown = index.page.locator("#search-results p.context").all_text_contents()
        assert not [one for one in shown if re.search(r"– –|\[[a-z]+( [a-z]+)+\] ", one)]
        index.page.go_back(wait_until="networkidle")
    assert "relative shift (left shift), 相对移位（左移）, Moves each row of a matrix" in " ".join(shown)


def test_on_a_phone_a_table_of_words_is_as_wide_as_the_page_and_one_of_numbers_may_scroll(browser, home):
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    beyond = "boxes => boxes.map(box => box.scrollWidth - box.clientWidth)"
    for name in ("00_start_here", "10c_memory_gain", "coming_from"):
        with visiting(page, home, name):
            for table in (":has(.stacked)", ":not(:has(.stacked)):has(td.long)"):
                assert {*page.eval_on_selector_all(f".table-wrapper{table}", beyond)} <= {0}
    with visiting(page, home, "10c_memory_gain"):
        said = "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
        first = page.locator("table.stacked tbody tr").first.locator("td")
        words = ["none", '"read at once: "', '"past that a query sees in a layer: "', '"cost: "']
        assert first.evaluate_all(said) == words
        widths = "all => all.map(cell => cell.clientWidth)"
        questions = page.eval_on_selector_all("table:not(.stacked) td.long", widths)
        assert min(questions) > PHONE["width"] / 2
    with visiting(page, home, "benchmark"):
        assert page.locator("table.stacked").count() == 0
    context.close()


def test_on_a_phone_the_way_back_to_the_top_is_a_bar_that_covers_no_part_of_a_line(window, home):
    with visiting(window, home, "01_attention") as visit:
        visit.page.set_viewport_size(PHONE)
        visit.page.mouse.wheel(0, 3000)
        visit.page.wait_for_function("scrollY > 2000")
        visit.page.mouse.wheel(0, -300)
        bar = visit.page.locator(".back-to-top")
        bar.wait_for()
        box = bar.bounding_box()
        assert (box["x"], box["width"]) == (0, PHONE["width"])
        assert box["y"] + box["height"] == PHONE["height"]
        assert box["height"] < 48
        clear = "part => getComputedStyle(part).backgroundColor.startsWith('rgba')"
        assert not bar.evaluate(clear)


@pytest.mark.parametrize("width", [340, 390])
def test_a_comment_that_wraps_goes_on_behind_its_sign(window, home, width):
    with visiting(window, home, "03_vanilla_segments") as visit:
        visit.page.set_viewport_size({"width": width, "height": 844})
        wrapped = visit.page.evaluate(COMMENTS)
        assert len(wrapped) > 2
        assert wrapped == pytest.approx([2] * len(wrapped), abs=0.2)


def test_the_results_list_their_questions_behind_the_main_findings(window, home):
    with visiting(window, home, "results") as visit:
        listed = visit.page.locator("article h1 ~ ul").nth(1).locator("a")
        addresses = listed.evaluate_all("links => links.map(link => link.getAttribute('href'))")
        sections = visit.page.locator("article section section")
        assert addresses == [f"#{one}" for one in sections.evaluate_all("all => all.map(part => part.id)")]


def test_the_start_page_and_the_contents_name_the_same_pages_in_the_same_order(index):
    page = index.page
    captions = page.locator(".sidebar-tree .caption-text").all_text_contents()
    heads = page.locator("article section section > h2").evaluate_all(
        "all => all.map(h => h.firstChild.data)"
    )
    assert heads == ["Thirty minutes", *captions]
    listed = page.locator("article section section > ul > li > p > a:first-child").all_text_contents()
    assert listed == page.locator(".sidebar-tree a").all_text_contents()


def test_in_a_hit_of_the_search_the_words_are_bold(index):
    page = index.page
    page.fill(".sidebar-search", "memory")
    page.press(".sidebar-search", "Enter")
    found = page.locator("#search-results p.context .highlighted").first
    found.wait_for()
    weight = "element => Number(getComputedStyle(element).fontWeight)"
    assert found.evaluate(weight) > page.locator("#search-results p.context").first.evaluate(weight)


@pytest.mark.parametrize("name", ["06_dependency_reach", "09_relative_shift"])
def test_a_boxed_formula_has_a_box_around_it(window, home, name):
    with visiting(window, home, name) as visit:
        (box,) = visit.page.locator("menclose").all()
        assert box.evaluate("box => getComputedStyle(box).borderStyle") == "solid"
        outer, inner = box.bounding_box(), box.locator("> *").first.bounding_box()
        assert outer["x"] < inner["x"]
        assert outer["x"] + outer["width"] > inner["x"] + inner["width"]
        assert outer["y"] < inner["y"]
        assert outer["y"] + outer["height"] > inner["y"] + inner["height"]


def test_on_a_phone_a_hint_has_room_for_a_finger(window, home):
    with visiting(window, home, "04_recurrence") as visit:
        visit.page.set_viewport_size(PHONE)
        folds = visit.page.locator("article details:not(.hide) > summary:visible").all()
        assert len(folds) > 2
        assert min(fold.bounding_box()["height"] for fold in folds) >= LEAST_HEIGHT


def test_a_fold_says_code_and_one_that_shows_nothing_is_left_out(text_at, home):
    text = text_at(f"{home}/14_what_came_after.html")
    assert "Show code<" in text
    assert "Show code cell" not in text
    assert "rotary must break" in (ROOT / "notebooks/14_what_came_after.ipynb").read_text("utf-8")
    assert "rotary must break" not in text


@pytest.mark.parametrize("name", ["06b_context_length", "10b_ablation", "10c_memory_gain"])
def test_on_a_phone_a_caption_is_whole_and_stays_while_its_table_scrolls(window, home, name):
    with visiting(window, home, name) as visit:
        visit.page.set_viewport_size(PHONE)
        seen = visit.page.eval_on_selector_all(".output.text_html:has(caption)", CAPTIONS)
        assert seen  # tables that are wider than their box
        assert all(left <= begin < end <= right for left, right, begin, end in seen)


@pytest.mark.parametrize("name", ["03_vanilla_segments", "05_absolute_positions_break", "12_evaluation_cost"])
def test_code_wraps_between_its_words_and_goes_on_behind_its_own_beginning(window, home, name):
    with visiting(window, home, name) as visit:
        for width in (340, 390, 700):
            visit.page.set_viewport_size({"width": width, "height": 844})
            assert visit.page.evaluate(BROKEN_CODE) == []
            assert {*visit.page.evaluate(CONTINUED)} == {2}


def test_a_command_does_not_wrap_within_an_option(window, home):
    with visiting(window, home, "recipes/wikitext-103") as visit:
        code = "".join(visit.page.locator(".highlight .line").all_text_contents())
        options = {*re.findall(r"\s(--[\w-]+)", code)}
        assert "--checkpoint-every" in options
        assert options <= {*visit.page.locator(".highlight .word").all_text_contents()}


def test_what_scrolls_on_a_phone_shows_its_scrollbar(window, home):
    with visiting(window, home, "12_evaluation_cost") as visit:
        visit.page.set_viewport_size(PHONE)
        table = visit.page.locator(".table-wrapper").first
        assert table.evaluate("box => getComputedStyle(box).scrollbarColor") == "auto"  # else none of ours
        assert table.evaluate("box => getComputedStyle(box, '::-webkit-scrollbar').height") == "8px"


@pytest.mark.parametrize(
    ("name", "picture"),
    [("results", "img[src*='memory_and_positions']"), ("00_start_here", "picture img")],
    ids=["results", "notebook"],
)
def test_a_stored_figure_has_its_panels_stacked_on_a_phone_and_opens_large(window, home, name, picture):
    with visiting(window, home, name) as visit:
        page = visit.page
        page.set_viewport_size(PHONE)
        image = page.locator(f"article {picture}")
        image.scroll_into_view_if_needed()
        page.wait_for_load_state("networkidle")
        assert image.evaluate("image => image.currentSrc").endswith("memory_and_positions-phone.svg")
        image.click()
        large = page.locator("dialog.figure img")
        large.evaluate("image => image.decode()")  # until it is loaded it has the width of the dialog
        assert large.bounding_box()["width"] > 1.5 * image.bounding_box()["width"]
        assert large.get_attribute("src").endswith("memory_and_positions-phone.svg")
        page.keyboard.press("Escape")
        page.locator("dialog.figure").wait_for(state="detached")  # the page hears of the key a moment later
        assert page.evaluate("document.activeElement.classList.contains('enlarge')")
        page.set_viewport_size(DESKTOP)
        page.wait_for_load_state("networkidle")
        assert not image.evaluate("image => image.currentSrc").endswith("-phone.svg")
        assert visit.errors == []


@pytest.mark.parametrize(
    ("name", "picture"),
    [("06b_context_length", ".play img"), ("09_relative_shift", ".cell_output a.enlarge img")],
    ids=["play", "output"],
)
def test_a_notebooks_picture_is_whole_on_a_phone_and_opens_large_from_its_corner(window, home, name, picture):
    with visiting(window, home, name) as visit:
        page, dialog = visit.page, visit.page.locator("dialog.figure")
        page.set_viewport_size(PHONE)
        image = page.locator(picture).first
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
        image.click(position={"x": 0.4 * box["width"], "y": box["height"] / 2})
        own = image.evaluate("image => Number(image.getAttribute('width')) || image.naturalWidth")
        assert dialog.locator("img").bounding_box()["width"] == own > 1.4 * box["width"]
        page.wait_for_timeout(100)  # until it is loaded
        scrolled = "large => [large.scrollLeft, large.scrollTop]"
        assert dialog.locator(".large").evaluate(scrolled) == [0, 0]
        inside, whole = dialog.locator(".large").bounding_box(), dialog.locator("img").bounding_box()
        assert whole["x"] == inside["x"]
        assert whole["y"] >= inside["y"]  # its title is there
        dialog.locator("img").click()  # which may be the first tap of two
        for key in ("Escape", "Enter"):
            page.keyboard.press(key)  # the second on the button that closes
            dialog.wait_for(state="detached")
            page.keyboard.press("Enter")  # on the link, which has the focus again
            dialog.wait_for()
        dialog.click(position={"x": 5, "y": 5})  # beside the picture
        dialog.wait_for(state="detached")


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080), (800, 1280)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize(
    ("name", "picture"),
    [("results", "img[src*='memory_and_positions']"), ("09_relative_shift", ".cell_output a.enlarge img")],
    ids=["results", "output"],
)
def test_on_a_wide_window_a_picture_that_is_opened_is_whole(window, home, name, picture, size):
    with visiting(window, home, name) as visit:
        visit.page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        visit.page.locator(f"article {picture}").first.click()
        dialog = visit.page.locator("dialog.figure")
        dialog.locator("img").evaluate("image => image.decode()")
        box, inside = dialog.locator("img").bounding_box(), dialog.locator(".large").bounding_box()
        assert box == inside
        look = "image => [getComputedStyle(image).objectFit, getComputedStyle(image).objectPosition]"
        assert dialog.locator("img").evaluate(look) == ["contain", "50% 50%"]
        assert box["width"] > 0.9 * size[0]
        assert box["height"] > 0.85 * size[1]
        scrolls = "box => box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight"
        assert not dialog.locator(".large").evaluate(scrolls)
        visit.page.keyboard.press("Escape")


def test_a_picture_stands_on_a_soft_card_on_a_dark_page(window, home):
    with visiting(window, home, "09_relative_shift") as visit:
        page, looks = (
            visit.page,
            "image => [getComputedStyle(image).filter, getComputedStyle(image).borderRadius]",
        )
        for scheme, card in (("light", ["none", "0px"]), ("dark", ["brightness(0.92)", "9.6px"])):
            page.emulate_media(color_scheme=scheme)
            assert page.locator(".cell_output a.enlarge img").first.evaluate(looks) == card


# Widgets that play without a kernel


@pytest.fixture(scope="module", params=PLAYED)
def played(request):
    """A widget of the course as the notebook makes it, and the values of its controls in the book."""
    path = ROOT / "notebooks" / f"{request.param}.ipynb"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        patch.setenv("MINITXL_PROFILE", "quick")
        (cell,) = play.widgets_of(path)
        explorer = value_of([play.SEED, *excerpt(path, cell)])
        yield request.param, explorer, play.shown_values(explorer.controls, play.ASKED.get(request.param))


def set_to(page: Page, number: int, place: int, way: str) -> None:
    """Set a control of the page's widget to the value at a place, as a reader does."""
    control = page.locator(".play-control").nth(number)
    if way == "touch":
        kind = control.locator("input").first.get_attribute("type")
        target = control.locator("input").nth(place) if kind == "radio" else control.locator("input").first
        if kind == "range":
            box, last = target.bounding_box(), int(target.get_attribute("max"))
            x = 8 + (box["width"] - 16) * place / last
            target.tap(position={"x": x, "y": box["height"] / 2})
        elif kind == "radio" or target.is_checked() != bool(place):
            target.tap()
        return
    field = control.locator("input").first
    if field.get_attribute("type") == "radio":
        control.locator("input:checked").focus()
        for _ in range(place - control.locator("input:checked").evaluate(PLACE)):
            page.keyboard.press("ArrowRight")
        for _ in range(control.locator("input:checked").evaluate(PLACE) - place):
            page.keyboard.press("ArrowLeft")
    elif field.get_attribute("type") == "checkbox":
        field.focus()
        if field.is_checked() != bool(place):
            page.keyboard.press("Space")
    else:
        field.focus()
        page.keyboard.press("Home")
        for _ in range(place):
            page.keyboard.press("ArrowRight")


PLACE = "input => [...input.closest('[role=radiogroup]').querySelectorAll('input')].indexOf(input)"


@pytest.mark.parametrize("way", ["keyboard", "touch"])
def test_a_widget_plays_and_its_picture_is_the_notebooks(browser, home, played, way):
    stem, explorer, values = played
    context = browser.new_context(viewport=PHONE, has_touch=True)
    with visiting(context.new_page(), home, stem) as visit:
        page = visit.page
        start = {name: control.value for name, control in explorer.controls.items()}
        several = [name for name, shown in values.items() if len(shown) > 1]
        for number, name in enumerate(several):
            chosen = dict(start)
            for value in dict.fromkeys((values[name][0], values[name][-1], start[name])):
                chosen[name] = value
                set_to(page, number, values[name].index(value), way)
                picture, image = explorer.draw(**chosen), page.locator(".play img")
                assert image.get_attribute("alt") == picture.alt
                stored = requests.get(image.evaluate("image => image.src"), timeout=60).content
                assert stored == picture.png
        assert visit.errors == []
    context.close()


def test_on_a_phone_a_widgets_picture_keeps_its_size_when_a_control_is_moved(browser, home, played):
    stem, _, values = played
    context = browser.new_context(viewport=PHONE, has_touch=True)
    with visiting(context.new_page(), home, stem) as visit:
        image = visit.page.locator(".play img")
        room = visit.page.locator(".play").evaluate("box => box.clientWidth")
        for place in (0, 1, 2, 1, 0):
            set_to(visit.page, 0, min(place, len(next(iter(values.values()))) - 1), "touch")
            image.evaluate("image => image.decode()")
            assert image.bounding_box()["width"] == pytest.approx(room, abs=1)
    context.close()


def test_without_a_script_a_widgets_first_picture_stands_still(browser, home, played):
    stem, explorer, _ = played
    context = browser.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}/{stem}.html")
    image = page.locator(".play img")
    assert image.get_attribute("alt") == explorer.drawn.alt
    assert page.locator(".play a").get_attribute("href") == image.get_attribute("src")
    assert page.locator(".play input").count() == 0
    assert not page.locator(".play-hint").is_visible()
    context.close()


LEAST_HEIGHT = 32
"""Pixels of what a finger taps."""
LEAST_SLIDER = 120
"""Pixels of a slider that a finger can still set."""
FOUR = ("first", "second", "third", "fourth")


@pytest.mark.parametrize("name", PLAYED)
def test_sliders_have_room_and_the_choices_beside_them_wrap(window, home, name):
    with visiting(window, home, name) as visit:
        for size in (DESKTOP, PHONE):
            visit.page.set_viewport_size(size)
            controls = visit.page.locator(".play-controls")
            widths = controls.locator("input[type=range]").evaluate_all(
                "all => all.map(one => one.offsetWidth)"
            )
            assert all(width >= LEAST_SLIDER for width in widths)
            assert controls.evaluate("box => box.scrollWidth <= box.clientWidth")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_controls_stand_in_line_above_the_hint_and_the_picture(window, home, size):
    with visiting(window, home, PLAYED[1]) as visit:
        page = visit.page
        page.set_viewport_size(size)
        page.add_style_tag(content="* { scroll-behavior: auto !important; }")
        file = Path(page.locator(".play img").get_attribute("src")).name
        values = {"query": [*"01234"], "seg_len": [*"5678"], "c": [False, True]}
        values |= {"a": [False, True], "head": [f"the {n} head of the last layer" for n in FOUR]}
        values |= {"b": [False, True]}
        controls = [
            {"name": name, "label": name, "values": shown, "start": 0, "all": True}
            for name, shown in values.items()
        ]
        widget = {"controls": controls, "states": [{"file": file, "alt": "1", "width": 660}]}
        html = play.html_of(widget, f"play/{PLAYED[1]}")
        page.evaluate(
            "html => { const article = document.querySelector('article');"
            "article.insertAdjacentHTML('beforeend', html); play(article.lastElementChild); }",
            html,
        )
        box = page.locator(".play").last
        ranges = [one.bounding_box() for one in box.locator("input[type=range]").all()]
        assert len({(one["x"], one["width"]) for one in ranges}) == 1
        assert ranges[0]["width"] >= LEAST_SLIDER
        assert {one.bounding_box()["x"] for one in box.locator("output").all()} == {
            box.locator("output").first.bounding_box()["x"]
        }
        radio = box.locator("input[type=radio]").first.bounding_box()
        assert abs(radio["x"] - ranges[0]["x"]) < 8
        boxes = [one.bounding_box() for one in box.locator("input[type=checkbox]").all()]
        assert len(boxes) == 3
        assert len({one["y"] for one in boxes}) == 1
        lines = [box.locator(part).bounding_box() for part in (".play-controls", ".play-hint", "img")]
        assert all(above["y"] + above["height"] <= below["y"] for above, below in pairwise(lines))
        note = box.locator("a.enlarge").evaluate("link => getComputedStyle(link, '::after').content")
        assert note == ('""' if size == PHONE else "none")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_widget_whose_panels_stack_shows_them_so_on_a_phone_and_does_not_scroll(window, home, size):
    with visiting(window, home, PLAYED[1]) as visit:
        page, (first, narrow, second, also_narrow) = visit.page, [f"widget-{place}.png" for place in range(4)]
        page.set_viewport_size(size)
        controls = [{"name": "a", "label": "a", "values": ["one", "two"], "start": 0, "all": True}]
        states = [{"file": first, "phone": narrow}, {"file": second, "phone": also_narrow}]
        states = [{**state, "alt": "1", "width": 990} for state in states]
        html = play.html_of({"controls": controls, "states": states}, f"play/{PLAYED[1]}")
        page.evaluate(
            "html => { const article = document.querySelector('article');"
            "article.insertAdjacentHTML('beforeend', html); play(article.lastElementChild); }",
            html,
        )
        box = page.locator(".play").last
        for place, file in enumerate((narrow, also_narrow) if size == PHONE else (first, second)):
            box.locator("input").nth(place).check()
            image = box.locator("img")
            image.evaluate("image => image.decode()")
            assert Path(image.evaluate("image => image.currentSrc")).name == file
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth")


@pytest.mark.parametrize(("count", "each"), [(1, None), (3, None), (3, 0.8)])
def test_a_picture_is_drawn_for_phones_too_where_its_panels_stack(count, each):
    def draw(height):
        with drawing(9, height) as figure:
            panels(figure, count, height=each) if count > 1 else figure.subplots()
        return Picture(figure, "1")

    narrow = play.stacked_for_phones(SimpleNamespace(draw=draw), {"height": 3}, draw(3))
    assert (narrow is not None) == (count > 1)  # also where it is no higher: 3 panels of 0.8 inches
    assert narrow is None or narrow.figure.get_figwidth() == PHONE_INCHES


@pytest.mark.parametrize(("seg_len", "mem_len"), [(2, 0), (4, 12)])
def test_the_steps_through_the_segments_are_drawn_for_phones_too(monkeypatch, seg_len, mem_len):
    path = ROOT / "notebooks/04_recurrence.ipynb"
    monkeypatch.chdir(path.parent)
    (cell,) = play.widgets_of(path)
    explorer = value_of([play.SEED, *excerpt(path, cell)])
    chosen = {"step": 3, "seg_len": seg_len, "mem_len": mem_len}
    narrow = play.stacked_for_phones(explorer, chosen, explorer.draw(**chosen))
    assert narrow is not None
    narrow.figure.canvas.draw()
    ticks = narrow.figure.axes[1].get_xticklabels()
    assert all(a.get_window_extent().x1 < b.get_window_extent().x0 for a, b in pairwise(ticks))
    assert all(text.get_fontsize() >= 7 for text in ticks)


def test_a_widget_has_no_more_states_than_are_drawn(played):
    _, explorer, values = played
    assert prod(map(len, values.values())) <= play.MOST
    for name, control in explorer.controls.items():
        assert control.value in values[name]
        every = play.values_of(control)
        assert values[name] == [value for value in every if value in values[name]]
        if len(values[name]) > 2:
            assert {every[0], every[-1]} <= set(values[name])


@pytest.mark.parametrize("stem", play.ASKED)
def test_a_value_that_is_drawn_on_request_is_named_in_the_text_beside_the_widget(stem):
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    (place,) = (number for number, cell in enumerate(cells) if cell["id"] in play.widgets_of(path))
    said = re.findall(r"\d+(?:[.,]\d+)*", "".join(cells[place - 1]["source"]))
    for values in play.ASKED[stem].values():
        assert {f"{value:,g}" if value < 1000 else f"{value:,}" for value in values} <= set(said)


@pytest.mark.parametrize("stem", ["06_dependency_reach", "12_evaluation_cost", "13_generation"])
def test_the_values_that_a_text_asks_for_are_drawn(stem, monkeypatch):
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    monkeypatch.chdir(path.parent)
    (cell,) = play.widgets_of(path)
    controls = value_of([play.SEED, *excerpt(path, cell)]).controls
    shown = play.shown_values(controls, play.ASKED[stem])
    assert prod(map(len, shown.values())) <= play.MOST
    for name, values in play.ASKED[stem].items():
        every = play.values_of(controls[name])
        assert {*values, controls[name].value, every[0], every[-1]} <= set(shown[name])
    assert all(len(values) > 1 for values in shown.values())


def test_more_states_than_are_drawn_cant_be_asked_for():
    controls = {name: ipywidgets.IntSlider(4, min=0, max=9) for name in "ab"}
    assert play.shown_values(controls, {"a": [3]}, most=8) == {"a": [0, 3, 4, 9], "b": [0, 4]}
    with pytest.raises(ValueError, match="at most 3 states are drawn, got 4 that are asked for"):
        play.shown_values(controls, {"a": [3]}, most=3)
    with pytest.raises(ValueError, match="12 is not in list"):
        play.shown_values(controls, {"a": [12]})
