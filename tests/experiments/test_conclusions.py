"""What the stored results say, and the command that computes some of them anew."""

import json
import shutil
from pathlib import Path

import pytest

from minitxl.__main__ import main
from minitxl.experiments import EXPERIMENTS, conclusions
from minitxl.experiments.shared import results, smaller

FIGURES = Path(__file__).parents[2] / "figures"


@pytest.mark.parametrize("name", conclusions.CONCLUSIONS)
def test_a_stored_result_bears_out_every_sentence_said_of_it(name):
    found = conclusions.holding(name, results.read(FIGURES / f"{name}.json").data)
    assert [sentence for sentence, holds in found.items() if not holds] == []


def test_every_experiment_says_something():
    assert set(conclusions.CONCLUSIONS) == set(EXPERIMENTS)
    assert set(smaller.SMALLER) <= set(EXPERIMENTS)


def test_figures_check_computes_anew_and_refuses_a_result_that_says_otherwise(tmp_path, capsys, monkeypatch):
    """The second check compares the result with what the first has computed."""
    check, said = smaller.check, {}

    def checked_once(name, *given, **named):
        if name not in said:
            said[name] = check(name, *given, **named)
        return said[name]

    monkeypatch.setattr(smaller, "check", checked_once)
    shutil.copy(FIGURES / "dependency.json", tmp_path)
    main(["figures", "dependency", "--check", "--folder", str(tmp_path)])
    assert capsys.readouterr().out.count(": holds") == len(conclusions.CONCLUSIONS["dependency"])
    stored = json.loads((tmp_path / "dependency.json").read_text())
    stored["data"]["cases"][0]["stopped_gradient"] = [99]
    (tmp_path / "dependency.json").write_text(json.dumps(stored))
    with pytest.raises(SystemExit) as stopped:
        main(["figures", "dependency", "--check", "--folder", str(tmp_path)])
    assert stopped.value.code == 2
    assert "dependency must say again what its result says" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["dependency.json"]
