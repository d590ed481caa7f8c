"""The loop over training steps, with validation: a ``Run`` is started, stepped and scored.

    run = start(model_config, settings)
    for record in train_steps(run, segments): ...

What a step does, and what a run holds, is in ``step``. Under ``torchrun`` each process has a run of its own,
with the same parameters and its own lanes.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from minitxl.arguments import check_kind
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.fast import to_fast
from minitxl.fast.bfloat16 import check_precision
from minitxl.fast.kv_cache.heads import check_attentions
from minitxl.model import TransformerLM
from minitxl.training import distributed, validation
from minitxl.training.config import TrainConfig
from minitxl.training.loss import new_segment_loss
from minitxl.training.optimizer import adamw
from minitxl.training.step import Record, Run, cuda_index, random_state, train_step


def start(
    config: ModelConfig,
    settings: TrainConfig,
    *,
    device: torch.device | str = "cpu",
    accumulate: int = 1,
    build: Callable[[ModelConfig], TransformerLM] = TransformerLM,
) -> Run:
    """Return a run at step 0. ``settings.seed`` decides its first parameters, and later its dropout.

    A step takes its lanes in ``accumulate`` parts, one after another: more parts need less RAM for
    activations. Each part draws its own dropout; without dropout the gradient is the same to rounding.
    ``build`` makes the model from its configuration, for a model that differs from ``TransformerLM``.
    """
    check_kind("config", config, ModelConfig)
    check_kind("settings", settings, TrainConfig)
    device = torch.device(device)
    check_precision(settings.precision, device)
    distributed.share(settings.batch, parts=accumulate)  # refuses a batch that can't be divided evenly
    with torch.random.fork_rng(devices=cuda_index(device)):
        torch.manual_seed(settings.seed)
        model = to_fast(build(config)).to(device)
        if distributed.rank():
            torch.manual_seed(settings.seed + (distributed.rank() << 32))
        random = random_state(device)
    optimizer = adamw(model, settings)
    average = None if settings.average_from is None else AveragedModel(model)
    segment_loss = new_segment_loss(model.train(), settings, accumulate)
    return Run(
        model,
        optimizer,
        settings,
        step=0,
        memory=None,
        random=random,
        average=average,
        segment_loss=segment_loss,
        accumulate=accumulate,
    )


def train_steps(run: Run, segments: ContiguousBatches, valid: Tensor | None = None) -> Iterator[Record]:
    """Train until ``settings.steps`` steps are done, and yield the record of each.

    Whenever a record is yielded, the run is in a consistent state and may be saved.

    A validation text, if given, is scored every ``validate_every`` steps and after the last.
    """
    settings = check_kind("run", run, Run).settings
    check_kind("segments", segments, ContiguousBatches)
    shape = len(segments.lanes), segments.seg_len
    n_lane, seg_len = settings.batch // distributed.size(), settings.seg_len  # this process's lanes
    if shape != (n_lane, seg_len):
        raise ValueError(
            f"segments must be those of the run, {n_lane} lanes of {seg_len}, got {shape[0]} of {shape[1]}"
        )
    if valid is not None:
        check_attentions(run.model)  # validation uses the key-value cache
    while run.step < settings.steps:
        record = train_step(run, segments)
        if valid is not None and is_due(run, settings.validate_every):
            longer = {length: validate(run, valid, length) for length in settings.validate_attention_lens}
            record = record._replace(
                valid_bits=validate(run, valid),
                valid_bits_at=longer or None,
                valid_subset=validation.subset_of(valid, settings),
            )
        yield record


def is_due(run: Run, every: int) -> bool:
    """Return True at step 0, at each multiple of ``every``, and at the last step."""
    return run.step % every == 0 or run.step == run.settings.steps


def validate(run: Run, stream: Tensor, attention_len: int | None = None) -> float:
    """Return bits per token of ``run.model_to_evaluate`` on a subset of ``stream`` (``validation``)."""
    return validation.validate(run.model_to_evaluate, stream, run.settings, attention_len)
