"""Notebook 13: its checks, its widget, and the loops that are built by hand."""

import re
from pathlib import Path

import nbformat
import pytest
import torch

from minitxl.config import ModelConfig
from minitxl.course.checks import generation as judges
from minitxl.figures.cost.generation import MOST
from minitxl.inference import generation, sampling
from minitxl.model import TransformerLM

ROOT = Path(__file__).parent.parent.parent
CELLS = {
    cell.id: cell.source
    for cell in nbformat.read(ROOT / "notebooks" / "13_generation_and_scale.ipynb", as_version=4).cells
}
SETUP = CELLS["setup"].partition("corpus = ")[0]
NAMES = CELLS["tokens-and-text"]
SOLUTIONS = {"exercise-generate": "my_write", "exercise-nucleus": "my_nucleus", "exercise-reads": "my_reads"}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = ModelConfig(256, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, tie_embeddings=False)
    model = TransformerLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10 if parameter.ndim > 1 else 1)
    return model


def run(*cells: str, **names) -> dict:
    space = dict(names)
    for cell in (SETUP, NAMES, *cells):
        exec(cell, space)
    return space


def solution(cell: str):
    (code,) = re.findall(r"```python\n(.*?)```", CELLS[cell], flags=re.DOTALL)
    return run(code)[SOLUTIONS[cell]]


def check_reads(answer):
    return judges.check_reads(answer, prompt_len=100, length=1000)


@pytest.mark.parametrize(
    ("cell", "check"),
    [
        ("exercise-generate", judges.check_generate),
        ("exercise-nucleus", judges.check_nucleus),
        ("exercise-reads", check_reads),
    ],
)
def test_the_solution_is_right_and_nobodys_random_numbers_change(cell, check):
    state = torch.get_rng_state()
    verdict = check(solution(cell))
    assert verdict.right, verdict
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((1100, 599500), "off by one"),
        ((1000, 599500), "with memory: the prompt once"),
        ((1099, 1), "anew: the first token"),
        (None, "two numbers"),
    ],
)
def test_a_wrong_bill_is_explained(answer, words):
    verdict = check_reads(answer)
    assert not verdict.right
    assert words in verdict.message


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("    memory = extend(None, states, mem_len=mem_len)\n", "    memory = None\n"),
        ("        memory = extend(memory, states, mem_len=mem_len)\n", ""),
        ("log_probs[:, -1].argmax(dim=-1)  # the", "log_probs[:, 0].argmax(dim=-1)  # the"),
        ("mem_len=mem_len, window=mem_len + 1)", "mem_len=0)"),
    ],
)
def test_the_loops_by_hand_equal_the_packages_or_the_notebook_stops(right, wrong, model):
    by_hand = CELLS["by-hand"]
    run(by_hand, CELLS["same"], exact=model)
    assert by_hand.replace(right, wrong, 1) != by_hand
    with pytest.raises(AssertionError):
        run(by_hand.replace(right, wrong, 1), CELLS["same"], exact=model)


@pytest.mark.parametrize("ways", [(0.8, 0, 0.95), (0, 0, 1.0), (1.7, 5, 1.0), (2.0, 0, 1.0)])
def test_the_sampling_controls_show_what_the_package_draws_from(ways, model):
    temperature, top_k, top_p = ways
    space = run(CELLS["widget"].partition("slider = ")[0], model=model)
    drawn = space["draw"](temperature, top_k, top_p)
    chosen = {"temperature": temperature, "top_k": top_k or None, "top_p": top_p}
    log_probs = space["log_probs"]
    probs = sampling.top_k_top_p(log_probs, **chosen)[0]
    order = log_probs[0].argsort(descending=True)[:MOST]
    bars, page = drawn.figure.axes
    heights = [bar.get_height() for bar in bars.patches]
    assert heights == probs[order].tolist() + log_probs[0, order].exp().tolist()
    assert f"Drawn from {int((probs > 0).sum())} of 256" in drawn.alt
    (text,) = generation.sample(model, [space["prompt"]], length=90, mem_len=128, **chosen)
    written = space["text_of"](torch.cat([space["prompt"], text]))
    shown = page.texts[0].get_text()
    assert len(shown) == len(written)
    assert all(one in (other, "�") for one, other in zip(shown, written, strict=True))
    assert shown in drawn.alt
