"""Write what follows from the repository's public address: `make home`.

The address is the setting ``repository`` of ``[tool.minitxl]`` in pyproject.toml, as
``https://github.com/OWNER/NAME``. Empty, it means that the repository has no public home: then nothing links
to Colab, Binder or a hosted book. Set, these follow from it:

- the notebooks' links to Colab and Binder, and the cell that installs the course in Colab;
- the README's badges, its lines that clone, and that of the teacher's guide;
- the address in CITATION.cff and among the project's addresses in pyproject.toml;
- ``.binder/``, which installs the course in Binder;
- the workflow that publishes the book on GitHub's pages.
"""

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import nbformat
from execute import canonical, text_of

ROOT = Path(__file__).parent.parent
ADDRESS = re.compile(r"https://github\.com/[\w-]+/[\w.-]+")
CPU = "https://download.pytorch.org/whl/cpu"
"""Where PyTorch has its builds for the CPU."""

BINDER = {
    ".binder/runtime.txt": "python-3.11\n",
    ".binder/requirements.txt": f"--extra-index-url {CPU}\n--constraint constraints.txt\n--editable .\n",
}
PAGES = f"""name: Publish the book
on:
  push:
    branches: [main]
permissions:
  contents: read
  pages: write
  id-token: write
jobs:
  book:
    runs-on: ubuntu-latest
    environment:
      name: github-pages
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: make book TORCH_INDEX={CPU}
      - uses: actions/upload-pages-artifact@v3
        with:
          path: build/book
      - uses: actions/deploy-pages@v4
"""
IN_ITS_FOLDER = " In the folder of this file:"
"""Where the README's commands are given, if none of them clones."""
GUIDE = "notebooks/assignments/README.md"
ONLY_AT_HOME = {**BINDER, ".github/workflows/pages.yml": PAGES}
"""Files that there are only where there is a public address, and what they hold."""


def address_in(pyproject: str) -> str:
    """Return the setting; a value that is no repository's address is refused."""
    address = tomllib.loads(pyproject)["tool"]["minitxl"]["repository"]
    if address and not ADDRESS.fullmatch(address):
        raise ValueError(f"repository must be empty or https://github.com/OWNER/NAME, got {address!r}")
    return str(address)


def texts_at(address: str, texts: Mapping[str, str], version: str) -> dict[str, str | None]:
    """Return the files as they are with this address; None where there is no such file.

    ``texts`` holds README.md, the teacher's guide, CITATION.cff, pyproject.toml and the notebooks, whatever
    address they have now.
    """
    found: dict[str, str | None] = {
        "README.md": _readme(texts["README.md"], address, version),
        GUIDE: _cloning(texts[GUIDE], address, before="make assignments "),
        "CITATION.cff": _citation(texts["CITATION.cff"], address),
        "pyproject.toml": _pyproject(texts["pyproject.toml"], address),
    }
    for name, text in texts.items():
        if name.endswith(".ipynb"):
            notebook = nbformat.reads(text, as_version=4)
            stem = Path(name).stem
            found[name] = text_of(canonical(notebook, stem, address=address, version=version))
    return found | {name: text if address else None for name, text in ONLY_AT_HOME.items()}


def _readme(text: str, address: str, version: str) -> str:
    text = re.sub(r"^\[Run it in Colab\].*\n\n", "", text, flags=re.MULTILINE)
    text = _cloning(text, address, before="make demo ")
    text = re.sub(
        rf"(no GPU\.)(?:{IN_ITS_FOLDER})?$", rf"\1{'' if address else IN_ITS_FOLDER}", text, flags=re.M
    )
    if not address:
        return text
    owner, name = address.split("/")[-2:]
    links = {
        "Run it in Colab": f"https://colab.research.google.com/github/{owner}/{name}/blob/v{version}"
        "/notebooks/00_start_here.ipynb",
        "in Binder": f"https://mybinder.org/v2/gh/{owner}/{name}/v{version}"
        "?labpath=notebooks/00_start_here.ipynb",
        "or read the book": f"https://{owner.lower()}.github.io/{name}/",
    }
    badges = " · ".join(f"[{words}]({link})" for words, link in links.items())
    title, blank, rest = text.partition("\n\n")
    return f"{title}{blank}{badges}\n\n{rest}"


def _cloning(text: str, address: str, *, before: str) -> str:
    """Return a page whose first block clones, where there is an address, before it does anything else."""
    text = re.sub(r"^git clone .*\ncd .*\n", "", text, flags=re.MULTILINE)
    clone = f"git clone {address}\ncd {address.split('/')[-1]}\n" if address else ""
    return text.replace(f"```sh\n{before}", f"```sh\n{clone}{before}", 1)


def _citation(text: str, address: str) -> str:
    text = re.sub(r"^repository-code: .*\n", "", text, flags=re.MULTILINE)
    line = f'repository-code: "{address}"\n' if address else ""
    return re.sub(r"^(license: .*\n)", rf"\g<1>{line}", text, flags=re.MULTILINE)


def _pyproject(text: str, address: str) -> str:
    text = re.sub(r'^\[project\.urls\]\nRepository = ".*"\n\n', "", text, flags=re.MULTILINE)
    urls = f'[project.urls]\nRepository = "{address}"\n\n' if address else ""
    return text.replace("[project.scripts]\n", f"{urls}[project.scripts]\n", 1)


def texts_of(root: Path) -> dict[str, str]:
    """Return the files of the repository that the address may change."""
    names = ["README.md", GUIDE, "CITATION.cff", "pyproject.toml"]
    names += [f"notebooks/{path.name}" for path in sorted((root / "notebooks").glob("*.ipynb"))]
    return {name: (root / name).read_text("utf-8") for name in names}


def main() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    try:
        address = address_in(pyproject)
    except ValueError as error:
        sys.exit(f"pyproject.toml, [tool.minitxl]: {error}")
    version = tomllib.loads(pyproject)["project"]["version"]
    for name, text in texts_at(address, texts_of(ROOT), version).items():
        path = ROOT / name
        if text is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"written: {name}")


if __name__ == "__main__":
    main()
