"""The package as a wheel: whole, installed where nothing is, and at work there."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, **options) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built by setuptools from a copy, without a look at the network."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "minitxl", folder / "minitxl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder / "dist", folder)
    (built,) = (folder / "dist").glob("minitxl-*.whl")
    return built


def test_a_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "minitxl").rglob("*.py")}
    assert {name for name in names if ".dist-info/" not in name} == modules
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_demo_runs_from_a_wheel_in_an_empty_environment(wheel, tmp_path):
    """Empty but for the dependencies, which are this environment's: nothing is downloaded."""
    venv.create(tmp_path / "empty", with_pip=False)
    scripts = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    (site,) = (tmp_path / "empty").rglob("site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    where = run(python, "-c", "import minitxl; print(minitxl.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    (tmp_path / "my.txt").write_text("def f(x):\n    return x\n\n" * 200)
    run(scripts / "minitxl", "demo", "--steps", "2", "--text", "my.txt", cwd=tmp_path)
    assert (tmp_path / "runs" / "demo" / "demo.svg").read_text().startswith("<?xml")
    assert (tmp_path / "runs" / "demo" / "demo.json").exists()
