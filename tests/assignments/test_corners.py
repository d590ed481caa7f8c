"""What is wrong in a corner alone loses that corner's points, and what is right keeps all, for any seed.

A corner is a group of cases: large scores, one query, float64, one layer.
"""

import math
import re

import pytest
from sheet import ALL

from minitxl.course.grading import number_shares

SEEDS = range(5)
SHEETS = {sheet.stem[0]: sheet for sheet in ALL}
INFINITE = 'float("-inf")'
MASKS = {
    "1/attend": ("~seen", "seen"),
    "1/layer": ("~seen", "seen"),
    "3/look": ("~seen", "seen"),
    "3/weigh": ("hidden", "~hidden"),
    "4/layer": ("~seen", "seen"),
    "5/layer": ("future", "~future"),
    "6/likely": ("rank >= k", "rank < k"),
}
"""Functions that hide scores: what they hide, and what is seen."""
UNGROUPED = {"5/shift"}
"""Functions that are worth all of their points or none."""


def shares(function, *changes, after="", seeds=SEEDS):
    """Return for each seed the groups that are wrong, and the message, of a solution that was changed."""
    number, cell = function.split("/")
    sheet = SHEETS[number]
    names = sheet.handed_in(*([cell, *changes] if changes else []))
    exec(after, names)
    attempt, trial = sheet.trial(f"{cell}-test")
    for seed in seeds:
        verdict, right = trial(seed).shares(names[attempt])
        yield {name for name, is_right in right.items() if not is_right}, verdict.message


def group(function, name):
    return {"all cases"} if function in UNGROUPED else {name}


# Large scores


def masked(function):
    """Return the source that masks the scores in a solution, and the scores in it."""
    number, cell = function.split("/")
    hidden, _ = MASKS[function]
    source = SHEETS[number].cells[cell].source
    line = source[: source.index(f".masked_fill({hidden}, {INFINITE})")].splitlines()[-1].strip()
    start = line.rindex("= ") + 2 if "= " in line else len("return ")
    return f"{line[start:]}.masked_fill({hidden}, {INFINITE})", line[start:]


@pytest.mark.parametrize("stand_in", ["-30", "-100", "-1e4", "-1e6"])
@pytest.mark.parametrize("function", MASKS)
def test_a_number_in_place_of_minus_infinity_loses_the_points_for_large_scores(function, stand_in):
    for wrong, message in shares(function, INFINITE, stand_in):
        assert wrong >= group(function, "large scores")
        assert stand_in == "-30" or wrong == group(function, "large scores")
        assert stand_in == "-30" or "a number such as -1e4 hides nothing" in message


@pytest.mark.parametrize("added", ["-30", "-1e4"])
@pytest.mark.parametrize("function", ["3/look", "3/weigh", "5/layer"])
def test_a_number_that_is_added_in_place_of_minus_infinity_loses_the_points_for_large_scores(function, added):
    found, scores = masked(function)
    for wrong, message in shares(function, found, f"({scores} + {added} * ({MASKS[function][0]}).float())"):
        assert wrong == {"large scores"}
        assert "added to a score, hides nothing where scores are large" in message


@pytest.mark.parametrize("lowest", ["-1e9", "torch.finfo(torch.float32).min"])
@pytest.mark.parametrize("function", MASKS)
def test_a_number_lower_than_all_scores_is_as_right_as_minus_infinity(function, lowest):
    assert all(not wrong for wrong, _ in shares(function, INFINITE, lowest))


@pytest.mark.parametrize("function", MASKS)
def test_where_and_an_added_mask_are_as_right_as_masked_fill(function):
    found, scores = masked(function)
    hidden, seen = MASKS[function]
    added = f"({scores} + torch.zeros({scores}.shape).masked_fill({hidden}, {INFINITE}))"
    for other in (f"torch.where({seen}, {scores}, {INFINITE})", added):
        assert all(not wrong for wrong, _ in shares(function, found, other)), other


@pytest.mark.parametrize("function", ["3/weigh", "6/likely"])
def test_weights_by_the_logarithm_of_their_sum_are_right_too(function):
    found, _ = masked(function)
    rows = f"(row := {found}) - row.logsumexp(dim=-1, keepdim=True)"
    assert all(not wrong for wrong, _ in shares(function, f"{found}.softmax(dim=-1)", f"({rows}).exp()"))


