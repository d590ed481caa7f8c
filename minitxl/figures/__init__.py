"""Data to pictures. Each function draws one result's ``data``; none computes or trains."""

from minitxl.figures.cost import bench, evaluation_cost, generation_cost
from minitxl.figures.encodings import shaw_clipping
from minitxl.figures.grid import ablation, short_dependency
from minitxl.figures.picture import Picture
from minitxl.figures.reach import copying, dependency
from minitxl.figures.scaling import scaling
from minitxl.figures.segments import segment_copying
from minitxl.figures.terms import without_terms
from minitxl.figures.training import demo, every_system, learning, memory_and_positions, memory_choice
from minitxl.figures.uses import attention_over_memory, context
from minitxl.figures.written import samples

__all__ = [
    "Picture",
    "ablation",
    "attention_over_memory",
    "bench",
    "context",
    "copying",
    "demo",
    "dependency",
    "evaluation_cost",
    "every_system",
    "generation_cost",
    "learning",
    "memory_and_positions",
    "memory_choice",
    "samples",
    "scaling",
    "segment_copying",
    "shaw_clipping",
    "short_dependency",
    "without_terms",
]
