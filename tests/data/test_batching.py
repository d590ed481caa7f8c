import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl.data.batching import ContiguousBatches, spread_lanes


@given(batch=st.integers(1, 5), seg_len=st.integers(1, 6), extra=st.integers(0, 60))
def test_each_row_continues_itself_and_covers_its_own_part_of_the_stream(batch, seg_len, extra):
    stream = torch.arange(batch * (seg_len + 1) + extra)
    segments = ContiguousBatches(stream, batch=batch, seg_len=seg_len)
    lane = len(stream) // batch
    assert len(segments) == (lane - 1) // seg_len >= 1
    tokens = torch.cat([segment.tokens for segment in segments], dim=1)
    targets = torch.cat([segment.targets for segment in segments], dim=1)
    used = len(segments) * seg_len
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


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [
        ({"batch": 0, "seg_len": 3}, "batch must be 1 or more, got 0"),
        ({"batch": 3, "seg_len": 0}, "seg_len must be 1 or more, got 0"),
    ],
)
def test_no_lanes_and_no_tokens_are_refused(lengths, sentence):
    with pytest.raises(ValueError, match=sentence):
        ContiguousBatches(torch.arange(12), **lengths)


def test_a_stream_of_other_numbers_is_refused(as_users_run_it):
    for wrong in (torch.arange(12.0), torch.ones(12, dtype=torch.bool)):
        with pytest.raises(ValueError, match=f"must hold whole numbers, got {str(wrong.dtype)[6:]}"):
            ContiguousBatches(wrong, batch=1, seg_len=2)


@given(batch=st.integers(1, 5), tokens=st.integers(1, 30), there=st.integers(1, 40))
def test_lanes_to_validate_on_begin_at_equal_distances_and_are_as_long(batch, tokens, there):
    lanes = spread_lanes(torch.arange(there + 1), batch=batch, tokens=tokens)
    n_lane = min(batch, tokens, there)
    assert lanes.shape == (n_lane, min(tokens, there) // n_lane + 1)
    assert lanes[:, 0].tolist() == [lane * (there // n_lane) for lane in range(n_lane)]
    assert torch.equal(lanes, lanes[:, :1] + torch.arange(lanes.shape[1]))
    assert lanes.max() <= there


def test_a_sample_of_all_tokens_is_the_whole_text_lane_after_lane():
    stream = torch.arange(13)
    lanes = spread_lanes(stream, batch=3, tokens=12)
    assert lanes[:, :-1].flatten().tolist() == list(range(12))
    shares = [spread_lanes(stream, batch=3, tokens=12, share=share) for share in (slice(0, 1), slice(1, 3))]
    assert torch.equal(torch.cat(shares), lanes)
    assert len(spread_lanes(stream, batch=3, tokens=12, share=slice(3, 4))) == 0
    with pytest.raises(ValueError, match="must hold 2 tokens or more, got 1"):
        spread_lanes(stream[:1], batch=3, tokens=12)


def test_a_segment_outside_the_lanes_is_refused():
    segments = ContiguousBatches(torch.arange(12), batch=3, seg_len=3)
    with pytest.raises(IndexError, match="segment must lie in 0 … 0, got 1"):
        segments[1]