FILTERED = '(ranked / T).masked_fill(rank >= k, float("-inf")).softmax(dim=-1)'
BEFORE = "probs.cumsum(dim=-1) - probs"
LIKELY = {
    "sums moved on by one": [(BEFORE, "probs.cumsum(dim=-1).roll(1, -1) * (rank > 0)")],
    "a product with ones": [(BEFORE, "probs @ torch.ones(len(rank), len(rank)).triu(1)")],
    "float64": [("(ranked / T)", "(ranked.double() / T)"), ("return ", "kept = kept.float()\n    return ")],
    "softmax of all": [
        (FILTERED, "(ranked / T).softmax(dim=-1) * (rank < k)"),
        ("    before", "    probs = probs / probs.sum(dim=-1, keepdim=True)\n    before"),
    ],
    "powers of e": [
        (FILTERED, "((ranked - ranked[:, :1]) / T).exp() * (rank < k)"),
        ("    before", "    probs = probs / probs.sum(dim=-1, keepdim=True)\n    before"),
    ],
}
"""Other ways to what is left of the probabilities, and to the sum of those before a token."""


@pytest.mark.parametrize("way", LIKELY)
def test_a_sum_that_is_exactly_p_is_so_in_any_right_way(way):
    assert all(not wrong for wrong, _ in shares("6/likely", *LIKELY[way]))


# One query

QUERIES = {
    "1/seen": 1,
    "1/attend": 2,
    "1/layer": 1,
    "3/look": 1,
    "3/weigh": 2,
    "4/rows": 0,
    "4/scores": 2,
    "4/layer": 1,
    "5/terms": 3,
    "5/shift": 2,
    "5/layer": 1,
}
"""Functions whose result has an axis for queries, and which axis this is."""
SQUEEZED = """
was = NAME

def NAME(*case):
    return was(*case).squeeze(AXIS)
"""
"""A function that is right, but for one query: then the axis is gone."""


def name_of(function):
    number, cell = function.split("/")
    return SHEETS[number].trial(f"{cell}-test")[0]


@pytest.mark.parametrize("function", QUERIES)
def test_a_result_that_loses_its_axis_for_one_query_loses_these_points(function):
    squeezed = SQUEEZED.replace("NAME", name_of(function)).replace("AXIS", str(QUERIES[function]))
    for wrong, message in shares(function, after=squeezed):
        assert wrong == group(function, "one query")
        assert "you returned the shape" in message


# float64

CAST = """
was = NAME

def NAME(*case):
    return was(*(of.float() if of.is_floating_point() else of for of in case))BACK
"""


@pytest.mark.parametrize("back", ["", ".double()"])
@pytest.mark.parametrize("function", ["1/attend", "4/scores"])
def test_what_is_computed_in_float32_loses_the_points_for_float64(function, back):
    cast = CAST.replace("NAME", name_of(function)).replace("BACK", back)
    for wrong, message in shares(function, after=cast):
        assert wrong == {"float64"}
        assert "compute in the dtype of the arguments" in message


@pytest.mark.parametrize("function", ["1/attend", "4/scores"])
def test_a_root_in_float32_loses_the_points_for_float64_and_is_named(function):
    for wrong, message in shares(function, "sqrt(q.shape[-1])", "torch.sqrt(torch.tensor(q.shape[-1]))"):
        assert wrong == {"float64"}
        assert "such as torch.sqrt(torch.tensor(d)), is enough" in message
        assert "return it" not in message


@pytest.mark.parametrize(
    "root",
    ["q.shape[-1] ** 0.5", "torch.sqrt(torch.tensor(q.shape[-1], dtype=q.dtype))"],
)
@pytest.mark.parametrize("function", ["1/attend", "4/scores"])
def test_a_root_in_the_dtype_of_the_arguments_is_right(function, root):
    assert all(not wrong for wrong, _ in shares(function, "sqrt(q.shape[-1])", root))


# Numbers of all tensors together

