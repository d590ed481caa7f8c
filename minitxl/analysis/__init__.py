"""Measures of what a model uses and what it costs.

dependency_reach  the distance of the oldest token that matters, found in four ways
context_length    the length of the context that a trained model really uses
flops             parameters and operations of a training step, counted from its configuration
saved_tensors     bytes that a training step holds
"""
