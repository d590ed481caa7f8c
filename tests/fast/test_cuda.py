"""Compiled and captured steps have the numbers of the others; on a CPU a stand-in runs what is captured."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import ENCODINGS, assert_mean, gradients, small_config, small_model, some_tokens
from support.attention import shapes, windows

from minitxl import fast, memory
from minitxl.data.batching import ContiguousBatches
from minitxl.fast import cuda, kv_cache
from minitxl.fast.attention import sdpa_bias
from minitxl.fast.cpu_attention import in_blocks
from minitxl.fast.inputs import AttentionInputs
from minitxl.model import TransformerLM
from minitxl.training import loop, loss, saved_run
from minitxl.training.config import TrainConfig
from minitxl.training.step import train_step

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)


def some_parts(n_head, d_head, batch, query, mem):
    """q_plus_u, q_plus_v, k, v and r, which has one distance more than there are keys."""
    generator = torch.Generator().manual_seed(0)
    key = query + mem
    sizes = [(batch, n_head, length, d_head) for length in (query, query, key, key)]
    parts = [
        torch.randn(size, generator=generator, dtype=torch.float64)
        for size in (*sizes, (n_head, key + 1, d_head))
    ]
    return [part.requires_grad_() for part in parts]


@given(shape=shapes, window=windows, hide=st.booleans())
def test_pytorchs_attention_has_the_numbers_and_gradients_of_the_blocks_on_a_cpu(shape, window, hide):
    parts = some_parts(*shape)
    key_mask = None
    if hide:
        key_mask = torch.rand(parts[2].shape[::2][:1] + parts[2].shape[2:3], generator=seeded(1)) < 0.6
    ours = sdpa_bias(AttentionInputs(*parts, 0.0, window, key_mask))
    theirs = in_blocks(AttentionInputs(*parts, 0.0, window, key_mask))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for one, other in zip(gradients(ours, parts), gradients(theirs, parts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_dropped_weights_leave_the_mean_as_it_was():
    parts = some_parts(2, 3, 1, 5, 4)
    torch.manual_seed(0)
    with torch.no_grad():
        draws = torch.stack([sdpa_bias(AttentionInputs(*parts, 0.25)) for _ in range(3000)])
        expected = sdpa_bias(AttentionInputs(*parts))
    assert_mean(draws, expected)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def read_on(padded, times=5, compiled=True):
    """Compile one block, and read a text with it of which memory holds 0, 4, 8 and 10 tokens."""
    from torch._dynamo.testing import CompileCounterWithBackend  # takes seconds, which each worker would wait

    counter = CompileCounterWithBackend("eager")
    torch.compiler.reset()
    (block, _) = small_model().blocks
    if compiled:
        block.compile(backend=counter, dynamic=False)
    states = torch.randn(1, 3, 4, 8, dtype=torch.float64, generator=seeded(0))
    past, found = memory.extend(None, states, mem_len=0), []
    for _ in range(times):
        before, key_mask = loss.padded(past, mem_len=10, seg_len=4) if padded else (past, None)
        found.append(block(states[0], before[0], key_mask=key_mask))
        past = memory.extend(past, states, mem_len=10)
    return counter.frame_count, found


def test_nothing_is_compiled_again_while_memory_fills(as_users_run_it):
    read_on(padded=True, times=1)  # einops notes a type when it meets it first, and would compile once more
    once, constant = read_on(padded=True)
    often, _ = read_on(padded=False, times=2)
    _, growing = read_on(padded=False, compiled=False)
    assert once == 1
    assert often == 2
    for ours, theirs in zip(constant, growing, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_compiled_model_shares_its_parameters_and_leaves_the_model_as_it_was():
    model = small_model(dropout=0.5)
    compiled = cuda.compiled(model)
    for ours, theirs in zip(compiled.parameters(), model.parameters(), strict=True):
        assert ours is theirs
    assert all(block._compiled_call_impl for block in compiled.blocks)
    assert not any(block._compiled_call_impl for block in model.blocks)


def test_a_model_made_from_a_compiled_one_runs_its_own_modules():
    compiled = cuda.compiled(small_model(dropout=0.5).train())
    rests = fast.to_fast(compiled).eval()
    assert not any(block._compiled_call_impl for block in rests.blocks)
    tokens = some_tokens(2, 5)
    torch.testing.assert_close(rests(tokens), rests(tokens), rtol=0, atol=0)


@dataclass
class Again:
    """A graph that runs the step again and writes into the same output."""

    step: Any
    output: torch.Tensor
    replays: list

    def replay(self):
        self.output.copy_(self.step())
        self.replays.append(self)


@pytest.fixture
def replays(monkeypatch):
    """Each replay of a step that was captured on a CPU."""
    done = []

    def graph_of(step):
        output = step()  # as a warm-up, and as a GPU's graph would not, it changes the state
        return Again(step, output, done), output

    monkeypatch.setattr(cuda, "can_capture", lambda config, device: True)
    monkeypatch.setattr(cuda, "graph_of", graph_of)
    return done


@every_encoding
@pytest.mark.parametrize(("lengths", "masked"), [([1] * 20, True), ([3] * 9 + [2] + [3] * 9, False)])
@pytest.mark.parametrize("options", [{}, {"window": 4, "clamp_len": 3}])
def test_captured_steps_give_what_the_model_and_extend_give(encoding, lengths, masked, options, replays):
    """A prompt, some of it masked, then single tokens; or segments, among which one is shorter."""
    model = small_model(**ENCODINGS[encoding])
    text, first = some_tokens(2, 12 + sum(lengths)), 12
    prompt_mask = torch.ones(2, first, dtype=torch.bool)
    prompt_mask[1, :9] = not masked
    cache = kv_cache.start(model, batch=2, mem_len=12, **options)
    past, past_mask = None, None
    for length, segment in zip([first, *lengths], text.split([first, *lengths], dim=1), strict=True):
        key_mask = prompt_mask if past is None and masked else None
        ours, cache = kv_cache.step(model, segment, cache, key_mask=key_mask)
        seen = torch.ones(2, length, dtype=torch.bool) if key_mask is None else key_mask
        seen = seen if past_mask is None else torch.cat([past_mask, seen], dim=1)
        with torch.no_grad():
            theirs, states = model(segment, past, key_mask=seen, **options)
        past, past_mask = memory.extend(past, states, mem_len=12), seen[:, -12:]
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    assert cache.tokens_read == text.shape[1]
    if encoding == "rotary":
        assert not replays
    else:
        assert len(replays) >= (10 if masked else 6)


def test_captured_losses_are_those_of_the_targets_given(replays):
    model = small_model()
    tokens, targets = some_tokens(2, 30), some_tokens(2, 30).flip(1)
    cache, plain = (kv_cache.start(model, batch=2, mem_len=4) for _ in range(2))
    for segment, ahead in zip(tokens.split(3, dim=1), targets.split(3, dim=1), strict=True):
        losses, cache = kv_cache.token_losses(model, segment, ahead, cache)
        log_probs, plain = kv_cache.step(model, segment, plain)
        expected = -log_probs.gather(2, ahead[..., None]).squeeze(2)
        torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-10)
    assert replays


def test_an_output_stays_what_it_was_when_the_next_step_is_replayed(replays):
    model = small_model()
    cache, outputs = kv_cache.start(model, batch=1, mem_len=2), []
    for token in some_tokens(1, 14).split(1, dim=1):
        output, cache = kv_cache.step(model, token, cache)
        outputs.append((output, output.clone()))
    assert replays
    assert all(torch.equal(output, was) for output, was in outputs)


@every_encoding
def test_a_step_makes_no_tensor_of_python_numbers(encoding, monkeypatch):
    """Those would be copied to the device, which a graph can't do."""
    model, tokens = small_model(**ENCODINGS[encoding]), some_tokens(2, 3)
    cache = kv_cache.start(model, batch=2, mem_len=3)
    _, cache = kv_cache.step(model, tokens, cache)
    settings = TrainConfig(3, 3, batch=2, steps=1, warmup=0)
    run = loop.start(small_config(word_dropout=0.1, **ENCODINGS[encoding]), settings)
    inputs = tokens, tokens, *loss.padded(run.model.empty_memory(2), mem_len=3, seg_len=3)

    def refuse(*numbers, **how):
        raise AssertionError(f"a tensor of {numbers}")

    monkeypatch.setattr(torch, "tensor", refuse)
    monkeypatch.setattr(torch, "as_tensor", refuse)
    kv_cache.token_losses(model, tokens, tokens, cache)
    mean, _ = run.segment_loss(*inputs)
    mean.backward()


