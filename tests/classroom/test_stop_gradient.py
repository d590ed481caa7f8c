"""Ways to stop a gradient, in assignment 3 and in the sandbox: what is right in PyTorch is right there."""

from pathlib import Path

import pytest
from test_shipped_assignments import verdicts_of_ways

from minitxl.course.marking.judge import trial_of
from minitxl.course.marking.notebooks import Assignment, read

PATH = Path(__file__).parents[2] / "notebooks" / "assignments" / "3_memory.ipynb"
SHEET = Assignment(PATH.stem, read(PATH))
CELLS = {name: cell.source for name, cell in SHEET.cells.items()}
SEED = 3
IF_IT_NEEDS_ONE = "if joined.requires_grad:\n                joined = joined.detach()\n            h = "
A_FUNCTION = """
class Stop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        return h.clone()

    @staticmethod
    def backward(ctx, slope):
        return SLOPE


"""
BY_A_HOOK = """    if memory is not None:
        memory = memory.clone()
        if memory.requires_grad:
            memory.register_hook(torch.zeros_like)
"""
IN_INFERENCE = """    if memory is not None:
        with torch.inference_mode():
            memory = memory.clone()
"""
PRODUCT = "(x @ W[name] if memory is None else torch.cat([memory @ W[name], x @ W[name]], dim=1))"


def cell(name, *changes, before="", top=""):
    """Return a solution with other text in it, with a line before its first, or with code before it all."""
    source = CELLS[name]
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return top + source.replace("    ### BEGIN SOLUTION\n", before)


TESTS = {test["cell"].removesuffix("-test"): test for test in SHEET.tests}


def in_plain_pytorch(name, source, seed):
    """Return the groups of cases that are right where the function is called as it is."""
    _, function, trial = trial_of(SHEET.imports, TESTS[name]["source"])
    names = {}
    exec(SHEET.imports, names)
    exec(source, names)
    return trial(seed).shares(names[function])[1]


WAYS = {
    "asked for in a stream": (
        "stream",
        cell("stream", (", h], dim=1).detach()", ", h], dim=1)"), ("h = layer", IF_IT_NEEDS_ONE + "layer")),
    ),
    "asked for in what is kept": (
        "remember",
        cell(
            "remember",
            (
                "    return [of",
                "    joined = [of.detach() if of.requires_grad else of for of in joined]\n    return [of",
            ),
            (":].detach()", ":].clone()"),
        ),
    ),
    "what is kept is joined under no_grad": (
        "remember",
        cell("remember", (":].detach()", ":].clone()"), top="@torch.no_grad()\n"),
    ),
    "what is kept is joined in inference mode, and copied": (
        "remember",
        cell(
            "remember",
            ("    joined", "    with torch.inference_mode():\n        joined"),
            (":].detach()", ":].clone()"),
        ),
    ),
    "what is kept is made in inference mode": (
        "remember",
        cell("remember", top="@torch.inference_mode()\n"),
    ),
    "what is kept needs a gradient again": (
        "remember",
        cell("remember", (":].detach()", ":].detach().requires_grad_()")),
    ),
    "what is kept of a stream needs a gradient again": (
        "stream",
        cell(
            "stream",
            ("            h = layer", "            joined.requires_grad = True\n            h = layer"),
        ),
    ),
    "a copy in inference mode": (
        "look",
        cell("look", ("memory.detach()", "memory"), before=IN_INFERENCE),
    ),
    "a product in inference mode": (
        "look",
        cell("look", ("context @ W[name]", PRODUCT), before=IN_INFERENCE),
    ),
}
"""Functions that stop the gradient, by their cells: most of them as PyTorch allows it."""
NOT_ALLOWED = {
    "a product in inference mode": "called with",
    "what is kept needs a gradient again": "memories need a gradient of their own, and none should",
    "what is kept of a stream needs a gradient again": "a gradient enters memory in",
    "what is kept is made in inference mode": "nothing can train on what is made in inference mode",
}


