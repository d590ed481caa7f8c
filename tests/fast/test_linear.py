"""The fast product is the product: its numbers, its gradients, and what is left to PyTorch."""

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import gradients, small_model, some_tokens
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from minitxl.fast import kv_cache, to_fast
from minitxl.fast import linear as room
from minitxl.fast.linear import FEW_ROWS, INTEL, FastLinear, joined, linear


@pytest.fixture(autouse=True)
def none_is_too_small(monkeypatch):
    monkeypatch.setattr(room, "INTEL", False)
    monkeypatch.setattr(room, "LARGE", 0)
    monkeypatch.setattr(room, "LARGE_FOR_FEW_ROWS", 0)


few_rows = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def some(*size, seed=0, dtype=torch.float32):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def layers(inputs=6, outputs=10, **settings):
    """Ours, and PyTorch's in float64 with the same weights."""
    ours, theirs = FastLinear(inputs, outputs, **settings), nn.Linear(inputs, outputs, **settings)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs.double()


def close(ours, theirs):
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@given(rows=few_rows, inputs=st.integers(1, 9), outputs=st.integers(1, 9), bias=st.booleans())
def test_it_is_pytorchs_product_and_so_are_its_gradients(rows, inputs, outputs, bias):
    ours, theirs = layers(inputs, outputs, bias=bias)
    x = some(*rows, inputs).requires_grad_()
    found, expected = ours(x), theirs(x.double())
    close(found, expected)
    pull = some(*rows, outputs, seed=1)
    mine = torch.autograd.grad(found, [x, *ours.parameters()], pull)
    its = torch.autograd.grad(expected, [x, *theirs.parameters()], pull.double())
    for one, other in zip(mine, its, strict=True):
        close(one, other.double())


@pytest.mark.parametrize("row", [1, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize("outputs", [7, 8])
def test_tensors_may_lie_in_memory_in_any_way(row, outputs):
    x, weight = some(5, row).mT, some(5, outputs).mT
    close(linear(x, weight), functional.linear(x.double(), weight.double()))
    close(linear(x, weight.contiguous()), functional.linear(x.double(), weight.double()))


@pytest.mark.parametrize("row", [2, 9])
@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_what_is_frozen_has_no_gradient_and_the_rest_has_its_own(row, frozen):
    ours, theirs = layers()
    for layer in (ours, theirs):
        layer.get_parameter(frozen).requires_grad_(False)
        layer(some(row, 6, dtype=layer.weight.dtype)).square().sum().backward()
    assert ours.get_parameter(frozen).grad is None
    learned = {"weight": "bias", "bias": "weight"}[frozen]
    close(ours.get_parameter(learned).grad, theirs.get_parameter(learned).grad)


def test_what_follows_may_overwrite_the_result():
    ours, theirs = layers()
    x = some(3, 2, 6)
    functional.relu(ours(x), inplace=True).sum().backward()
    functional.relu(theirs(x.double())).sum().backward()
    close(ours.weight.grad, theirs.weight.grad)


def test_a_gradient_has_a_gradient():
    ours, theirs = layers()

    def twice(layer):
        x = some(9, 6, dtype=layer.weight.dtype).requires_grad_()
        (first,) = torch.autograd.grad(layer(x).sigmoid().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, layer.weight])

    for mine, its in zip(twice(ours), twice(theirs), strict=True):
        close(mine, its)


def test_every_row_may_have_a_gradient_of_its_own():
    ours, theirs = layers()

    def each(layer):
        def loss(parameters, x):
            return functional_call(layer, parameters, (x,)).square().sum()

        return vmap(grad(loss), (None, 0))(
            dict(layer.named_parameters()), some(7, 6, dtype=layer.weight.dtype)
        )

    found, expected = each(ours), each(theirs)
    for name in expected:
        close(found[name].detach(), expected[name].detach())


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1, 512])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_with_a_matrix_in_onednns_order_is_the_same(rows, bias):
    ours, theirs = layers(bias=bias)
    ours.pack(FEW_ROWS + 1)
    assert ours.packed is not None
    with torch.inference_mode():
        close(ours(some(rows, 6)), theirs(some(rows, 6).double()))


def test_a_matrix_is_copied_in_an_order_where_that_is_faster_alone(monkeypatch):
    def packed(rows, **settings):
        layer = FastLinear(6, 10, **settings)
        layer.pack(rows)
        return layer.packed is not None

    assert [packed(rows) for rows in (FEW_ROWS, FEW_ROWS + 1, 512, 513)] == [False, True, True, False]
    assert not packed(9, dtype=torch.float64)
    monkeypatch.setattr(room, "LARGE", 9 * 6 * 10 + 1)
    assert not packed(9)
    monkeypatch.setattr(room, "LARGE", 0)
    monkeypatch.setattr(room, "INTEL", True)
    assert not packed(9)


