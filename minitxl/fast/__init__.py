"""The same numbers as the modules of the paper, in less time and memory."""
