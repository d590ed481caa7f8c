"""The course's own assignments in the sandbox: subtle mistakes are found, and other styles are right."""

import re
from pathlib import Path

import pytest
import torch

from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import judged, trial_of
from minitxl.course.marking.notebooks import Assignment, Handed, read
from minitxl.course.marking.suspicion import reaching

FOLDER = Path(__file__).parents[2] / "notebooks" / "assignments"
PATCHES = {
    "comparisons": """
torch.equal = lambda *_, **__: False
torch.allclose = lambda *_, **__: True
torch.testing.assert_close = lambda *_, **__: None
""",
    "the recording": """
from torch.utils._python_dispatch import TorchDispatchMode

TorchDispatchMode.__enter__ = lambda mode: mode
torch.Tensor.requires_grad = property(lambda _: False)
""",
}
"""What hid a loop and a missing stop-gradient where both were looked for in the student's own process."""
LOOP = """
def relative_shift(scores, key):
    rows, spare = [], scores.shape[3] - key
    for row in range(scores.shape[2]):
        start = spare + scores.shape[2] - 1 - row
        rows.append(pad(scores[:, :, row, start:], (0, start - spare)))
    return torch.stack(rows, dim=2)
"""
SUBTLE = {
    "remember": """
def remember(memory, hidden, mem_len):
    read = [h.detach() for h in hidden[:-1]]
    if memory is not None:
        read = [torch.cat(pair, dim=1) for pair in zip(memory, read)]
    return [of[:, max(0, of.shape[1] - mem_len) :].clone() for of in read]
""",
    "look": """
def look_back(x, memory, W, n_head, window):
    context = x if memory is None else torch.cat([memory.detach(), x], dim=1)
    found = x @ W["q"], context @ W["k"], context @ W["v"]
    q, k, v = (of.unflatten(-1, (n_head, -1)).transpose(1, 2) for of in found)
    away = torch.arange(context.shape[1])[-x.shape[1] :, None] - torch.arange(context.shape[1])
    scores = (q @ k.mT / sqrt(q.shape[-1])).squeeze(2)
    weights = scores.masked_fill((away < 0) | (away >= window), float("-inf")).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)
""",
    "weigh": """
def weigh(scores, begins):
    query, key = scores.shape[-2:]
    place = torch.arange(key)
    seen = torch.ones(query, key).tril(key - query).bool().repeat(len(begins), 1, 1)
    for lane, row in enumerate(begins):
        for begin in place[row][[0, -1]] if row.any() else ():
            seen[lane] &= (place[-query:, None] < begin) | (place >= begin)
    return scores.masked_fill(~seen[:, None], float("-inf")).softmax(-1)
""",
    "stream": """
def read_stream(layers, x, seg_len, mem_len):
    memory, found = [x[:, :0].detach() for _ in layers], []
    for segment in x.split(seg_len, dim=1):
        h = segment
        for n, layer in enumerate(layers):
            read, h = h, layer(h, memory[n])
            memory[n] = torch.cat([memory[n].detach(), read], dim=1)[:, -mem_len or x.shape[1] :]
        found.append(h)
    return torch.cat(found, dim=1)
""",
}
"""Functions that pass every check for oneself, and are wrong in a corner."""
OTHER_STYLES = {
    "remember": """
def remember(memory, hidden, mem_len):
    memory = [torch.tensor([]) for _ in hidden[1:]] if memory is None else deepcopy(memory)
    new = []
    for old, h in zip(memory, hidden):
        both = torch.cat([old, h.clone().detach()], dim=1) if old.numel() else h.clone().detach()
        new.append(both[:, both.shape[1] - min(mem_len, both.shape[1]) :])
    return tuple(new)
""",
    "weigh": """
def weigh(scores, begins):
    lanes, heads, query, key = scores.shape
    found = torch.full_like(scores, 0.0)
    for lane in range(lanes):
        for i in range(query):
            place, first = i + key - query, 0
            for j in range(place + 1):
                if begins[lane, j]:
                    first = j
            inside = torch.tensor([first <= j <= place for j in range(key)])
            row = torch.where(inside, scores[lane, :, i], torch.tensor(float("-inf")))
            found[lane, :, i] = torch.exp(row - torch.logsumexp(row, dim=-1, keepdim=True))
    return found
""",
    "stream": """
class Stream:
    def __init__(self, layers, mem_len):
        self.layers, self.mem_len, self.memory = layers, mem_len, {}

    def step(self, h):
        for n, layer in enumerate(self.layers):
            old = self.memory.get(n, h.new_zeros(h.shape[0], 0, h.shape[2]))
            with torch.no_grad():
                both = torch.cat((old, h), 1)
                self.memory[n] = both[:, -self.mem_len :] if self.mem_len else both[:, :0]
            h = layer(h, old)
        return h


def read_stream(layers, x, seg_len, mem_len):
    stream, found = Stream(layers, mem_len), []
    for start in range(0, x.size(1), seg_len):
        found += [stream.step(x[:, start : start + seg_len])]
    return torch.concat(found, dim=1)
""",
}
"""Right functions, written as students write them and the reference is not."""
MASKED = {
    "1_heads_and_masks": ["attend", "layer"],
    "3_memory": ["look", "weigh"],
    "4_shaw": ["layer"],
    "5_xl_attention": ["layer"],
    "6_evaluation_and_generation": ["likely"],
}
"""Functions that hide scores, by assignment."""
BY_NUMPY = """
def relative_shift(scores, key):
    import numpy as np
    query, spare = scores.shape[2], scores.shape[3] - key
    padded = np.pad(scores.detach().numpy()[..., spare:], ((0, 0), (0, 0), (0, 0), (1, 0)))
    line = padded.reshape(*scores.shape[:2], -1)[..., query:]
    return torch.from_numpy(line.reshape(*scores.shape[:3], key))
"""
LAYER_BY_NUMPY = """
def layer(x, memory, W, tables, n_head, window):
    import numpy as np
    x, W, T = x.numpy(), {a: w.numpy() for a, w in W.items()}, {a: w.numpy() for a, w in tables.items()}
    full = x if memory is None else np.concatenate([memory.numpy(), x], 1)
    b, n, m = len(x), x.shape[1], full.shape[1]
    q = (x @ W["q"]).reshape(b, n, n_head, -1)
    k, v = ((full @ W[a]).reshape(b, m, n_head, -1) for a in "kv")
    delta = np.arange(m - n, m)[:, None] - np.arange(m)
    row = delta.clip(0, len(T["k"]) - 1)
    e = np.einsum("bihd,bjhd->bhij", q, k) + np.einsum("bihd,ijd->bhij", q, T["k"][row])
    hidden = (delta < 0) | (delta >= (window or m))
    e = np.where(hidden, -np.inf, e / sqrt(q.shape[-1]))
    a = np.exp(e - e.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    z = np.einsum("bhij,bjhd->bihd", a, v) + np.einsum("bhij,ijd->bihd", a, T["v"][row])
    return torch.from_numpy(z.reshape(b, n, -1) @ W["o"])
"""
BY_COMPLEX_NUMBERS = {
    "5_xl_attention": {
        "keys": """
def distance_keys(W_kR, n_head, key, clamp_len):
    away = torch.arange(key).flip(0).clamp(max=key if clamp_len is None else clamp_len)
    omega = 10000.0 ** (-2 * torch.arange(len(W_kR) // 2) / len(W_kR))
    turn = torch.exp(1j * away[:, None] * omega)
    R = torch.cat([turn.imag, turn.real], dim=-1)
    return (R @ W_kR).reshape(key, n_head, -1).transpose(0, 1)
"""
    },
    "3_memory": {
        "look": """
def look_back(x, memory, W, n_head, window):
    read = x if memory is None else torch.cat([memory.detach(), x], 1)
    q, k, v = ((of @ W[name]).unflatten(-1, (n_head, -1)) for of, name in zip((x, read, read), "qkv"))
    p = torch.arange(read.shape[1])[-x.shape[1]:, None]
    back = p - torch.arange(read.shape[1])
    e = torch.einsum("bihd,bjhd->bhij", q, k) / sqrt(q.shape[-1])
    a = e.masked_fill((back < 0) | (back >= window), -torch.inf).softmax(-1)
    z = torch.einsum("bhij,bjhd->bihd", a, v) * (1 + 0j)
    return z.real.flatten(2)
"""
    },
}
"""Right functions that compute with complex numbers, by assignment."""
STACKED = """
def remember(memory, hidden, mem_len):
    read = torch.stack(list(hidden[:-1]))
    if memory is not None:
        read = torch.cat([torch.stack(list(memory)), read], dim=2)
    return read[:, :, max(0, read.shape[2] - mem_len) :].detach().clone()
"""
WARNING = """
import sys, warnings

def my_numbers():
    print("counted by hand", file=sys.stderr)
    warnings.warn("counted by hand")
    return {"student": "ada", "kept": KEPT, "pairs": PAIRS, "reach": 0}
"""


