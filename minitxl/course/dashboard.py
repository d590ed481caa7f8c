"""Training to watch: four panels redrawn while it runs, a progress bar, and a button that stops it.

    dashboard = Dashboard(run, segments, corpus.valid, every=25)
    display(dashboard)
    dashboard.start()            # returns at once
    await dashboard.finished()   # until the run is done or was stopped

A kernel that runs a cell hears no button, so training has a thread of its own. It stops after a
whole step: the run can be evaluated, saved, or started again. Until then leave the run, and
torch's global random state, alone.
"""

import asyncio
from collections.abc import Callable, Iterator
from html import escape
from math import log
from statistics import mean
from threading import Event, Thread
from typing import Any

import ipywidgets as ipw
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from minitxl.analysis.context_length import mean_change, memory_changes
from minitxl.attention import AttentionOptions
from minitxl.course.widgets import image, with_fallback
from minitxl.data.batching import ContiguousBatches
from minitxl.fast import fast_evaluation
from minitxl.figures import Picture
from minitxl.figures.training.progress import progress
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.training import loop
from minitxl.training.step import Record, Run

PROBE_LANES, PROBE_SEGMENTS = 32, 3
"""The probe: lanes, and segments of each that are scored, once its memory is full."""
WORTH = 0.002
"""Bits per token; a model that has learned nothing also makes something, though less, of its memory."""
Training = Callable[[Run, ContiguousBatches, Tensor], Iterator[Record]]
LOOKED_AT = 4
"""Lanes of the probe whose attention is shown."""


