"""The static site, as a reader meets it."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
MAKE_ABSOLUTE = "nodes => nodes.map(node => node.href || node.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built with every warning an error, as `make book` does."""
    folder = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", folder / "trees"]
    built = subprocess.run(
        [*command, "-c", ROOT / "notebooks/book", ROOT / "notebooks", folder / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture
def visit(browser, serve, site):
    """Open a page; what its console and its requests complained of, and who was asked."""
    home, context = serve(site), browser.new_context()
    errors, asked = [], []

    def open_page(name):
        page = context.new_page()
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: errors.append(f"failed: {request.url}"))
        page.on(
            "response", lambda got: errors.append(f"{got.status}: {got.url}") if got.status > 399 else None
        )
        page.goto(f"{home}/{name}.html", wait_until="networkidle")
        return page

    open_page.errors, open_page.asked, open_page.home = errors, asked, home
    yield open_page
    context.close()


def test_the_whole_course_is_listed(visit):
    listed = visit("index").eval_on_selector_all(".sidebar-tree a", MAKE_ABSOLUTE)
    assert [Path(link).stem for link in listed] == [*NOTEBOOKS, "glossary"]


@pytest.mark.parametrize("name", [*NOTEBOOKS, "glossary", "index"])
def test_a_page_has_its_equations_and_images_and_complains_of_nothing(visit, name):
    page = visit(name)
    assert visit.errors == []
    assert all(url.startswith((visit.home, "data:")) for url in visit.asked)
    for image in page.query_selector_all("main img, article img"):
        assert image.evaluate("image => image.complete && image.naturalWidth > 0")
        assert re.search(r"\d", image.get_attribute("alt") or "")
    assert not re.search(r"\$\$|\\frac|\\text\{", page.inner_text("article"))
    if name in NOTEBOOKS:
        assert page.query_selector("article img")
        assert page.query_selector("math")


def test_no_link_leads_nowhere(visit):
    pages, broken = {}, []
    for name in [*NOTEBOOKS, "glossary", "index"]:
        page = visit(name)
        links = page.eval_on_selector_all("article a[href], .sidebar-tree a[href]", MAKE_ABSOLUTE)
        for link in links:
            target, anchor = urldefrag(urljoin(page.url, link))
            if not target.startswith(visit.home):
                continue
            if target not in pages:
                got = page.request.get(target)
                pages[target] = got.text() if got.ok else None
            text = pages[target]
            if text is None or (anchor and target.endswith(".html") and f'id="{anchor}"' not in text):
                broken.append(f"{name}: {link}")
        page.close()
    assert broken == []


def test_search_finds_a_term(visit):
    page = visit("search")
    page.goto(f"{visit.home}/search.html?q=stop-gradient", wait_until="networkidle")
    page.wait_for_selector("#search-results li a")
    assert page.query_selector_all("#search-results li a")
    assert visit.errors == []
