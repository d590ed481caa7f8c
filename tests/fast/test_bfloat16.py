"""Products in bfloat16 on a CPU: what they round, what stays float32, and where they are refused."""

import json
import re
import subprocess
from math import sqrt

import pytest
import torch
from models import ENCODINGS, small_config, small_model, some_tokens
from torch.nn import functional

from minitxl.fast import bfloat16, kv_cache, to_fast
from minitxl.fast.bfloat16 import bfloat16_products, check_precision, products_in, try_products
from minitxl.fast.convert import to_inference
from minitxl.fast.linear import ONEDNN_BFLOAT16, FastLinear, joined, linear
from minitxl.inference import generation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached, sliding
from minitxl.model import TransformerLM

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
ROUNDING = 2**-9
"""Largest relative error of a number that is rounded to 8 bits."""
PRODUCTS = 12
"""Products on a gradient's way through a layer and back: q, k or v, two of attention, W_o, W_1, W_2."""


def bound(n_layer: int) -> float:
    """Three roundings a product, of factors and result; their errors are independent: squares add up."""
    return ROUNDING * sqrt(3 * PRODUCTS * (n_layer + 1))


@pytest.fixture(autouse=True)
def on_any_cpu(monkeypatch):
    """One without the instructions computes the same, slowly."""
    monkeypatch.setattr(bfloat16, "instructions", lambda: ["avx512_bf16"])
    monkeypatch.setattr(bfloat16, "works_here", lambda: True)


def model_of(encoding, **settings):
    """A model as it is drawn, of widths at which errors average out."""
    torch.manual_seed(0)
    return TransformerLM(small_config(**{"d_model": 32, "d_inner": 64, **encoding, "d_head": 16, **settings}))


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@every_encoding
def test_gradients_are_float32s_within_what_8_bits_explain(encoding):
    model, tokens = model_of(encoding), some_tokens(4, 40)
    memory = torch.randn(2, 4, 24, 32, generator=torch.Generator().manual_seed(1))
    fast, found = to_fast(model), []
    for precision in ("float32", "bfloat16"):
        model.zero_grad()
        with products_in(precision, torch.device("cpu")):
            losses, states = fast.token_losses(tokens, tokens, memory)
        losses.mean().backward()
        found.append({name: parameter.grad for name, parameter in model.named_parameters()})
        assert losses.dtype == states.dtype == torch.float32
    exact, rounded = found
    total = sqrt(sum(float(one.norm()) ** 2 for one in exact.values()))
    error = sqrt(sum(float((rounded[name] - exact[name]).norm()) ** 2 for name in exact))
    assert 0 < error / total < bound(model.config.n_layer)
    assert {one.dtype for one in rounded.values()} == {torch.float32}


def test_a_product_is_of_rounded_factors_and_keeps_the_format_of_its_input():
    x, layer = torch.randn(3, 40), FastLinear(40, 24)
    with torch.inference_mode(), bfloat16_products():
        inner, outer = linear(x, layer.weight, layer.bias), layer(x)
    expected = functional.linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16())
    assert torch.equal(inner, expected)
    assert torch.equal(outer, expected.float())


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_layer_gives_the_product_of_its_rounded_weight(rows, bias):
    x, layer = torch.randn(2, rows, 40), FastLinear(40, 24, bias=bias)
    with torch.inference_mode(), bfloat16_products():
        expected = linear(x, layer.weight, layer.bias)
        layer.round_parameters()
        layer.pack(rows)
        torch.testing.assert_close(layer.product(x), expected)
        assert layer(x).dtype == torch.float32


@pytest.mark.skipif(not ONEDNN_BFLOAT16, reason="oneDNN orders no weight in bfloat16 on this CPU")
def test_projections_that_are_read_together_are_those_that_are_read_apart():
    x, apart = torch.randn(3, 1, 40), [FastLinear(40, 24, bias=False) for _ in range(3)]
    for layer in apart:
        layer.round_parameters()
        layer.pack(3)
    with torch.inference_mode():
        outputs = joined(apart, rows=3).product(x).chunk(3, dim=-1)
        for layer, output in zip(apart, outputs, strict=True):
            torch.testing.assert_close(output, layer.product(x))
    assert joined([*apart[:2], FastLinear(40, 24)], rows=3) is None


def test_a_cpu_that_orders_no_weight_reads_projections_apart(monkeypatch):
    monkeypatch.setattr("minitxl.fast.linear.ONEDNN_BFLOAT16", False)
    x, apart = torch.randn(3, 1, 40), [FastLinear(40, 24, bias=False) for _ in range(3)]
    for layer in apart:
        layer.round_parameters()
        layer.pack(3)
    assert joined(apart, rows=3) is None
    with torch.inference_mode(), bfloat16_products():
        for layer in apart:
            assert torch.equal(layer.product(x), linear(x, layer.weight))


