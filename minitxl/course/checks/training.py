"""Checks of notebook 10: the training step, and the trainer with planted bugs."""

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from itertools import chain, combinations
from math import log
from typing import Any

import torch
from einops import pack
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from minitxl.config import ModelConfig
from minitxl.course.differences import difference, equal
from minitxl.course.verdicts import Verdict
from minitxl.data.batching import Segment
from minitxl.memory import extend
from minitxl.model import TransformerLM

Trainer = Callable[..., list[float]]
BUGS = {
    "graph": "memory carries its graph into the next step, so backward wants a graph that is gone",
    "rate": "the rate is set after the step, so the first step runs at the peak and each other one step late",
    "clip": "gradients are not clipped, or before backward has made them: then zeros are",
    "rows": "rows change places, so each reads the memory of a stranger: row b must go on in row b",
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
KEEPS_ALL = (
    "with mem_len = 0 there has to be no memory, and [:, :, -mem_len:] is then [:, :, -0:], which keeps "
    "everything: use extend, or count what is to be dropped from the front"
)
"""The sentence for a step that is right only where there is a memory."""
BY_NAME = "check_trainer(…, name_bugs=True) names them"
LOOSE = 50.0
"""A limit that no gradient of the task reaches."""
LATE = ("late loss", "late states", "late")
"""Those of the others in which the segment is read again after the step."""
GONE = "the graph is gone"
"""The outcome of a trainer that stops because of the first of them."""


def check_trainer(attempt: Trainer, *, name_bugs: bool = False) -> Verdict:
    """Return the verdict on which planted bugs ``attempt(model, segments, rates, mem_len=, clip=)`` has.

    Without ``name_bugs`` they are counted and not named, for a learner who looks for them.
    """
    many = _task(steps=4)
    try:
        after_one, after_many = _outcome(attempt, _task(steps=1)), _outcome(attempt, many)
    except NotImplementedError:
        return Verdict.of_nothing()
    except Exception as error:
        return Verdict(False, f"it raised {type(error).__name__}: {error}")
    if _close(after_many, _of_bugs(frozenset(), 4)):
        try:
            unremembered = _outcome(attempt, many, mem_len=0)
        except Exception as error:
            return Verdict(False, f"with mem_len = 0, it raised {type(error).__name__}: {error}")
        if not _close(unremembered, _of_bugs(frozenset(), 4, mem_len=0)):
            return Verdict(False, KEEPS_ALL)
        loose = _outcome(attempt, many, clip=LOOSE)
        if not _close(loose, _of_bugs(frozenset(), 4, clip=LOOSE)):
            seen = (bug for bug in UNCLIPPED if _close(loose, _of_bugs(frozenset({bug}), 4, clip=LOOSE)))
            why = "the weights are wrong where the gradient is shorter than clip: it stays as it is there"
            return Verdict(False, UNCLIPPED.get(next(seen, ""), why))
        return Verdict(True, "all four are gone, and every weight is as it should be after each step")
    planted = [frozenset[str](), *_subsets(BUGS)]
    for bugs in [*planted[1:], *(some | {other} for some in planted for other in OTHERS)]:
        if _close(after_one, _of_bugs(bugs, 1)) and _close(after_many, _of_bugs(bugs, 4)):
            stops = "graph" in bugs
            hidden = (
                "it stops at step 2, so others may be out of sight: look again once it runs" if stops else ""
            )
            new = [why for bug, why in OTHERS.items() if bug in bugs]
            number = len(bugs & set(BUGS))
            least = "at least " if stops else ""
            counted = [f"{least}{number} of the four can be seen, and {BY_NAME}"] if number else []
            reasons = [why for bug, why in BUGS.items() if bug in bugs] if name_bugs else counted
            return Verdict(False, f"still there: {'; '.join(filter(None, [*reasons, *new, hidden]))}")
    return Verdict(False, _where(after_many, _of_bugs(frozenset(), 4)))


def _where(got: tuple[Any, list[Tensor]], expected: tuple[Any, list[Tensor]]) -> str:
    """Say at which step the losses differ first, or that the weights do."""
    if not equal(got[0], expected[0]):
        of_losses = f"of the losses, {difference(got[0], expected[0])}"
        first = not equal(got[0][:1], expected[0][:1]) if isinstance(got[0], list) else True
        where = (
            "how the loss is made" if first else "the update of the step before, or the memory it hands on"
        )
        return f"{of_losses}: look at {where}"
    return "the losses are right, and the weights after the last step are not: look at the update"


def solution_training_step(
    model: TransformerLM,
    optimizer: torch.optim.Optimizer,
    segment: Segment,
    memory: Float[Tensor, "layer batch mem model"] | None,
    rate: float,
    mem_len: int,
    clip: float,
) -> tuple[float, Float[Tensor, "layer batch new_mem model"]]:
    """Take one step on a segment; return its loss and the memory of the next."""
    losses, states = model.token_losses(segment.tokens, segment.targets, memory)
    loss = losses.mean()
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), clip)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return loss.item(), extend(memory, states, mem_len=mem_len)


