"""Rotary, ALiBi's and T5's positions: equal to other libraries, and to their own identities."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from minitxl.later_attention import ALiBiAttention, RotaryAttention, buckets, rotate, slopes

THEIRS = load_file(Path(__file__).parent / "parity" / "later.safetensors")
HEADS = sorted(int(name.removeprefix("alibi_")) for name in THEIRS if name[6:].isdigit())


@pytest.mark.parametrize(("name", "sizes"), [("buckets", (32, 128)), ("coarse_buckets", (8, 20))])
def test_buckets_are_those_of_transformers(name, sizes):
    assert torch.equal(buckets(torch.arange(300), *sizes), THEIRS[name])


@pytest.mark.parametrize("bucket_distance", [2, 3])
def test_a_last_bucket_that_is_not_beyond_the_first_half_is_refused(bucket_distance):
    with pytest.raises(ValueError, match=f"must be greater than n_bucket / 2 = 3, got {bucket_distance}"):
        buckets(torch.arange(5), 6, bucket_distance)


@pytest.mark.parametrize("heads", HEADS)
def test_slopes_are_those_of_transformers_and_x_transformers(heads):
    bias = ALiBiAttention(8, heads, 4).distance_bias(torch.tensor([7]))[:, 0]
    torch.testing.assert_close(bias, THEIRS[f"alibi_{heads}"])
    torch.testing.assert_close(bias, THEIRS[f"alibi_x_{heads}"])
    assert len(slopes(heads)) == heads


@pytest.mark.parametrize("name", ["rotary_scores", "rotary_scores_x"])
def test_rotary_scores_are_those_of_transformers_and_x_transformers(name):
    q, k = THEIRS["q"].double(), THEIRS["k"].double()
    ours = RotaryAttention(8, 3, 8).scores(q, k, None) * 8**0.5
    torch.testing.assert_close(ours, THEIRS[name].double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("offset", [1, 1000, 100_000])
def test_positions_may_be_counted_from_anywhere(offset):
    q, k = THEIRS["q"].double(), THEIRS["k"].double()
    position = torch.arange(9)
    here, there = (rotate(q, p) @ rotate(k, p).mT for p in (position, position + offset))
    torch.testing.assert_close(here, there, rtol=0, atol=1e-9)


def test_a_turn_keeps_the_length_and_position_0_turns_nothing():
    q, position = THEIRS["q"].double(), torch.arange(9)
    turned = rotate(q, position)
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], q[:, :, 0])
    assert not torch.allclose(turned[:, :, 1], q[:, :, 1])


def test_positions_need_not_be_whole_and_a_greater_base_slows_all_pairs_but_the_first():
    q, position = THEIRS["q"].double(), torch.arange(9)
    halves = rotate(rotate(q, position / 2), position / 2)
    torch.testing.assert_close(halves, rotate(q, position))
    one = torch.ones(1, 1, 1, 8, dtype=torch.float64)
    trained, slower = (rotate(one, torch.tensor([1]), base)[0, 0, 0] for base in (10_000.0, 40_000.0))
    moved = [(turned[:4] - 1).abs() for turned in (trained, slower)]
    assert moved[0][0] == moved[1][0]
    assert (moved[1][1:] < moved[0][1:]).all()


def test_an_odd_width_cannot_turn_in_pairs():
    with pytest.raises(ValueError, match="d_head must be even, since rotary positions turn pairs, got 3"):
        RotaryAttention(4, 2, 3)
