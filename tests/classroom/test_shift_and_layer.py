"""Assignment 5's shift and layer in the sandbox: no forbidden way gets points, no right way loses any.

A forbidden way gives right values, here also values that are only right up to rounding.
"""

import re
from pathlib import Path

import pytest

from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import judged
from minitxl.course.marking.notebooks import Assignment, read

PATH = Path(__file__).parents[2] / "notebooks" / "assignments" / "5_xl_attention.ipynb"
CELLS = {cell.id: cell.source for cell in read(PATH).cells}
IMPORTS = Assignment(PATH.stem, read(PATH)).imports
SEEDS = 6

HELPERS = """
import numpy as np


def shifted_rows(scores, key):
    query, spare = scores.shape[2], scores.shape[3] - key
    return pad(scores[..., spare:], (1, 0)).flatten(2)[..., query:].unflatten(2, (query, key))


def past_of(query, key):
    return torch.arange(key) <= torch.arange(key - query, key)[:, None]


def places(scores, key):
    query, dist = scores.shape[2:]
    columns = torch.arange(key) + query - 1 - torch.arange(query)[:, None] + dist - key
    return columns.clamp(max=dist - 1)
"""
RIGHT = {
    "zeroed_by_arange": """
    rows = shifted_rows(scores, key)
    future = torch.arange(key) > torch.arange(key - scores.shape[2], key)[:, None]
    return rows.masked_fill(future, 0.0)
""",
    "times_a_float_mask": """
    query, spare = scores.shape[2], scores.shape[3] - key
    near = scores[:, :, :, spare:]
    column = torch.zeros(*scores.shape[:3], 1, dtype=scores.dtype)
    padded = torch.cat([column, near], dim=-1)
    line = padded.view(scores.shape[0], scores.shape[1], key + 1, query)
    rows = line[:, :, 1:].reshape(scores.shape[0], scores.shape[1], query, key)
    past = torch.zeros(query, key)
    past = past + past_of(query, key).float()
    rows = rows * past[None, None]
    return rows + torch.zeros_like(rows)
""",
    "zeroed_in_place": """
    rows = shifted_rows(scores, key).clone()
    rows[..., ~past_of(scores.shape[2], key)] = 0
    return rows
""",
    "zeroed_at_places": """
    rows = shifted_rows(scores, key).clone()
    i, j = torch.triu_indices(scores.shape[2], key, key - scores.shape[2] + 1)
    rows[:, :, i, j] = 0.0
    return rows
""",
    "where": """
    rows = shifted_rows(scores, key)
    return torch.where(past_of(scores.shape[2], key), rows, torch.tensor(0.0))
""",
    "tril": """
    return shifted_rows(scores, key).tril(key - scores.shape[2])
""",
    "as_a_view": """
    batch, head, query, dist = scores.shape
    wide = pad(scores, (0, query)).contiguous()
    step = wide.shape[-1]
    return wide.as_strided(
        (batch, head, query, key), (head * query * step, query * step, step - 1, 1), dist - key + query - 1
    )
""",
    "diagonal_of_windows": """
    query, dist = scores.shape[2:]
    windows = pad(scores, (0, query)).unfold(3, key, 1)[:, :, :, dist - key :]
    return windows[:, :, :, :query].flip(3).diagonal(dim1=2, dim2=3).movedim(-1, 2)
""",
}
"""Shifts without loop and table of indices, bodies by name."""
LOOPS = {
    "nearly": """
    rows, spare = [], scores.shape[3] - key
    for row in range(scores.shape[2]):
        start = spare + scores.shape[2] - 1 - row
        rows.append(pad(scores[:, :, row, start:], (0, start - spare)))
    return torch.stack(rows, dim=2) * 1.000001
""",
    "of_pieces": """
    batch, head, query, dist = scores.shape
    line = pad(scores, (0, query)).flatten(2)
    cuts, step = [dist - key + query - 1], dist + query
    for row in range(query):
        cuts += [key, step - key - 1]
    cuts[-1] = step * query - sum(cuts[:-1])
    return torch.stack(line.split(cuts, dim=-1)[1::2], dim=2)
""",
    "of_a_fixed_number": """
    query, dist = scores.shape[2:]
    wide, rows = pad(scores, (0, query)), torch.zeros(*scores.shape[:3], key)
    for row in range(128):
        row = min(row, query - 1)
        start = dist - key + query - 1 - row
        rows[:, :, row] = wide[:, :, row, start : start + key]
    return rows
""",
    "that_wastes_where_rows_are_few": """
    query, dist = scores.shape[2:]
    wide = pad(scores, (0, query)).flatten(2)
    step, first = dist + query, dist - key + query - 1
    rows = [wide[..., first + i * (step - 1) : first + i * (step - 1) + key] for i in range(query)]
    if query < 40 or query % 4 == 0:
        for _ in range(25):
            torch.zeros(1)
    return torch.stack(rows, dim=2)
""",
    "of_tens_and_ones": """
    query, dist = scores.shape[2:]
    rows = query + -query % 10
    wide = pad(scores, (rows, 2 * rows, 0, rows - query))
    start, tens = rows + dist - key + query - rows, []
    for place, block in enumerate(wide.split(10, dim=2)):
        tens.append(block.narrow(3, start + rows - 10 * (place + 1), key + 10))
    wide = torch.cat(tens, 2).unflatten(2, (rows // 10, 10))
    ones = [row.narrow(3, 9 - place, key) for place, row in enumerate(wide.unbind(3))]
    return torch.stack(ones, 3).flatten(2, 3)[:, :, :query]
""",
    "of_tens_and_ones_for_a_hundred_rows": """
    query, dist = scores.shape[2:]
    wide = pad(scores, (100, 200, 0, 100 - query))
    start, tens = dist - key + query, []
    for place, block in enumerate(wide.split(10, dim=2)):
        tens.append(block.narrow(3, start + 100 - 10 * (place + 1), key + 10))
    wide = torch.cat(tens, 2).unflatten(2, (10, 10))
    ones = [row.narrow(3, 9 - place, key) for place, row in enumerate(wide.unbind(3))]
    return torch.stack(ones, 3).flatten(2, 3)[:, :, :query]
""",
    "of_powers_of_two": """
    query, dist = scores.shape[2:]
    far, bit = torch.arange(query - 1, -1, -1)[:, None], 1
    while bit < query:
        moved = torch.cat([scores[..., bit:], scores[..., :bit]], -1)
        scores, bit = torch.where((far & bit).bool(), moved, scores), 2 * bit
    return scores[..., dist - key :]
""",
    "over_elements": """
    rows = torch.zeros(*scores.shape[:3], key)
    query, spare = scores.shape[2], scores.shape[3] - key
    for i in range(query):
        for j in range(key - query + i + 1):
            rows[:, :, i, j] = scores[:, :, i, j + query - 1 - i + spare]
    return rows
""",
}
TABLES = {
    "nearly_gathered": """
    wanted = places(scores, key).expand(*scores.shape[:2], -1, -1)
    return scores.gather(-1, wanted) * 1.000001
""",
    "indexed": """
    return scores[..., torch.arange(scores.shape[2])[:, None], places(scores, key)]
""",
    "taken": """
    return torch.take_along_dim(scores, places(scores, key)[None, None], -1)
""",
    "selected": """
    query, dist = scores.shape[2:]
    wide, column = pad(scores, (0, query)), torch.arange(dist + query)
    first = dist - key + query - 1 - torch.arange(query)[:, None]
    inside = (column >= first) & (column < first + key)
    return wide[..., inside].unflatten(-1, (query, key))
""",
    "scattered": """
    query, dist = scores.shape[2:]
    i = torch.arange(query)[:, None]
    there = torch.arange(dist) - (dist - key + query - 1 - i)
    wide = torch.zeros(*scores.shape[:3], 2 * dist)
    wide = wide.scatter(-1, (there % (2 * dist)).expand_as(scores), scores)
    return wide[..., :key]
""",
    "scattered_and_summed": """
    query, dist = scores.shape[2:]
    wanted = torch.arange(dist) - (dist - key + query - 1 - torch.arange(query)[:, None])
    wanted = torch.where(wanted < 0, key, wanted).clamp(max=key).expand_as(scores)
    return torch.zeros(*scores.shape[:3], key + 1).scatter_reduce(3, wanted, scores, "sum")[..., :key]
""",
    "reduced_by_an_index": """
    query, dist = scores.shape[2:]
    wanted = torch.arange(dist) - (dist - key + query - 1 - torch.arange(query)[:, None])
    wanted = torch.where(wanted < 0, key, wanted).clamp(max=key) + torch.arange(query)[:, None] * (key + 1)
    line = torch.ones(*scores.shape[:2], query * (key + 1))
    line = line.index_reduce(2, wanted.flatten(), scores.flatten(2), "prod")
    return line.unflatten(2, (query, key + 1))[..., :key]
""",
    "sampled_at_coordinates": """
    query, dist = scores.shape[2:]
    i, j = torch.meshgrid(torch.arange(query), torch.arange(key), indexing="ij")
    x = (2 * (j + query - 1 - i + dist - key) + 1) / dist - 1
    grid = torch.stack([x, (2 * i + 1) / query - 1], -1).expand(len(scores), -1, -1, -1)
    return torch.nn.functional.grid_sample(scores, grid, mode="nearest", align_corners=False)
""",
    "added_to_a_product": """
    batch, head, query, dist = scores.shape
    one = torch.nn.functional.one_hot(places(scores, key), dist).float()
    rows, hot = scores.permute(2, 0, 1, 3).flatten(1, 2), one.transpose(1, 2)
    found = torch.baddbmm(torch.zeros(query, batch * head, key), rows, hot)
    return found.unflatten(1, (batch, head)).permute(1, 2, 0, 3)
""",
    "summed": """
    hot = torch.nn.functional.one_hot(places(scores, key), scores.shape[3])
    return (scores.unsqueeze(-2) * hot).sum(-1)
""",
    "multiplied": """
    one = torch.nn.functional.one_hot(places(scores, key), scores.shape[3]).float()
    return einsum(scores, one, "batch head query dist, query key dist -> batch head query key")
""",
}


