import pytest
import torch
from models import ENCODINGS, small_model, some_tokens
from small_runs import LANES, SETTINGS, new_run

from minitxl.memory import extend
from minitxl.training import step
from minitxl.training.loss import SegmentLoss, SegmentLossToCapture, padded
from minitxl.training.step import train_step


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("held", [0, 3, 8])
def test_padded_memory_reads_as_the_memory_it_holds(encoding, held):
    model, tokens = small_model(**encoding), some_tokens(2, 5)
    _, states = model(some_tokens(2, held or 1, seed=1))
    memory = extend(None, states, mem_len=held)
    longer, key_mask = padded(memory, mem_len=8, seg_len=5)
    assert longer.shape[2] == 8
    assert key_mask.sum(dim=1).tolist() == [held + 5] * 2
    expected, _ = model(tokens, memory)
    torch.testing.assert_close(model(tokens, longer, key_mask=key_mask)[0], expected, rtol=1e-10, atol=1e-10)


def test_memory_longer_than_mem_len_cannot_be_padded_to_it():
    with pytest.raises(ValueError, match="at most mem_len = 2 tokens, got 3"):
        padded(torch.zeros(1, 1, 3, 4), mem_len=2, seg_len=5)


def test_only_extend_stops_the_gradient_of_a_training(monkeypatch):
    run = new_run()
    train_step(run, LANES)
    assert not run.memory.requires_grad
    monkeypatch.setattr(step, "extend", lambda memory, states, mem_len: states)
    train_step(run, LANES)
    assert run.memory.requires_grad
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        train_step(run, LANES)


def test_a_loss_to_capture_detaches_its_states_and_is_the_same():
    model, tokens = small_model(), some_tokens(2, 5)
    inputs = tokens, tokens.flip(1), model.empty_memory(2)
    losses = [kind(model, SETTINGS)(*inputs) for kind in (SegmentLoss, SegmentLossToCapture)]
    assert [states.requires_grad for _, states in losses] == [True, False]
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