@pytest.mark.parametrize("seg_len", [1, 5])
def test_a_cache_with_matrices_in_onednns_order_reads_as_the_model_does(seg_len):
    model, tokens = small_model(n_layer=2).float().eval(), some_tokens(9, 8)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    cache = kv_cache.start(model, batch=9, mem_len=8, seg_len=seg_len)
    assert all(one.packed is not None for one in cache.model.modules() if isinstance(one, FastLinear))
    read = []
    for segment in tokens.split([5, 1, 2], dim=1):
        log_probs, cache = kv_cache.step(model, segment, cache)
        read.append(log_probs)
    with torch.no_grad():
        expected, _ = model(tokens, None)
    torch.testing.assert_close(torch.cat(read, dim=1), expected, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())


@pytest.mark.parametrize("batch", [1, 2, 3, 9])
def test_a_model_reads_on_by_it_as_by_pytorchs(monkeypatch, batch):
    """A token at a time: with up to ``FEW_ROWS`` rows the results lie in memory column by column."""
    model, tokens, found = small_model(n_layer=2).float(), some_tokens(batch, 7), []
    for onednn in (True, False):
        monkeypatch.setattr(room, "ONEDNN", onednn)
        cache, read = kv_cache.start(model, batch=batch, mem_len=4), []
        for token in tokens.split(1, dim=1):
            log_probs, cache = kv_cache.step(model, token, cache)
            read.append(log_probs)
        losses, _ = to_fast(model).token_losses(tokens, tokens)
        found.append([*read, *gradients(losses, list(model.parameters()))])
    for mine, its in zip(*found, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, FEW_ROWS])
def test_few_rows_are_multiplied_with_several_matrices_as_with_one(rows):
    x, apart = some(rows, 6), [FastLinear(6, width, bias=False) for width in (10, 4, 8)]
    with torch.inference_mode():
        outputs = joined(apart, rows).product(x).split([10, 4, 8], dim=-1)
        for layer, output in zip(apart, outputs, strict=True):
            close(output, layer.product(x).double())


def test_matrices_stay_apart_where_one_copy_of_them_would_not_be_faster(monkeypatch):
    apart = [FastLinear(6, 10, bias=False) for _ in range(3)]
    assert joined(apart, FEW_ROWS + 1) is None
    assert joined([*apart[:2], FastLinear(6, 10)], 1) is None
    assert joined([*apart[:2], torch.nn.Linear(6, 10, bias=False)], 1) is None
    assert joined([FastLinear(6, 10, bias=False).double() for _ in range(3)], 1) is None
    monkeypatch.setattr(room, "INTEL", True)
    assert joined(apart, 1) is None


@pytest.mark.parametrize("row", [1, 9])
def test_its_operations_are_counted(row):
    with FlopCounterMode(display=False) as counter:
        linear(some(row, 6), some(10, 6))
    assert counter.get_total_flops() == 2 * row * 6 * 10


def test_what_it_is_not_made_for_is_left_to_pytorch(monkeypatch):
    monkeypatch.setattr(room, "faster_linear", None)
    x, weight = some(9, 6), some(10, 6)
    close(linear(x.double(), weight.double()), functional.linear(x.double(), weight.double()))
    with torch.autocast("cpu", dtype=torch.float16):
        assert linear(x, weight).dtype == torch.float16
    assert linear(x.to("meta"), weight.to("meta")).shape == (9, 10)
    compiling = torch.compiler, "is_compiling", lambda: True
    for holder, name, value in (compiling, (room, "ONEDNN", False), (room, "INTEL", True)):
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, value)
            assert torch.equal(linear(x, weight), functional.linear(x, weight))


@pytest.mark.parametrize(("row", "width"), [(1, 511), (4, 255), (5, 915), (0, 9)])
def test_small_products_are_left_to_pytorch(monkeypatch, row, width):
    monkeypatch.undo()
    monkeypatch.setattr(room, "INTEL", False)
    monkeypatch.setattr(room, "faster_linear", None)
    with torch.inference_mode():
        assert linear(some(row, width), some(width, width)).shape == (row, width)


@pytest.mark.parametrize("row", [1, 9])
def test_a_width_that_does_not_fit_is_named(row, as_users_run_it):
    with pytest.raises(RuntimeError, match=rf"cannot be multiplied \({row}x5 and 6x10\)"):
        FastLinear(6, 10)(some(row, 5))


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells it in a file")
def test_whether_the_cpu_is_intels_is_known():
    assert ("GenuineIntel" in Path("/proc/cpuinfo").read_text()) == INTEL
