"""Experiments: one file each, one result each, rebuilt by ``minitxl figures``."""

from typing import Literal, get_args

Experiment = Literal[
    "dependency",
    "copying",
    "relay_routes",
    "segment_copying",
    "absolute_positions",
    "deeper_layers",
    "memory_and_positions",
    "every_system",
    "ablation",
    "equal_bytes",
    "short_dependency",
    "context",
    "attention_over_memory",
    "samples",
    "evaluation_cost",
    "generation_cost",
    "shaw_clipping",
    "without_terms",
    "later_positions",
    "position_repairs",
    "far_attention",
    "training_parts",
    "short_segments",
    "ptb",
    "scaling",
]
"""Name of an experiment: of its file here, and of its result."""
EXPERIMENTS: tuple[Experiment, ...] = get_args(Experiment)
