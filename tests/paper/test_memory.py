from functools import cache
from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl.memory import extend, longest_reach, reach

lengths = st.integers(0, 7)


def states_of(length: int, start: int = 0) -> torch.Tensor:
    """[layer batch time model] whose values tell the time."""
    time = torch.arange(start, start + length, dtype=torch.float64)
    return time[None, None, :, None].repeat(2, 3, 1, 4)


@given(seg_lens=st.lists(st.integers(1, 5), min_size=1, max_size=6), mem_len=lengths)
def test_memory_is_the_last_mem_len_tokens_of_all_segments(seg_lens, mem_len):
    memory, time = None, 0
    for seg in seg_lens:
        memory = extend(memory, states_of(seg, start=time), mem_len=mem_len)
        time += seg
        expected = states_of(min(mem_len, time), start=time - min(mem_len, time))
        assert torch.equal(memory, expected)


@given(mem=lengths, seg=st.integers(1, 7), mem_len=lengths)
def test_extend_never_changes_its_inputs_nor_shares_their_storage(mem, seg, mem_len):
    memory, states = states_of(mem), states_of(seg, start=mem)
    before = memory.clone(), states.clone()
    new = extend(memory, states, mem_len=mem_len)
    new.fill_(-1)
    assert torch.equal(memory, before[0])
    assert torch.equal(states, before[1])


def test_none_and_zero_length_memory_are_the_same():
    states = states_of(3)
    empty = extend(None, states, mem_len=0)
    assert empty.shape == (2, 3, 0, 4)
    assert torch.equal(extend(None, states, mem_len=2), extend(empty, states, mem_len=2))


def test_memory_carries_no_gradient():
    old, new = states_of(2).requires_grad_(), states_of(2).requires_grad_()
    assert not extend(old, new, mem_len=3).requires_grad
    assert not extend(None, new, mem_len=3).requires_grad
    assert not extend(None, new, mem_len=0).requires_grad


def test_a_negative_mem_len_is_refused():
    with pytest.raises(ValueError, match="mem_len must be 0 or more, got -1"):
        extend(None, states_of(2), mem_len=-1)


@given(n_layer=st.integers(1, 5), seg_len=st.integers(1, 9), mem_len=st.integers(0, 25), data=st.data())
def test_reach_without_a_window_has_a_closed_form(n_layer, seg_len, mem_len, data):
    offset = data.draw(st.integers(0, seg_len - 1))
    found = reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len)
    assert found == offset + mem_len + (n_layer - 1) * seg_len * ceil(mem_len / seg_len)
    assert found < n_layer * (mem_len + seg_len)


@given(n_layer=st.integers(1, 5), seg_len=st.integers(1, 9), window=st.integers(1, 12), data=st.data())
def test_a_window_that_memory_can_fill_reaches_n_times_window_less_1(n_layer, seg_len, window, data):
    offset, spare = data.draw(st.integers(0, seg_len - 1)), data.draw(st.integers(0, 12))
    settings = {"n_layer": n_layer, "seg_len": seg_len, "mem_len": window - 1 + spare}
    assert reach(offset, **settings, window=window) == n_layer * (window - 1)


@given(
    n_layer=st.integers(1, 5),
    seg_len=st.integers(1, 6),
    mem_len=st.integers(0, 14),
    window=st.integers(1, 16),
    data=st.data(),
)
def test_no_way_through_the_layers_reaches_farther_than_the_longest_hops(
    n_layer, seg_len, mem_len, window, data
):
    """f_n(o) = max over d of d + f_{n-1}((o - d) mod L): the hops may be of any length d."""

    @cache
    def farthest_from(offset: int, layers: int) -> int:
        if not layers:
            return 0
        hops = range(min(offset + mem_len, window - 1) + 1)
        return max(hop + farthest_from((offset - hop) % seg_len, layers - 1) for hop in hops)

    offset = data.draw(st.integers(0, seg_len - 1))
    found = reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, window=window)
    assert found == farthest_from(offset, n_layer)


def test_three_claims_about_reach_are_three_settings():
    """The paper's O(N · L) is M = L; the N · (L - 1) of a blog is a window of L; M = 0 is the segment."""
    seg = {"n_layer": 4, "seg_len": 8}
    assert longest_reach(**seg, mem_len=8) == (4 + 1) * 8 - 1
    assert longest_reach(**seg, mem_len=8, window=8) == 4 * (8 - 1)
    assert longest_reach(**seg, mem_len=0) == 8 - 1


def test_longest_reach_is_the_farthest_of_all_queries():
    for window in (None, 3, 9, 10):
        reaches = [reach(offset, n_layer=3, seg_len=5, mem_len=7, window=window) for offset in range(5)]
        assert longest_reach(n_layer=3, seg_len=5, mem_len=7, window=window) == max(reaches)


def test_a_reach_of_impossible_lengths_is_refused():
    with pytest.raises(ValueError, match="mem_len must be 0 or more, got -1"):
        reach(0, n_layer=1, seg_len=5, mem_len=-1)
    with pytest.raises(ValueError, match="window must be 1 or more, got 0"):
        reach(0, n_layer=1, seg_len=5, mem_len=0, window=0)


def test_an_offset_outside_the_segment_is_refused():
    with pytest.raises(ValueError, match=r"offset must lie in 0 … seg_len - 1 = 4, got 5"):
        reach(5, n_layer=1, seg_len=5, mem_len=0)
