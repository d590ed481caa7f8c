"""The same numbers as the modules of the paper, in less time and memory.

from minitxl import fast

fast_model = fast.optimize(model)   # the same parameters, other modules around them
model = fast.restore(fast_model)    # the same parameters, the modules of the paper
"""

from minitxl.fast.convert import fast_evaluation, optimize, restore

__all__ = ["fast_evaluation", "optimize", "restore"]
