"""Models compile and export as one graph and run under autocast, as the paper's modules and as fast ones."""

import pytest
import torch
from models import ENCODINGS, small_model, some_tokens

from minitxl import fast
from minitxl.position_encodings import sinusoids

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)
one_of_each_attention = pytest.mark.parametrize("encoding", ["absolute sinusoidal", "shaw", "xl"])
every_implementation = pytest.mark.parametrize("implementation", [fast.to_plain, fast.to_fast])


@pytest.fixture(autouse=True)
def without_shape_checks(as_users_run_it):
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def model_and_inputs(encoding, implementation, **settings):
    model = implementation(small_model(n_layer=1, **settings, **ENCODINGS[encoding]).float())
    tokens = some_tokens(2, 9)
    _, memory = model(tokens[:, :4])
    return model, tokens[:, 4:], memory.detach()


@every_implementation
@one_of_each_attention
def test_a_model_compiles_as_one_graph_in_training_with_dropout(encoding, implementation):
    model, tokens, memory = model_and_inputs(encoding, implementation, dropout=0.3, attention_dropout=0.3)
    compiled = torch.compile(model.train().token_losses, fullgraph=True, backend="eager")
    losses, _ = compiled(tokens, tokens, memory)
    losses.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    again, _ = compiled(tokens, tokens, memory)
    assert not torch.allclose(again, losses)


@every_implementation
@one_of_each_attention
def test_a_model_exports_as_one_graph(encoding, implementation):
    model, tokens, memory = model_and_inputs(encoding, implementation)
    model.eval()
    exported = torch.export.export(model, (tokens, memory)).module()
    torch.testing.assert_close(exported(tokens, memory), model(tokens, memory), rtol=1e-5, atol=1e-5)


@every_implementation
@every_encoding
def test_autocast_on_a_cpu_changes_numbers_only_by_rounding(encoding, implementation):
    model, tokens, memory = model_and_inputs(encoding, implementation)
    for parameter in model.parameters():
        parameter.data /= 4
    expected, _ = model.token_losses(tokens, tokens, memory)
    with torch.autocast("cpu", torch.bfloat16):
        losses, _ = model.token_losses(tokens, tokens, memory)
        losses.sum().backward()
    torch.testing.assert_close(losses.float(), expected, rtol=0.05, atol=0.05)


@every_implementation
@every_encoding
def test_weights_in_bfloat16_run(encoding, implementation):
    model, tokens, memory = model_and_inputs(encoding, implementation)
    for parameter in model.parameters():
        parameter.data /= 4
    expected, _ = model.token_losses(tokens, tokens, memory)
    losses, _ = model.bfloat16().token_losses(tokens, tokens, memory.bfloat16())
    torch.testing.assert_close(losses.float(), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sinusoids_of_few_bits_are_those_of_many_rounded(dtype):
    positions = torch.arange(3000)
    exact = sinusoids(positions, 64, dtype=torch.float32)
    assert torch.equal(sinusoids(positions, 64, dtype=dtype), exact.to(dtype))