def verdicts(cells, names, trial):
    """Return the verdict on each function by the hidden test of a graded cell, each with another seed."""
    source = re.sub(r"grade\(\w+", "grade(NAME", CELLS[trial])
    tests = [{"cell": name, "points": 5.0, "source": source.replace("NAME", name)} for name in names]
    job = {"owner": "ada", "cells": [("imports", CELLS["imports"]), *cells], "imports": IMPORTS, "seed": 3}
    return {part["function"]: part for part in judged(job | {"tests": tests}, strongest())}


@pytest.fixture(scope="module")
def shifts():
    """Return verdicts on all shifts; the right ones stand there as often as there are seeds."""
    bodies = RIGHT | {f"loop_{name}": body for name, body in LOOPS.items()}
    bodies |= {f"table_{name}": body for name, body in TABLES.items()}
    functions = "\n".join(f"def {name}(scores, key):{body}" for name, body in bodies.items())
    again = "\n".join(f"{name}_{seed} = {name}" for name in RIGHT for seed in range(1, SEEDS))
    names = [*bodies, *(line.partition(" ")[0] for line in again.splitlines())]
    return verdicts([("all", HELPERS + functions), ("again", again)], names, "shift-test")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_shift_gets_all_points_whatever_it_does_to_the_future(shifts, name):
    for one in [name, *(f"{name}_{seed}" for seed in range(1, SEEDS))]:
        assert (shifts[one]["score"], shifts[one]["message"]) == (5, "right")


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_over_the_rows_gets_no_points(shifts, name):
    found = shifts[f"loop_{name}"]
    words = "it takes more operations than pad, reshape and slice, as a loop over the rows does"
    assert (found["score"], found["message"].partition(":")[0]) == (0, words)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_places_gets_no_points(shifts, name):
    found = shifts[f"table_{name}"]
    assert found["score"] == 0
    assert found["message"].startswith("there is a table of indices, or a product with a matrix of ones")


