"""Experiments run end to end at toy size."""

from minitxl.experiments.shared.runner import compute


def run(experiment, settings, corpus, *, seeds=(0, 1), report=lambda *step: None, **where):
    """The data of an experiment's result."""
    parts = experiment.parts(settings, corpus, seeds=list(seeds), device="cpu", **where)
    return experiment.collect(settings, corpus, compute(parts, report=report))