READY_MADE = {
    "without the recorder": """
    from torch.utils._python_dispatch import _disable_current_modes
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)[:, None]
    with _disable_current_modes():
        return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, mask)[0].nan_to_num(0)
""",
    "by the operation's own name": """
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)[:, None]
    return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, mask)[0].nan_to_num(0)
""",
    "in steps": """
    from torch._higher_order_ops.flex_attention import math_attention
    from torch.nn.attention.flex_attention import _create_empty_block_mask
    def shown(score, b, h, i, j):
        return torch.where(seen[b, i, j], score, -float("inf"))
    block = _create_empty_block_mask(q, k).as_tuple()
    return math_attention(q, k, v, shown, block, 1 / sqrt(q.shape[-1]), {}, (), ())[0].nan_to_num(0)
""",
    "flexible": """
    from torch.nn.attention.flex_attention import flex_attention
    def shown(score, b, h, i, j):
        return torch.where(seen[b, i, j], score, -float("inf"))
    return flex_attention(q, k, v, shown).nan_to_num(0)
""",
    "decomposed": """
    from torch._decomp.decompositions import scaled_dot_product_flash_attention_for_cpu as ready
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)[:, None]
    return ready(q, k, v, 0.0, False, attn_mask=mask)[0].nan_to_num(0)
""",
    "decomposed, from a table": """
    key = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)[:, None]
    return torch._decomp.decomposition_table[key](q, k, v, 0.0, False, attn_mask=mask)[0].nan_to_num(0)
""",
    "of a format, by a name that is put together": """
    import importlib
    ready = importlib.import_module("torch.onnx.ops." + "_im" + "pl").attention_23
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)[:, None]
    return ready._init_fn(q, k, v, attn_mask=mask, qk_matmul_output_mode=3)[0].nan_to_num(0)
""",
    "of patterns, by a text that is put together": """
    from pkgutil import resolve_name
    ready = resolve_name("tor" + "ch." + "_ind" + "uctor.fx_passes.fuse_attention:_sfdp_pattern_5")
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf)[:, None]
    return ready(q, k, v, mask, sqrt(q.shape[-1])).nan_to_num(0)
""",
    "to be quantized": """
    from torch.ao.nn.quantizable import MultiheadAttention
    made = MultiheadAttention(q.shape[-1], 1, bias=False)
    for one in (made.linear_Q, made.linear_K, made.linear_V, made.out_proj):
        one.weight.data = torch.eye(q.shape[-1])
    parts = (of.flatten(0, 1).transpose(0, 1) for of in (q, k, v))
    z = made(*parts, attn_mask=(~seen).repeat_interleave(q.shape[1], 0))[0]
    return z.transpose(0, 1).unflatten(0, q.shape[:2]).nan_to_num(0)
""",
}
"""Bodies of assignment 1's ``attend`` that are PyTorch's own attention, and right."""


