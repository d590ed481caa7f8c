"""Trainers with the bugs that the checks of notebook 10 know, and what is said of each."""

from collections.abc import Callable, Iterable, Set
from math import log
from typing import Any

import torch
from einops import pack
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from minitxl.data.batching import Segment
from minitxl.memory import extend
from minitxl.model import TransformerLM

Trainer = Callable[..., list[float]]
BUGS = {
    "graph": "memory carries its graph into the next step, so backward wants a graph that is gone",
    "rate": "the rate is set after the step, so the first step runs at the peak and each other one step late",
    "clip": "gradients are not clipped, or before backward has made them: then zeros are",
    "rows": "rows change places, so each reads the memory of another: row b must go on in row b",
}
"""The bugs that can be in the exercise's trainer, and why each matters."""
OTHERS = {
    "none": "memory stays None at each step: hand it to token_losses, and hand on what extend returns",
    "still": "the weights stay as they are: zero_grad, then backward, then optimizer.step()",
    "unset": "the rate is never set, and stays what the optimizer was built with: set it before the step",
    "swapped": "the new states stand before the old ones in memory: the oldest come first, and are forgotten",
    "replaced": "memory is replaced by the segment's states: where mem_len > seg_len, some of the old stays",
    "added": "gradients of the steps before are added up: set them to zero before each backward",
    "group": "the rate is set in the optimizer's first group alone: each group of parameters has its own",
    "sum": "the loss is a sum over tokens: take the mean, or the rate means something else at each size",
    "bits": "the loss is in bits, and nats are to be returned: don't divide by log 2",
    "half": "that is the mean over the later half alone: the loss is that over the whole segment",
    "last": "that is the loss of the last token alone: the loss is the mean over the whole segment",
    "row sum": "that is a mean over tokens summed over rows: take the mean over both",
    "token sum": "that is a mean over rows summed over tokens: take the mean over both",
    "multiplied": "the rate is multiplied into the old one, and shrinks from step to step: set it, with =",
    "late loss": "the loss that you return is that after the step: return the one that backward is called on",
    "late states": "memory is made of states that were computed anew after the step: take those that came "
    "with the loss",
    "late": "loss and states are computed anew after the step: return those from before it",
    "value": "clip_grad_value_ cuts each entry and turns the gradient: clip_grad_norm_ shortens it",
    "each": "each weight's gradient is clipped by itself: hand clip_grad_norm_ all of them in one call",
}
"""Bugs that can come in while those are mended."""
UNCLIPPED = {
    "backward sum": "the gradient is that of a sum, which clipping hides: call backward on the mean",
    "backward bits": "the gradient is that of bits, which clipping hides: call backward on nats",
    "rescaled": "a gradient shorter than clip is made longer: multiply by min(1, clip / norm)",
}
"""Bugs that show only where the gradient is shorter than the limit."""
LATE = ("late loss", "late states", "late")
"""Keys of ``OTHERS`` whose trainer reads the segment again after its step."""


def with_bugs(bugs: Set[str]) -> Trainer:
    """Return the trainer that has these bugs, and no other."""

    def train(
        model: TransformerLM, segments: list[Segment], rates: list[float], *, mem_len: int, clip: float
    ) -> list[float]:
        optimizer = in_two_groups(model)
        clip_gradient = clip_grad_value_ if "value" in bugs else clip_grad_norm_
        memory: Tensor | None = None
        losses = []
        for segment, rate in zip(segments, rates, strict=True):
            rows = torch.randperm(len(segment.tokens)) if "rows" in bugs else slice(None)
            by_token, states = model.token_losses(segment.tokens[rows], segment.targets[rows], memory)
            by_token = by_token[:, by_token.shape[1] // 2 :] if "half" in bugs else by_token
            by_token = by_token[:, -1:] if "last" in bugs else by_token
            loss = by_token.mean() * _too_many(by_token, bugs)
            loss = loss / log(2) if "bits" in bugs else loss
            if "added" not in bugs:
                optimizer.zero_grad()
            if "clip" in bugs:
                clip_grad_norm_(model.parameters(), clip)
            descended = by_token.sum() if "backward sum" in bugs else loss
            (descended / log(2) if "backward bits" in bugs else descended).backward()
            if "rescaled" in bugs:
                _rescale(model, clip)
            elif "clip" not in bugs:
                whole = [[p] for p in model.parameters()] if "each" in bugs else [list(model.parameters())]
                for parameters in whole:
                    clip_gradient(parameters, clip)
            groups = optimizer.param_groups[: 1 if "group" in bugs else 2]
            if not bugs & {"rate", "unset"}:
                _set_rate(groups, rate * optimizer.param_groups[0]["lr"] if "multiplied" in bugs else rate)
            if "still" not in bugs:
                optimizer.step()
            if "rate" in bugs:
                _set_rate(groups, rate)
            if bugs & set(LATE):
                with torch.no_grad():
                    later, later_states = model.token_losses(
                        segment.tokens[rows], segment.targets[rows], memory
                    )
                loss = loss if "late states" in bugs else later.mean()
                states = states if "late loss" in bugs else later_states
            before = None if "replaced" in bugs else memory
            if "swapped" in bugs and before is not None:
                memory = _attached(states, before, mem_len=mem_len).detach()
            else:
                memory = (_attached if "graph" in bugs else extend)(before, states, mem_len=mem_len)
            memory = None if "none" in bugs else memory
            losses.append(loss.item())
        return losses

    return train


def _too_many(by_token: Tensor, bugs: Set[str]) -> int:
    """Return by how much a loss with one of these bugs is larger than the mean."""
    n_row, n_token = by_token.shape
    times = {"sum": by_token.numel(), "row sum": n_row, "token sum": n_token}
    return next((times[bug] for bug in times if bug in bugs), 1)


def _rescale(model: TransformerLM, norm: float) -> None:
    """Bring the gradient to this norm, also where it is shorter."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    length = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(norm / length)


def _set_rate(groups: Iterable[dict[str, Any]], rate: float) -> None:
    for group in groups:
        group["lr"] = rate


def _attached(memory: Tensor | None, states: Tensor, *, mem_len: int) -> Tensor:
    """``extend`` with its graph."""
    joined = states if memory is None else pack([memory, states], "layer batch * model")[0]
    return joined[:, :, -mem_len:]


def in_two_groups(model: TransformerLM) -> torch.optim.SGD:
    """Return plain SGD whose parameters stand in two groups, as those of the package's AdamW do."""
    matrices, others = ([p for p in model.parameters() if (p.ndim > 1) is many] for many in (True, False))
    return torch.optim.SGD([{"params": matrices}, {"params": others}], lr=1.0)
