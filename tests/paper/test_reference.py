import numpy as np
import pytest
import reference
import torch
from models import CLASSES, ENCODINGS, NORMS, RELATIVE, small_model, some_tokens
from torch.autograd import gradcheck

from minitxl.memory import extend

WORDS = {
    "one width": {"cutoffs": (4, 7)},
    "narrower tails": {"cutoffs": (4, 7), "div_val": 2, "tie_projections": (False, True, True)},
    "narrower words": {"d_embed": 6, "cutoffs": (4,), "tie_projections": (True, False)},
    "narrower words in one cluster": {"d_embed": 6, "tie_embeddings": False},
}
every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)
every_norm = pytest.mark.parametrize("norm", NORMS)
every_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])


def arbitrary_model(**settings):
    """A small model whose biases and gains, too, are neither 0 nor 1."""
    model = small_model(**settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def arrays(model) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}


def assert_equals_the_reference(model, tokens, seg_len, *, mem_len, key_mask=None, **options):
    parameters, memory, remembered = arrays(model), None, None
    for segment in tokens.split(seg_len, dim=1):
        key = segment.shape[1] + (0 if memory is None else memory.shape[2])
        kept = None if key_mask is None else key_mask[:, :key]
        log_probs, states = model(
            segment, memory, key_mask=None if kept is None else torch.from_numpy(kept), **options
        )
        expected, expected_states = reference.forward(
            parameters, model.config, segment.numpy(), remembered, key_mask=kept, **options
        )
        np.testing.assert_allclose(log_probs.detach().numpy(), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(states.detach().numpy(), expected_states, rtol=0, atol=1e-10)
        memory = extend(memory, states, mem_len=mem_len)
        remembered = reference.remember(remembered, expected_states, mem_len)


@every_encoding
@every_norm
@every_activation
def test_the_model_equals_the_equations_over_segments_with_memory(encoding, norm, activation):
    model = arbitrary_model(norm=norm, activation=activation, **ENCODINGS[encoding])
    assert_equals_the_reference(model, some_tokens(2, 11), 3, mem_len=5)


@every_encoding
@pytest.mark.parametrize("mem_len", [0, 2, 5])
def test_the_model_equals_the_equations_with_a_window(encoding, mem_len):
    model = arbitrary_model(**ENCODINGS[encoding])
    assert_equals_the_reference(model, some_tokens(2, 11), 4, mem_len=mem_len, window=3)


@every_encoding
@every_norm
def test_the_model_equals_the_equations_where_keys_are_hidden(encoding, norm):
    model = arbitrary_model(norm=norm, **ENCODINGS[encoding])
    key_mask = np.array([[1, 0, 1, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1, 1]], dtype=bool)
    assert_equals_the_reference(model, some_tokens(2, 9), 3, mem_len=4, key_mask=key_mask)


@pytest.mark.parametrize("encoding", RELATIVE)
@pytest.mark.parametrize("clamp_len", [0, 2, 4])
def test_the_model_equals_the_equations_where_far_keys_are_equally_far(encoding, clamp_len):
    tokens = some_tokens(2, 9)
    called = arbitrary_model(**ENCODINGS[encoding])
    assert_equals_the_reference(called, tokens, 3, mem_len=5, window=7, clamp_len=clamp_len)
    configured = arbitrary_model(**ENCODINGS[encoding], clamp_len=clamp_len)
    assert_equals_the_reference(configured, tokens, 3, mem_len=5)


@pytest.mark.parametrize("words", WORDS)
def test_the_model_equals_the_equations_with_clusters_of_words(words):
    model = arbitrary_model(**WORDS[words])
    assert_equals_the_reference(model, some_tokens(2, 7), 3, mem_len=4)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({**encoding, "norm": norm, "activation": activation}, id=f"{name}, {norm}")
        for name, encoding in ENCODINGS.items()
        for norm, activation in (("post", "relu"), ("pre", "gelu"))
    ]
    + [pytest.param(settings, id=name) for name, settings in WORDS.items()],
)
def test_gradients_equal_finite_differences_of_the_equations(settings):
    """In the largest entry and two others of every parameter, with memory held fixed.

    Central differences with step 1e-5 leave truncation and rounding of about 1e-10.
    """
    step, generator = 1e-5, np.random.default_rng(0)
    model, tokens = arbitrary_model(**settings), some_tokens(1, 2)
    memory = extend(None, model(some_tokens(1, 3, seed=1))[1], mem_len=3)
    outputs = model(tokens, memory)
    weights = [generator.normal(size=output.shape) for output in outputs]
    sum((output * torch.from_numpy(w)).sum() for output, w in zip(outputs, weights, strict=True)).backward()
    parameters = arrays(model)

    def loss_with(entry: int, value: float, array: np.ndarray) -> float:
        before, array[entry] = array[entry], value
        outputs = reference.forward(parameters, model.config, tokens.numpy(), memory.numpy())
        array[entry] = before
        return sum((output * w).sum() for output, w in zip(outputs, weights, strict=True))

    for name, parameter in model.named_parameters():
        array, gradient = parameters[name].reshape(-1), parameter.grad.numpy().reshape(-1)
        for entry in {abs(gradient).argmax(), *generator.integers(array.size, size=2)}:
            above, below = (loss_with(entry, array[entry] + move, array) for move in (step, -step))
            expected = pytest.approx((above - below) / (2 * step), rel=1e-6, abs=1e-8)
            assert gradient[entry] == expected, (name, entry)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("options", [{}, {"window": 3, "clamp_len": 1}], ids=["all", "window and clamp"])
def test_each_attention_passes_gradcheck_for_segment_and_memory(kind, options):
    torch.manual_seed(0)
    attention = kind(4, 2, 4, **CLASSES[kind]).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    x, memory = (torch.randn(2, length, 4, dtype=torch.float64, requires_grad=True) for length in (3, 2))
    assert gradcheck(lambda x, memory: attention(x, memory, **options), (x, memory))
