"""Notebook 07, its checks and its experiment."""

from pathlib import Path

import pytest
import torch
from einops import einsum
from page import NOTEBOOKS, Page
from torch.nn.functional import one_hot

from minitxl.attention import ShawAttention, attention_mask
from minitxl.course.checks import distance_tables
from minitxl.course.checks import shaw as checks
from minitxl.data import corpora
from minitxl.experiments import shaw_clipping
from minitxl.experiments.shared import results
from minitxl.experiments.shared.runner import compute
from minitxl.figures.positions import clipping
from minitxl.figures.positions import shaw_clipping as pictures

PAGE = Page("07_shaw")
STORED = results.read(NOTEBOOKS.parent / "figures" / "shaw_clipping.json").data
BLANKS = {
    "section": ("section-text", checks.check_section_scores),
    "key-lookup": ("key-lookup-text", checks.check_key_lookup),
    "value-lookup": ("value-lookup-text", checks.check_value_lookup),
    "exercise-1-code": ("exercise-1", distance_tables.check_two_limits),
    "exercise-2-code": ("exercise-2", distance_tables.check_t5_group),
    "exercise-3-code": ("exercise-3", distance_tables.check_ruler),
}


def vectors_looked_up(q, a_K, rows):
    return einsum(q, a_K[rows], "batch head query dim, query key dim -> batch head query key")


def values_looked_up(weights, a_V, rows):
    return einsum(weights, a_V[rows], "batch head query key, query key dim -> batch head query dim")


def scores_by_query(q, k, a_K, rows):
    each = [q[:, :, i] @ a_K[row].T for i, row in enumerate(rows)]
    return torch.matmul(q, k.transpose(2, 3)) + torch.stack(each, dim=2)


def scores_of_sums(q, k, a_K, rows):
    return einsum(
        q,
        k[:, :, None] + a_K[rows],
        "batch head query dim, batch head query key dim -> batch head query key",
    )


def row_by_row(weights, a_V, rows):
    sums = [weights.masked_fill(rows != row, 0).sum(-1, keepdim=True) for row in range(len(a_V))]
    return sum(total * vector for total, vector in zip(sums, a_V, strict=True))


def key_by_key(q, a_K, rows):
    met = q @ a_K.T
    return torch.stack([met[:, :, i, row] for i, row in enumerate(rows)], dim=2)


def limits_by_loop(n_query, n_key, left, right):
    first = n_key - n_query
    rows = [[left - max(-right, min(left, first + i - j)) for j in range(n_key)] for i in range(n_query)]
    return torch.tensor(rows)


def limits_by_steps(n_query, n_key, left, right):
    first = n_key - n_query
    places = torch.arange(n_key) - torch.arange(first, n_key).unsqueeze(1)
    return (places + left).clip(0, left + right)


def limits_the_other_way_round(n_query, n_key, left, right):
    ahead = torch.arange(n_key)[None, :] - torch.arange(n_key - n_query, n_key)[:, None]
    return torch.clamp(ahead, -left, right) + left


def groups_by_powers(distance):
    starts = 16 * 8 ** (torch.arange(17) / 16)
    return torch.where(distance < 16, distance, 15 + (distance[:, None] >= starts[:16]).sum(1))


def groups_by_base_2(distance):
    far = 16 + torch.floor((distance.clamp(min=1).log2() - 4) * 16 / 3)
    return torch.where(distance < 16, distance.float(), far.clamp(max=31)).long()


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (checks.check_section_scores, lambda q, k, a_K, rows: q @ k.mT + key_by_key(q, a_K, rows)),
        (checks.check_section_scores, scores_by_query),
        (checks.check_key_lookup, key_by_key),
        (checks.check_key_lookup, lambda q, a_K, rows: (q @ a_K.T).take_along_dim(rows[None, None], -1)),
        (checks.check_value_lookup, row_by_row),
        (
            checks.check_value_lookup,
            lambda weights, a_V, rows: (
                torch.zeros(*weights.shape[:3], len(a_V)).scatter_reduce(
                    -1, rows.expand_as(weights), weights, "sum"
                )
                @ a_V
            ),
        ),
        (distance_tables.check_two_limits, limits_by_steps),
        (distance_tables.check_two_limits, limits_the_other_way_round),
        (distance_tables.check_t5_group, groups_by_powers),
        (distance_tables.check_t5_group, groups_by_base_2),
        (distance_tables.check_ruler, lambda k, dim: torch.arange(k, -k - 1, -1.0)[:, None].repeat(1, dim)),
        (
            distance_tables.check_ruler,
            lambda k, dim: torch.eye(dim)[:1] * torch.linspace(k, -k, 2 * k + 1)[:, None],
        ),
    ],
)
def test_a_right_answer_in_another_style_is_right(check, answer):
    assert check(answer).right, check(answer)