LAYER = CELLS["layer"]
NEARLY = ("    return rearrange(z,", "    return 1.00005 * rearrange(z,")
SHIFTED = "    shifted = pad(distance, (1, 0)).flatten(2)[..., query:].unflatten(2, (query, key))\n"
LAYERS = {
    "a gradient enters the memory": [("memory.detach()", "memory")],
    "the gradient of x is not": [("[memory.detach(), x], dim=1)", "[memory, x], dim=1).detach()")],
    "there is a vector for each pair": [
        (
            SHIFTED,
            "    away = torch.arange(key - query, key)[:, None] - torch.arange(key)\n"
            "    pairs = r[:, (key - 1 - away).clamp(max=key - 1)]\n"
            '    shifted = einsum(q + v[:, None], pairs, "b h q dim, h q key dim -> b h q key")\n',
        )
    ],
    "there is a vector for each pair of": [
        (
            SHIFTED,
            "    away = torch.arange(key - query, key)[:, None] - torch.arange(key)\n"
            "    halves = []\n"
            "    for rows, near in zip((q + v[:, None]).chunk(2, 2), away.chunk(2), strict=False):\n"
            "        pairs = r[:, (key - 1 - near).clamp(max=key - 1)]\n"
            '        halves.append(einsum(rows, pairs, "b h q dim, h q key dim -> b h q key"))\n'
            "    shifted = torch.cat(halves, dim=2)\n",
        )
    ],
    "then shift; and mix the values": [
        (
            "    return rearrange(z,",
            "    z = [(weights[:, :, i, :, None] * values).sum(2) for i in range(query)]\n"
            "    z = torch.stack(z, dim=2)\n"
            "    return rearrange(z,",
        )
    ],
    "there is a vector for each pair of a query": [
        (
            SHIFTED,
            "    away = torch.arange(key - query, key)[:, None] - torch.arange(key)\n"
            "    packed = r.contiguous().view(torch.complex128) if dim % 4 == 0 else r\n"
            "    pairs = packed[:, (key - 1 - away).clamp(max=key - 1)].view(torch.float32)\n"
            "    asks = (q + v[:, None]).permute(1, 2, 0, 3).flatten(0, 1)\n"
            "    shifted = torch.bmm(asks, pairs.reshape(-1, key, dim).mT).unflatten(0, (n_head, query))\n"
            "    shifted = shifted.permute(2, 0, 1, 3)\n",
        )
    ],
}
"""Layers that give right values in a way that is not asked for, by words of the message."""


