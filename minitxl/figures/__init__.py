"""Data to pictures. Each function draws one result's ``data``; none computes or trains."""

from minitxl.figures.attention.memory_use import attention_over_memory, context
from minitxl.figures.cost.bench import bench
from minitxl.figures.cost.evaluation_cost import evaluation_cost, generation_cost
from minitxl.figures.cost.scaling import scaling
from minitxl.figures.picture import Picture
from minitxl.figures.positions.counting import absolute_positions
from minitxl.figures.positions.depth import deeper_layers
from minitxl.figures.positions.encodings import shaw_clipping
from minitxl.figures.positions.later import later_positions, position_repairs
from minitxl.figures.positions.terms import without_terms
from minitxl.figures.recurrence.mechanism import Animation, mechanism
from minitxl.figures.recurrence.reach import copying, dependency, relay_routes
from minitxl.figures.recurrence.segments import segment_copying
from minitxl.figures.training.ablation import ablation, short_dependency
from minitxl.figures.training.curves import demo, every_system, learning, memory_and_positions, memory_choice
from minitxl.figures.training.samples import samples

__all__ = [
    "Animation",
    "Picture",
    "ablation",
    "absolute_positions",
    "attention_over_memory",
    "bench",
    "context",
    "copying",
    "deeper_layers",
    "demo",
    "dependency",
    "evaluation_cost",
    "every_system",
    "generation_cost",
    "later_positions",
    "learning",
    "mechanism",
    "memory_and_positions",
    "memory_choice",
    "position_repairs",
    "relay_routes",
    "samples",
    "scaling",
    "segment_copying",
    "shaw_clipping",
    "short_dependency",
    "without_terms",
]