def limits_by_row(n_query, n_key, left, right):
    i, j = n_key - n_query, torch.arange(n_key)
    return torch.stack([left - (i + query - j).clamp(-right, left) for query in range(n_query)])


@pytest.mark.parametrize("loop", [limits_by_loop, limits_by_row])
def test_right_rows_by_a_loop_over_the_queries_are_not_yet_right(loop):
    verdict = distance_tables.check_two_limits(loop)
    assert verdict.word == "not yet"
    assert "right numbers, but the number of operations grows with the queries" in verdict.message


@pytest.mark.parametrize("blank", BLANKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(blank):
    PAGE.assert_folded_solution_is_right_and_stub_blank(blank, *BLANKS[blank])


@pytest.mark.parametrize("blank", BLANKS)
def test_every_named_mistake_is_told_by_its_own_sentence(blank, monkeypatch):
    _, check = BLANKS[blank]
    room = distance_tables if blank.startswith("exercise") else checks
    seen, judge = {}, room.judge
    monkeypatch.setattr(room, "judge", lambda attempt, **given: seen.update(given) or judge(attempt, **given))
    state = torch.get_rng_state()
    check(lambda *case: 0)
    assert len(seen["mistakes"]) >= 5
    monkeypatch.undo()
    for sentence, mistakes in seen["mistakes"].items():
        if check is distance_tables.check_ruler:  # its mistakes are compared as what they measure
            continue
        for mistake in [mistakes] if callable(mistakes) else mistakes:
            assert check(mistake) == checks.Verdict(False, sentence)
    assert torch.equal(torch.get_rng_state(), state)


def ruler(column):
    def table(k, dim):
        a_V = torch.zeros(2 * k + 1, dim)
        a_V[:, 0] = column(k)
        return a_V

    return table


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (lambda k: torch.arange(-k, k + 1.0), "sign is turned round"),
        (lambda k: torch.arange(2 * k + 1.0), "numbers of rows"),
        (lambda k: torch.arange(-k, k + 1.0).abs(), "without its sign"),
        (lambda k: torch.arange(k + 1, -k, -1.0), "off by one"),
        (lambda k: torch.arange(k, -k - 1, -1.0).clamp(min=0), "only the past"),
        (lambda k: 0.0, "wherever the head looks"),
        (lambda k: 2 * torch.arange(k, -k - 1, -1.0), "at the mean distance"),
    ],
)
def test_a_wrong_ruler_is_told_what_it_measures(column, sentence):
    verdict = distance_tables.check_ruler(ruler(column))
    assert not verdict.right
    assert sentence in verdict.message


@pytest.mark.parametrize(
    ("check", "wasteful"),
    [(checks.check_key_lookup, vectors_looked_up), (checks.check_value_lookup, values_looked_up)],
)
def test_a_right_lookup_with_a_vector_for_each_pair_is_told_so(check, wasteful):
    verdict = check(wasteful)
    assert not verdict.right
    assert "32,768 numbers for 1,024 pairs: a vector for each" in verdict.message


@pytest.mark.parametrize(
    ("check", "one_hot_lookup"),
    [
        (
            checks.check_key_lookup,
            lambda q, a_K, rows: einsum(
                q @ a_K.T,
                one_hot(rows, len(a_K)).float(),
                "batch head query row, query key row -> batch head query key",
            ),
        ),
        (
            checks.check_value_lookup,
            lambda weights, a_V, rows: (
                einsum(
                    weights,
                    one_hot(rows, len(a_V)).float(),
                    "batch head query key, query key row -> batch head query row",
                )
                @ a_V
            ),
        ),
    ],
)
def test_a_right_lookup_with_a_one_hot_vector_for_each_pair_is_told_so(check, one_hot_lookup):
    verdict = check(one_hot_lookup)
    assert not verdict.right
    assert "9,216 numbers for 1,024 pairs: a vector for each" in verdict.message


def test_right_scores_that_add_a_vector_to_each_pairs_key_are_not_those_of_section_3_3():
    verdict = checks.check_section_scores(scores_of_sums)
    assert not verdict.right
    assert (
        "65,536 numbers for 16 queries and 16 keys: a vector for each pair in every head" in verdict.message
    )


