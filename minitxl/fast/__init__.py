"""The same numbers as the modules of the paper, in less time and memory.

from minitxl import fast

fast_model = fast.to_fast(model)  # the same parameters, other modules around them
model = fast.to_plain(fast_model)  # the same parameters, the modules of the paper
"""

from minitxl.fast.convert import fast_evaluation, to_fast, to_plain

__all__ = ["fast_evaluation", "to_fast", "to_plain"]
