"""Data to pictures. Each function draws one result's ``data``; none computes or trains."""

from minitxl.figures.cost import bench
from minitxl.figures.picture import Picture
from minitxl.figures.training import demo, every_system, learning, memory_and_positions, memory_choice

__all__ = [
    "Picture",
    "bench",
    "demo",
    "every_system",
    "learning",
    "memory_and_positions",
    "memory_choice",
]
