"""Measures of what a model uses and costs: dependency reach, context length, operations, saved tensors."""
