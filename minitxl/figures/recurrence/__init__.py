"""Figures of segments, memory and dependency reach."""
