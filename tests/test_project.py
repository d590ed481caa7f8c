"""The promises of the repository: its layout, its rooms, its versions, its commands."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minitxl"
TESTS = ROOT / "tests"
PAPER = {
    *(
        "config",
        "position_encodings",
        "relative_shift",
        "attention",
        "later_attention",
        "memory",
        "adaptive",
        "model",
        "lstm",
    )
}
READ_ALONE = ("position_encodings", "relative_shift", "attention", "memory", "model")
"""The modules of the mathematics: einops alone moves axes, and together they fit one evening."""
HELPERS = {"fields", "arguments", "files", "allocator"}
"""Modules that check and open what comes from outside, or set the allocator; all others may import them."""
MAY_IMPORT = {
    "fields": set(),
    "arguments": {"fields"},
    "files": set(),
    "allocator": set(),
    "paper": {"fields", "arguments"},
    "fast": {*HELPERS, "paper"},
    "data": {*HELPERS},
    "inference": {*HELPERS, "paper", "fast", "data"},
    "training": {*HELPERS, "inference", "paper", "fast", "data"},
    "pretrained": {*HELPERS, "training", "inference", "paper", "fast", "data"},
    "analysis": {*HELPERS, "training", "inference", "paper", "fast", "data"},
    "experiments": {*HELPERS, "pretrained", "analysis", "training", "inference", "paper", "fast", "data"},
    "figures": {*HELPERS},
    "benchmark": {
        *(
            *HELPERS,
            "experiments",
            "pretrained",
            "analysis",
            "training",
            "inference",
            "paper",
            "fast",
            "data",
        ),
    },
    "course": {
        *(*HELPERS, "figures", "experiments", "pretrained", "analysis", "training", "inference", "paper"),
        *("fast", "data"),
    },
}
"""Folders of the package and the folders each may import. ``paper`` is the nine modules at the top.

The command line, ``commands`` and ``__main__``, may import everything.
"""
PAPER_MAY_IMPORT = {
    "config": set(),
    "position_encodings": set(),
    "relative_shift": set(),
    "memory": set(),
    "attention": {"position_encodings", "relative_shift"},
    "later_attention": {"position_encodings", "relative_shift", "attention"},
    "adaptive": set(),
    "lstm": set(),
    "model": {"config", "position_encodings", "attention", "later_attention", "adaptive"},
}
ON_TOP = {"commands", "__main__", "__init__"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def folder_of(module: str) -> str:
    """Return the folder of MAY_IMPORT that a module such as "fast.linear" belongs to."""
    top = module.split(".")[0]
    return "paper" if top in PAPER else top


def imports_of(path: Path) -> set[str]:
    """Return the package's modules that a file imports, such as "fast.linear", without "minitxl."."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "minitxl":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minitxl."):
            found.add(node.module.removeprefix("minitxl."))
    return found


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank, nor comment, nor docstring."""
    text = path.read_text("utf-8")
    words = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            words |= set(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(number not in words and bool(line.split("#")[0].strip()) for number, line in lines)


def test_every_folder_of_the_package_is_in_the_table():
    tops = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert {folder_of(top) for top in tops} - ON_TOP == MAY_IMPORT.keys()
    assert tops >= PAPER


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_table(path):
    own = folder_of(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
    if own not in ON_TOP:
        assert {folder_of(module) for module in imports_of(path)} <= MAY_IMPORT[own] | {own}


@pytest.mark.parametrize("module", sorted(PAPER))
def test_the_papers_modules_import_each_other_in_one_direction(module):
    assert imports_of(PACKAGE / f"{module}.py") - HELPERS <= PAPER_MAY_IMPORT[module]


def test_the_table_has_no_circle():
    order = list(MAY_IMPORT)
    for folder, allowed in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(folder) for other in allowed), folder


def test_no_module_is_longer_than_one_sitting():
    for path in MODULES:
        assert lines_of_code(path) <= 250, path
    assert sum(lines_of_code(PACKAGE / f"{module}.py") for module in READ_ALONE) <= 515


def test_the_list_of_the_courses_checks_names_every_file_of_them():
    folder = PACKAGE / "course" / "checks"
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    files = re.findall(r"\b[a-z_]+\b", docstring.partition("\n\n")[2])
    assert sorted(files) == sorted(path.stem for path in folder.glob("[a-z]*.py"))


LISTED = [
    *("analysis", "benchmark", "commands", "course", "data", "experiments", "fast", "figures", "inference"),
    *("pretrained", "training"),
]
"""Folders whose docstring has a line for each file."""


@pytest.mark.parametrize("name", LISTED)
def test_the_list_of_a_folders_files_has_a_line_for_each(name):
    docstring = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text("utf-8")))
    parts = [path.stem for path in (PACKAGE / name).glob("[a-z]*") if path.is_dir() or path.suffix == ".py"]
    assert sorted(re.findall(r"^(?: {4})?([a-z0-9_]+)  +\S", docstring, flags=re.MULTILINE)) == sorted(parts)


def test_axes_move_by_einops_alone_in_the_modules_of_the_mathematics():
    for module in READ_ALONE:
        text = (PACKAGE / f"{module}.py").read_text()
        assert not re.search(r"\.(view|reshape|transpose|permute|unsqueeze)\(", text), module


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
    assert options == ["--constraint constraints.txt", "--editable ."]
    listed = [Requirement(line) for line in pip["pip"] if not line.startswith("--")]
    assert all(
        pins()[requirement.name.replace("_", "-")] == str(requirement.specifier) for requirement in listed
    )
    dependencies = {Requirement(text).name for text in project["dependencies"]}
    assert {requirement.name for requirement in listed} == dependencies


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


EXTRAS = {
    "setup": [""],
    "demo": [""],
    "lab": [""],
    "figures": [""],
    "notebooks": [""],
    "book": ["", "book"],
    "assignments": ["", "classroom"],
    "lint": ["test,book,classroom"],
    "test": ["test,book,classroom"],
}
"""Extras with which a target installs the package in an empty environment, step by step; "" is none."""


@pytest.mark.parametrize("target", EXTRAS)
def test_a_target_installs_no_more_than_it_needs(target, tmp_path):
    shown = make("--dry-run", target, VENV=str(tmp_path)).stdout
    installed = re.findall(
        r"--constraint constraints\.txt --editable '?\.(?:\[([^]]*)\])?'?$", shown, re.MULTILINE
    )
    assert list(dict.fromkeys(installed)) == EXTRAS[target]  # figures calls make again


def test_where_uv_cant_be_had_pip_installs_all(tmp_path):
    """uv reads none of pip's settings, so it may not reach an index that pip reaches."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "ready").touch()
    stand_in(tmp_path / "bin", f'echo "$*" >> {tmp_path}/asked; case "$*" in *" uv") exit 1;; esac; exit 0')
    assert make(f"{tmp_path}/ready-book", VENV=str(tmp_path)).returncode == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [words.rsplit(maxsplit=1)[1] for words in asked] == ["uv", ".[book]"]


