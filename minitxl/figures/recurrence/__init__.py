"""Figures of segments, memory, dependency reach, and the context that trained models use."""
