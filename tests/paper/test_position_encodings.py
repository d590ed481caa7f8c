from math import cos, sin

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl.position_encodings import distances, sinusoids

sizes = st.integers(1, 9)


def test_sinusoids_are_sines_then_cosines_of_the_papers_frequencies():
    table = sinusoids(torch.arange(7, dtype=torch.float64), d_model=6)
    for p in range(7):
        for m in range(3):
            angle = p / 10000 ** (2 * m / 6)
            assert table[p, m].item() == pytest.approx(sin(angle), abs=1e-12)
            assert table[p, 3 + m].item() == pytest.approx(cos(angle), abs=1e-12)


def test_sinusoid_products_depend_on_the_distance_alone():
    table = sinusoids(torch.arange(12, dtype=torch.float64), d_model=8)
    products = table @ table.T
    for offset in range(12):
        diagonal = products.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-12)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match=r"d_model must be even .* got 5"):
        sinusoids(torch.arange(3), d_model=5)


@given(key=sizes, clamp_len=st.none() | st.integers(0, 9))
def test_distances_fall_from_key_minus_1_to_0_and_stop_at_the_clamp(key, clamp_len):
    expected = [min(d, key if clamp_len is None else clamp_len) for d in range(key - 1, -1, -1)]
    assert distances(key, clamp_len=clamp_len).tolist() == expected