def test_a_step_that_cuda_refuses_is_computed_without_a_graph(replays, monkeypatch, caplog):
    def graph_of(step):
        step()
        raise RuntimeError("not permitted while a stream is captured\nand more")

    monkeypatch.setattr(cuda, "graph_of", graph_of)
    model, outputs = small_model(), []
    text, cache = some_tokens(1, 14), kv_cache.start(model, batch=1, mem_len=3)
    for token in text.split(1, dim=1):
        output, cache = kv_cache.step(model, token, cache)
        outputs.append(output)
    with torch.no_grad():
        expected, _ = model(text, window=4)
    assert cache.captured is None
    torch.testing.assert_close(torch.cat(outputs, dim=1)[:, :4], expected[:, :4], rtol=1e-10, atol=1e-10)
    assert "steps are not captured as a CUDA graph, and take longer: not permitted" in caplog.messages[0]
    assert "and more" not in caplog.messages[0]


def test_only_steps_without_a_wait_for_the_device_are_captured():
    plain, adaptive = small_config(), small_config(vocab_size=30, cutoffs=(5, 12))
    assert cuda.can_capture(plain, torch.device("cuda"))
    assert not cuda.can_capture(adaptive, torch.device("cuda"))
    assert not cuda.can_capture(plain, torch.device("cpu"))


