"""Losses that stop a run: a spike, and a mean that is clearly worse than a uniform guess."""

from collections import deque
from math import log2
from statistics import mean

from minitxl.training.step import Record

RECENT = 100
"""Number of last steps whose mean loss is looked at."""
MARGIN = 1.05
"""Most that the mean loss may be, as a multiple of a uniform guess's. It is above 1: on random tokens the
mean loss stays near a uniform guess's, and at 1 it would stop a run by chance."""


class LossGuard:
    """The losses of the last steps of a run."""

    def __init__(self, spike: float | None, *, vocab_size: int, warmup: int) -> None:
        self.spike, self.warmup, self.uniform = spike, warmup, log2(vocab_size)
        self.recent = deque[float](maxlen=RECENT)

    def check(self, record: Record) -> None:
        """Record the loss of a step. Raise a ValueError for a spike, or a mean that ``MARGIN`` forbids."""
        if self.spike is None:
            return
        usual = mean(self.recent) if len(self.recent) == RECENT else None
        if usual is not None and record.bits > usual + self.spike:
            raise ValueError(
                f"the loss must stay within spike = {self.spike} bits of its recent mean {usual:.2f}, got "
                f"{record.bits:.2f} at step {record.step}: a lower learning_rate or a longer warmup may help"
            )
        most = MARGIN * self.uniform
        if usual is not None and record.step > self.warmup + RECENT and usual > most:
            raise ValueError(
                f"the loss must be at most {most:.2f} bits, {MARGIN} times a uniform guess's, got "
                f"{usual:.2f} on average in the {RECENT} steps before {record.step}: "
                f"a lower learning_rate may help"
            )
        self.recent.append(record.bits)
