"""A stored result holds as long as the code of today repeats its tiny run."""

import json
from datetime import datetime
from pathlib import Path

import pytest
import torch

from minitxl import attention, memory, position_encodings
from minitxl.__main__ import main
from minitxl.experiments import EXPERIMENTS, dependency, without_terms
from minitxl.experiments.shared import fingerprints, results
from minitxl.experiments.shared.fingerprints import MEASURED, TINY, compute, same
from minitxl.fast import attention as fast_attention
from minitxl.fast import cpu_attention, dropout, inputs
from minitxl.fast.kv_cache import heads
from minitxl.training import step

FIGURES = Path(__file__).parents[2] / "figures"


def stored(name):
    return results.read(FIGURES / f"{name}.json")


@pytest.mark.parametrize("name", TINY)
def test_the_code_of_today_repeats_the_tiny_run_of_the_stored_result(name):
    kept, computed = stored(name).fingerprint, compute(name)
    differing = [
        f"{part}: {key}"
        for part in ("losses", "data")
        for key in kept[part].keys() | computed[part].keys()
        if not same(kept[part].get(key), computed[part].get(key))
    ]
    assert differing == [], f"the arithmetic of {name} has changed, so figures/{name}.json no longer holds"


def test_every_experiment_has_a_tiny_run_or_measures_time():
    assert {*TINY} - {"demo"} == {*EXPERIMENTS} - {*MEASURED}
    for name in (*MEASURED, "bench", "bench_words", "bench_bfloat16"):
        result = stored(name)
        assert result.fingerprint is None
        assert {"device", "commit", "finished"} <= result.provenance.keys()


def test_numbers_are_repeated_up_to_a_millionth_and_all_else_exactly():
    kept = {"losses": {"a": [8.0, 7.5]}, "data": {"b": [2, 1.0, "0123456789ab"], "c": [1e-12]}}

    def changed(old, new):
        return json.loads(json.dumps(kept).replace(old, new))

    assert same(kept, changed("7.5", "7.5000074"))
    assert same(kept, changed("1e-12", "0.0"))
    for old, new in (("7.5", "7.50001"), ("89ab", "89ac"), ('"b"', '"d"'), ("8.0, ", ""), ("7.5", "null")):
        assert not same(kept, changed(old, new)), (old, new)


def test_a_tiny_run_leaves_threads_number_type_and_random_numbers_alone():
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state()
    compute("segment_copying")
    after = torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


def minus(function):
    return lambda *given, **named: -function(*given, **named)


def negative_v(attention, q, right=inputs.biased_queries):
    q_plus_u, _ = right(attention, q)
    return q_plus_u, right(attention, -q)[1]


def one_key_fewer(query, key, *, window=None, right=attention.attention_mask, **named):
    return right(query, key, window=None if window is None else window - 1, **named)


def one_token_fewer(before, states, *, mem_len, right=memory.extend):
    return right(before, states, mem_len=max(0, mem_len - 1))


def one_distance_more(key, *, right=position_encodings.distances, **named):
    return right(key, **named) + 1


def undropped(x, rate):
    return torch.ones_like(x)


MUTATIONS = {
    "the scale of scores in the fast path": ("memory_and_positions", [(inputs, "sqrt", lambda x: x)]),
    "the scale of scores in the text": ("attention_over_memory", [(attention, "sqrt", lambda x: x)]),
    "the sign of the queries that meet distances": (
        "memory_and_positions",
        [(fast_attention, "biased_queries", negative_v), (heads, "biased_queries", negative_v)],
    ),
    "the sign of the shifted scores": (
        "without_terms",
        [(without_terms, "distance_scores", minus(attention.distance_scores))],
    ),
    "the window in training": ("samples", [(cpu_attention, "attention_mask", one_key_fewer)]),
    "the window in the text": ("attention_over_memory", [(attention, "attention_mask", one_key_fewer)]),
    "the length of memory in training": ("memory_and_positions", [(step, "extend", one_token_fewer)]),
    "the distances": ("memory_and_positions", [(inputs, "distances", one_distance_more)]),
    "the size of a block, at its edge": (
        "relay_routes",
        [(cpu_attention, "_shift", lambda padded: padded[..., 1:])],
    ),
    "the dropout of attention weights": ("shaw_clipping", [(dropout, "dropout_mask", undropped)]),
    "the gradient of scores": (
        "memory_and_positions",
        [
            (
                cpu_attention,
                "softmax_backward",
                lambda d, alpha, *_, grad_input: torch.mul(d, alpha, out=grad_input),
            )
        ],
    ),
    "the schedule": (
        "short_dependency",
        [(step, "learning_rate", lambda number, settings: settings.learning_rate)],
    ),
}


@pytest.mark.parametrize("changed", MUTATIONS)
def test_a_changed_sign_window_or_scale_breaks_the_fingerprint(changed, monkeypatch):
    name, replaced = MUTATIONS[changed]
    for module, attribute, wrong in replaced:
        monkeypatch.setattr(module, attribute, wrong)
    try:
        computed = fingerprints.compute(name)
    except ValueError as error:  # a wrong gradient may grow without bound, and training refuses it
        computed = str(error)
        assert "the gradient must be finite" in computed
    assert not same(stored(name).fingerprint, computed)


def test_figures_computes_a_result_anew_only_where_its_tiny_run_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(dependency, "CASES", dependency.CASES[:1])

    def finished():
        main(["figures", "dependency", "--folder", str(tmp_path)])
        return results.read(tmp_path / "dependency.json").provenance["finished"]

    monkeypatch.setattr(results, "datetime", Clock())
    first = finished()
    assert finished() == first
    monkeypatch.setattr(fingerprints, "compute", lambda name: {"losses": {}, "data": {"b": [1, 2.0]}})
    assert finished() != first


class Clock:
    """A clock that is a second later whenever it is read."""

    seconds = 0

    def now(self, zone):
        self.seconds += 1
        return datetime(2026, 1, 1, second=self.seconds, tzinfo=zone)
