"""Train, stop and resume."""