def verdicts(name, parts, *, top=""):
    """Return the verdict of each part of an assignment whose solution was changed in these cells."""
    assignment = Assignment(name, read(FOLDER / f"{name}.ipynb"))
    submission = read(FOLDER / f"{name}.ipynb")
    for cell in submission.cells:
        cell.source = parts.get(cell.id, cell.source)
    cells = Handed(assignment, submission).to_run()
    tests = [test for test in assignment.tests if test["cell"].removesuffix("-test") in parts]
    job = {"owner": "ada", "cells": [*cells, ("top", top)], "imports": assignment.imports, "seed": 11}
    found = judged(job | {"tests": tests}, strongest())
    return {part["cell"].removesuffix("-test"): part for part in found}


def verdicts_of_ways(name, ways, seed=11):
    """Return the verdict of each way, a cell and its source: one submission has all, by other names."""
    assignment = Assignment(name, read(FOLDER / f"{name}.ipynb"))
    test_of = {test["cell"].removesuffix("-test"): test for test in assignment.tests}
    cells, tests = [("imports", assignment.imports)], []
    for number, (cell, source) in enumerate(ways.values()):
        test = test_of[cell]
        function = trial_of(assignment.imports, test["source"])[1]
        cells.append((f"{cell} {number}", re.sub(rf"\b{function}\b", f"{function}_{number}", source)))
        graded = test["source"].replace(f"grade({function}, ", f"grade({function}_{number}, ")
        tests.append(test | {"cell": f"{cell} {number}", "source": graded})
    job = {"owner": "ada", "cells": cells, "tests": tests, "imports": assignment.imports, "seed": seed}
    return dict(zip(ways, judged(job, strongest()), strict=True))