def test_the_references_of_the_checks_are_the_packages_attention():
    attention = ShawAttention(8, 2, 4, max_distance=2)
    torch.nn.init.normal_(attention.a_K)
    torch.nn.init.normal_(attention.a_V)
    q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 4)
    rows = checks.rows(3, 7, 2)
    scores = (q @ k.mT + checks.solution_key_lookup(q, attention.a_K, rows)) / 2
    torch.testing.assert_close(checks.solution_section_scores(q, k, attention.a_K, rows) / 2, scores)
    weights = attention.shaw_weights(q, k, None, None)
    torch.testing.assert_close(scores.softmax(-1), weights)
    z = weights @ v + checks.solution_value_lookup(weights, attention.a_V, rows)
    torch.testing.assert_close(z, attention.shaw_values(weights, v, None))


def test_the_answers_of_the_predictions_are_the_measured_ones():
    vectors, used, loses_most = checks.predictions.questions
    assert (vectors.answer, used.answer) == (2 * 16 + 1, 16 + 1)
    added = {
        row["max_distance"]: row["longest"]["bits"]["mean"] - row["trained"]["bits"]["mean"]
        for row in STORED["by_clip"]
    }
    assert loses_most.answer == max(added, key=added.get)


BUILDS = ("rows", "literal", "section", "section-build", "key-lookup", "value-lookup", "by-distance", "equal")


@pytest.mark.parametrize(
    "change",
    [
        ("i = n_key - n_query + query", "i = query"),
        ("min(max_distance, i - j)", "min(max_distance, j - i)"),
        ("+ a_V[rows]  #", "+ 0 * a_V[rows]  #"),
        ("section_scores(q, k, a_K, rows) /", "section_scores(q, k, a_K.flip(0), rows) /"),
        ("return z + value_lookup", "return z - value_lookup"),
    ],
)
def test_the_hand_built_attention_equals_the_packages_or_the_notebook_stops(change):
    with pytest.raises(AssertionError):
        PAGE.after_setup(*BUILDS, change=change)


def test_the_cells_below_a_blank_run_on_the_readers_function_if_it_is_right():
    blank = PAGE.cells["key-lookup"]
    mine = blank.replace("raise NotImplementedError", "return key_by_key(q, a_K, rows)")
    assert mine != blank
    assert PAGE.run(mine, key_by_key=key_by_key)["key_lookup"].__name__ == "key_lookup"
    wrong = blank.replace("raise NotImplementedError", "return q @ q.mT")
    assert PAGE.run(wrong)["key_lookup"] is checks.solution_key_lookup
    PAGE.names["key_by_key"] = key_by_key
    PAGE.after_setup(*BUILDS, change=(blank, mine), within="key-lookup")


def test_the_largest_tensors_are_those_that_the_text_explains():
    measured = PAGE.after_setup(*BUILDS[:-1], "sizes")["measured"]
    assert [row["numbers in the largest tensor"] for row in measured] == [16_777_216, 2_097_152, 262_144]


def test_the_first_picture_shows_the_row_of_each_pair_and_hatches_the_future():
    scope = PAGE.after_setup("rows", "rows-picture")
    k, rows, seen = scope["max_distance"], scope["rows"], scope["seen"]
    data = {"max_distance": k, "rows": rows.tolist(), "seen": seen.tolist(), "mem_len": scope["mem_len"]}
    picture = clipping.which_vector(data)
    table, pairs = picture.figure.axes
    package = ShawAttention(4, 1, 4, max_distance=k).table_rows(torch.zeros(1, 1, *rows.shape), None)[0, 0]
    assert [int(number.get_text()) for number in pairs.texts] == package.flatten().tolist()
    assert [not box.get_hatch() for box in pairs.patches] == seen.flatten().tolist()
    assert [not box.get_hatch() for box in table.patches] == [row <= k for row in range(2 * k + 1)]
    assert (
        f"{k + 1} of {2 * k + 1} rows are used; row 0, 3 back and more, by {(rows == 0).sum()}" in picture.alt
    )


