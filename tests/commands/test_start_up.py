"""Nothing is loaded that a command does not use."""

import subprocess
import sys

import pytest

import minitxl
from minitxl.__main__ import COMMANDS, main

SAY = (
    "; import sys; print(*{name.partition('.')[0] for name in sys.modules}, *(name for name in sys.modules))"
)


def loaded_by(code: str) -> set[str]:
    """Return the modules that a new Python has loaded after ``code``."""
    done = subprocess.run([sys.executable, "-c", code + SAY], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_loads_its_names_when_they_are_used():
    assert "torch" not in loaded_by(
        "import minitxl; from minitxl import ModelConfig, TrainConfig; ModelConfig()"
    )
    assert set(minitxl.__all__) == set(minitxl.MODULE_OF) <= set(dir(minitxl))
    for name in minitxl.__all__:
        assert getattr(minitxl, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'minitxl' has no attribute 'Transformer'"):
        getattr(minitxl, "Transformer")  # noqa: B009


def test_the_list_of_commands_needs_no_torch():
    code = "import contextlib; from minitxl.__main__ import main\n"
    code += "with contextlib.suppress(SystemExit): main(['--help'])\n1"
    assert not {"torch", "numpy", "matplotlib", "minitxl.commands.train"} & loaded_by(code)


@pytest.mark.parametrize("command", ["generate", "bench"])
def test_a_command_loads_no_other_one_and_no_compiler(command):
    loaded = loaded_by(f"import minitxl.commands.{command}")
    assert not {"matplotlib", "torch._dynamo", "torch._inductor"} & loaded
    assert {name for name in COMMANDS if f"minitxl.commands.{name}" in loaded} == {command}


def test_a_models_size_is_counted_without_the_compiler():
    code = "from minitxl import ModelConfig; from minitxl.training.sizes import parameter_count"
    assert "torch._dynamo" not in loaded_by(f"{code}; parameter_count(ModelConfig(cutoffs=(20,)))")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_says(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"usage: minitxl {command}" in said
    assert COMMANDS[command] in said
