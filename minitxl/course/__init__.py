"""The course beside its notebooks.

Its files:

    checks       the check of each exercise, a file for each topic: cases, and the likely mistakes
    checker      runs a check: compares an attempt with a reference, and says in a sentence what helps
    differences  two results compared, and their difference in words
    predictions  what a learner expects of an experiment, compared with what it shows
    loops        a loop over the queries, told from operations on whole tensors
    low_scores   cases with very low scores, for hidden tests
    grading      what a graded cell tests, and how many points each case is worth
    marking      marks submissions in a sandbox
    notebook     helpers of a notebook's cells
    tables       tables in a notebook
    widgets      sliders over pictures
    dashboard    a training to watch
"""
