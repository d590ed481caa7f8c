"""The promises of the repository: its layout, its rooms, its versions, its commands."""

import ast
import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minitxl"
ROOMS = {path.stem: path for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
HALLS = {
    folder: sorted((PACKAGE / folder).glob("*.py"))
    for folder in ("commands", "experiments", "figures", "checks")
}
"""Rooms of several files: a command, an experiment, a kind of picture, a notebook's exercises each."""
ON_TOP = {"__main__", "commands", "experiments"}
MAY_IMPORT = {
    "files": set(),
    "config": set(),
    "presets": {"config"},
    "positions": set(),
    "memory": set(),
    "corpora": set(),
    "batching": set(),
    "downloads": set(),
    "vocabulary": {"files"},
    "tokens": {"files"},
    "spelling": {"tokens", "vocabulary"},
    "datasets": {"corpora", "downloads", "spelling", "tokens", "vocabulary"},
    "dropout": set(),
    "linear": set(),
    "feedforward": {"dropout", "linear"},
    "attention": {"positions", "dropout", "linear"},
    "kernels": {"positions", "attention", "dropout"},
    "fused": {"positions", "attention", "dropout", "kernels"},
    "model": {"positions", "attention", "fused", "feedforward", "adaptive", "dropout", "linear", "config"},
    "decoding": {"model", "attention", "fused"},
    "drawing": set(),
    "generation": {"model", "decoding", "drawing"},
    "checkpoints": {"model", "config", "files"},
    "hub": set(),
    "pickled": set(),
    "released": {"checkpoints", "config", "hub", "model", "pickled"},
    "adaptive": {"linear"},
    "evaluation": {"model", "decoding", "config"},
    "ranks": set(),
    "training": {"model", "memory", "batching", "config", "evaluation", "ranks"},
    "logs": {"files", "training"},
    "runs": {"batching", "checkpoints", "config", "files", "logs", "model", "ranks", "training"},
    "baselines": {"config", "dropout", "linear"},
    "reach": {"decoding", "memory", "model"},
    "context": {"baselines", "batching", "config", "decoding", "evaluation", "memory", "model", "reach"},
    "peers": set(),
    "ours": {"peers", "decoding", "batching", "config", "memory", "model", "training"},
    "workers": {"peers"},
    "bench": {"ours", "peers", "fused", "workers"},
    "results": {"files"},
    "course": set(),
    "grading": {"course"},
    "widgets": {"figures"},
    "dashboard": {
        "attention",
        "batching",
        "config",
        "context",
        "figures",
        "memory",
        "model",
        "reach",
        "training",
        "widgets",
    },
}
TO_BE_READ_ALONE = ("positions", "attention", "memory", "model")


def imports_of(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "minitxl":
            rooms |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minitxl."):
            rooms.add(node.module.split(".")[1])
    return rooms


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank, nor comment, nor docstring."""
    text = path.read_text("utf-8")
    words = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            words |= set(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(number not in words and bool(line.split("#")[0].strip()) for number, line in lines)


def test_imports_point_down_only():
    assert ROOMS.keys() - ON_TOP == MAY_IMPORT.keys()
    for room, allowed in MAY_IMPORT.items():
        assert imports_of(ROOMS[room]) <= allowed, room
    for path in HALLS["figures"]:
        assert imports_of(path) <= {"figures", "files"}, path
    for path in HALLS["checks"]:
        assert not imports_of(path) & {"checks", "experiments", "__main__", "commands"}, path


def test_a_room_is_one_sitting():
    for path in (*ROOMS.values(), *chain(*HALLS.values())):
        assert lines_of_code(path) <= 250, path
    assert sum(lines_of_code(ROOMS[room]) for room in TO_BE_READ_ALONE) < 500


def test_axes_move_by_einops_alone_in_the_rooms_of_the_mathematics():
    for room in TO_BE_READ_ALONE:
        assert not re.search(r"\.(view|reshape|transpose|permute|unsqueeze)\(", ROOMS[room].read_text()), room


def test_no_file_speaks_of_one_machine():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.split():
        path = ROOT / name
        if (
            path.suffix in (".py", ".md", ".toml", ".yml", ".ipynb", ".txt", ".json")
            or path.name == "Makefile"
        ):
            assert not re.search(r"(?<![\w.~])/(home|root|tmp|opt|mnt|Users)/", path.read_text("utf-8")), name


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {requirement.name.lower().replace("_", "-"): str(requirement.specifier) for requirement in found}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_dependency_is_pinned_inside_its_range(project):
    pinned = pins()
    extras = project["optional-dependencies"]
    assert extras.keys() == {"test", "bench", "classroom", "book"}
    for text in project["dependencies"] + extras["test"] + extras["classroom"] + extras["book"]:
        requirement = Requirement(text)
        version = pinned[requirement.name.lower().replace("_", "-")].removeprefix("==")
        assert requirement.specifier.contains(version), text


def test_pins_are_exact_and_name_no_local_build():
    for name, specifier in pins().items():
        assert re.fullmatch(r"==[\w.!]+", specifier), name


def test_the_conda_environment_holds_the_same_pins(project):
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment.keys() == {"name", "channels", "dependencies"}
    *conda, pip = environment["dependencies"]
    assert conda == ["python=3.11", "pip"]
    assert Requirement(f"python{project['requires-python']}").specifier.contains("3.11")
    options = [line for line in pip["pip"] if line.startswith("--")]
    assert options == ["--constraint constraints.txt", "--editable .[test,book,classroom]"]
    listed = {Requirement(line) for line in pip["pip"] if not line.startswith("--")}
    assert all(
        pins()[requirement.name.replace("_", "-")] == str(requirement.specifier) for requirement in listed
    )
    wanted = {"torch", "jupyterlab", "matplotlib", "ipywidgets", "einops", "nbval"}
    assert wanted <= {requirement.name for requirement in listed}


def make(*words: str, **variables: str) -> subprocess.CompletedProcess:
    given = [f"{name}={value}" for name, value in variables.items()]
    return subprocess.run(["make", *words, *given], cwd=ROOT, capture_output=True, text=True, check=False)


def test_help_lists_every_target():
    said = make("help").stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    for target in phony.split():
        assert f"make {target} " in said


def stand_in(folder: Path, answer: str) -> str:
    """A python that answers every call by running ``answer`` in a shell."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_too_old_gets_one_sentence(tmp_path):
    old = stand_in(tmp_path, 'test "$1" = --version && echo Python 3.9.2 && exit 0; exit 1')
    done = make("setup", PYTHON=old, VENV=str(tmp_path / "venv"))
    assert done.returncode != 0
    assert f"minitxl needs Python 3.11 or newer, but '{old}' is Python 3.9.2" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_that_is_missing_gets_one_sentence(tmp_path):
    done = make("setup", PYTHON="no-such-python", VENV=str(tmp_path / "venv"))
    assert "minitxl needs Python 3.11 or newer, but 'no-such-python' is missing" in done.stderr


def test_a_python_without_venv_gets_one_sentence(tmp_path):
    bare = stand_in(tmp_path, 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    done = make("setup", PYTHON=bare, VENV=str(tmp_path / "venv"))
    assert done.returncode != 0
    assert "lacks: on Debian or Ubuntu, 'apt-get install python3-venv' brings it" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_set_up_installs_nothing(tmp_path):
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "ready").touch()
    done = make("setup", VENV=str(venv))
    assert done.returncode == 0
    assert "install" not in done.stdout


def test_ci_runs_the_readmes_test_command():
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")
    assert "make test" in (ROOT / "README.md").read_text()
    assert "make demo" in (ROOT / "README.md").read_text()
