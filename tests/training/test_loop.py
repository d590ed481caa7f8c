from dataclasses import replace

import pytest
import torch
from models import ENCODINGS, NORMS, VOCAB, small_config
from small_runs import LANES, SETTINGS, STREAM, assert_same_weights, new_run, weights

from minitxl.attention import XLAttention
from minitxl.data.batching import ContiguousBatches
from minitxl.fast import bfloat16
from minitxl.training import loop, loss
from minitxl.training.config import TrainConfig


def test_the_first_step_is_taken_at_the_warm_up_rate():
    record = next(loop.train_steps(new_run(), LANES))
    assert record.learning_rate == pytest.approx(SETTINGS.learning_rate / 3)


def test_memory_flows_from_segment_to_segment_and_is_emptied_at_each_pass():
    run, lengths = new_run(), []
    for _ in loop.train_steps(run, LANES):
        lengths.append(run.memory.shape[2])
    assert lengths == [4, 5, 5, 5, 5, 5] * 2


def test_the_seed_decides_everything_and_nothing_else_does():
    one = new_run()
    torch.manual_seed(99)
    other = new_run()
    before = torch.get_rng_state()
    for _ in zip(loop.train_steps(one, LANES), loop.train_steps(other, LANES), strict=True):
        torch.rand(3)
    torch.set_rng_state(before)
    assert_same_weights(weights(one), weights(other))
    different = new_run(replace(SETTINGS, seed=1))
    assert not torch.equal(
        different.model.embedding.tables[0].weight, new_run().model.embedding.tables[0].weight
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("mem_len", [0, 6])
def test_every_system_learns_a_repeating_text(encoding, norm, mem_len):
    stream = torch.arange(400) % VOCAB
    settings = TrainConfig(seg_len=10, mem_len=mem_len, batch=8, steps=12, warmup=3, learning_rate=2e-2)
    run = loop.start(small_config(norm=norm, d_model=64, d_inner=128, **ENCODINGS[encoding]), settings)
    records = list(loop.train_steps(run, ContiguousBatches(stream, batch=8, seg_len=10)))
    assert records[0].bits > 3.2
    assert records[-1].bits < 1.0


def test_averaged_weights_are_the_mean_of_the_weights_since_the_step_named():
    run, seen = new_run(replace(SETTINGS, average_from=8)), []
    for record in loop.train_steps(run, LANES):
        if record.step <= 8:
            assert run.model_to_evaluate is run.model
        else:
            seen.append(weights(run))
    expected = {name: torch.stack([each[name] for each in seen]).mean(0) for name in seen[0]}
    for name, parameter in run.model_to_evaluate.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=0, atol=1e-6)


def test_bfloat16_is_refused_on_a_cpu_without_it(monkeypatch):
    monkeypatch.setattr(bfloat16, "instructions", list)
    with pytest.raises(
        ValueError, match="precision must be float32 on a CPU without avx512_bf16 or amx_bf16"
    ):
        new_run(replace(SETTINGS, precision="bfloat16"))


@pytest.mark.parametrize("encoding", ["xl", "shaw", "rotary", "absolute learned"])
def test_bfloat16_trains_on_a_cpu_as_float32_does(monkeypatch, encoding):
    monkeypatch.setattr(bfloat16, "instructions", lambda: ["avx512_bf16"])
    monkeypatch.setattr(bfloat16, "works_here", lambda: True)
    bits = {}
    for precision in ("float32", "bfloat16"):
        settings = replace(SETTINGS, steps=20, learning_rate=5e-3, precision=precision)
        run = loop.start(small_config(d_model=32, d_inner=64, dropout=0.1, **ENCODINGS[encoding]), settings)
        bits[precision] = [record.bits for record in loop.train_steps(run, LANES)]
        assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
    assert bits["bfloat16"] == pytest.approx(bits["float32"], abs=0.1)
    assert bits["bfloat16"] != bits["float32"]


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_memory_of_constant_length_trains_alike(monkeypatch, encoding, accumulate):
    """As on a GPU, where what is compiled or recorded must not be so again while memory fills."""
    settings, lengths, found = replace(SETTINGS, mem_len=20, steps=6), {False: set(), True: set()}, []
    for constant in (False, True):
        monkeypatch.setattr(loss, "needs_constant_length", lambda device, answer=constant: answer)
        run = loop.start(small_config(**ENCODINGS[encoding]), settings, accumulate=accumulate)
        read = run.model.last_hidden

        def watched(tokens, memory, read=read, constant=constant, **how):
            lengths[constant].add(memory.shape[2])
            return read(tokens, memory, **how)

        monkeypatch.setattr(run.model, "last_hidden", watched)
        found.append([record.bits for record in loop.train_steps(run, LANES)])
        assert run.memory.shape[2] == 20
    assert lengths[True] == {20}
    assert len(lengths[False]) > 2
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bfloat16_trains_every_encoding_on_cuda_as_float32_does(encoding):
    bits = {}
    for precision in ("float32", "bfloat16"):
        settings = replace(SETTINGS, steps=60, precision=precision)
        run = loop.start(small_config(d_model=32, d_inner=64, **ENCODINGS[encoding]), settings, device="cuda")
        bits[precision] = [record.bits for record in loop.train_steps(run, LANES)]
        assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
    assert bits["bfloat16"] == pytest.approx(bits["float32"], abs=0.1)


def test_an_attention_that_validation_could_not_score_is_refused_before_the_first_step():
    class Unknown(XLAttention):
        pass

    run = new_run(SETTINGS)
    run.model.blocks[1].attention.__class__ = Unknown
    with pytest.raises(ValueError, match=r"^the key-value cache must know the attention, got Unknown: "):
        next(loop.train_steps(run, LANES, STREAM))
    assert run.step == 0
    assert next(loop.train_steps(run, LANES)).step == 1  # without a validation it is trained


@pytest.mark.parametrize(("batch", "seg_len"), [(SETTINGS.batch + 1, SETTINGS.seg_len), (SETTINGS.batch, 2)])
def test_lanes_of_another_batch_or_segment_than_the_runs_are_refused(batch, seg_len):
    segments = ContiguousBatches(torch.zeros(200, dtype=torch.int64), batch=batch, seg_len=seg_len)
    with pytest.raises(ValueError, match=f"^segments must be those of the run, .* got {batch} of {seg_len}$"):
        next(loop.train_steps(new_run(SETTINGS), segments))