EFFICIENT = {
    "a loop over the queries": (
        "4/scores",
        """
def score(q, k, table, bias):
    query, key, clip = q.shape[2], k.shape[2], table.shape[1] // 2
    found = []
    for i in range(query):
        rows = (torch.arange(key) - (key - query + i)).clamp(-clip, clip) + clip
        content = torch.einsum("bhd,bhjd->bhj", q[:, :, i], k)
        by_row = einsum(q[:, :, i], table, "b head dim, head row dim -> b head row") + bias
        found.append((content + by_row[:, :, rows]) / sqrt(q.shape[-1]))
    return torch.stack(found, dim=2)
""",
    ),
    "rows as ones among zeros": (
        "4/scores",
        """
def score(q, k, table, bias):
    query, key, clip = q.shape[2], k.shape[2], table.shape[1] // 2
    rows = (torch.arange(key) - torch.arange(key - query, key)[:, None]).clamp(-clip, clip) + clip
    ones = torch.nn.functional.one_hot(rows, table.shape[1]).to(q.dtype)
    by_row = torch.einsum("bhid,hrd->bhir", q, table) + bias[:, None]
    return (q @ k.mT + torch.einsum("bhir,ijr->bhij", by_row, ones)) / sqrt(q.shape[-1])
""",
    ),
    "a loop over the rows": (
        "4/collect",
        """
def collect(weights, v, table, rows):
    total = weights @ v
    for r in range(len(table)):
        share = torch.where((rows == r)[:, None], weights, 0.0).sum(-1, keepdim=True)
        total = total + share * table[r]
    return total
""",
    ),
    "ones among zeros for each text": (
        "4/collect",
        """
def collect(weights, v, table, rows):
    ones = torch.nn.functional.one_hot(rows + 1, len(table) + 1)[..., 1:].to(weights.dtype)
    return weights @ v + torch.einsum("bhij,bijr->bhir", weights, ones) @ table
""",
    ),
    "a product for each pair": (
        "4/scores",
        """
def score(q, k, table, bias):
    query, key, clip = q.shape[2], k.shape[2], table.shape[1] // 2
    rows = (torch.arange(key) - torch.arange(key - query, key)[:, None]).clamp(-clip, clip) + clip
    ones = torch.nn.functional.one_hot(rows, table.shape[1]).to(q.dtype)
    by_row = q @ table.mT + bias[:, None]
    return (q @ k.mT + (ones @ by_row[..., None])[..., 0]) / sqrt(q.shape[-1])
""",
    ),
    "a product for each query": (
        "4/collect",
        """
def collect(weights, v, table, rows):
    ones = torch.nn.functional.one_hot(rows + 1, len(table) + 1)[..., 1:].to(weights.dtype)
    by_row = (weights[..., None, :] @ ones[:, None])[..., 0, :]
    return weights @ v + by_row @ table
""",
    ),
    "one product with keys and rows": (
        "4/scores",
        """
def score(q, k, table, bias):
    query, key, clip = q.shape[2], k.shape[2], table.shape[1] // 2
    rows = (torch.arange(key) - torch.arange(key - query, key)[:, None]).clamp(-clip, clip) + clip
    both = q @ torch.cat([k, table.expand(len(k), -1, -1, -1)], dim=2).mT
    by_row = both[..., key:] + bias[:, None]
    return (both[..., :key] + by_row.gather(-1, rows.expand(*q.shape[:3], key))) / sqrt(q.shape[-1])
""",
    ),
    "a relative shift of strides": (
        "4/scores",
        """
def score(q, k, table, bias):
    query, key, clip = q.shape[2], k.shape[2], table.shape[1] // 2
    wide = torch.arange(-(key - 1), query).clamp(-clip, clip) + clip
    far = (q @ table[:, wide].mT + bias[:, wide].unsqueeze(1)).contiguous()
    batch, head, step, _ = far.stride()
    far = far.as_strided((*q.shape[:2], query, key), (batch, head, step - 1, 1), query - 1)
    return (q @ k.mT + far) / sqrt(q.shape[-1])
""",
    ),
    "a relative shift of rows that are padded": (
        "4/scores",
        """
def score(q, k, table, bias):
    query, key, clip = q.shape[2], k.shape[2], table.shape[1] // 2
    wide = torch.arange(-(key - 1), query).clamp(-clip, clip) + clip
    far = einsum(q, table[:, wide], "b head query dim, head dist dim -> b head query dist")
    far = torch.nn.functional.pad(far + bias[:, None, wide], (0, query))
    far = far.flatten(2)[..., : query * (far.shape[-1] - 1)].unflatten(-1, (query, -1))
    return (q @ k.mT + far[..., query - 1 : query - 1 + key]) / sqrt(q.shape[-1])
""",
    ),
    "one product with values and rows": (
        "4/collect",
        """
def collect(weights, v, table, rows):
    index = rows[:, None].expand_as(weights)
    placed = weights.masked_fill(index < 0, 0)
    by_row = weights.new_zeros(*weights.shape[:-1], len(table)).scatter_add(-1, index.clamp(min=0), placed)
    both = torch.cat([v, table.expand(*v.shape[:2], -1, -1)], dim=2)
    return torch.cat([weights, by_row], dim=-1) @ both
""",
    ),
    "a product of each weight with ones": (
        "4/collect",
        """
def collect(weights, v, table, rows):
    ones = (rows[:, None, :, :, None] == torch.arange(len(table))).to(weights.dtype)
    return weights @ v + (weights[..., None] * ones).sum(3) @ table
""",
    ),
    "bags of vectors": (
        "4/collect",
        """
def collect(weights, v, table, rows):
    longer = torch.cat([torch.zeros_like(table[:1]), table])
    bags = (rows + 1)[:, None].expand_as(weights).flatten(0, 2)
    added = torch.nn.functional.embedding_bag(
        bags, longer, per_sample_weights=weights.flatten(0, 2), mode="sum"
    )
    return weights @ v + added.view(*weights.shape[:3], -1)
""",
    ),
}


