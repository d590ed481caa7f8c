"""Four ways to ask how far back a token matters, and one answer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import ENCODINGS, NORMS, small_model, some_tokens

from minitxl.analysis.dependency_reach import changes, extend_with_gradient, farthest, gradients, propagate
from minitxl.memory import extend, reach

windows = st.none() | st.integers(1, 14)


@settings(max_examples=50)
@given(
    encoding=st.sampled_from(list(ENCODINGS.values())),
    norm=st.sampled_from(NORMS),
    n_layer=st.integers(1, 4),
    seg_len=st.integers(1, 6),
    mem_len=st.integers(0, 13),
    window=windows,
    data=st.data(),
)
def test_formula_propagation_perturbation_and_gradient_agree(
    encoding, norm, n_layer, seg_len, mem_len, window, data
):
    offset = data.draw(st.integers(0, seg_len - 1))
    lengths = {"seg_len": seg_len, "mem_len": mem_len, "window": window}
    told = propagate(offset, n_layer=n_layer, **lengths).reached[0]
    model = small_model(n_layer=n_layer, norm=norm, **encoding)
    tokens = some_tokens(1, len(told))[0]
    assert torch.equal(changes(model, tokens, **lengths) != 0, told)
    assert torch.equal(gradients(model, tokens, **lengths) != 0, told)
    assert farthest(told) == reach(offset, n_layer=n_layer, **lengths)
    assert not told[0]


@settings(max_examples=30)
@given(
    encoding=st.sampled_from(list(ENCODINGS.values())),
    n_layer=st.integers(1, 4),
    seg_len=st.integers(1, 6),
    mem_len=st.integers(0, 9),
    window=windows,
    data=st.data(),
)
def test_with_the_stop_gradient_the_gradient_ends_where_the_segment_begins(
    encoding, n_layer, seg_len, mem_len, window, data
):
    """It is the offset exactly; with a window, what N layers of the window reach of it."""
    offset = data.draw(st.integers(0, seg_len - 1))
    lengths = {"seg_len": seg_len, "mem_len": mem_len, "window": window}
    model, tokens = small_model(n_layer=n_layer, **encoding), some_tokens(1, 4 * seg_len + offset + 1)[0]
    found = farthest(gradients(model, tokens, **lengths, update=extend))
    assert found == (offset if window is None else min(offset, n_layer * (window - 1)))
    assert found == reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=0, window=window)


def test_the_farthest_token_matters_and_the_one_beyond_it_does_not():
    lengths = {"seg_len": 4, "mem_len": 6}
    far = reach(2, n_layer=3, **lengths)
    assert far == 2 + 6 + 2 * 8
    model, tokens = small_model(n_layer=3), some_tokens(1, 31)[0]
    found = changes(model, tokens, **lengths)
    assert found[-1 - far] > 1e-9
    assert (found[: -1 - far] == 0).all()


@given(
    n_layer=st.integers(1, 4),
    seg_len=st.integers(1, 6),
    mem_len=st.integers(0, 14),
    window=windows,
    data=st.data(),
)
def test_each_depth_is_reached_as_by_the_layers_above_it_without_a_gap(
    n_layer, seg_len, mem_len, window, data
):
    offset = data.draw(st.integers(0, seg_len - 1))
    lengths = {"seg_len": seg_len, "mem_len": mem_len, "window": window}
    reached = propagate(offset, n_layer=n_layer, **lengths).reached
    assert len(reached) == n_layer + 1
    assert reached[-1].sum() == 1
    for depth in range(n_layer):
        far = reach(offset, n_layer=n_layer - depth, **lengths)
        assert reached[depth].sum() == far + 1 == farthest(reached[depth]) + 1


@given(
    n_layer=st.integers(1, 3),
    seg_len=st.integers(1, 4),
    mem_len=st.integers(0, 6),
    n_segment=st.integers(1, 4),
)
def test_edges_lead_from_every_reached_node_to_all_that_it_reads(n_layer, seg_len, mem_len, n_segment):
    """By loops, for a stream that may be shorter than the reach."""
    drawn = propagate(seg_len - 1, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, n_segment=n_segment)
    time = n_segment * seg_len
    assert drawn.sees.shape == (time, time)
    wanted = {time - 1}
    for layer in reversed(range(n_layer)):
        pairs = {
            (query, key)
            for query in wanted
            for key in range(max(0, query // seg_len * seg_len - mem_len), query + 1)
        }
        assert set(map(tuple, drawn.edges(layer).tolist())) == pairs
        wanted = {key for _, key in pairs}
        assert set(drawn.reached[layer].nonzero()[:, 0].tolist()) == wanted


@given(seg_lens=st.lists(st.integers(1, 5), min_size=1, max_size=5), mem_len=st.integers(0, 7))
def test_joined_holds_what_extend_holds_and_lets_the_gradient_through(seg_lens, mem_len):
    states = [torch.randn(2, 3, seg, 4, requires_grad=True) for seg in seg_lens]
    memory = graph = None
    for segment in states:
        memory, graph = (
            extend(memory, segment, mem_len=mem_len),
            extend_with_gradient(graph, segment, mem_len=mem_len),
        )
        assert torch.equal(memory, graph)
    graph.sum().backward()
    read = torch.cat([segment.grad for segment in states], dim=2)
    first = max(0, sum(seg_lens) - mem_len)
    assert torch.equal(read, (torch.arange(sum(seg_lens)) >= first).expand(2, 3, 4, -1).mT.to(read.dtype))


def test_gradients_are_those_of_the_largest_log_probability():
    """Against a finite difference of the farthest token's embedding."""
    model, tokens, lengths = small_model(), some_tokens(1, 8)[0], {"seg_len": 4, "mem_len": 4}
    found = gradients(model, tokens, **lengths)
    slopes = []
    for feature in range(model.config.d_model):
        ends = []
        for step in (1e-5, -1e-5):
            nudge = torch.zeros(1, 4, model.config.d_model, dtype=torch.float64)
            nudge[0, 0, feature] = step
            seen = []
            hook = model.embedding.register_forward_hook(
                lambda module, inputs, output, nudge=nudge, seen=seen: (
                    seen.append(0) or (output + nudge if len(seen) == 1 else output)
                )
            )
            _, states = model(tokens[None, :4])
            log_probs, _ = model(tokens[None, 4:], extend_with_gradient(None, states, mem_len=4))
            hook.remove()
            ends.append(log_probs[0, -1].max())
        slopes.append((ends[0] - ends[1]) / 2e-5)
    torch.testing.assert_close(found[0], torch.stack(slopes).norm(), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("measure", [changes, gradients])
def test_measuring_leaves_the_model_as_it_was(measure):
    model, tokens = small_model(dropout=0.5, cutoffs=(4, 8), div_val=2).train(), some_tokens(1, 9)[0]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    one, other = (measure(model, ids, seg_len=2, mem_len=3) for ids in (tokens, tokens.to(torch.uint8)))
    assert torch.equal(one, other)
    assert torch.equal(random, torch.get_rng_state())
    assert model.training
    assert not model.embedding._forward_hooks
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_impossible_lengths_are_refused():
    lengths = {"n_layer": 1, "seg_len": 5}
    with pytest.raises(ValueError, match=r"offset must lie in 0 … seg_len - 1 = 4, got 5"):
        propagate(5, **lengths, mem_len=0)
    with pytest.raises(ValueError, match="mem_len must be 0 or more, got -1"):
        propagate(0, **lengths, mem_len=-1)
    with pytest.raises(ValueError, match="window must be 1 or more, got 0"):
        propagate(0, **lengths, mem_len=0, window=0)
    with pytest.raises(ValueError, match="n_segment must be 1 or more, got 0"):
        propagate(0, **lengths, mem_len=0, n_segment=0)
    with pytest.raises(ValueError, match="mem_len must be 0 or more, got -1"):
        extend_with_gradient(None, torch.zeros(1, 1, 2, 4), mem_len=-1)