class Dashboard:
    """A run with its picture. Every ``every`` steps it shows, in this order:

    - loss: bits per token of training, mean since the last picture, and of validation;
    - attention: the mean weight by distance in each layer, and the share that memory gets;
    - learned reach: what hiding a band of memory's ages costs in bits. The reach is at least the youngest
      age of the oldest band whose cost is, with 95 % confidence, above ``WORTH``, counted from the segment's
      first token. An older one may cost something too that the probe is too small to show;
    - cost: microseconds that a training step takes per token.

    Attention and reach are measured on a probe, a few segments from the start of ``valid``:
    cheap enough to repeat, and noisier than ``minitxl.analysis.context_length`` is on a whole text.

    ``train`` yields the record of each step, whose run may then be looked at: another one than the
    package's trains with a step of the reader's own.
    """

    def __init__(
        self,
        run: Run,
        segments: ContiguousBatches,
        valid: Integer[Tensor, " time"],
        *,
        every: int = 25,
        train: Training = loop.train_steps,
    ) -> None:
        if every < 1:
            raise ValueError(f"every must be 1 step or more, got {every}")
        self.run, self.segments, self.valid, self.every, self._steps = run, segments, valid, every, train
        s = run.settings
        self._memory = s.evaluation
        self._probe = valid[: PROBE_LANES * ((-(-s.mem_len // s.seg_len) + PROBE_SEGMENTS) * s.seg_len + 1)]
        self._records: list[Record] = []
        self._thread: Thread | None = None
        self._asked_to_stop = Event()
        self._error: BaseException | None = None
        self.data: dict[str, Any] = {
            "steps": s.steps,
            "training": {"step": [], "bits": []},
            "validation": {"step": [], "bits": []},
            "cost": {"step": [], "microseconds": []},
        }
        """The data of the picture."""
        self.bar = ipw.IntProgress(value=run.step, max=s.steps, layout={"width": "50%"})
        self.button = ipw.Button(tooltip="Stop after this step, or go on")
        self.button.on_click(self._clicked)
        self.words, self.image = ipw.HTML(), ipw.HTML()
        self.box = ipw.VBox([ipw.HBox([self.bar, self.button, self.words]), self.image])
        self._redraw()
        self._show("Start")

    @property
    def running(self) -> bool:
        """True while training runs or is about to."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Train from where the run stands, in the background. While it trains, this does nothing."""
        if self.running:
            return
        self._asked_to_stop.clear()
        self._error = None
        self._show("Stop")
        self._thread = Thread(target=self._train, name="dashboard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step, and return once it is done."""
        self._asked_to_stop.set()
        if self._thread is not None:
            self._thread.join()

    async def finished(self) -> None:
        """``wait``, awaited: meanwhile the kernel hears the button."""
        try:
            while self.running:
                await asyncio.sleep(0.05)
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.stop()
            raise
        self.wait()

    def wait(self) -> None:
        """Return when training is done or stopped; raise what went wrong in it. Ctrl-C stops it.

        The kernel hears no button until then.
        """
        try:
            if self._thread is not None:
                self._thread.join()
        except KeyboardInterrupt:
            self.stop()
            raise
        if self._error is not None:
            raise self._error

    def _clicked(self, _: ipw.Button) -> None:
        if self.running:
            self._asked_to_stop.set()
        else:
            self.start()

    def _train(self) -> None:
        try:
            for record in self._steps(self.run, self.segments, self.valid):
                self._keep(record)
                if self._asked_to_stop.is_set():
                    break
                if self.run.step % self.every == 0 and self.run.step < self.run.settings.steps:
                    self._redraw()
            self._redraw()
            self._show("Go on")
        except BaseException as error:
            self._error = error
            self._show("Go on", f"{type(error).__name__}: {error}")

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        if record.valid_bits is not None:
            self.data["validation"]["step"].append(record.step)
            self.data["validation"]["bits"].append(record.valid_bits)
        self.bar.value = record.step

    def _redraw(self) -> None:
        """Measure, and draw all that is known."""
        data, records, step = self.data, self._records, self.run.step
        if records:
            seconds, tokens = (sum(getattr(one, name) for one in records) for name in ("seconds", "tokens"))
            points = {
                "training": ("bits", mean(one.bits for one in records)),
                "cost": ("microseconds", 1e6 * seconds / tokens),
            }
            for panel, (what, value) in points.items():
                data[panel]["step"].append(step)
                data[panel][what].append(value)
            records.clear()
        data["step"], data["tokens"] = step, step * self.segments.lanes.shape[0] * self.segments.seg_len
        data["attention"] = attention(self.run.model, self._probe, self._memory)
        data["reach"] = learned_reach(self.run.model, self._probe, self._memory)
        self.drawn: Picture = progress(data)
        self.image.value = image(self.drawn)

    def _show(self, action: str, trouble: str = "") -> None:
        """Update the button's label and the state of the run."""
        step, steps = self.run.step, self.run.settings.steps
        self.button.description, self.button.disabled = action, step >= steps
        if trouble:
            self.words.value = f"<b>{escape(trouble)}</b>"
        elif step >= steps:
            self.words.value = "done"
        else:
            self.words.value = f"stopped after {step:,} of {steps:,} steps" if action == "Go on" else ""

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return with_fallback(self.box, self.drawn, **kwargs)


def attention(
    model: TransformerLM, text: Integer[Tensor, " time"], settings: EvaluateConfig
) -> dict[str, Any]:
    """Mean weight by distance of each layer, over heads and the queries that see so far; memory's share."""
    weights = _weights(model, text, settings)
    query, key = weights.shape[-2:]
    away = torch.arange(key - query, key)[:, None] - torch.arange(key)
    means = weights.mean(dim=(1, 2)).cpu()
    reached = range(min(key, max(settings.mem_len, query - 1) + 1, settings.window or key))
    return {
        "layers": [[layer[away == distance].mean().item() for distance in reached] for layer in means],
        "memory_share": weights[..., : key - query].sum(dim=-1).mean().item(),
    }


def _weights(
    model: TransformerLM, text: Integer[Tensor, " time"], settings: EvaluateConfig
) -> Float[Tensor, "layer batch head query key"]:
    """Return the weights in each lane's last segment."""
    segments = ContiguousBatches(
        text.to(next(model.parameters()).device), batch=PROBE_LANES, seg_len=settings.seg_len
    )
    options: AttentionOptions = {"window": settings.window, "clamp_len": settings.clamp_len}
    memory = None
    with fast_evaluation(model) as model:
        for index in range(len(segments) - 1):
            _, states = model.last_hidden(segments[index].tokens[:LOOKED_AT], memory, **options)
            memory = extend(memory, states, mem_len=settings.mem_len)
        return model.attention_weights(segments[len(segments) - 1].tokens[:LOOKED_AT], memory, **options)


def learned_reach(
    model: TransformerLM, text: Integer[Tensor, " time"], settings: EvaluateConfig
) -> dict[str, Any]:
    """Return bits per token that hiding memory of each band of ages costs, and the reach that this shows.

    The states of a band are hidden together. Where that surely costs ``WORTH`` bits, some of them are used,
    so the reach is at least the youngest age of the oldest such band.
    """
    ends = sorted({settings.mem_len >> halvings for halvings in range(4)} - {0})
    bands = []
    for before, end in zip([0, *ends], ends, strict=False):
        ages = (before + 1, end)
        changes = memory_changes(model, text, settings, ages=ages, how="hide", batch=PROBE_LANES)
        interval = mean_change(changes / log(2))
        bands.append({"ages": list(ages), **interval._asdict(), "costs": interval.low > WORTH})
    reach = max((band["ages"][0] for band in bands if band["costs"]), default=0)
    return {"bands": bands, "tokens": reach, "worth": WORTH}
