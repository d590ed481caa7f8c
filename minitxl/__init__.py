"""Transformer-XL from its parts: one room per idea, in the order of the paper.

positions → attention → model ← config; memory; batching → training; evaluation.
Start with ``notebooks/00_start_here.ipynb``, or with ``minitxl demo``.
"""
