"""The backends of relative attention for a GPU have the same numbers, and the fastest is used."""

from functools import partial
from time import sleep

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import assert_mean, gradients
from support.attention import shapes, windows
from torch._dynamo.testing import CompileCounterWithBackend

from minitxl import memory
from minitxl.fast import gpu_attention
from minitxl.fast.cpu_attention import in_blocks
from minitxl.fast.inputs import AttentionInputs
from minitxl.training import memory_mask

PASSES = ["sdpa_bias", "eager"]
"""Backends that have a backward pass on a CPU."""
UNFUSED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def some_parts(n_head, d_head, batch, query, mem, *, device="cpu", dtype=torch.float64):
    """q_u, q_v, k, v and r, which has one distance more than there are keys."""
    generator = torch.Generator().manual_seed(0)
    key = query + mem
    sizes = [(batch, n_head, length, d_head) for length in (query, query, key, key)]
    parts = [
        torch.randn(size, generator=generator, dtype=torch.float64)
        for size in (*sizes, (n_head, key + 1, d_head))
    ]
    return [part.to(device, dtype).requires_grad_() for part in parts]


def some_flags(parts, *, hide):
    flags = torch.rand(len(parts[2]), parts[2].shape[2], generator=torch.Generator().manual_seed(1))
    return (flags < 0.6).to(parts[0].device) if hide else None


