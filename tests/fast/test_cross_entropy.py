"""A large softmax is computed chunk by chunk: the same losses and gradients as in one piece."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from minitxl import ModelConfig, TransformerLM
from minitxl.analysis.saved_tensors import saved_bytes
from minitxl.fast import cross_entropy as chunked
from minitxl.fast import to_fast
from minitxl.fast.bfloat16 import bfloat16_products

TOKENS, ENTRIES, WIDTH = 70, 50, 8
SMALL = ModelConfig(vocab_size=ENTRIES, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, dropout=0.0)
MODELS = {
    "tied": SMALL,
    "untied and projected": replace(SMALL, tie_embeddings=False, d_embed=8),
    "adaptive": replace(SMALL, cutoffs=(10, 20)),
    "adaptive, narrower tails": replace(
        SMALL, cutoffs=(10, 20), div_val=2, tie_projections=(False, True, True)
    ),
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 16 tokens or so: several, of which the last is shorter."""
    monkeypatch.setattr(chunked, "CHUNK_SCORES", 16)
    monkeypatch.setattr(chunked, "LEAST_TOKENS", 16)


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(TOKENS, WIDTH), torch.randn(ENTRIES, WIDTH), torch.randn(ENTRIES)
    return [nn.Parameter(one.double()) for one in (x, weight, bias)]


TARGETS = torch.arange(TOKENS) * 7 % ENTRIES
FACTORS = {
    "equal": torch.full((TOKENS,), 0.3, dtype=torch.float64),
    "different": torch.linspace(0, 2, TOKENS, dtype=torch.float64),
}


def in_one_piece(x, weight, bias):
    return functional.cross_entropy(functional.linear(x, weight, bias), TARGETS, reduction="none")


@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize("wanted", [(0, 1, 2), (0,), (1,), (2,), (0, 2)], ids=str)
def test_losses_and_gradients_are_those_in_one_piece(inputs, factors, wanted):
    for place, one in enumerate(inputs):
        one.requires_grad_(place in wanted)
    losses, expected = chunked.cross_entropy(*inputs, TARGETS), in_one_piece(*inputs)
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-12)
    leaves = [inputs[place] for place in wanted]
    found, right = (torch.autograd.grad(one, leaves, factors) for one in (losses, expected))
    torch.testing.assert_close(found, right, rtol=0, atol=1e-10)


def test_scores_far_apart_have_finite_losses(inputs):
    """Their softmax is 0 or 1 in any number format, and -log of 0 would be infinite."""
    losses = chunked.cross_entropy(1e4 * inputs[0], *inputs[1:], TARGETS)
    expected = in_one_piece(1e4 * inputs[0], *inputs[1:])
    assert expected.max() > 1e4
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=0)


def test_without_gradients_the_losses_are_the_same(inputs):
    with torch.no_grad():
        losses = chunked.cross_entropy(*inputs, TARGETS)
    torch.testing.assert_close(losses, in_one_piece(*inputs).detach(), rtol=0, atol=1e-12)


def test_gradients_of_gradients_are_those_of_differences():
    torch.manual_seed(0)
    leaves = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((20, 3), (5, 3), (5,))
    ]
    assert torch.autograd.gradgradcheck(lambda *to: chunked.cross_entropy(*to, TARGETS[:20] % 5), leaves)


def test_the_scores_of_all_tokens_are_never_kept(inputs):
    scores = TOKENS * ENTRIES * 8
    sums = sum(one.numel() * 8 for one in inputs)
    assert saved_bytes(lambda: in_one_piece(*inputs), inputs) >= scores
    assert saved_bytes(lambda: chunked.cross_entropy(*inputs, TARGETS), inputs) < 2 * sums < scores


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("ignore_index", [None, 3])
def test_a_fast_model_has_the_losses_and_gradients_of_the_plain_one(config, ignore_index, monkeypatch):
    torch.manual_seed(0)
    model = TransformerLM(config).double()
    tokens, targets = torch.randint(ENTRIES, (2, 4, 40))
    used = []
    monkeypatch.setattr(chunked.CrossEntropy, "forward", _noting(chunked.CrossEntropy.forward, used))

    def losses_and_gradients(one):
        losses, _ = one.token_losses(tokens, targets, ignore_index=ignore_index)
        return losses, torch.autograd.grad(losses.mean(), list(one.parameters()))

    expected = losses_and_gradients(model)
    assert not used
    torch.testing.assert_close(losses_and_gradients(to_fast(model)), expected, rtol=0, atol=1e-10)
    assert used


def _noting(function, calls):
    def noted(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return staticmethod(noted)


def test_gradients_are_summed_in_the_weights_own_format_where_products_are_in_bfloat16(inputs):
    leaves = [one.detach().float().requires_grad_() for one in inputs]
    expected = torch.autograd.grad(in_one_piece(*leaves).mean(), leaves)
    with bfloat16_products():
        found = torch.autograd.grad(chunked.cross_entropy(*leaves, TARGETS).mean(), leaves)
    for one, right in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert 0 < (one - right).norm() < 2**-6 * right.norm()
