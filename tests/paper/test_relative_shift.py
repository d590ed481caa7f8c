import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl.relative_shift import rel_shift

sizes = st.integers(1, 9)


@given(query=sizes, memory=st.integers(0, 9), head=st.integers(1, 3))
def test_rel_shift_puts_distance_i_minus_j_at_i_j(query, memory, head):
    key = memory + query
    by_distance = torch.rand(2, head, query, key)  # column c holds distance key - 1 - c
    by_key = rel_shift(by_distance)
    assert by_key.shape == by_distance.shape
    for i in range(query):
        for j in range(memory + i + 1):
            distance = memory + i - j
            assert torch.equal(by_key[:, :, i, j], by_distance[:, :, i, key - 1 - distance])


def test_rel_shift_leaves_the_next_rows_values_in_the_future():
    shifted = rel_shift(torch.arange(1.0, 16.0).reshape(3, 5))
    assert shifted[0].tolist() == [3, 4, 5, 0, 6]
    assert shifted[1].tolist() == [7, 8, 9, 10, 0]
