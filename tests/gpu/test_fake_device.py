"""A GPU without one: tensors that have a shape, a type and a device, and no numbers.

What mixes devices fails here as on a GPU, and so does what reads a number back, for which a GPU would have
to be waited for. PyTorch's build for CUDA runs this, with or without a driver: ``make gpu-rehearsal``.
"""

import pytest
import torch
from models import ENCODINGS, small_config
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from minitxl.fast import kv_cache, to_fast
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.training.loss import padded

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="needs PyTorch's build for CUDA")
every_encoding = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)


@pytest.fixture(autouse=True)
def on_a_gpu():
    with FakeTensorMode(), torch.device("cuda"):
        yield


def tokens(batch=2, time=6):
    return torch.zeros(batch, time, dtype=torch.int64)


@every_encoding
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("window", [None, 4])
def test_a_model_reads_segments_with_a_growing_memory(encoding, fast, window):
    model = TransformerLM(small_config(dropout=0.1, attention_dropout=0.1, **encoding))
    model = to_fast(model) if fast else model
    memory = None
    for _ in range(3):
        losses, states = model.token_losses(tokens(), tokens(), memory, window=window)
        memory = extend(memory, states, mem_len=9)
    assert losses.device.type == memory.device.type == "cuda"
    assert memory.shape == (2, 2, 9, 8)


@every_encoding
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_cache_reads_on_token_by_token(encoding, precision):
    model = TransformerLM(small_config(**encoding))
    cache = kv_cache.start(model, batch=2, mem_len=5, precision=precision)
    mask = torch.ones(2, 6, dtype=torch.bool)
    log_probs, cache = kv_cache.step(model, tokens(), cache, key_mask=mask)
    for _ in range(8):
        log_probs, cache = kv_cache.step(model, tokens(time=1), cache)
    assert log_probs.device.type == "cuda"
    assert log_probs.dtype == torch.float32


def test_memory_of_constant_length_is_padded_on_its_device():
    memory, key_mask = padded(torch.zeros(2, 2, 3, 8), mem_len=5, seg_len=4)
    assert memory.device.type == key_mask.device.type == "cuda"


@pytest.mark.xfail(raises=DynamicOutputShapeException, strict=True, reason="waits for the device")
def test_an_adaptive_softmax_gives_log_probabilities():
    model = TransformerLM(small_config(vocab_size=30, cutoffs=(5, 12), div_val=2))
    log_probs, _ = model(tokens())
    assert log_probs.shape == (2, 6, 30)
