"""A run and its checkpoint: all that decides the next step, so a resumed run ends bit for bit the same."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minitxl import fields
from minitxl.arguments import check_kind
from minitxl.config import ModelConfig
from minitxl.memory import extend
from minitxl.training import checkpoints, distributed, loop
from minitxl.training.config import TrainConfig
from minitxl.training.run_info import RunInfo
from minitxl.training.step import Best, Run, Unlogged

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
"""AdamW's state of a parameter."""
DESCRIPTION = {
    "model": checkpoints.an_object,
    "train": checkpoints.an_object,
    "info": checkpoints.an_object,
    "step": fields.whole(0),
    "tokens": fields.whole(0),
    "best": checkpoints.an_object,
    "unlogged": checkpoints.an_object,
}
"""Values that the description of a run's checkpoint holds."""


class Description(NamedTuple):
    """A run as its checkpoint describes it."""

    config: ModelConfig
    settings: TrainConfig
    info: RunInfo
    step: int
    tokens_read: int
    best: Best
    unlogged: Unlogged


def describe(about: Mapping[str, Any], path: Path) -> Description:
    """Return what a run's checkpoint says of it. Raise a ValueError that names the file if it is no run's."""
    if "train" not in about:
        raise ValueError(f"{path} holds a model, and no run that could be resumed")
    values = fields.checked(about, DESCRIPTION, file=path, required=DESCRIPTION)
    return Description(
        checkpoints.model_config(values["model"], file=path),
        checkpoints.train_config(values["train"], file=path),
        fields.dataclass_from(RunInfo, values["info"], file=path),
        values["step"],
        values["tokens"],
        fields.dataclass_from(Best, values["best"], file=path),
        fields.dataclass_from(Unlogged, values["unlogged"], file=path),
    )


def described_in(path: Path) -> Description:
    """Return what a run's checkpoint says of it, before ``resume`` checks the digest of the whole."""
    return describe(checkpoints.described_in(path), path)


def save(run: Run, path: Path, info: RunInfo = RunInfo()) -> None:  # noqa: B008
    """Write the whole run, atomically. All processes call it, the first one writes."""
    tensors = checkpoints.model_tensors(check_kind("run", run, Run).model)
    for name, parameter in run.model.named_parameters():
        for moment, value in run.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{moment}.{name}"] = value
    for kind, state in run.random.items():
        tensors[f"random.{kind}"] = distributed.gathered(state[None], dim=0)
    if run.average is not None:
        tensors |= checkpoints.model_tensors(run.average.module, checkpoints.AVERAGE)
        tensors["averaged"] = run.average.n_averaged
    if run.memory is not None:
        tensors["memory"] = distributed.gathered(run.memory, dim=1)
    if distributed.rank() == 0:
        checkpoints.write(path, tensors, _about(run, info))


def save_best(run: Run, path: Path, info: RunInfo) -> None:
    """Write the model that is evaluated, without optimizer, memory and generators."""
    if distributed.rank() == 0:
        checkpoints.write(path, checkpoints.model_tensors(run.model_to_evaluate), _about(run, info))


def resume(
    path: Path,
    *,
    settings: TrainConfig | None = None,
    device: torch.device | str = "cpu",
    accumulate: int = 1,
) -> Run:
    """Return the run that ``save`` wrote, as it was: bit for bit if as many processes train as then.

    If more processes train now, the additional ones draw their dropout anew. If ``settings`` are given,
    they replace the run's own from the next step on: with a shorter ``mem_len`` the oldest tokens of its
    memory are dropped, and with another ``batch`` it goes on without memory.
    """
    tensors, about = read(path)
    described = describe(about, path)
    own = described.settings
    settings = own if settings is None else settings
    run = loop.start(described.config, settings, device=device, accumulate=accumulate)
    run.step, run.tokens_read = described.step, described.tokens_read
    run.best, run.unlogged = described.best, described.unlogged
    with fields.naming(path):
        _copy_state(tensors, run, with_memory=settings.batch == own.batch)
    return run


def read(path: Path) -> tuple[checkpoints.Tensors, dict[str, Any]]:
    """Return tensors and description of a run's checkpoint; the error for a damaged one says how to go on."""
    try:
        return checkpoints.read(path)
    except ValueError as error:
        raise ValueError(f"{error}; if you delete it, the run resumes from the checkpoint before") from error


def _copy_state(tensors: checkpoints.Tensors, run: Run, *, with_memory: bool) -> None:
    checkpoints.copy_model_tensors(tensors, run.model)
    for name, parameter in run.model.named_parameters():
        state = {m: tensors[f"optimizer.{m}.{name}"] for m in MOMENTS if f"optimizer.{m}.{name}" in tensors}
        if state:
            run.optimizer.state[parameter] = {m: value.to(run.device) for m, value in state.items()}
    if "memory" in tensors and with_memory:
        memory = tensors["memory"][:, distributed.share(run.settings.batch)].to(run.device)
        # ``extend`` also copies it out of the file's buffer. A product's rounding depends on where its
        # numbers begin in RAM, and a resumed run has to round as one that was not interrupted.
        run.memory = extend(None, memory, mem_len=run.settings.mem_len)
    if run.average is not None and "averaged" in tensors:
        checkpoints.copy_model_tensors(tensors, run.average.module, checkpoints.AVERAGE)
        run.average.n_averaged.copy_(tensors["averaged"])
    for kind in run.random:
        by_rank = tensors.get(f"random.{kind}", torch.empty(0))
        if distributed.rank() < len(by_rank):
            run.random[kind] = by_rank[distributed.rank()].clone()


def _about(run: Run, info: RunInfo) -> dict[str, Any]:
    return {
        "model": asdict(run.model.config),
        "train": asdict(run.settings),
        "info": asdict(info),
        "best": asdict(run.best),
        "unlogged": asdict(run.unlogged),
        "step": run.step,
        "tokens": run.tokens_read,
    }
