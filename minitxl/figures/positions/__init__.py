"""Figures of positions and of their terms in the score."""
