"""The progress bar of ``minitxl train``."""

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from minitxl.data.tokenizer import Tokenizer
from minitxl.training.checkpointed_loop import Report
from minitxl.training.metrics_log import Line, perplexity
from minitxl.training.step import Record, Run


@contextmanager
def bar(run: Run, tokenizer: Tokenizer, *, silent: bool) -> Iterator[Report]:
    """Yield a report that shows each step, and what each line of the log says."""
    steps = run.settings.steps
    with tqdm(desc="training", total=steps, initial=run.step, unit="step", disable=silent) as shown:
        valid: float | None = None

        def report(record: Record, line: Line | None) -> None:
            nonlocal valid
            if line is not None:
                valid = line.valid_bits if line.valid_bits is not None else valid
                averaged = run.model_to_evaluate is not run.model
                shown.set_postfix_str(described(line, valid, tokenizer, averaged=averaged), refresh=False)
            shown.update()

        yield report


def described(line: Line, valid: float | None, tokenizer: Tokenizer, *, averaged: bool = False) -> str:
    """Return the loss, the last validation's, the rate, the speed and the epoch of a line of the log.

    With ``averaged``, the validation was of the mean of the weights, and the loss is not.
    """
    of = "validation of averaged weights" if averaged else "validation"
    parts = [
        loss(line.bits, tokenizer),
        *([f"{of} {loss(valid, tokenizer)}"] if valid is not None else []),
        f"rate {line.learning_rate:.2g}",
        f"{line.tokens_per_second:,.0f} tokens/s",
        f"epoch {line.epoch:.2f}",
    ]
    return ", ".join(parts)


def loss(bits: float, tokenizer: Tokenizer) -> str:
    """Return the loss as people give it: perplexity for words, bits for bytes and characters."""
    value = perplexity(bits)
    if tokenizer.unit == "words" and value is not None:
        return f"perplexity {value:,.1f}"
    return f"{bits:.3f} bits per {tokenizer.token}"
