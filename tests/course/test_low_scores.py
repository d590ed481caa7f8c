"""Scores of these cases lie below a million, and far enough apart for one key to have the whole weight."""

import pytest
import torch

from minitxl.course.low_scores import QUERY, low_scores, with_low_scores


def gaps_of(scores):
    return scores.sort(dim=-1).values.diff(dim=-1).min()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dim", [3, 9])
def test_products_of_queries_and_keys_are_low_and_far_apart(seed, dim):
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 3, 4, dim), torch.randn(2, 3, 6, dim)
    before = q.clone(), k.clone()
    scores = (lambda q, k: q @ k.mT / dim**0.5)(*low_scores(q, k, draw))
    assert scores.max() < -1_000_000
    assert gaps_of(scores) > 10_000
    assert torch.equal(q, before[0])
    assert torch.equal(k, before[1])


@pytest.mark.parametrize("seed", range(3))
def test_scores_of_the_states_are_low_and_far_apart_and_values_do_not_read_the_numbers_behind_it(seed):
    draw = torch.Generator().manual_seed(seed)
    memory, x = (torch.randn(2, size, 6, generator=draw) for size in (5, 4))
    W = {name: torch.randn(6, 6, generator=draw) for name in "qkv"}
    (memory, x), changed = with_low_scores([memory, x], W, 2)
    context = torch.cat([memory, x], dim=1)
    q, k = (of.unflatten(-1, (2, 3)).transpose(1, 2) for of in (x @ changed["q"], context @ changed["k"]))
    scores = q @ k.mT / 3**0.5
    assert scores.max() < -1_000_000
    assert gaps_of(scores) > 10_000
    assert not changed["v"][:2].any()
    assert torch.equal(changed["v"][2:], W["v"][2:])


def test_queries_may_be_left_to_a_bias():
    W = {name: torch.ones(4, 4) for name in ("q", "kE", "v")}
    (x,), changed = with_low_scores([torch.ones(1, 3, 4)], W, 2, query="", key="kE")
    assert torch.equal(changed["q"], W["q"])
    keys = (x @ changed["kE"]).unflatten(-1, (2, 2))
    assert keys[..., 0].unique().tolist() == [-QUERY[0]]
    assert keys[0, :, 0, 1].tolist() == [1, 0, 2]