def test_what_a_learner_needs_is_installed_once(tmp_path):
    for stamp in ("ready", "ready-test"):
        (tmp_path / stamp).touch()
    for target in ("demo", "lab", "test"):
        assert "pip install" not in make("--dry-run", target, VENV=str(tmp_path)).stdout


def test_the_menus_of_nbgrader_are_for_teachers(tmp_path):
    def menus(target):
        shown = make("--dry-run", target, VENV=str(tmp_path)).stdout
        return re.findall(r"labextension (\w+) --level=sys_prefix @jupyter/nbgrader", shown)

    assert menus("lab") == []
    assert menus("test") == ["disable"]
    assert menus("assignments") == ["enable"]


def test_the_files_that_run_first_exist(pytestconfig):
    shared = pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    assert all((ROOT / name).is_file() for name in shared.LONGEST_FIRST)


def test_ci_runs_the_readmes_test_command():
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")
    assert "make test" in (ROOT / "README.md").read_text()
    assert "make demo" in (ROOT / "README.md").read_text()


TESTED_IN = {
    "__main__": "commands/test_main.py",
    "files": "data/test_corpora.py",
    "analysis": "analysis/test_context_length.py",
    "benchmark": "benchmark/test_bench.py",
    "commands": "commands/test_main.py",
    "commands/held_out": "commands/test_evaluate.py",
    "commands/original_options": "test_coming_from.py",
    "commands/subject": "commands/test_evaluate.py",
    "commands/train_bar": "commands/test_train.py",
    "commands/train_flags": "commands/test_train.py",
    "commands/train_task": "commands/test_train.py",
    "course/checks": "course/test_checks.py",
    "course/differences": "course/test_checker.py",
    "course/loops": "course/test_10_training.py",
    "course/marking": "classroom/test_a_class.py",
    "data/download_addresses": "data/test_corpora.py",
    "data/archives": "data/test_corpora.py",
    "data/prepare": "data/test_corpora.py",
    "data/text_file": "data/test_corpora.py",
    "experiments": "experiments/test_experiments.py",
    "experiments/conclusions": "experiments/test_conclusions.py",
    "experiments/ptb_reading": "experiments/test_ptb.py",
    "experiments/ptb_training": "experiments/test_ptb.py",
    "experiments/shared": "experiments/test_trained_experiments.py",
    "experiments/shared/fingerprints": "experiments/test_fingerprints.py",
    "experiments/shared/results": "experiments/test_results.py",
    "fast/attention": "fast/test_cpu_attention.py",
    "fast/eager": "fast/test_cuda.py",
    "fast/inputs": "fast/test_cuda.py",
    "fast/softmax": "fast/test_cross_entropy.py",
    "fast/kv_cache": "fast/test_kv_cache.py",
    "figures": "figures/test_figures.py",
    "inference/config": "inference/test_evaluation.py",
    "pretrained/original": "pretrained/test_released.py",
    "pretrained/pickled": "pretrained/test_torch_files.py",
    "pretrained/port_keys": "pretrained/test_released.py",
    "training/config": "training/test_schedules.py",
    "training/guards": "training/test_checkpointed_loop.py",
    "training/run_config_file": "training/test_run_folder.py",
    "training/run_info": "training/test_run_folder.py",
    "training/sizes": "commands/test_train.py",
}
"""The file with the tests of a module, or of a folder's modules, where no file has the module's own name."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_tests_of_each_module_are_found_by_its_name_or_in_the_table(path):
    module = path.relative_to(PACKAGE).with_suffix("")
    own = f"test_{module.name}.py"
    places = [TESTS / own, TESTS / "paper" / own] if len(module.parts) == 1 else [TESTS / module.parent / own]
    named = [TESTED_IN[name.as_posix()] for name in (module, *module.parents) if name.as_posix() in TESTED_IN]
    assert module.name == "__init__" or any(
        map(Path.exists, [*places, *(TESTS / file for file in named[:1])])
    )


def test_the_table_of_tests_names_modules_and_files_that_exist():
    for name, file in TESTED_IN.items():
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists(), name
        assert (TESTS / file).exists(), file
