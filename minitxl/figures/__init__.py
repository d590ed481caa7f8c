"""Data to pictures. Each function draws one result's ``data``; none computes or trains.

recurrence  segments, memory, dependency reach, and the context that trained models use
positions   positions, and their terms in the score
attention   attention weights
training    training runs and their results
cost        operations, times and bytes
picture     a picture: a figure, and the words for those who can't see it
marks       marks that several figures share
systems     one name, one colour, one line and one marker for each system
"""

from collections.abc import Callable, Mapping

from minitxl.figures.attention.over_memory import (
    attention_by_distance,
    attention_over_memory,
    terms_on_text,
    widest_heads,
)
from minitxl.figures.cost.bench import (
    bench,
    bench_generation,
    bench_memory,
    bench_reading,
    bench_words,
    bench_words_reading,
)
from minitxl.figures.cost.evaluation_cost import evaluation_cost
from minitxl.figures.cost.generation import generation_cost
from minitxl.figures.cost.scaling import scaling, scaling_memory
from minitxl.figures.picture import Data, Picture
from minitxl.figures.positions.counting import absolute_positions
from minitxl.figures.positions.depth import deeper_layers
from minitxl.figures.positions.far_attention import far_attention
from minitxl.figures.positions.later import later_positions, position_repairs
from minitxl.figures.positions.shaw_clipping import shaw_clipping
from minitxl.figures.positions.terms import without_terms
from minitxl.figures.recurrence.context_gains import context_gains
from minitxl.figures.recurrence.context_length import context, context_by_offset, context_recl
from minitxl.figures.recurrence.mechanism import Animation, mechanism
from minitxl.figures.recurrence.reach import copying, dependency, relay_routes
from minitxl.figures.recurrence.segments import segment_copying
from minitxl.figures.training.ablation import ablation, ablation_lengths
from minitxl.figures.training.curves import (
    every_system,
    learning,
    memory_and_positions,
    memory_choice,
    short_segments,
)
from minitxl.figures.training.demo import bits_and_cost, demo
from minitxl.figures.training.equal_bytes import equal_bytes
from minitxl.figures.training.parts import schedules, training_parts
from minitxl.figures.training.samples import samples
from minitxl.figures.training.short_dependency import short_dependency
from minitxl.figures.training.treebank import ptb

OF_RESULT: Mapping[str, tuple[Callable[[Data], Picture | Animation], ...]] = {
    "ablation": (ablation, ablation_lengths),
    "absolute_positions": (absolute_positions,),
    "attention_over_memory": (
        attention_over_memory,
        attention_by_distance,
        widest_heads,
        terms_on_text,
    ),
    "bench": (bench, bench_reading, bench_generation, bench_memory),
    "bench_words": (bench_words, bench_words_reading),
    "context": (context, context_by_offset, context_recl, context_gains),
    "copying": (copying,),
    "deeper_layers": (deeper_layers,),
    "demo": (demo, bits_and_cost),
    "dependency": (dependency, mechanism),
    "equal_bytes": (equal_bytes,),
    "evaluation_cost": (evaluation_cost,),
    "every_system": (every_system,),
    "far_attention": (far_attention,),
    "generation_cost": (generation_cost,),
    "later_positions": (later_positions,),
    "memory_and_positions": (memory_and_positions,),
    "position_repairs": (position_repairs,),
    "ptb": (ptb,),
    "relay_routes": (relay_routes,),
    "samples": (samples,),
    "scaling": (scaling, scaling_memory),
    "segment_copying": (segment_copying,),
    "shaw_clipping": (shaw_clipping,),
    "short_dependency": (short_dependency,),
    "short_segments": (short_segments,),
    "training_parts": (training_parts, schedules),
    "without_terms": (without_terms,),
}
"""The figures of each stored result; a figure is stored under its function's name."""
FOR_PHONES = memory_and_positions, bits_and_cost
"""Figures of the README: their layout for phones is stored too, as ``NAME-phone.svg``."""

__all__ = [
    "FOR_PHONES",
    "OF_RESULT",
    "Animation",
    "Picture",
    "ablation",
    "ablation_lengths",
    "absolute_positions",
    "attention_by_distance",
    "attention_over_memory",
    "bench",
    "bench_generation",
    "bench_memory",
    "bench_reading",
    "bench_words",
    "bench_words_reading",
    "bits_and_cost",
    "context",
    "context_by_offset",
    "context_gains",
    "context_recl",
    "copying",
    "deeper_layers",
    "demo",
    "dependency",
    "equal_bytes",
    "evaluation_cost",
    "every_system",
    "far_attention",
    "generation_cost",
    "later_positions",
    "learning",
    "mechanism",
    "memory_and_positions",
    "memory_choice",
    "position_repairs",
    "ptb",
    "relay_routes",
    "samples",
    "scaling",
    "scaling_memory",
    "schedules",
    "segment_copying",
    "shaw_clipping",
    "short_dependency",
    "short_segments",
    "terms_on_text",
    "training_parts",
    "widest_heads",
    "without_terms",
]
