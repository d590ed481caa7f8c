"""Marks submissions: a judge decides, and a sandboxed worker computes.

``course.grading`` says what a graded cell is worth, ``course.checker`` compares one function with its
reference, and this folder does both for functions that nobody trusts. The files:

worker, frames, guards, statements, variants: all that the sandbox holds; isolation: the sandbox;
remote, replay: a submission's function, called there and run here; judge: one submission;
notebooks: their cells, repaired; collecting: files as platforms name them; classroom: all
submissions of a course; gradebook: nbgrader's; rules: due dates and penalties; suspicion: what a
person should look at; names: what code defines; feedback: a page a student.
"""