def bits(config, *, device, steps=12, **settings):
    settings = {
        "batch": 4,
        "seg_len": 6,
        "mem_len": 10,
        "warmup": 0,
        "learning_rate": 1e-3,
        "seed": 1,
    } | settings
    run = loop.start(config, TrainConfig(steps=steps, **settings), device=device)
    length = settings["batch"] * settings["seg_len"] * (steps + 1) + 1
    text = torch.randint(config.vocab_size, (length,), generator=seeded(2))
    segments = ContiguousBatches(text, batch=settings["batch"], seg_len=settings["seg_len"])
    return run, segments, [capture_step.bits for capture_step in loop.train_steps(run, segments)]


@on_a_gpu
@every_encoding
def test_captured_training_has_the_losses_of_a_cpu(encoding, as_users_run_it):
    config = small_config(d_model=32, d_inner=64, **ENCODINGS[encoding])
    *_, ours = bits(config, device="cuda")
    *_, theirs = bits(config, device="cpu")
    assert ours == pytest.approx(theirs, rel=1e-3)


@on_a_gpu
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's own, in PyTorch 2.11
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_compiled_training_has_the_losses_of_a_cpu(precision, as_users_run_it):
    config = small_config(d_model=64, n_head=2, d_head=32)
    sizes = {"batch": 8, "seg_len": 256, "mem_len": 1024, "steps": 4}
    assert cuda.WORTH_COMPILING <= 8 * 2 * 256 * 1280
    *_, ours = bits(config, device="cuda", precision=precision, **sizes)
    *_, theirs = bits(config, device="cpu", **sizes)
    assert ours == pytest.approx(theirs, rel=0.01 if precision == "bfloat16" else 1e-3)


@on_a_gpu
def test_captured_dropout_is_drawn_anew_and_goes_on_after_a_break(tmp_path):
    config = small_config(dropout=0.3, word_dropout=0.1)
    run, segments, _ = bits(config, device="cuda", steps=5)
    saved_run.save(run, tmp_path / "run.safetensors")
    resumed = saved_run.resume(tmp_path / "run.safetensors", device="cuda")
    same = [train_step(each, segments).bits for each in (run, resumed)]
    assert same[0] == pytest.approx(same[1], rel=1e-6)
    (tokens, targets), empty = segments[0], run.model.empty_memory(4)
    inputs = tokens.cuda(), targets.cuda(), *loss.padded(empty, mem_len=10, seg_len=6)
    losses = {run.segment_loss(*inputs)[0].item() for _ in range(3)}
    assert len(losses) == 3


@on_a_gpu
@every_encoding
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_captured_decoding_has_the_numbers_of_a_cpu(encoding, precision):
    model = small_model(**ENCODINGS[encoding]).float()
    there = TransformerLM(model.config).cuda()
    there.load_state_dict(model.state_dict())
    text = some_tokens(2, 40)
    caches = [kv_cache.start(model, batch=2, mem_len=6)]
    caches.append(kv_cache.start(there, batch=2, mem_len=6, precision=precision))
    for segment in text.split(2, dim=1):
        theirs, caches[0] = kv_cache.step(model, segment, caches[0])
        ours, caches[1] = kv_cache.step(there, segment.cuda(), caches[1])
        torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=0.1 if precision == "bfloat16" else 1e-4)
    assert (caches[1].captured is not None) == (encoding != "rotary")