def check_training_step(attempt: Any) -> Verdict:
    """Check ``attempt(model, optimizer, segment, memory, rate, mem_len, clip)``: loss, and new memory.

    It is tried over four segments in a row, and the losses and all weights are compared.
    """
    if attempt is None or attempt is Ellipsis:
        return Verdict.of_nothing()

    def train(
        model: TransformerLM, segments: list[Segment], rates: list[float], *, mem_len: int, clip: float
    ) -> list[float]:
        optimizer, memory, losses = _in_two_groups(model), None, []
        for segment, rate in zip(segments, rates, strict=True):
            result = attempt(model, optimizer, segment, memory, rate, mem_len, clip)
            if result is None or result is Ellipsis:
                raise NotImplementedError
            if not _is_loss_and_memory(result):
                other_results.append(result)
                raise TypeError("not a loss and a memory")
            loss, memory = result
            if isinstance(loss, Tensor):
                with_graph.append(loss.requires_grad)
                loss = loss.item()
            losses.append(float(loss))
        return losses

    with_graph, other_results = list[bool](), list[Any]()
    verdict = check_trainer(train, name_bugs=True)
    if other_results:
        return Verdict(False, "return two things, first the loss and then the memory")
    if verdict.right and with_graph:
        consequence = "which keeps the graph of the whole step" if any(with_graph) else "and not a number"
        return Verdict(False, f"the loss that you return is a tensor, {consequence}: return loss.item()")
    if verdict.right or verdict.blank:
        return Verdict(True, "every loss and every weight is as it should be") if verdict.right else verdict
    return Verdict(False, verdict.message.removeprefix("still there: "))


def _is_loss_and_memory(result: Any) -> bool:
    """Return True for a number and a memory, or what may be one; a memory's tensor has many numbers."""
    return (
        isinstance(result, tuple | list)
        and len(result) == 2
        and isinstance(result[0], int | float | Tensor)
        and not (isinstance(result[0], Tensor) and result[0].numel() > 1)
    )


def _in_two_groups(model: TransformerLM) -> torch.optim.SGD:
    """Return plain SGD whose parameters stand in two groups, as those of the package's AdamW do."""
    matrices, others = ([p for p in model.parameters() if (p.ndim > 1) is many] for many in (True, False))
    return torch.optim.SGD([{"params": matrices}, {"params": others}], lr=1.0)


def _task(steps: int) -> dict[str, Any]:
    """Return a model, the segments it is trained on, and how."""
    generator = torch.Generator().manual_seed(10)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(10)
        config = ModelConfig(11, n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=16, dropout=0.0)
        model = TransformerLM(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.ndim > 1 else 1)
    stream = torch.randint(11, (3, 5 * steps + 1), generator=generator)
    pieces = zip(stream[:, :-1].split(5, dim=1), stream[:, 1:].split(5, dim=1), strict=True)
    rates = [0.1 * step for step in range(1, steps + 1)]
    return {"model": model, "segments": [Segment(*piece) for piece in pieces], "rates": rates}


def _outcome(
    trainer: Trainer, task: Mapping[str, Any], *, mem_len: int = 6, clip: float = 0.5
) -> tuple[Any, list[Tensor]]:
    """Return the trainer's losses and the weights it leaves, or its error about an older graph."""
    with torch.random.fork_rng(devices=[]):
        model = TransformerLM(task["model"].config).double()
        model.load_state_dict(task["model"].state_dict())
        torch.manual_seed(1)
        returned: Any = GONE
        try:
            returned = trainer(model, list(task["segments"]), list(task["rates"]), mem_len=mem_len, clip=clip)
        except RuntimeError as error:
            if "backward through the graph" not in str(error) and "inplace operation" not in str(error):
                raise
    return returned, [parameter.detach() for parameter in model.parameters()]


@cache
def _of_bugs(
    bugs: frozenset[str], steps: int, *, mem_len: int = 6, clip: float = 0.5
) -> tuple[Any, list[Tensor]]:
    """Return the outcome of the trainer with these bugs, which every attempt is compared with."""
    return _outcome(_with_bugs(bugs), _task(steps), mem_len=mem_len, clip=clip)


def _close(one: tuple[Any, list[Tensor]], other: tuple[Any, list[Tensor]]) -> bool:
    try:
        torch.testing.assert_close(one[1], other[1])
        torch.testing.assert_close(one[0], other[0])
    except (AssertionError, TypeError, ValueError):
        return bool(one[0] == other[0] == GONE)
    return True


def _subsets(names: Iterable[str]) -> list[frozenset[str]]:
    """Return all of them, small ones first."""
    names = list(names)
    return [
        frozenset(one)
        for one in chain.from_iterable(combinations(names, n) for n in range(1, len(names) + 1))
    ]


def _with_bugs(bugs: Set[str]) -> Trainer:
    """Return the trainer that has these bugs, and no other."""

    def train(
        model: TransformerLM, segments: list[Segment], rates: list[float], *, mem_len: int, clip: float
    ) -> list[float]:
        optimizer = _in_two_groups(model)
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