ASKED = """    assert [x.requires_grad, (2 * x).requires_grad, x.detach().requires_grad] == [True, True, 0]
    x.detach().requires_grad = True
    assert not torch.zeros(2).requires_grad
    with torch.no_grad():
        assert not (x + 1).requires_grad
"""
STOPS = {
    "remember": ("of[:, max(0, of.shape[1] - mem_len) :].detach() for", "Stop.apply(of[:, -mem_len:]) for"),
    "look": ("memory.detach()", "Stop.apply(memory)"),
    "stream": ("torch.cat([memory[n], h], dim=1).detach()", "Stop.apply(torch.cat([memory[n], h], dim=1))"),
}
"""The stop-gradient of each solution, and a Function of one's own in its place."""
SLOPES = ["slope", "torch.zeros_like(slope)", "None"]
OFF = ["memory.requires_grad_(False)", "memory.requires_grad = False"]
MORE = {
    "it asks whether tensors need a gradient": ("look", cell("look", before=ASKED)),
    "a hook": ("look", cell("look", ("memory.detach()", "memory"), before=BY_A_HOOK)),
    "cut in place": ("look", cell("look", ("memory.detach()", "memory.detach_()"))),
    "no graph": ("look", cell("look", before="    assert (2 * x).grad_fn is None and (2 * x).is_leaf\n")),
    "no detach": ("remember", cell("remember", (":].detach()", ":].clone()"))),
}
for line in OFF:
    switched = f"    if memory is not None:\n        {line}\n"
    MORE[line] = "look", cell("look", ("memory.detach()", "memory"), before=switched)
for name, stop in STOPS.items():
    for slope in SLOPES:
        source = cell(name, stop, top=A_FUNCTION.replace("SLOPE", slope))
        MORE[f"{name}: {slope}"] = name, source.replace("Stop", f"Stop{len(MORE)}")


@pytest.fixture(scope="module")
def parts():
    return verdicts_of_ways(PATH.stem, WAYS | MORE, SEED)


@pytest.mark.parametrize("way", WAYS)
def test_a_gradient_is_stopped_where_it_is_in_plain_pytorch_and_nowhere_else(parts, way):
    seed = SEED + list(WAYS).index(way)
    part, right = parts[way], in_plain_pytorch(*WAYS[way], seed)
    assert part["groups"] == right
    assert all(right.values()) == (way not in NOT_ALLOWED)
    assert NOT_ALLOWED.get(way, "right") in part["message"]


def test_a_tensor_that_is_asked_whether_it_needs_a_gradient_answers_as_in_plain_pytorch(parts):
    part = parts["it asks whether tensors need a gradient"]
    assert (part["score"], part["message"]) == (7, "right")


def test_a_hook_is_refused_by_name_and_no_stop_gradient_is_said_to_be_missing(parts):
    part = parts["a hook"]
    assert "it registers a hook, and the marking computes gradients without it" in part["message"]
    assert [name for name, right in part["groups"].items() if right] == ["no memory"]


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("name", STOPS)
def test_a_function_with_a_backward_of_its_own_is_refused_by_name_whatever_gradient_it_makes_up(
    parts, name, slope
):
    part = parts[f"{name}: {slope}"]
    assert "it applies a torch.autograd.Function, and the marking" in part["message"]
    assert [group for group, right in part["groups"].items() if right] == ["no memory"] * (name == "look")


def test_a_memory_that_is_cut_from_its_graph_in_place_costs_one_point_in_the_sandbox_too(parts):
    part = parts["cut in place"]
    assert (part["score"], part["message"].partition(",")[0]) == (6, "memory was changed in place")


def test_a_tensor_has_no_graph_in_the_sandbox_as_the_guide_says(parts):
    assert parts["no graph"]["score"] == 7


def test_a_missing_detach_costs_all_points_of_what_is_kept_as_the_guide_says(parts):
    part = parts["no detach"]
    assert (part["score"], set(part["groups"].values())) == (0, {False})


@pytest.mark.parametrize("off", OFF)
def test_a_memory_whose_graph_is_switched_off_is_told_so_and_no_stop_gradient_is_said_to_be_missing(
    parts, off
):
    assert "it switches requires_grad of a tensor off, which its graph may need" in parts[off]["message"]
    assert [name for name, right in parts[off]["groups"].items() if right] == ["no memory"]