def test_a_switch_ends_with_its_block():
    x, weight = torch.randn(3, 40), torch.randn(24, 40)
    with pytest.raises(KeyError), bfloat16_products():
        raise KeyError
    assert linear(x, weight).dtype == torch.float32
    with products_in("float32", torch.device("cpu")):
        assert linear(x, weight).dtype == torch.float32


@every_encoding
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_cache_in_bfloat16_reads_nearly_as_one_in_float32(encoding, norm):
    model, tokens = model_of(encoding, norm=norm).eval(), some_tokens(2, 60)[:, :40]
    found = {}
    for precision in ("float32", "bfloat16"):
        cache, read = kv_cache.start(model, batch=2, mem_len=9, precision=precision), []
        for segment in tokens.split([7, 1, 16, 1, 1, 14], dim=1):
            log_probs, cache = kv_cache.step(model, segment, cache)
            read.append(log_probs)
        found[precision] = torch.cat(read, dim=1)
    assert cache.buffers.dtype == torch.bfloat16
    assert found["bfloat16"].dtype == torch.float32
    assert 0 < off(found["bfloat16"].exp(), found["float32"].exp()) < 10 * bound(2)


def test_only_linear_layers_are_rounded_and_the_model_stays_as_it_is():
    model = model_of(ENCODINGS["xl"])
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for name, parameter in to_inference(model, "bfloat16").named_parameters():
        is_linear = re.search(r"\.W_\w+\.weight|\.inner\.\d\.|^output\.", name)
        assert parameter.dtype == (torch.bfloat16 if is_linear else torch.float32), name
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])


@pytest.mark.parametrize("encoding", ["xl", "absolute sinusoidal"])
def test_a_text_is_scored_and_written_in_bfloat16(encoding):
    model, text = model_of(ENCODINGS[encoding]), some_tokens(1, 80)[0]
    lengths = EvaluateConfig(seg_len=8, mem_len=8)
    for score in (
        lambda **how: cached(model, text, lengths, **how),
        lambda **how: sliding(model, text, attention_len=12, stride=4, **how),
    ):
        exact, rounded = score(), score(precision="bfloat16")
        assert 0 < abs(rounded.bits_per_token / exact.bits_per_token - 1) < bound(2)
    prompts = [text[:5], text[5:25]]
    together = generation.sample(model, prompts, length=20, mem_len=9, temperature=0, precision="bfloat16")
    for prompt, row in zip(prompts, together, strict=True):
        alone = generation.sample(model, [prompt], length=20, mem_len=9, temperature=0, precision="bfloat16")
        assert torch.equal(alone[0], row)


def test_an_unknown_precision_is_refused(as_users_run_it):
    with pytest.raises(ValueError, match="precision must be float32 or bfloat16, got 'float16'"):
        to_inference(small_model(), "float16")


def test_a_cpu_without_such_products_is_refused_in_one_sentence(monkeypatch):
    check_precision("bfloat16", "cpu")
    monkeypatch.setattr(bfloat16, "works_here", lambda: False)
    with pytest.raises(ValueError, match="on this CPU, whose avx512_bf16 failed in a trial, got bfloat16"):
        check_precision("bfloat16", "cpu")
    monkeypatch.setattr(bfloat16, "instructions", list)
    with pytest.raises(ValueError, match="on a CPU without avx512_bf16 or amx_bf16, got bfloat16"):
        kv_cache.start(small_model(), batch=1, mem_len=2, precision="bfloat16")
    check_precision("bfloat16", "cuda")


def test_products_are_tried_in_a_process_of_their_own_and_once_on_a_machine(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path))
    calls = []

    def killed(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, -4)  # SIGILL

    monkeypatch.setattr(bfloat16.subprocess, "run", killed)
    for _ in range(2):
        bfloat16.works_here.cache_clear()
        assert not bfloat16.works_here()
    bfloat16.works_here.cache_clear()
    (stored,) = tmp_path.iterdir()
    assert json.loads(stored.read_text()) is False
    (command,) = calls
    exec(command[2])  # what the process would have done


def test_a_wrong_product_fails_the_trial(monkeypatch):
    monkeypatch.setattr(
        torch, "bmm", lambda x, y, product=torch.bmm: product(x, y) * (1 + (x.dtype == torch.bfloat16))
    )
    with pytest.raises(ValueError, match="must be right to"):
        try_products()