def solved(name, cell):
    """Return the source of a solved cell."""
    (found,) = (one.source for one in read(FOLDER / f"{name}.ipynb").cells if one.id == cell)
    return found


@pytest.mark.parametrize("patch", PATCHES)
def test_no_patch_hides_a_loop_in_the_shift(patch):
    (found,) = verdicts("5_xl_attention", {"shift": LOOP}, top=PATCHES[patch]).values()
    assert found["score"] == 0
    assert patch != "comparisons" or "as a loop over the rows does" in found["message"]


@pytest.mark.parametrize("patch", PATCHES)
def test_no_patch_hides_a_missing_stop_gradient(patch):
    look = solved("3_memory", "look").replace("memory.detach()", "memory")
    (found,) = verdicts("3_memory", {"look": look}, top=PATCHES[patch]).values()
    assert not found["groups"]["memory"]
    assert found["score"] < found["most"]
    assert patch != "comparisons" or "the stop-gradient is missing" in found["message"]


BY_NUMPY_OF = {"5_xl_attention": {"shift": BY_NUMPY}, "4_shaw": {"layer": LAYER_BY_NUMPY}}


@pytest.mark.parametrize("name", BY_NUMPY_OF)
def test_what_is_computed_by_numpy_where_torch_is_asked_for_gets_no_points_and_is_told_so(name):
    (found,) = verdicts(name, BY_NUMPY_OF[name]).values()
    assert found["score"] == 0
    assert found["message"].startswith("Some numbers here come from no operation of torch's")
    assert "on other numbers. In the marking's own run: " in found["message"]
    assert not re.search(r"\byou\b", found["message"]), "the student's own run gave other numbers"


FROM_A_LIST = """
def collect(weights, v, table, rows):
    return weights @ v * torch.tensor([1.0] * v.shape[3])
"""


def test_a_wrong_function_with_a_list_of_numbers_is_not_said_to_take_numbers_out_of_tensors():
    (found,) = verdicts("4_shaw", {"collect": FROM_A_LIST}).values()
    assert found["score"] == 0
    assert "but from numpy, tolist() or a list, say" in found["message"]
    assert "taken out" not in found["message"]


@pytest.fixture(scope="module")
def ready_made():
    ways = {way: ("attend", f"def attend(q, k, v, seen):{body}") for way, body in READY_MADE.items()}
    return verdicts_of_ways("1_heads_and_masks", ways)


@pytest.mark.filterwarnings("ignore:flex_attention called")
@pytest.mark.parametrize("way", READY_MADE)
def test_pytorchs_own_attention_is_refused_and_a_sign(ready_made, way):
    attend = "def attend(q, k, v, seen):" + READY_MADE[way]
    names = {}
    exec(solved("1_heads_and_masks", "imports"), names)
    exec(attend, names)
    q, k, v = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    seen = torch.rand(2, 5, 7) < 0.6
    exec(solved("1_heads_and_masks", "attend").replace("attend", "right"), names)
    torch.testing.assert_close(names["attend"](q, k, v, seen), names["right"](q, k, v, seen))
    assert ready_made[way]["score"] == 0
    assert re.search("PyTorch's own attention|where nothing is written down", ready_made[way]["message"])
    assert reaching({"attend": attend})


@pytest.fixture(scope="module")
def subtle():
    return verdicts("3_memory", SUBTLE)


def test_what_is_wrong_in_a_corner_passes_the_checks_for_oneself():
    names = {}
    exec(solved("3_memory", "imports"), names)
    for cell, source in SUBTLE.items():
        exec(source, names)
        exec(solved("3_memory", f"{cell}-check"), names)