@pytest.mark.parametrize("way", EFFICIENT)
def test_a_function_without_a_vector_for_each_pair_is_right_in_any_style_for_any_seed(way):
    function, source = EFFICIENT[way]
    assert all(not wrong for wrong, _ in shares(function, after=source, seeds=range(24)))


VECTORS = """
was = NAME

def NAME(*case):
    query, key = SIZES
    return was(*case) + 0 * torch.ones(2, query, key, 96).sum() if key > query else was(*case)
"""
"""A right function that builds a vector for each pair as well, where there are more keys than queries."""


@pytest.mark.parametrize(
    ("function", "sizes", "groups"),
    [
        ("4/scores", "case[0].shape[2], case[1].shape[2]", {"memory", "float64"}),
        ("4/collect", "case[3].shape[1:]", {"more keys"}),
    ],
)
def test_vectors_of_some_cases_alone_are_told_in_a_sentence(function, sizes, groups):
    source = VECTORS.replace("NAME", name_of(function)).replace("SIZES", sizes)
    for wrong, message in shares(function, after=source):
        assert wrong == groups
        assert "the values are right, but a vector is built for each pair of query and key" in message
        assert "True" not in message


# Numbers

POWER = '2 ** (mine["bits"] * mine["characters"])'
COMPUTED = ["exp(X * log(2))", "2.0 ** X", "torch.exp(torch.tensor(X * log(2)))", "2 ** torch.tensor([X])"]


@pytest.mark.parametrize("way", COMPUTED)
def test_a_perplexity_that_is_computed_is_right_for_any_student(way):
    sheet = SHEETS["6"]
    attempt, trial = sheet.trial("numbers-test")
    for student in (f"student {number}" for number in range(20)):
        computed = way.replace("X", '(mine["bits"] * mine["characters"])')
        names = sheet.handed_in("numbers", ('"ada"', repr(student)), (POWER, computed))
        names["exp"] = math.exp
        verdict, _ = number_shares(names[attempt](), trial, student)
        assert verdict.right, verdict.message


# Work

SHORT_LAST = {
    "missing": ("    pairs = 0", "    time -= time % seg_len\n    pairs = 0"),
    "counted as full": ("    pairs = 0", "    time += -time % seg_len\n    pairs = 0"),
}


@pytest.mark.parametrize("words", SHORT_LAST)
def test_a_rest_that_is_forgotten_is_wrong_without_a_memory_too(words):
    for wrong, message in shares("6/cached", *SHORT_LAST[words]):
        assert wrong == {"no memory", "memory"}
        assert re.match(rf"the last,?( shorter)? segment is {words}: ", message)


# Streams

CORNERS = {
    "one layer": "if len(layers) == 1:\n        return layers[0](x, x[:, :0])\n    ",
    "a stream shorter than a segment": "if x.shape[1] < seg_len:\n        return x\n    ",
}


