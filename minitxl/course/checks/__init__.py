"""Checks of the exercises: one file a notebook. A check says what is likely wrong, never only that it is."""