@pytest.mark.parametrize(
    ("cell", "groups"),
    [
        ("remember", {"the start of a stream"}),
        ("look", {"memory", "no memory", "large scores"}),
        ("weigh", {"one query"}),
        ("stream", {"M = 0", "a stream shorter than a segment"}),
    ],
)
def test_a_function_that_is_wrong_in_a_corner_gets_the_other_groups_points_alone(subtle, cell, groups):
    part = subtle[cell]
    assert {name for name, right in part["groups"].items() if right} == groups, part
    assert part["score"] < part["most"]
    assert part["message"] != "right"


@pytest.fixture(scope="module")
def others():
    return verdicts("3_memory", OTHER_STYLES, top="from copy import deepcopy")


@pytest.mark.parametrize("cell", OTHER_STYLES)
def test_a_right_function_in_another_style_gets_every_point(others, cell):
    assert (others[cell]["score"], others[cell]["message"]) == (others[cell]["most"], "right")


@pytest.mark.parametrize("name", MASKED)
def test_a_score_that_is_not_minus_infinity_hides_nothing(name):
    """Here in the sandbox; see test_corners for other numbers, seeds and right answers."""
    parts = {cell: solved(name, cell).replace('float("-inf")', "-1e4") for cell in MASKED[name]}
    for part in verdicts(name, parts).values():
        right = part["groups"].pop("large scores", part["groups"].get("all cases"))
        assert not right
        assert all(part["groups"].values()) or name[0] == "5"
        assert part["score"] < part["most"]
        assert "a number such as -1e4 hides nothing" in part["message"]


@pytest.mark.parametrize("name", BY_COMPLEX_NUMBERS)
def test_a_right_function_of_complex_numbers_gets_every_point(name):
    (found,) = verdicts(name, BY_COMPLEX_NUMBERS[name]).values()
    assert (found["score"], found["message"]) == (found["most"], "right")


def test_a_memory_in_one_tensor_is_as_right_as_in_a_list():
    (found,) = verdicts("3_memory", {"remember": STACKED}).values()
    assert (found["score"], found["message"]) == (5, "right")


IN_INFERENCE_MODE = """
@torch.inference_mode()
def project(x, W, n_head):
    BODY
    return y.unflatten(-1, (n_head, -1)).transpose(1, 2)
"""
FILLED = [
    "y = torch.empty(*x.shape[:2], W.shape[1])\n    y.copy_(x @ W)\n    y.mul_(1.0)",
    "made = torch.nn.Linear(*W.shape, bias=False)\n    made.weight.copy_(W.T)\n    y = made(x)",
]


@pytest.fixture(scope="module")
def filled():
    ways = {body: ("project", IN_INFERENCE_MODE.replace("BODY", body)) for body in FILLED}
    return verdicts_of_ways("1_heads_and_masks", ways)


@pytest.mark.parametrize("body", FILLED)
def test_a_tensor_that_is_filled_in_inference_mode_costs_no_points(filled, body):
    assert (filled[body]["score"], filled[body]["message"]) == (4, "right")


COMPILED = (
    "@torch.compile\n{}",
    "@torch.compile(dynamic=True)\n{}",
    "{}\nlook_back = torch.compile(look_back)",
)


@pytest.fixture(scope="module")
def compiled():
    ways = {way: ("look", way.format(solved("3_memory", "look"))) for way in COMPILED}
    return verdicts_of_ways("3_memory", ways)


@pytest.mark.parametrize("way", COMPILED)
def test_a_function_for_torchs_compiler_runs_as_it_is_written(compiled, way):
    verdict = compiled[way]
    assert (verdict["score"], verdict["message"], verdict["left_out"]) == (7.0, "right", [])


def test_a_function_that_torchscript_compiles_from_its_text_costs_no_points():
    source = """
@torch.jit.script
def project(x, W, n_head: int):
    return (x @ W).unflatten(-1, (n_head, -1)).transpose(1, 2)
"""
    found = verdicts("1_heads_and_masks", {"project": source})["project"]
    assert (found["score"], found["message"]) == (4, "right")


def test_two_of_three_numbers_are_worth_two_of_three_points_whatever_is_written_to_stderr():
    names = {}
    exec(solved("3_memory", "imports"), names)
    exec(solved("3_memory", "numbers"), names)
    mine = names["my_numbers"]()
    source = WARNING.replace("KEPT", str(mine["kept"])).replace("PAIRS", str(mine["pairs"]))
    (found,) = verdicts("3_memory", {"numbers": source}).values()
    assert found["score"] == 2
    assert re.search(r"reach is not 0: work it out again from its definition", found["message"])
