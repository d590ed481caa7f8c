"""Figures of training runs and of what they came to."""
