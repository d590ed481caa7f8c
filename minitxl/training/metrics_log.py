"""The log of a run: one JSON record a line and, on request, the same for TensorBoard."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minitxl.files import atomic_write
from minitxl.training.loop import Record

LOG = "log.jsonl"
BOARD = "tensorboard"
Write = Callable[[Record], None]


@contextmanager
def writing(folder: Path, *, after: int, tensorboard: bool = False) -> Iterator[Write]:
    """Write records of the steps after ``after``; what a run wrote beyond that step is dropped."""
    _cut(folder / LOG, after)
    with (folder / LOG).open("a", encoding="utf-8") as file, _board(folder, after, tensorboard) as show:

        def write(record: Record) -> None:
            file.write(json.dumps(record._asdict()) + "\n")
            file.flush()
            show(record)

        yield write


def _cut(path: Path, step: int) -> None:
    """Remove half a line, and lines beyond the last checkpoint, that a killed process may have left."""
    kept = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            if json.loads(line)["step"] > step:
                break
        except ValueError:
            break
        kept.append(f"{line}\n")
    with atomic_write(path) as temporary:
        temporary.write_text("".join(kept), "utf-8")


@contextmanager
def _board(folder: Path, after: int, wanted: bool) -> Iterator[Write]:
    if not wanted:
        yield lambda record: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard must be installed where it is asked for: pip install tensorboard"
        ) from None
    with SummaryWriter(str(folder / BOARD), purge_step=after + 1) as board:

        def show(record: Record) -> None:
            values = {
                "loss/training": record.bits,
                "loss/validation": record.valid_bits,
                "learning rate": record.learning_rate,
                "gradient norm": record.gradient_norm,
                "tokens per second": record.tokens / record.seconds,
            } | {f"loss/attention {n}": bits for n, bits in (record.valid_bits_at or {}).items()}
            for name, value in values.items():
                if value is not None:
                    board.add_scalar(name, value, record.step)

        yield show
