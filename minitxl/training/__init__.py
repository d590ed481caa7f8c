"""Train, stop and resume.

The files, from one step to a whole run:

    config             ``TrainConfig``, how a model is trained; ``RunConfig``, how its run is carried out
    step               one training step, ``train_step``, which extends the memory; and the ``Run``: all that
                       a step needs and changes
    loop               the loop over steps, with validation
    checkpointed_loop  ``loop`` in a run's folder: logged, validated, saved, resumed, stopped
    loss               a segment's loss, which a step differentiates; memory of constant length for a GPU
    resets             masks of memory, for loops of your own whose lanes begin a new text at any segment
    optimizer          AdamW, and its step at a learning rate; ``step`` clips the gradient
    schedules          learning rates by step
    validation         a subset of the validation text, scored
    distributed        several processes that train one model
    guards             losses that stop a run
    signals            signals that stop a run
    run_folder         which files are a run's own, and what can be read from them
    saved_run          a run as a checkpoint, and back
    checkpoints        the file format: named tensors and a description
    run_config_file    config.json, for people to read
    run_info           text, tokens and preset of a run
    metrics_log        log.jsonl, and the same for TensorBoard
    sizes              parameters of a model and bytes of its training, before any is allocated
"""
