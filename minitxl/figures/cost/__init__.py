"""Figures of operations, times and bytes."""
