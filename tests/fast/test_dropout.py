import pytest
import torch

from minitxl.fast import dropout as room
from minitxl.fast.dropout import (
    FastDropout,
    FastVariationalDropout,
    dropout_,
    dropout_mask,
    inverse_keep_rate,
)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rate_is_met_and_the_mean_is_one(rate, dtype):
    torch.manual_seed(0)
    n = 400_003
    drawn = dropout_mask(torch.empty(n, dtype=dtype), rate)
    assert drawn.dtype == dtype
    deviation = (rate * (1 - rate) / n) ** 0.5
    assert abs((drawn == 0).double().mean().item() - rate) < 5 * deviation + 1 / 65536
    assert abs(drawn.double().mean().item() - 1) < 5 * deviation / (1 - rate)
    assert drawn.unique().numel() == 2


@pytest.mark.parametrize("rate", [0.99999, 0.999995, 1 - 2**-53])
def test_a_rate_that_rounds_to_1_keeps_one_element_in_65_536(rate):
    torch.manual_seed(0)
    drawn = dropout_mask(torch.empty(10_000_000), rate)
    assert drawn.unique().tolist() == [0.0, 65536.0]
    assert 100 < (drawn > 0).sum() < 210  # 153 on average


def test_every_sixteen_bits_are_drawn_anew():
    """Four elements come from one word: they must not go together."""
    torch.manual_seed(0)
    words = (dropout_mask(torch.empty(200_000), 0.5) > 0).view(-1, 4).double()
    assert (torch.corrcoef(words.T) - torch.eye(4)).abs().max() < 0.02
    assert (words.mean(dim=0) - 0.5).abs().max() < 0.01


def test_drawing_in_pieces_draws_the_same_and_overwrites_what_it_is_given(monkeypatch):
    x, found = torch.randn(7, 13), []
    for piece in (room.CHUNK_ELEMENTS, 8):
        monkeypatch.setattr(room, "CHUNK_ELEMENTS", piece)
        torch.manual_seed(0)
        dropped = x.clone()
        assert dropout_(dropped, 0.3) is dropped
        found.append((dropped, torch.rand(())))
    (whole, next_whole), (pieces, next_pieces) = found
    assert torch.equal(pieces, whole)
    assert next_pieces == next_whole
    torch.manual_seed(0)
    assert torch.equal(whole, x * dropout_mask(x, 0.3))


def test_dropout_follows_the_seed_and_rests_in_evaluation():
    x = torch.ones(3, 5, 7)
    drop = FastDropout(0.5)
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(drop(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert set(draws[0].flatten().tolist()) == {0.0, 2.0}
    assert drop.eval()(x) is x


def test_variational_dropout_draws_one_mask_for_a_segment():
    torch.manual_seed(0)
    dropped = FastVariationalDropout(0.5)(torch.ones(3, 5, 40))
    assert (dropped == dropped[:, :1]).all()
    assert not torch.equal(dropped[0], dropped[1])
    assert set(dropped.flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rate", [1 / 2**16, 0.1, 0.5, 0.9])
def test_of_all_values_of_16_bits_the_rates_share_is_dropped(rate, dtype, monkeypatch):
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.int64)
    monkeypatch.setattr(torch.Tensor, "random_", lambda drawn, *bounds: drawn.copy_(every))
    kept = dropout_(torch.ones(2**16, dtype=dtype), rate)
    assert int((kept == 0).sum()) == round(rate * 2**16)
    assert set(kept.unique().tolist()) == {0.0, torch.tensor(inverse_keep_rate(rate), dtype=dtype).item()}
