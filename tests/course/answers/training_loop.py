"""Notebook 10: the loop over all steps of a training."""

from itertools import count, cycle, islice

from minitxl.course.checks import training_loop


def by_number(run, segments, take_step, rate_of):
    """Number the steps from 1, and drop the memory where a pass begins."""
    for number in range(run.step + 1, run.settings.steps + 1):
        index = (number - 1) % len(segments)
        if not index:
            run.memory = None
        run.step, (loss, run.memory) = number, take_step(segments[index], run.memory, rate_of(number))
        yield loss


def by_passes(run, segments, take_step, rate_of):
    """Read pass after pass, the first of them from where the run stands."""
    while run.step < run.settings.steps:
        begin = run.step % len(segments)
        run.memory = run.memory if begin else None
        for segment in list(segments)[begin:]:
            run.step += 1
            loss, run.memory = take_step(segment, run.memory, rate_of(run.step))
            yield loss
            if run.step == run.settings.steps:
                return


def by_cycle(run, segments, take_step, rate_of, *, drops=True, first=1):
    """Read the segments in an endless circle."""
    left = islice(cycle(enumerate(segments)), run.step, None)
    for number, (index, segment) in zip(count(run.step + first), left, strict=False):
        if run.step >= run.settings.steps:
            break
        memory = None if drops and index == 0 else run.memory
        loss, run.memory = take_step(segment, memory, rate_of(number))
        run.step = run.step + 1
        yield loss


def dropping_after_the_last(run, segments, take_step, rate_of):
    """Drop the memory after the last segment of a pass, in place of before the first."""
    for number in range(run.step, run.settings.steps):
        index = number % len(segments)
        memory = None if index == 0 else run.memory
        loss, memory = take_step(segments[index], memory, rate_of(number + 1))
        run.step, run.memory = number + 1, None if index == len(segments) - 1 else memory
        yield loss


def by_segment(run, segments, take_step, rate_of):
    for segment in segments:
        loss, run.memory = take_step(segment, run.memory, rate_of(run.step + 1))
        run.step += 1
        yield loss


def by_whole_passes(run, segments, take_step, rate_of):
    while run.step < run.settings.steps:
        for number, segment in enumerate(segments):
            loss, run.memory = take_step(segment, run.memory if number else None, rate_of(run.step + 1))
            run.step += 1
            yield loss


def one_turn(run, segments, take_step, rate_of, *, shift=0, memory="run", number=1):
    index = (run.step + shift) % len(segments)
    given = {"run": run.memory if index else None, "none": None, "swapped": None if index else run.memory}
    loss, new = take_step(segments[index], given[memory], rate_of(run.step + number))
    run.step += 1
    return loss, new


def turns(*, before=0, keeps=True, times=None, **change):
    def loop(run, segments, take_step, rate_of):
        for _ in range(run.settings.steps - run.step + before if times is None else times(run, segments)):
            loss, memory = one_turn(run, segments, take_step, rate_of, **change)
            if keeps:
                run.memory = memory
            yield loss

    return loop


def in_a_list(run, segments, take_step, rate_of):
    losses = []
    for loss in by_number(run, segments, take_step, rate_of):
        losses.append(loss)
    return losses


def without_a_yield(run, segments, take_step, rate_of):
    in_a_list(run, segments, take_step, rate_of)


def with_an_own_counter(run, segments, take_step, rate_of):
    step, memory = 0, None
    while step < run.settings.steps:
        memory = None if step % len(segments) == 0 else memory
        step += 1
        loss, memory = take_step(segments[(step - 1) % len(segments)], memory, rate_of(step))
        yield loss


def without_counting(run, segments, take_step, rate_of):
    while run.step < run.settings.steps:
        memory = run.memory if run.step % len(segments) else None
        loss, run.memory = take_step(segments[run.step % len(segments)], memory, rate_of(run.step + 1))
        yield loss


def without_a_yield_or_an_end(run, segments, take_step, rate_of):
    for _ in without_counting(run, segments, take_step, rate_of):
        pass


def without_the_remainder(run, segments, take_step, rate_of):
    while run.step < run.settings.steps:
        loss, run.memory = take_step(
            segments[run.step], run.memory if run.step else None, rate_of(run.step + 1)
        )
        run.step += 1
        yield loss


def yielding_first(run, segments, take_step, rate_of):
    for number in range(run.step + 1, run.settings.steps + 1):
        index = (number - 1) % len(segments)
        loss, run.memory = take_step(segments[index], run.memory if index else None, rate_of(number))
        yield loss
        run.step = number


def from_the_first_step(run, segments, take_step, rate_of):
    run.step = 0
    yield from by_number(run, segments, take_step, rate_of)


def with_what_comes_back(run, segments, take_step, rate_of):
    both = []

    def noted(*case):
        both.append(take_step(*case))
        return both[-1]

    for _ in by_number(run, segments, noted, rate_of):
        yield both[-1]


ANSWERS = {
    training_loop.check_train_steps: {
        "right": [
            training_loop.solution_train_steps,
            by_number,
            by_passes,
            by_cycle,
            dropping_after_the_last,
            turns(),
        ],
        "wrong": {
            "memory is never dropped": lambda *case: by_cycle(*case, drops=False),
            "each step begins without memory": turns(memory="none"),
            "is not handed on": turns(keeps=False),
            "the wrong way round": turns(memory="swapped"),
            "the rate is that of the step before": lambda *case: by_cycle(*case, first=0),
            "the rate is that of the step after": turns(number=2),
            "reads the second segment": turns(shift=1),
            "after the last segment comes the first again": without_the_remainder,
            "one step early": turns(before=-1),
            "a step too many": turns(before=1),
            "training does not stop": turns(before=10**9),
            "each segment is read once": turns(
                times=lambda run, segments: max(0, min(len(segments), run.settings.steps) - run.step)
            ),
            "each segment is read once, whatever run.settings.steps says": by_segment,
            "each pass is read to its end": by_whole_passes,
            "run.step never grows": without_counting,
            "keep both in run": with_an_own_counter,
            "begins anew": from_the_first_step,
            "before the step is counted": yielding_first,
            "not handed out one by one": in_a_list,
            "in place of a list or a return": without_a_yield,
            "yield the loss alone": with_what_comes_back,
            "step 1 has the rate of step 10, right is the rate of step 1": turns(number=10),
            "step 1 yields nothing, right is its loss": without_a_yield_or_an_end,
            "it raised TypeError": lambda: None,
        },
    },
}
