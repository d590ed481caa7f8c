"""The log of a run: one JSON record a line and, on request, the same for TensorBoard.

Lines that are no record are left where they are; only a last line that was cut off, and records
beyond the step that a run goes on from, are removed.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from minitxl import fields
from minitxl.files import atomic_write, plain_file
from minitxl.training.step import Record, Run

LOG = "log.jsonl"
BOARD = "tensorboard"
LINE = {"step": fields.whole(0), "elapsed": fields.number(0)}
"""Fields of a line that a resumed run reads, and their rules."""
LARGEST_EXPONENT = 1000.0
"""Bits per token whose perplexity still is a number."""


class Line(NamedTuple):
    """A record of the log: means and sums are over the steps since the line before."""

    step: int
    epoch: float
    """Passes over the training text, without the tokens that fill no segment of a lane."""
    bits: float
    """Mean training loss in bits per token."""
    learning_rate: float
    """Learning rate of the last step."""
    gradient_norm: float
    """Norm of the last step's gradient, before clipping."""
    tokens_per_second: float
    """Tokens read by all processes together, per second of training steps: validation does not count."""
    elapsed: float
    """Seconds since the run began, without those between an interruption and its resume."""
    valid_bits: float | None = None
    """Bits per token on the validation text, if it was scored after this step."""
    valid_bits_at: dict[int, float] | None = None
    """Bits per token at each attention length of ``validate_attention_lens``."""
    perplexity: float | None = None
    """Perplexity of the mean training loss; None where it is too large for a number."""
    valid_perplexity: float | None = None
    """Perplexity on the validation text, if it was scored after this step."""
    valid_lanes: int | None = None
    """Lanes of the validation's subset. Scores of other lanes or tokens do not compare."""
    valid_tokens: int | None = None
    """Tokens of all these lanes together."""


Write = Callable[[Line], None]


class Meter:
    """Sums over the steps since the last line of the log, from which the next line is made."""

    def __init__(self, run: Run, *, steps_per_epoch: int, elapsed: float) -> None:
        settings = run.settings
        self.run = run
        self.tokens_per_epoch = steps_per_epoch * settings.batch * settings.seg_len
        self.began, self.tokens, self.seconds = time.monotonic() - elapsed, 0, 0.0

    def add(self, record: Record) -> None:
        """Count a step."""
        self.run.unlogged.steps += 1
        self.run.unlogged.bits += record.bits
        self.tokens += record.tokens
        self.seconds += record.seconds

    def line(self, record: Record) -> Line:
        """Return the line after this record's step, which was added, and begin to count anew."""
        unlogged = self.run.unlogged
        bits = unlogged.bits / unlogged.steps
        line = Line(
            record.step,
            self.run.tokens_read / self.tokens_per_epoch,
            bits,
            record.learning_rate,
            record.gradient_norm,
            self.tokens / max(self.seconds, 1e-9),
            time.monotonic() - self.began,
            record.valid_bits,
            record.valid_bits_at,
            perplexity(bits),
            perplexity(record.valid_bits),
            None if record.valid_subset is None else record.valid_subset.lanes,
            None if record.valid_subset is None else record.valid_subset.tokens,
        )
        unlogged.steps, unlogged.bits = 0, 0.0
        self.tokens, self.seconds = 0, 0.0
        return line


def perplexity(bits: float | None) -> float | None:
    """Return 2 to the power of the bits per token; None for None, and where no number can hold the result."""
    return None if bits is None or bits > LARGEST_EXPONENT else 2**bits


@contextmanager
def writing(folder: Path, *, after: int, tensorboard: bool = False) -> Iterator[Write]:
    """Write the lines of the steps after ``after``; what a run wrote beyond that step is dropped."""
    with _board(folder, after, tensorboard) as show:
        _cut(folder / LOG, after)
        with (folder / LOG).open("a", encoding="utf-8") as file:

            def write(line: Line) -> None:
                file.write(json.dumps(line._asdict()) + "\n")
                file.flush()
                show(line)

            yield write


def elapsed_until(folder: Path, step: int) -> float:
    """Return the seconds that the run had taken at the last line of the log up to ``step``."""
    records = [_record(line) for line in _lines(folder / LOG)]
    return max((record["elapsed"] for record in records if record and record["step"] <= step), default=0.0)


def unreadable(folder: Path) -> list[int]:
    """Return the numbers, from 1, of whole lines that are no record."""
    lines = _lines(folder / LOG)
    return [number for number, line in enumerate(lines, 1) if _record(line) is None and line.endswith("\n")]


def _cut(path: Path, step: int) -> None:
    """Remove what a killed process may have left: a last line cut off, records beyond the last checkpoint."""
    lines = _lines(path)
    remaining = [line for line in lines if _remains(line, step)]
    if remaining != lines or not path.exists():
        with atomic_write(path) as temporary:
            temporary.write_text("".join(remaining), "utf-8", "surrogateescape", "")


def _remains(line: str, step: int) -> bool:
    record = _record(line)
    return line.endswith("\n") and (record is None or record["step"] <= step)


def _lines(path: Path) -> list[str]:
    """Return the lines with their ends; bytes that are no UTF-8 are kept as they are."""
    if not path.exists():
        return []
    with plain_file(path).open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return file.readlines()


def _record(line: str) -> dict[str, Any] | None:
    """Return step and elapsed seconds of a line; None for one that is no record."""
    try:
        return fields.checked(json.loads(line), LINE, file=LOG, required=LINE)
    except (ValueError, RecursionError):
        return None


def summary_writer() -> Any:
    """Return TensorBoard's writer. Raise a ValueError where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard must be installed where it is asked for: pip install tensorboard"
        ) from None
    return SummaryWriter


@contextmanager
def _board(folder: Path, after: int, enabled: bool) -> Iterator[Write]:
    if not enabled:
        yield lambda line: None
        return
    with summary_writer()(str(folder / BOARD), purge_step=after + 1) as board:

        def show(line: Line) -> None:
            values = {
                "loss/training": line.bits,
                "loss/validation": line.valid_bits,
                "perplexity/training": line.perplexity,
                "perplexity/validation": line.valid_perplexity,
                "learning rate": line.learning_rate,
                "gradient norm": line.gradient_norm,
                "tokens per second": line.tokens_per_second,
                "epoch": line.epoch,
            } | {f"loss/attention {n}": bits for n, bits in (line.valid_bits_at or {}).items()}
            for name, value in values.items():
                if value is not None:
                    board.add_scalar(name, value, line.step)

        yield show
