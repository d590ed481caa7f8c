"""What follows from the repository's public address, where there is one and where there is none."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parent.parent
ADDRESS = "https://github.com/someone/a-course"
PROMISES = re.compile(r"colab|binder|github\.io|git clone", re.IGNORECASE)


@pytest.fixture(scope="module")
def home():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "notebooks"))
        patch.delitem(sys.modules, "execute", raising=False)
        spec = importlib.util.spec_from_file_location("home", ROOT / "notebooks" / "home.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def texts(home):
    return home.texts_of(ROOT)


@pytest.fixture(scope="module")
def away(home, texts):
    """The files without an address."""
    return home.texts_at("", texts, "1.2")


@pytest.fixture(scope="module")
def at_home(home, texts):
    return home.texts_at(ADDRESS, texts, "1.2")


def test_the_repository_is_as_its_setting_says(home, texts):
    address = home.address_in(texts["pyproject.toml"])
    version = tomllib.loads(texts["pyproject.toml"])["project"]["version"]
    for name, text in home.texts_at(address, texts, version).items():
        path = ROOT / name
        assert (path.read_text("utf-8") if path.exists() else None) == text, f"{name}: run make home"


def test_without_an_address_nothing_links_to_a_host_or_promises_one(home, away):
    for name, text in away.items():
        if name.endswith(".ipynb"):
            _, links, install, *_ = nbformat.reads(text, as_version=4).cells
            text = links.source + install.source
        assert not PROMISES.search(text or ""), name
    for path in (ROOT / "notebooks").glob("*.md"):
        assert not re.search(r"colab|binder", path.read_text("utf-8"), re.IGNORECASE), path
    assert {name for name, text in away.items() if text is None} == set(home.ONLY_AT_HOME)
    assert " no GPU. In the folder of this file:\n\n```sh\nmake demo " in away["README.md"]
    assert "urls" not in tomllib.loads(away["pyproject.toml"])["project"]
    assert "repository-code" not in yaml.safe_load(away["CITATION.cff"])


def test_with_an_address_badges_links_binder_pages_and_citation_follow(at_home):
    readme = at_home["README.md"]
    assert f"```sh\ngit clone {ADDRESS}\ncd a-course\nmake demo " in readme
    assert " no GPU.\n\n```sh\ngit clone " in readme
    assert "](https://someone.github.io/a-course/)" in readme.split("\n\n")[1]
    guide = at_home["notebooks/assignments/README.md"]
    assert f"```sh\ngit clone {ADDRESS}\ncd a-course\nmake assignments " in guide
    assert tomllib.loads(at_home["pyproject.toml"])["project"]["urls"] == {"Repository": ADDRESS}
    assert yaml.safe_load(at_home["CITATION.cff"])["repository-code"] == ADDRESS
    steps = yaml.safe_load(at_home[".github/workflows/pages.yml"])["jobs"]["book"]["steps"]
    built = next(step["run"] for step in steps if "run" in step)
    published = next(step["with"]["path"] for step in steps if "upload" in step.get("uses", ""))
    assert built.startswith("make book ")
    assert f"html notebooks {published}" in (ROOT / "Makefile").read_text()
    assert "--editable .\n" in at_home[".binder/requirements.txt"]


def test_with_an_address_every_notebook_can_be_started_from_the_tagged_version(at_home):
    notebooks = {name: text for name, text in at_home.items() if name.endswith(".ipynb")}
    assert len(notebooks) == len(list((ROOT / "notebooks").glob("*.ipynb")))
    for name, text in notebooks.items():
        _, links, install, *_ = nbformat.reads(text, as_version=4).cells
        assert f"/github/someone/a-course/blob/v1.2/{name})" in links.source
        assert f"/gh/someone/a-course/v1.2?labpath={name})" in links.source
        assert f"--branch v1.2 {ADDRESS} minitxl\n    %cd minitxl/notebooks\n    %pip install --quiet .." in (
            install.source
        )
        assert "google.colab" in install.source.splitlines()[2]


def test_each_title_has_its_notebooks_number_once(at_home):
    for name, text in at_home.items():
        if name.endswith(".ipynb"):
            title = nbformat.reads(text, as_version=4).cells[0].source.partition("\n")[0]
            assert re.findall(r"# (\w+) · ", title) == [Path(name).stem.partition("_")[0]], name


def test_an_address_that_is_taken_back_leaves_no_trace(home, at_home, away):
    kept = {name: text for name, text in at_home.items() if name not in home.ONLY_AT_HOME}
    assert home.texts_at("", kept, "1.2") == away
    assert home.texts_at(ADDRESS, kept, "1.2") == at_home


@pytest.mark.parametrize("address", ["github.com/a/b", "https://github.com/a", "https://example.com/a/b"])
def test_an_address_of_no_repository_is_refused(home, address):
    with pytest.raises(ValueError, match="repository must be empty or https://github"):
        home.address_in(f'[tool.minitxl]\nrepository = "{address}"\n')
