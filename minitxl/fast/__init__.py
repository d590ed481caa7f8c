"""The modules of the paper in less time and RAM, with the same outputs and gradients to rounding.

Only dropout draws other random numbers.

    from minitxl import fast

    fast_model = fast.to_fast(model)  # the same parameters, other modules around them
    model = fast.to_plain(fast_model)  # the same parameters, the modules of the paper

Its files. Each class of the paper that has a faster form is replaced by one of ``attention``,
``feed_forward``, ``softmax``, ``linear`` or ``dropout``; the other files serve these:

    convert        which class replaces which, and the calls above
    attention      the attentions
    cpu_attention  their computation on a CPU, in blocks of queries
    inputs         projected queries, keys, values and distances, as relative attention takes them
    rotary         rotary positions
    feed_forward   the feed-forward layer
    softmax        the output layer, and the LSTM, which has the same output layer
    cross_entropy  the losses of a large output layer, some tokens at a time
    linear         products with weights
    dropout        dropout from 16 random bits an element
    bfloat16       products in bfloat16 on a CPU
    eager          when faster forms may run: not under PyTorch's compiler, nor under autocast on a CPU
    cuda           the compiler and CUDA graphs, for training and for the cache
    kv_cache       a folder: the key-value cache, for evaluation and generation
"""

from minitxl.fast.convert import fast_evaluation, to_fast, to_plain

__all__ = ["fast_evaluation", "to_fast", "to_plain"]