@pytest.mark.parametrize("name", PASSES)
@given(shape=shapes, window=windows, hide=st.booleans())
def test_each_backend_has_the_numbers_and_gradients_of_the_blocks_on_a_cpu(name, shape, window, hide):
    parts = some_parts(*shape)
    key_mask = some_flags(parts, hide=hide)
    ours = getattr(gpu_attention, name)(AttentionInputs(*parts, 0.0, window, key_mask))
    theirs = in_blocks(AttentionInputs(*parts, 0.0, window, key_mask))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for one, other in zip(gradients(ours, parts), gradients(theirs, parts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@UNFUSED
@settings(max_examples=20)
@given(shape=shapes, window=windows, hide=st.booleans())
def test_flex_attention_looks_distances_up_where_the_shift_puts_them(shape, window, hide):
    parts = [part.detach() for part in some_parts(*shape)]
    key_mask = some_flags(parts, hide=hide)
    ours = gpu_attention.flex(AttentionInputs(*parts, 0.0, window, key_mask))
    torch.testing.assert_close(
        ours, in_blocks(AttentionInputs(*parts, 0.0, window, key_mask)), rtol=1e-10, atol=1e-10
    )


def test_flex_attention_has_no_dropout():
    with pytest.raises(NotImplementedError, match="dropout must be 0 in FlexAttention"):
        gpu_attention.flex(AttentionInputs(*some_parts(1, 2, 1, 2, 0), 0.1))


@pytest.mark.parametrize("name", PASSES)
def test_dropped_weights_leave_the_mean_as_it_was(name):
    parts, form = some_parts(2, 3, 1, 5, 4), getattr(gpu_attention, name)
    torch.manual_seed(0)
    with torch.no_grad():
        draws = torch.stack([form(AttentionInputs(*parts, 0.25)) for _ in range(3000)])
        expected = form(AttentionInputs(*parts))
    assert_mean(draws, expected)


def read_on(padded):
    """Compile one layer's attention for a text of which memory holds 0, 4, 8 and 10 tokens."""
    counter = CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    form = torch.compile(gpu_attention.eager, backend=counter, dynamic=False)
    parts = [part.detach() for part in some_parts(2, 4, 3, 4, 10)]
    states = parts[2][:, :, :4].movedim(1, 0)
    held = memory.empty(states)
    found = []
    for _ in range(5):
        before, key_mask = memory_mask.padded(held, mem_len=10, seg_len=4) if padded else (held, None)
        lengths = 4, 4, before.shape[2] + 4, before.shape[2] + 4, before.shape[2] + 5
        cut = [part[..., -length:, :] for part, length in zip(parts, lengths, strict=True)]
        found.append(form(AttentionInputs(*cut, key_mask=key_mask)))
        held = memory.extend(held, states, mem_len=10)
    return counter.frame_count, found


def test_nothing_is_compiled_again_while_memory_fills(as_users_run_it):
    once, constant = read_on(padded=True)
    often, growing = read_on(padded=False)
    assert once == 1
    assert often > 1
    for ours, theirs in zip(constant, growing, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.fixture
def watched(monkeypatch):
    """Backends of which one is slow and one can't, all worth timing; how often each is called."""
    calls = dict.fromkeys(("broken", "quick", "slow"), 0)

    def form(name, inputs):
        calls[name] += 1
        if name == "broken":
            raise RuntimeError("no kernel for this device\nand more")
        sleep(0.02 if name == "slow" else 0)
        return gpu_attention.eager(inputs)

    monkeypatch.setattr(gpu_attention, "WORTH_TIMING", 1)
    monkeypatch.setattr(gpu_attention, "backends", lambda: {name: partial(form, name) for name in calls})
    gpu_attention.timed.cache_clear()
    yield calls
    gpu_attention.timed.cache_clear()


def test_the_fastest_backend_is_used_and_timed_once_for_a_shape(watched, caplog):
    parts = some_parts(2, 4, 3, 4, 6)
    with caplog.at_level("INFO"):
        out = gpu_attention.relative(AttentionInputs(*parts))
    torch.testing.assert_close(out, in_blocks(AttentionInputs(*parts)), rtol=1e-10, atol=1e-10)
    assert "can't be broken here: no kernel for this device" in caplog.messages[0]
    before = dict(watched)
    gpu_attention.relative(AttentionInputs(*some_parts(2, 4, 3, 4, 6)))
    assert watched == before | {"quick": before["quick"] + 1}
    gpu_attention.relative(AttentionInputs(*some_parts(2, 4, 3, 4, 7)))
    assert watched["broken"] == before["broken"] + 1


def test_timing_draws_no_random_number_of_the_run(watched):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    gpu_attention.relative(AttentionInputs(*some_parts(2, 4, 3, 4, 6)))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_eager_backend_is_used_where_none_can_be_timed(watched, monkeypatch):
    monkeypatch.setattr(gpu_attention, "backends", lambda: {})
    workload = gpu_attention.Workload(torch.device("cpu"), (), 0.0, None, has_key_mask=False)
    assert gpu_attention.fastest(workload) == "eager"


def test_nothing_is_timed_without_gradients_or_for_little_work(watched, monkeypatch):
    with torch.no_grad():
        gpu_attention.relative(AttentionInputs(*(part.detach() for part in some_parts(2, 4, 3, 4, 6))))
    monkeypatch.setattr(gpu_attention, "WORTH_TIMING", 3 * 2 * 4 * 10 + 1)
    gpu_attention.relative(AttentionInputs(*some_parts(2, 4, 3, 4, 6)))
    assert set(watched.values()) == {0}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("name", ["sdpa_bias", "flex", "compiled", "eager"])
def test_each_backend_has_the_numbers_of_float64_on_a_gpu(name, window, hide, dtype):
    exact = some_parts(4, 64, 2, 128, 130, device="cuda")
    parts = [part.detach().to(dtype).requires_grad_() for part in exact]
    for part in (*exact[:2], *parts[:2]):
        part.data /= 8
    key_mask = some_flags(exact, hide=hide)
    theirs, ours = (
        gpu_attention.eager(AttentionInputs(*exact, 0.0, window, key_mask)),
        gpu_attention.backends()[name](AttentionInputs(*parts, 0.0, window, key_mask)),
    )
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-3
    for one, other in zip((ours, *gradients(ours, parts)), (theirs, *gradients(theirs, exact)), strict=True):
        assert (one.double() - other).norm() <= tolerance * other.norm()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_has_more_backends_than_the_eager_one():
    parts = [part.shape for part in some_parts(4, 64, 2, 128, 128)]
    workload = gpu_attention.Workload(
        torch.device("cuda", 0), tuple((size, torch.bfloat16) for size in parts), 0.0, None, has_key_mask=True
    )
    assert gpu_attention.timed(workload).keys() == gpu_attention.backends().keys()