def changed(source, pairs, name, number):
    """Return the source of a function with other text in it and a number after its name."""
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new)
    return source.replace(f"def {name}(", f"def {name}_{number}(")


def test_a_layer_whose_values_are_right_up_to_rounding_hides_nothing():
    cells = [
        (words, changed(LAYER, [*pairs, NEARLY], "xl_attention", number))
        for number, (words, pairs) in enumerate(LAYERS.items())
    ]
    found = verdicts(cells, [f"xl_attention_{number}" for number in range(len(LAYERS))], "layer-test")
    for words, part in zip(LAYERS, found.values(), strict=True):
        right = ["one query"] if "vector" in words or "values" in words else ["no memory"]
        assert [name for name, one in part["groups"].items() if one] == right
        assert words in part["message"]


def test_a_layer_that_hides_no_key_is_right_for_one_query():
    unmasked = changed(LAYER, [('.masked_fill(future, float("-inf"))', "")], "xl_attention", 0)
    (part,) = verdicts([("layer", unmasked)], ["xl_attention_0"], "layer-test").values()
    assert [name for name, right in part["groups"].items() if right] == ["one query"]


def test_terms_whose_values_are_right_up_to_rounding_do_not_hide_a_future_that_is_not_zero():
    pairs = [("masked_fill(away < 0, 0.0)", "masked_fill(away < 0, 1e-7) * 1.00005")]
    (part,) = verdicts(
        [("terms", changed(CELLS["terms"], pairs, "four_terms", 0))], ["four_terms_0"], "terms-test"
    ).values()
    assert {name for name, right in part["groups"].items() if right} == {"one query"}  # which has no future
    assert "the terms of the future are not 0" in part["message"]
