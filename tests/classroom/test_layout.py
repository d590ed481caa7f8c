"""What a marker's browser is given of a student's cells holds no program."""

from html.parser import HTMLParser

import nbformat
import pytest
from nbconvert.filters import markdown2html

from minitxl.course.marking.layout import _shown, harmless

PROGRAMS = [
    "<script>alert(1)</script>",
    "text <img src=x onerror=alert(1)> text",
    "<<script>alert(1)</script>",
    "\\<script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<details open ontoggle=alert(1)>",
    "> <b onclick=alert(1)>quoted</b>",
    "| a |\n|---|\n| <i onmouseover=alert(1)>x</i> |",
    "$<img src=x onerror=alert(1)>$",
    "$$\n<img src=x onerror=alert(1)>\n$$",
    "[link](javascript:alert(1))",
    "[link](&#106;avascript:alert(1))",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "[x](JaVaScRiPt :alert(1))",
]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def tags_of(markdown):
    parser = Tags()
    parser.feed(markdown2html(markdown))
    return parser.found


def programs_in(markdown):
    return [
        (tag, attributes)
        for tag, attributes in tags_of(markdown)
        if tag in ("script", "img", "svg", "details", "iframe")
        or any(name.startswith("on") for name in attributes)
        or "javascript:" in str(attributes.get("href", ""))
    ]


@pytest.mark.parametrize("markdown", PROGRAMS)
def test_a_students_markdown_becomes_no_program(markdown):
    assert programs_in(harmless(markdown)) == []


def test_markdown_itself_would_have_become_some():
    assert sum(bool(programs_in(markdown)) for markdown in PROGRAMS) >= 7


def test_mathematics_has_no_links():
    assert harmless(r"$\href{javascript:alert(1)}{x}$") == r"$\ href{javascript :alert(1)}{x}$"


def test_prose_and_mathematics_stay_readable():
    mathematics = "$$\\begin{aligned}a &= b\\end{aligned}$$"
    markdown = f"**Bold**, $a < b$, `x < 3`, 1 <2\n\n- a list\n\n> a quote\n\n{mathematics}"
    assert harmless(markdown) == markdown
    assert harmless("a<b and R&D") == "a< b and R& D"


def test_an_attachment_is_a_picture_or_left_out():
    cell = nbformat.v4.new_markdown_cell("![a](attachment:a.png)")
    cell.attachments = {
        "a.png": {"image/png": "iVBORw0KGgo=", 'image/png" onerror="alert(1)': "aaaa", "text/html": "<b>"},
        "b.png": {"image/png": '"><script>alert(1)</script>'},
    }
    assert _shown(cell).attachments == {"a.png": {"image/png": "iVBORw0KGgo="}, "b.png": {}}
