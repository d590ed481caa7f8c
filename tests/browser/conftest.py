"""A headless Chromium, JupyterLab, and what they look like."""

import shutil
from pathlib import Path

import lab as jupyter
import pytest
from playwright.sync_api import sync_playwright

SCREENSHOTS = Path(__file__).parent.parent.parent / "build" / "screenshots"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first, which Debian has, is Chromium without windows: it takes a quarter less of a processor's time."""
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        if executable is None and not Path(playwright.chromium.executable_path).exists():
            pytest.fail(
                "these tests need Chromium: on Debian or Ubuntu, 'apt-get install chromium' brings it, "
                "elsewhere '.venv/bin/playwright install chromium'"
            )
        browser = playwright.chromium.launch(executable_path=executable, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(browser, tmp_path_factory):
    """JupyterLab with a copy of the course, open in a window."""
    folder = tmp_path_factory.mktemp("lab")
    with jupyter.serving(folder) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 1100})
        yield jupyter.Lab(context, address, folder / "course")
        context.close()


@pytest.fixture
def keep():
    """Keep a picture of a page, for who wants to see what was tested."""

    def screenshot(page, name, near="body"):
        """What is in the window, once the first such element is."""
        for element in page.locator(near).all()[:1]:
            element.scroll_into_view_if_needed()
        page.screenshot(path=SCREENSHOTS / f"{name}.png")

    return screenshot
