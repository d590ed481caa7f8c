"""Score text and write text.

    config      ``EvaluateConfig``: lengths of segment and memory
    evaluation  the losses of a text, cached or by a sliding window
    generation  the next tokens of one text or several
    sampling    temperature, top k, top p, the repetition penalty

The key-value cache that both use is ``fast.kv_cache``.
"""