@pytest.mark.parametrize("corner", CORNERS)
def test_a_stream_that_is_wrong_for_one_layer_or_when_it_is_short_loses_these_points(corner):
    start = "memory, found = [x[:, :0].detach()]"
    for wrong, _ in shares("3/stream", start, CORNERS[corner] + start):
        assert wrong == {corner}


def test_the_check_for_oneself_sees_that_chunk_cuts_into_other_segments():
    sheet = SHEETS["3"]
    names = sheet.handed_in("stream", "x.split(seg_len, dim=1)", "x.chunk(-(-x.shape[1] // seg_len), dim=1)")
    with pytest.raises(AssertionError, match="the fourth token is in segment 0"):
        exec(sheet.cells["stream-check"].source, names)


@pytest.mark.parametrize("stays", ["(sums > p) & (rank > 0)", "(sums >= p) & (rank > 0)"])
def test_a_first_token_that_stays_by_itself_hides_no_mistake_in_top_p(stays):
    sums = "before = probs.cumsum(dim=-1) - probs", "sums = probs.cumsum(dim=-1)"
    for wrong, message in shares("6/likely", sums, ("before >= p", stays)):
        assert {"top p", "top k, then top p"} <= wrong
        assert "the token that crosses top p belongs in" in message


UNNAMED = {
    "2/score": ("return torch.cat(losses)", "return torch.cat(losses) + 1"),
    "3/remember": ("detach()", "detach() + 1"),
    "3/look": ('-> batch query (head dim)")', '-> batch query (head dim)") + 1'),
    "4/scores": ("/ sqrt(q.shape[-1])", "/ 3"),
    "4/collect": ("return content", "return 2 * content"),
    "6/write": ("masked_fill(ended, stop)", "masked_fill(ended, stop) * 0"),
}
"""Wrong solutions that have no sentence of their own."""


@pytest.mark.parametrize("function", UNNAMED)
def test_what_a_function_returned_is_told_as_what_it_returned(function):
    for _, message in shares(function, *UNNAMED[function]):
        assert re.search(r", (you returned|first difference at) ", message)
        assert "in the value at" not in message or function == "3/remember"  # which returns a list


SEEN = {
    "the losses carry a graph, and should have none: evaluate under torch.no_grad": (
        "2/score",
        ("torch.no_grad()", "torch.enable_grad()"),
        ("model.train(mode)", "model.train()"),
    ),
    "model.training is False afterwards, and should be True, as it was before": (
        "2/score",
        ("model.train(mode)", "model.train(mode and (len(targets) - attention_len) % stride > 0)"),
    ),
    "memory or losses carry a graph, and should have none: read under torch.no_grad": (
        "6/score",
        ("torch.no_grad()", "torch.set_grad_enabled(mem_len == 0)"),
    ),
    "[12] of [23] memories carry a graph, and none should: detach\\(\\) what is kept": (
        "3/remember",
        (".detach() for of in joined]", " for of in [joined[0].detach(), *joined[1:]]]"),
    ),
    "a gradient enters memory in [0-9]+ of [0-9]+ calls of layers, and should in none: detach": (
        "3/stream",
        ("detach()", "detach().requires_grad_(mem_len > 4)"),
    ),
}
"""Mistakes that show beside right values, in a way that is none of the named ones, by what is said."""


@pytest.mark.parametrize("words", SEEN)
def test_what_a_probe_sees_beside_right_values_is_told_in_a_sentence(words):
    for _, message in shares(*SEEN[words]):
        assert re.search(f"the values are right, but {words}", message)
        assert not re.search("(True|False), right is", message)


def test_a_message_on_calls_of_step_names_what_students_know():
    for _, message in shares("6/write", "split(piece, dim=1)", "split(piece + 1, dim=1)"):
        assert re.search(r"tokens that step read, call by call: here \[.*\], right is \[.*\]", message)


def test_a_message_on_calls_of_layers_names_what_students_know():
    twice = "_, h = layer(h, memory[n]), layer(h, memory[n])"
    for _, message in shares("3/stream", "h = layer(h, memory[n])", twice):
        start = r"[\w ]+: called with layers = \[\d layers?\], x = .*, mem_len = \d+, "
        assert re.match(start + r"number of calls of layers: here \d+, right is \d+\.", message)
