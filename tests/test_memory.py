import doctest

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl import memory as memory_room
from minitxl.memory import empty, extend, longest_reach, reach

lengths = st.integers(0, 7)


def states_of(length: int, start: int = 0) -> torch.Tensor:
    """[layer batch time model] whose values tell the time."""
    time = torch.arange(start, start + length, dtype=torch.float64)
    return time[None, None, :, None].repeat(2, 3, 1, 4)


def test_docstring_examples_run():
    assert doctest.testmod(memory_room).failed == 0


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
    assert torch.equal(extend(None, states, mem_len=2), extend(empty(states), states, mem_len=2))
    assert empty(states).shape == (2, 3, 0, 4)


def test_memory_carries_no_gradient():
    old, new = states_of(2).requires_grad_(), states_of(2).requires_grad_()
    assert not extend(old, new, mem_len=3).requires_grad
    assert not empty(new).requires_grad


def test_a_negative_mem_len_is_refused():
    with pytest.raises(ValueError, match="mem_len must be 0 or more, got -1"):
        extend(None, states_of(2), mem_len=-1)


def reach_by_propagation(offset: int, n_layer: int, seg_len: int, mem_len: int) -> int:
    """Farthest token that influences a query, by following which states a layer may read."""
    time = seg_len * (n_layer * (mem_len // seg_len + 2) + 1)
    query = time - seg_len + offset
    readable = {query}
    for _ in range(n_layer):
        below = set()
        for position in readable:
            start = position - position % seg_len
            below |= set(range(max(0, start - mem_len), position + 1))
        readable = below
    return query - min(readable)


@given(n_layer=st.integers(1, 4), seg_len=st.integers(1, 6), mem_len=st.integers(0, 14), data=st.data())
def test_reach_equals_boolean_propagation(n_layer, seg_len, mem_len, data):
    offset = data.draw(st.integers(0, seg_len - 1))
    expected = reach_by_propagation(offset, n_layer, seg_len, mem_len)
    assert reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len) == expected


def test_longest_reach_is_that_of_the_last_query():
    reaches = [reach(offset, n_layer=3, seg_len=5, mem_len=7) for offset in range(5)]
    assert longest_reach(n_layer=3, seg_len=5, mem_len=7) == max(reaches)


def test_an_offset_outside_the_segment_is_refused():
    with pytest.raises(ValueError, match=r"offset must lie in 0 … seg_len - 1 = 4, got 5"):
        reach(5, n_layer=1, seg_len=5, mem_len=0)
