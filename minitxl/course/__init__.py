"""The course beside its notebooks: exercises and their checks, widgets, the dashboard, grading."""
