"""Checks of notebook 10: the training step, and the trainer with planted bugs."""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain, combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from minitxl.config import ModelConfig
from minitxl.course.checker import Verdict, copies_of
from minitxl.course.checks.training_bugs import (
    BUGS,
    OTHERS,
    UNCLIPPED,
    Trainer,
    in_two_groups,
    with_bugs,
)
from minitxl.course.differences import difference, equal
from minitxl.data.batching import Segment
from minitxl.memory import extend
from minitxl.model import TransformerLM

KEEPS_ALL = (
    "with mem_len = 0 there has to be no memory, and [:, :, -mem_len:] is then [:, :, -0:], which keeps "
    "everything: use extend, or count what is to be dropped from the front"
)
"""The sentence for a step that is right only where there is a memory."""
BY_NAME = "check_trainer(…, name_bugs=True) names them"
LOOSE = 50.0
"""A limit that no gradient of the task reaches."""
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
        optimizer, memory, losses = in_two_groups(model), None, []
        optimizer.register_step_post_hook(lambda *_: steps_of_optimizer.append(True))
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

    with_graph, other_results, steps_of_optimizer = list[bool](), list[Any](), list[bool]()
    verdict = check_trainer(train, name_bugs=True)
    if other_results:
        match other_results[0]:
            case (Tensor(ndim=2), _):
                return Verdict(False, "that is the loss of each character: return their mean, one number")
        return Verdict(False, "return two things, first the loss and then the memory")
    if verdict.right and not steps_of_optimizer:
        return Verdict(
            False,
            "these weights are right, but not changed by the optimizer: call optimizer.step(), for others, "
            "such as Adam, step otherwise",
        )
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


_known_task = cache(_task)
"""The task of our own trainers, which leave it as it is."""


def _outcome(
    trainer: Trainer, task: Mapping[str, Any], *, mem_len: int = 6, clip: float = 0.5
) -> tuple[Any, list[Tensor]]:
    """Return the trainer's losses and the weights it leaves, or its error about an older graph."""
    with torch.random.fork_rng(devices=[]):
        (model,) = copies_of([task["model"]]).values()
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
    return _outcome(with_bugs(bugs), _known_task(steps), mem_len=mem_len, clip=clip)


def _close(one: tuple[Any, list[Tensor]], other: tuple[Any, list[Tensor]]) -> bool:
    try:
        torch.testing.assert_close(one[0], other[0])  # first the losses: few numbers tell most trainers apart
        torch.testing.assert_close(one[1], other[1])
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
