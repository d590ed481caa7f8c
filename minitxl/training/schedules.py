"""Learning rates by step: warm-up, a schedule, and, with ``decay_from``, a linear decay to the last step."""

from math import cos, pi, sqrt

from minitxl.training.config import TrainConfig


def learning_rate(step: int, settings: TrainConfig) -> float:
    """Return the rate of step 1, 2, …: the schedule's, or after ``decay_from`` that of the linear decay."""
    first = settings.decay_from
    if first is None or step <= first:
        return _scheduled(step, settings)
    remaining = (settings.steps - step) / (settings.steps - first)
    return settings.eta_min + (_scheduled(first, settings) - settings.eta_min) * remaining


def _scheduled(step: int, settings: TrainConfig) -> float:
    """Return the rate of the schedule: linear to the peak while warming up, then by its own rule."""
    peak, low = settings.learning_rate, settings.eta_min
    if step <= settings.warmup:
        return peak * step / settings.warmup
    if settings.schedule == "constant":
        return peak
    if settings.schedule == "inv_sqrt":
        return max(low, peak * sqrt(max(1, settings.warmup) / step))
    end = settings.schedule_steps or settings.steps
    progress = min(1.0, (step - settings.warmup) / max(1, end - settings.warmup))
    return low + (peak - low) * (1 + cos(pi * progress)) / 2
