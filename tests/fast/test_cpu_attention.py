"""The fast path has the numbers of the text that is studied."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import ENCODINGS, assert_mean, gradients, small_model, some_tokens
from support.attention import context, random_attention, shapes, windows
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from minitxl.attention import MultiHeadAttention, ShawAttention, XLAttention
from minitxl.fast import attention as fast_attention
from minitxl.fast import cpu_attention, to_fast
from minitxl.later_attention import ALiBiAttention, RotaryAttention, T5Attention
from minitxl.memory import extend

KINDS = [MultiHeadAttention, ShawAttention, XLAttention, RotaryAttention, ALiBiAttention, T5Attention]
clamps = st.none() | st.integers(0, 6)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(cpu_attention, "BLOCK", 3)
    monkeypatch.setattr(fast_attention, "WORTH_BLOCKS", 1)


def assert_same(attention, x, memory, tolerance, **options):
    """The eager text is computed in float64, so that its own rounding is not taken for a difference."""
    x = x.requires_grad_()
    exact, x64 = deepcopy(attention).double(), x.detach().double().requires_grad_()
    fast, eager = to_fast(attention)(x, memory, **options), exact(x64, memory.double(), **options)
    torch.testing.assert_close(fast.double(), eager, rtol=tolerance, atol=tolerance)
    found = gradients(fast, [x, *attention.parameters()])
    for ours, theirs in zip(found, gradients(eager, [x64, *exact.parameters()]), strict=True):
        size = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours.double() / size, theirs / size, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@given(
    shape=shapes,
    block=st.integers(1, 5),
    scores=st.integers(1, 200),
    worth_blocks=st.sampled_from([1, 2**15]),
    window=windows,
    clamp_len=clamps,
    hide=st.booleans(),
    single=st.booleans(),
)
def test_fast_equals_eager_and_so_do_all_gradients(
    kind, shape, block, scores, worth_blocks, window, clamp_len, hide, single
):
    n_head, d_head, batch, query, mem = shape
    attention = random_attention(kind, n_head, d_head)
    x, memory = context(batch, query, mem)
    key_mask = (
        torch.rand(batch, mem + query, generator=torch.Generator().manual_seed(1)) < 0.6 if hide else None
    )
    if single:  # with scores of the size that trained models have
        attention, x, memory = attention.float(), x.float() / 2, memory.float() / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_attention, "BLOCK", block)
        patch.setattr(fast_attention, "WORTH_BLOCKS", worth_blocks)
        patch.setattr(cpu_attention, "SCORES", scores)
        assert_same(
            attention,
            x,
            memory,
            1e-5 if single else 1e-10,
            window=window,
            clamp_len=clamp_len,
            key_mask=key_mask,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_no_memory_is_the_empty_memory(kind, small_blocks):
    attention = random_attention(kind, 2, 3)
    x, empty = context(2, 7, 0)
    fast = to_fast(attention)
    assert torch.equal(fast(x), fast(x, empty))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_a_fast_model_reads_a_text_as_the_model_does(encoding, norm, small_blocks):
    model, tokens = small_model(norm=norm, **encoding), some_tokens(2, 21)
    found = {}
    for name, reader in (("eager", model), ("fast", to_fast(model))):
        memory, total = None, 0.0
        for segment in tokens.split(5, dim=1):  # memory is empty, filling and full
            losses, states = reader.token_losses(segment, segment, memory, window=6)
            memory, total = extend(memory, states, mem_len=8), total + losses.sum()
        found[name] = torch.autograd.grad(total, list(model.parameters())), memory
    for ours, theirs in zip(found["fast"][0], found["eager"][0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found["fast"][1], found["eager"][1], rtol=1e-10, atol=1e-10)


def test_memory_that_was_never_written_is_never_read(small_blocks):
    """PyTorch fills what is allocated and not written with NaN while it is deterministic."""
    attention = random_attention(XLAttention, 2, 3, attention_dropout=0.3)
    x, memory = context(2, 7, 4)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        for key_mask in (None, torch.ones(2, 11, dtype=torch.bool)):
            out = to_fast(attention)(x.requires_grad_(), memory, window=5, key_mask=key_mask)
            assert out.isfinite().all()
            assert all(gradient.isfinite().all() for gradient in gradients(out, [x, *attention.parameters()]))
    finally:
        torch.use_deterministic_algorithms(False)


def test_keys_that_no_query_of_a_block_may_see_are_never_touched(small_blocks):
    attention = random_attention(XLAttention, 2, 3)
    x, memory = context(2, 7, 6)
    memory[:, :2] = float("nan")
    assert to_fast(attention)(x, memory, window=5).isfinite().all()
    assert not attention(x, memory, window=5).isfinite().all()


def test_blocks_skip_the_future(small_blocks):
    attention = random_attention(XLAttention, 2, 3)
    x, memory = context(2, 12, 4)
    counted = []
    for call in (to_fast(attention), attention):
        with FlopCounterMode(display=False) as counter:
            call(x, memory)
        counted.append(counter.get_total_flops())
    assert counted[0] < counted[1]


def test_the_backward_pass_keeps_fewer_numbers_than_the_eager_text(small_blocks):
    def kept(call) -> int:
        storages = {}

        def pack(tensor):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            out = call()
        assert out.requires_grad
        return sum(storages.values())

    attention = random_attention(XLAttention, 2, 3)
    x, memory = context(4, 30, 30)
    assert kept(lambda: to_fast(attention)(x, memory)) < 0.7 * kept(lambda: attention(x, memory))


@pytest.mark.parametrize("kind", [MultiHeadAttention, XLAttention, RotaryAttention, T5Attention])
def test_dropped_weights_leave_the_mean_as_it_was(kind, small_blocks):
    attention = random_attention(kind, 2, 3, attention_dropout=0.25)
    x, memory = context(1, 5, 4)
    torch.manual_seed(0)
    fast = to_fast(attention)
    rows = x.expand(100, -1, -1), memory.expand(100, -1, -1)
    draws = torch.cat([fast(*rows) for _ in range(30)])
    expected = fast.eval()(x, memory)
    assert_mean(draws, expected)


def test_gradients_are_right_under_dropout(small_blocks):
    fast = to_fast(random_attention(XLAttention, 2, 3, dropout=0.2, attention_dropout=0.3))
    x, memory = context(2, 5, 4)

    def drawn_again(x):
        torch.manual_seed(0)
        return fast(x, memory, window=6)

    assert torch.autograd.gradcheck(drawn_again, x.requires_grad_())


@pytest.mark.parametrize("kind", [MultiHeadAttention, XLAttention, RotaryAttention, T5Attention])
def test_what_is_frozen_gets_no_gradient_and_the_rest_get_theirs(kind, small_blocks):
    names = [name for name, _ in random_attention(kind, 2, 3).named_parameters()]
    for learned in names:
        attention = random_attention(kind, 2, 3).requires_grad_(False)
        parameter = attention.get_parameter(learned).requires_grad_()
        x, memory = context(2, 7, 4)
        (ours,) = gradients(to_fast(attention)(x, memory), [parameter])
        (theirs,) = gradients(attention(x, memory), [parameter])
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
