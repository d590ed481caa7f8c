from dataclasses import replace
from math import log

import pytest
import torch
from models import small_config
from small_runs import LANES, SETTINGS, new_run, weights

from minitxl.memory import extend
from minitxl.training import loop
from minitxl.training.schedules import learning_rate
from minitxl.training.step import train_step


def test_a_step_is_adam_on_the_mean_loss_with_the_gradient_clipped():
    settings = replace(SETTINGS, clip=0.01)
    run = loop.start(small_config(), settings)
    twin = loop.start(small_config(), settings)
    record = train_step(run, LANES)
    losses, states = twin.model.token_losses(*LANES[0])
    losses.mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(twin.model.parameters(), 0.01)
    torch.optim.Adam(twin.model.parameters(), learning_rate(1, settings)).step()
    assert record.bits == pytest.approx(losses.mean().item() / log(2))
    assert record.gradient_norm == pytest.approx(norm.item())
    assert norm > 0.01
    for one, other in zip(weights(run).values(), weights(twin).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)
    torch.testing.assert_close(run.memory, extend(None, states, mem_len=5))


def test_the_loss_that_is_trained_on_is_the_one_with_memory():
    run = loop.start(small_config(), SETTINGS)
    train_step(run, LANES)
    expected = run.model.token_losses(*LANES[1], run.memory)[0].mean().item() / log(2)
    without = run.model.token_losses(*LANES[1])[0].mean().item() / log(2)
    assert train_step(run, LANES).bits == pytest.approx(expected, abs=1e-6)
    assert abs(expected - without) > 1e-6


def test_training_does_not_touch_the_global_random_state():
    before = torch.get_rng_state()
    for _ in loop.train_steps(new_run(), LANES):
        pass
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loss_that_is_not_a_number_stops_before_it_reaches_the_weights():
    run = new_run()
    with torch.no_grad():
        run.model.output.tables[0].bias[0] = float("nan")
    before = weights(run)
    with pytest.raises(ValueError, match="loss must be finite, got nan at step 1"):
        train_step(run, LANES)
    assert run.step == 0
    assert all(torch.equal(before[n], w) for n, w in weights(run).items() if "bias" not in n)


def test_half_loss_trains_on_the_later_half_of_a_segment():
    run = loop.start(small_config(), replace(SETTINGS, loss="half"))
    losses, _ = run.model.token_losses(*LANES[0])
    assert train_step(run, LANES).bits == pytest.approx(losses[:, 2:].mean().item() / log(2))
    assert losses[:, 2:].mean() != losses.mean()
