"""Data to pictures. Each function draws one result's ``data``; none computes or trains."""

from minitxl.figures.cost import bench, evaluation_cost
from minitxl.figures.picture import Picture
from minitxl.figures.reach import copying, dependency
from minitxl.figures.training import demo, every_system, learning, memory_and_positions, memory_choice

__all__ = [
    "Picture",
    "bench",
    "copying",
    "demo",
    "dependency",
    "evaluation_cost",
    "every_system",
    "learning",
    "memory_and_positions",
    "memory_choice",
]
