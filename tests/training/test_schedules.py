from dataclasses import replace
from math import cos, pi

import pytest

from minitxl.training.config import TrainConfig
from minitxl.training.schedules import learning_rate

SETTINGS = TrainConfig(steps=12, warmup=3, learning_rate=1.0)


def rates(**changes):
    settings = replace(SETTINGS, **changes)
    return [learning_rate(step, settings) for step in range(1, settings.steps + 1)]


def test_the_rate_rises_in_a_line_and_falls_as_a_cosine_to_zero():
    assert rates()[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert rates()[3:] == pytest.approx([(1 + cos(pi * step / 9)) / 2 for step in range(1, 10)])
    assert rates()[-1] == 0


def test_the_cosine_ends_at_eta_min():
    falling = rates(eta_min=0.1)[2:]
    assert falling[0] == 1
    assert falling[-1] == pytest.approx(0.1)
    assert falling == pytest.approx([0.1 + 0.9 * rate for rate in rates()[2:]])


def test_a_constant_rate_stays_at_its_peak_after_warming_up():
    assert rates(schedule="constant") == pytest.approx([1 / 3, 2 / 3] + [1.0] * 10)


def test_the_inverse_square_root_halves_where_the_step_is_four_times_the_warm_up():
    falling = rates(schedule="inv_sqrt")
    assert falling[2] == 1
    assert falling[11] == pytest.approx(1 / 2)
    assert rates(schedule="inv_sqrt", eta_min=0.6)[8:] == pytest.approx([0.6] * 4)
    assert rates(schedule="inv_sqrt", warmup=0)[3] == pytest.approx(1 / 2)


@pytest.mark.parametrize("schedule", ["cosine", "constant", "inv_sqrt"])
def test_a_last_decay_begins_at_the_rate_of_its_step_and_ends_at_eta_min(schedule):
    before = rates(schedule=schedule, steps=40)
    decayed = rates(schedule=schedule, steps=12, schedule_steps=40, decay_from=8, eta_min=0.0)
    assert decayed[:8] == before[:8]
    assert decayed[7:] == pytest.approx([before[7] * left / 4 for left in (4, 3, 2, 1, 0)])


def test_the_steps_of_the_cosine_may_be_fewer_than_all():
    assert rates(steps=20, schedule_steps=12)[:12] == rates()
    assert rates(steps=20, schedule_steps=12, eta_min=0.25)[12:] == pytest.approx([0.25] * 8)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"eta_min": 2.0}, r"eta_min must lie in 0 … learning_rate = 1.0, got 2.0"),
        ({"decay_from": 12}, r"decay_from must lie in 1 … steps - 1 = 11, got 12"),
        ({"schedule_steps": 0}, "schedule_steps must be 1 or more, got 0"),
        ({"schedule": "linear"}, "schedule must be cosine, constant or inv_sqrt, got 'linear'"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite, got nan"),
        ({"mem_len": 10**15}, "mem_len must be at most 2,147,483,647, got 1000000000000000"),
        (
            {"validate_attention_lens": (10**15,)},
            "validate_attention_lens must lie in 1 … validate_tokens - 1 = 8,191",
        ),
        ({"seed": 2**64}, r"seed must lie in 0 … 2\*\*63 - 1, got 18446744073709551616"),
        ({"steps": 2.5}, "steps must be a whole number, got 2.5"),
    ],
)
def test_settings_that_can_not_be_are_refused_by_name(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(SETTINGS, **wrong)
