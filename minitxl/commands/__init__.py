"""The commands, a file each; ``minitxl.__main__`` gathers them.

    bench             races against other libraries
    demo              three models, trained one change apart
    evaluate          scores a text
    figures           computes results and draws them
    generate          writes a text
    train             trains a model, stops and resumes

What they share:

    shared            flags that several commands have, and lines that several print
    subject           the model that a command begins with: that of a run, or a released one
    held_out          remarks on how much of a scored text the run has learned
    original_options  options of the original code that have another name here
    standard_streams  output that works whatever the standard streams are
    errors            the error that the command line raises while it reads its words
    train_flags       the flags of ``train``, checked together
    train_task        a training that is ready to begin or to go on
    train_bar         the progress bar of ``train``
"""