def test_the_picture_of_one_query_shows_what_the_lookup_gives():
    scope = PAGE.after_setup("rows", "rows-picture", "by-row")
    k, row, q, table, numbers = (scope[name] for name in ("max_distance", "row", "q", "table", "numbers"))
    scores = (scope["keys"] + table[row]) @ q / 2
    torch.testing.assert_close(numbers["weights"], scores.softmax(0))
    torch.testing.assert_close(scope["added"] @ table, scores.softmax(0) @ table[row])
    numbers = {name: values.tolist() for name, values in numbers.items()}
    picture = clipping.by_row({"max_distance": k, "rows": row.tolist()} | numbers)
    drawn = dict(zip(("met", "looked_up", "added", "weights"), picture.figure.axes, strict=True))
    for name, axes in drawn.items():
        assert [bar.get_height() for bar in axes.patches] == numbers[name]
    assert [label.get_text() for label in drawn["weights"].get_xticklabels()] == [
        str(r) for r in row.tolist()
    ]
    assert f"added up by row: {numbers['added'][0]:.2f}, " in picture.alt


def test_the_widget_draws_the_packages_rows_and_the_stored_losses():
    scope = PAGE.after_setup("rows")
    scope |= {"stored": STORED, "limits": [1, 4, 16, 64]}
    exec(PAGE.cells["widget"], scope)
    for k in scope["limits"]:
        pairs, plateau, loss = scope["draw_clip"](max_distance=k).figure.axes[:3]
        drawn = torch.tensor(pairs.images[0].get_array().filled(torch.nan))
        seen = attention_mask(32, 64)[0]
        package = ShawAttention(4, 1, 4, max_distance=k).table_rows(torch.zeros(1, 1, 32, 64), None)[0, 0]
        assert torch.equal(~drawn.isnan(), seen)
        assert torch.equal(drawn[seen].long(), (k - package)[seen])
        assert len(set(plateau.lines[0].get_ydata()[k:])) <= 1
        chosen = next(row for row in STORED["by_clip"] if row["max_distance"] == k)
        assert loss.lines[-1].get_xydata().tolist() == [[k, chosen["trained"]["bits"]["mean"]]]


def test_the_figures_show_the_stored_numbers():
    trained, longer = pictures.shaw_clipping(STORED).figure.axes
    seeds, means = trained.lines[::2], trained.lines[1::2]
    for shown, bar, line, row in zip(seeds, means, longer.lines, STORED["by_clip"], strict=False):
        assert list(shown.get_ydata()) == row["trained"]["bits"]["seeds"]
        assert list(bar.get_ydata()) == [row["trained"]["bits"]["mean"]]
        saved = row["trained"]["bits"]["mean"] - row["longest"]["bits"]["mean"]
        assert line.get_ydata()[-1] == pytest.approx(saved)


def test_the_learned_vectors_are_drawn_by_distance_the_token_itself_first():
    stored = STORED["vectors"]
    k, axes = stored["max_distance"], pictures.shaw_vectors(stored).figure.axes
    for column, table in enumerate(("a_K", "a_V")):
        for number, layer in enumerate(stored["layers"]):
            bars = [bar.get_height() for bar in axes[2 * number + column].patches]
            assert bars == [layer[table]["norm"][k - distance] for distance in range(k + 1)]
            assert axes[2 * number + column].lines[0].get_ydata()[0] == max(layer[table]["norm"][k + 1 :])
        strip = axes[2 * len(stored["layers"]) + column].images[0].get_array()
        expected = [
            [layer[table]["cosine"][k - 1 - distance] for distance in range(k)] for layer in stored["layers"]
        ]
        assert strip.tolist() == expected


def test_the_experiment_runs_end_to_end_at_toy_size(tmp_path: Path):
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = shaw_clipping.settings("quick", corpus)
    assert settings["max_distances"] == [1, 4, 16, 64]
    settings["model"] |= {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["train"] |= {"steps": 2, "warmup": 1, "validate_every": 2, "validate_tokens": 64}
    settings |= {"test_tokens": 200, "max_distances": [0, 1, 16, 20]}
    computed = compute(shaw_clipping.parts(settings, corpus, seeds=[0, 1], device="cpu"))
    data = shaw_clipping.collect(settings, corpus, computed)
    assert [row["max_distance"] for row in data["by_clip"]] == [0, 1, 16, 20]
    assert [one["attention_len"] for one in data["by_clip"][0]["by_length"]] == [64, 96, 128, 192, 256]
    assert data["by_clip"][0]["trained"] == data["by_clip"][0]["by_length"][0]
    assert len(data["by_clip"][1]["trained"]["bits"]["seeds"]) == 2
    vectors = data["vectors"]
    assert vectors["layers"] == computed["k = 16, seed 0"]["vectors"]
    assert len(vectors["layers"][0]["a_V"]["norm"]) == len(vectors["j_minus_i"]) == 33
    pictures.shaw_clipping(data).save(tmp_path / "drawn.svg")
