"""Check of notebook 10b's ablation: settings of two trainings that differ in memory and in nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from minitxl.course.checker import Function, Verdict, judge, listed
from minitxl.course.differences import difference, equal, is_list
from minitxl.training.config import TrainConfig


def solution_pair(settings: TrainConfig, seed: int) -> tuple[TrainConfig, TrainConfig]:
    """Return the settings of a training with memory and of one without, both from this seed."""
    with_memory = replace(settings, seed=seed)
    return with_memory, replace(with_memory, mem_len=0)


class _Brief(TrainConfig):
    """Settings that write what differs from the defaults alone, and so fit into a message."""

    def __repr__(self) -> str:
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return f"TrainConfig({', '.join(f'{name}={it!r}' for name, it, usual in values if it != usual)})"


class _Fields(dict[str, Any]):
    """The settings of a training, by field."""


def _fields(one: object) -> object:
    """Return the fields of settings; a dict that an attempt returned becomes words, for it is none."""
    if isinstance(one, TrainConfig):
        return _Fields(asdict(one))
    return "a dict" if isinstance(one, dict) and not isinstance(one, _Fields) else one


def _by_field(function: Function) -> Function:
    """Return a function that gives the settings of a pair as dicts, to compare field by field."""

    def of_fields(settings: TrainConfig, seed: int) -> Any:
        result = listed(function)(settings, seed)
        if not is_list(result):
            return result
        return [_fields(one) for one in result]

    return of_fields


def _say(got: Any, expected: Any) -> str:
    """Return which fields of which of the two trainings are wrong."""
    if not is_list(got) or len(got) != len(expected) or not all(isinstance(one, Mapping) for one in got):
        return difference(got, expected)
    wrong = [
        f"{which}, {name} is {mine[name]!r}, right is {right[name]!r}"
        for which, mine, right in zip(("with memory", "without"), got, expected, strict=True)
        for name in right
        if not equal(mine[name], right[name])
    ]
    return "; ".join(wrong)


def check_pair(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(settings, seed)``: settings of the trainings with memory and without."""

    def changed(**by_field: Callable[[TrainConfig], Any]) -> Function:
        """Return a function whose training without memory differs in more."""

        def pair(settings: TrainConfig, seed: int) -> tuple[TrainConfig, TrainConfig]:
            with_memory, without = solution_pair(settings, seed)
            return with_memory, replace(without, **{name: of(settings) for name, of in by_field.items()})

        return pair

    def assigned(settings: Any, seed: int) -> Any:
        settings.seed = seed
        return settings, settings

    def with_length(length: Callable[[TrainConfig], int]) -> Function:
        return lambda settings, seed: solution_pair(replace(settings, mem_len=length(settings)), seed)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "turned around: return first the training with memory, then the one without": (
            lambda settings, seed: solution_pair(settings, seed)[::-1]
        ),
        "both have memory, so nothing differs: in the second, mem_len is 0": (
            lambda settings, seed: (replace(settings, seed=seed),) * 2
        ),
        "none of the two has memory: the first keeps the mem_len of settings": (
            lambda settings, seed: (replace(settings, seed=seed, mem_len=0),) * 2
        ),
        "the seed is not used: both trainings get it, or all your pairs are the same one": (
            lambda settings, seed: (settings, replace(settings, mem_len=0))
        ),
        "the two have different seeds, so they begin with different weights, and memory is not all that "
        "differs: both get seed": [
            lambda settings, seed: (settings, replace(settings, mem_len=0, seed=seed)),
            lambda settings, seed: (replace(settings, seed=seed), replace(settings, mem_len=0)),
            changed(seed=lambda settings: settings.seed + 1),
            lambda settings, seed: (
                replace(settings, seed=seed),
                replace(settings, mem_len=0, seed=seed + 1),
            ),
            lambda settings, seed: (
                replace(settings, seed=2 * seed),
                replace(settings, mem_len=0, seed=2 * seed + 1),
            ),
        ],
        "the segments are longer too, so two things differ, and the steps read other text: keep seg_len": [
            changed(seg_len=lambda settings: settings.seg_len + settings.mem_len),
            changed(seg_len=lambda settings: 2 * settings.seg_len),
        ],
        "that changes the segment and not the memory: the second has mem_len = 0, and seg_len as it was": [
            lambda settings, seed: (
                replace(settings, seed=seed),
                replace(settings, seed=seed, seg_len=settings.seg_len + settings.mem_len),
            ),
            lambda settings, seed: (
                replace(settings, seed=seed),
                replace(settings, seed=seed, seg_len=2 * settings.seg_len),
            ),
        ],
        "TrainConfig(…) begins with the defaults, and what settings says is lost: begin with "
        "replace(settings, …)": [
            lambda settings, seed: (TrainConfig(seed=seed), TrainConfig(seed=seed, mem_len=0)),
            lambda settings, seed: (
                TrainConfig(seed=seed, mem_len=settings.mem_len),
                TrainConfig(seed=seed, mem_len=0),
            ),
            lambda settings, seed: (replace(settings, seed=seed), TrainConfig(seed=seed, mem_len=0)),
        ],
        "the memory has a length of its own: keep the mem_len of settings": [
            with_length(lambda settings: 32),
            with_length(lambda settings: settings.seg_len),
        ],
        "settings are frozen, and can't be changed in place: replace(settings, …) makes a changed copy": (
            assigned
        ),
        "that is one training: return two, with memory and without": [
            lambda settings, seed: replace(settings, seed=seed),
            lambda settings, seed: replace(settings, seed=seed, mem_len=0),
        ],
        "return a pair, and not a dict": lambda settings, seed: dict(
            zip(("with memory", "without"), solution_pair(settings, seed), strict=True)
        ),
        "a dict of fields is no TrainConfig, which the training needs: replace(settings, …) makes one": [
            lambda settings, seed: tuple(map(asdict, solution_pair(settings, seed))),
            lambda settings, seed: (solution_pair(settings, seed)[0], {"mem_len": 0}),
            lambda settings, seed: ({"seed": seed}, solution_pair(settings, seed)[1]),
        ],
        "those are the two lengths of memory: return the settings of two trainings": (
            lambda settings, seed: (settings.mem_len, 0)
        ),
    }
    return judge(
        _by_field(attempt) if callable(attempt) else attempt,
        reference=_by_field(solution_pair),
        cases=[
            (_Brief(steps=300), 2),
            (_Brief(steps=300, batch=8, learning_rate=5e-3), 1),
            (_Brief(seg_len=16, mem_len=48, loss="half", seed=5), 0),
        ],
        mistakes={
            sentence: [_by_field(one) for one in ([wrong] if callable(wrong) else wrong)]
            for sentence, wrong in mistakes.items()
        },
        praise="memory is all that differs, and both begin with the same weights",
        names=["settings", "seed"],
        say=_say,
    )
