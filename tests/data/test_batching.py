import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl.data.batching import ContiguousBatches


@given(batch=st.integers(1, 5), seg_len=st.integers(1, 6), extra=st.integers(0, 60))
def test_each_row_continues_itself_and_covers_its_own_part_of_the_stream(batch, seg_len, extra):
    stream = torch.arange(batch * (seg_len + 1) + extra)
    lanes = ContiguousBatches(stream, batch=batch, seg_len=seg_len)
    lane = len(stream) // batch
    assert len(lanes) == (lane - 1) // seg_len >= 1
    tokens = torch.cat([segment.tokens for segment in lanes], dim=1)
    targets = torch.cat([segment.targets for segment in lanes], dim=1)
    used = len(lanes) * seg_len
    starts = torch.arange(batch)[:, None] * lane
    assert torch.equal(tokens, starts + torch.arange(used))
    assert torch.equal(targets, tokens + 1)


def test_segments_all_have_the_same_shape():
    shapes = {segment.tokens.shape for segment in ContiguousBatches(torch.arange(103), batch=4, seg_len=7)}
    assert shapes == {(4, 7)}


def test_a_text_shorter_than_its_lanes_is_refused():
    ContiguousBatches(torch.arange(12), batch=3, seg_len=3)
    with pytest.raises(ValueError, match=r"must hold 3 · \(3 \+ 1\) = 12 tokens or more, got 11"):
        ContiguousBatches(torch.arange(11), batch=3, seg_len=3)


def test_a_segment_outside_the_lanes_is_refused():
    lanes = ContiguousBatches(torch.arange(12), batch=3, seg_len=3)
    with pytest.raises(IndexError, match="segment must lie in 0 … 0, got 1"):
        lanes[1]
