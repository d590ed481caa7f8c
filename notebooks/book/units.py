"""Units of the values of a result, for its page.

A value is measured in a unit, or it is bare: a count of what its key names, a number that names something
(a seed, a layer), or a ratio of equal units. A number that no pattern has is an error.
"""

import re
from functools import cache
from typing import Any

STATISTICS = {"seeds", "mean", "spread", "median", "quartiles", "range", "intervals"}
"""Steps of a key that have the unit of what they are of."""
BITS, SHARE, TIME = "bits per character", "share, 0 to 1", "seconds"
TOKENS = "tokens"
UNITS: tuple[tuple[str, str], ...] = (
    (r"^\w+ fingerprint\.losses\.", "nats per token"),
    (r"^\w+ fingerprint\.", ""),
    (r"^\w+ provenance\.seconds$", TIME),
    (r"^\w+ (provenance|seeds|name)\b", ""),
    # results whose keys name what is compared, and not what is measured
    (r"^ptb data\.behind_xl\.", "perplexity per word"),
    (r"^ptb data\.systems\.\w+\.trained$", "perplexity per word"),
    (r"^ptb .*\.by_offset$", "perplexity per word"),
    (r"^(ptb|ptb_trials) .*perplexity(_at_190)?$", "perplexity per word"),
    (r"^absolute_positions data\.readers\.", BITS),
    (r"^far_attention data\.oldest\.", SHARE),
    (r"^later_positions .*\.(memory|behind_xl|first_kept|four_times_the_memory)$", BITS),
    (r"^later_positions .*\.(by_context|first_kept_without_memory_in_training)$", BITS),
    (r"^position_repairs data\.(regained|memory_gain|scaled_before_xl)\.", BITS),
    (r"^(demo|memory_and_positions|short_segments) data\.gains\.", BITS),
    (r"^position_repairs data\.scaled_before_xl$", BITS),
    (r"^attention_over_memory data\.changes\.\w+$", BITS),
    (
        r"^training_parts data\.schedules\..*((bits|cost)\.(falling|constant|no_warmup)|gain_of_best_peak)$",
        BITS,
    ),
    (r"^training_parts .*peaks(\.(falling|constant|no_warmup))?$", ""),
    (r"^(training_parts|without_terms) .*\.(training_)?cost(_with_memory)?$", BITS),
    (r"^equal_bytes data\.more\.\w+\.(in_segments|full_context)$", BITS),
    (r"^ablation data\.saved\.", BITS),
    (r"^equal_bytes data\.more\.\w+\.steps_with(out|_memory)$", ""),
    (r"^evaluation_cost data\.lengths\.(counted\.\w+|paper|ratio)$", "times as costly"),
    (r"^bench(_words)?(_bfloat16|_faster_products|_gpu)? .*\.speed$", "times as fast"),
    (r"^bench(_words)?_bfloat16 .*\.over_float32$", "times as fast"),
    (r"^bench(_words)?(_bfloat16|_faster_products|_gpu)? .*\.(fraction_of_\w+)$", SHARE),
    (r"^bench(_words)?(_bfloat16|_faster_products|_gpu)? .*\.matrix_rate$", "operations per second"),
    (r"^bench(_bfloat16|_faster_products|_gpu)? .*\.read_rate$", "bytes per second"),
    (r"^scaling .*\.links\.", "gigabytes per second"),
    (r"^scaling .*\.gigabytes\.gpus$", ""),
    (r"^scaling .*\.gigabytes\.\w+$", "gigabytes"),
    (r"^generation_cost data\.(last_over_full|ratios)$", "ratio of times"),
    (r"^notebooks .*\.megabytes$", "megabytes"),
    # what the last step of a key names
    (r"[._](bits|bits_by_offset|near_bits|valid_bits|bigram_bits|bits_with_memory(_emptied)?)$", BITS),
    (r"\.perplexity$", "perplexity per character"),
    (r"\.(accuracy|\d_hop|by_offset|by_segment|early|late|late_either|beyond_training|best|worst)$", SHARE),
    (r"\.(token_in_segment|token_in_segment_before|chance|coin|share|shares|weight|weights)$", SHARE),
    (r"\.(weight_by_distance|by_distance|alike|far|utilisation|efficiency|top_p)$", SHARE),
    (r"\.(dropout|attention_dropout|word_dropout)$", SHARE),
    (r"\.(bias|moved|terms|terms_by_distance)$", "nats"),
    (r"microseconds(_per_token|_range)?(\.(cached|sliding))?$", "microseconds"),
    (r"\.milliseconds$", "milliseconds"),
    (r"\.(cpu_)?seconds$", TIME),
    (r"\.minutes_for_200$", "minutes"),
    (r"\.(training_)?hours$", "hours"),
    (r"\.days$", "days"),
    (r"\.years$", "years"),
    (r"\.(training_)?tokens_per_second$", "tokens per second"),
    (r"\.operations_per_second(\.(cached|sliding))?$", "operations per second"),
    (r"\.operations_per_token\.(cached|sliding)$", "operations per token"),
    (r"\.gigaflops$", "10⁹ operations per second"),
    (r"\.teraflops$", "10¹² operations per second"),
    (r"\.exaoperations$", "10¹⁸ operations"),
    (r"\.operations(_per_step)?$", "operations"),
    (r"\.gigabytes_per_second$", "gigabytes per second"),
    (r"\.gigabytes_counted$", "gigabytes"),
    (r"\.megabytes$", "megabytes"),
    (r"\.bytes$", "bytes"),
    (r"\.millions$", "million parameters"),
    (r"\.(attention_lens?|memory_lens|window_lens|context_lens|memories)$", TOKENS),
    (r"\.(mem_len|seg_len|max_seg_len|preset_mem_len|prompt_len|length|exact_window)$", TOKENS),
    (r"\.(distances?|ages|trained_distance|max_distances?|bucket_distance|j_minus_i|longest_reach)$", TOKENS),
    (r"\.(tokens|test_tokens|valid_tokens|validate_tokens|window_tokens|targets|stride|window)$", TOKENS),
    (r"\.(reach|formula|gradient|perturbation|propagation|stopped_gradient|short|long|block)$", TOKENS),
    (r"\.(memory|shown_memory|shown_queries|time|anew|looked_at|first)$", TOKENS),
    (r"\.longest_copy$", "characters"),
    (r"\.(learning_rate|eta_min|sum_of_rates|clip|weight_decay|layer_norm_eps)$", ""),
    (r"\.(norm|cosine|temperature|factor|edges|sees|reached|wide|order|seed|model_seed|offset)$", ""),
    (r"\.(prompts|cutoffs|shown_segment|average_from|read)$", ""),
    (
        r"\.(parameters|steps?|last_steps|step_counts|read_steps|validate_every|warm_?up|passes|passages|rounds)$",
        "",
    ),
    (r"\.(batch|published_batch|lanes|test_streams|epochs|processes|threads|gpus|submissions)$", ""),
    (r"\.(n_layer|n_head|n_bucket|d_model|d_head|d_inner|d_embed|div_val|vocab_size|wide_heads)$", ""),
    (r"\.(hops|hands|fast_hands|letters|segments|trained_segments|test_segments|read_segments)$", ""),
    (r"\.(words|known_words|one_layer|two_layers)$", ""),
    (r"^scaling settings\.timed\.", ""),
)
"""Pattern of a result's name and a key without its places in lists, and the unit; "" where it is bare."""


def unit_of(name: str, key: str, value: Any) -> str:
    """Return the unit of a value, "" where it is a bare count, a name or a ratio.

    Raises:
        ValueError: No pattern has the key of a number.
    """
    if isinstance(value, str | bool) or value is None:
        return ""
    return dict(UNITS)[pattern_of(name, key)]


def pattern_of(name: str, key: str) -> str:
    """Return the first pattern that has a key."""
    steps = [step for step in key.split(".") if not step.isdigit() and step not in STATISTICS]
    return _pattern_of(f"{name} {'.'.join(steps) or key}")


@cache
def _pattern_of(whole: str) -> str:
    for pattern, _ in UNITS:
        if re.search(pattern, whole):
            return pattern
    raise ValueError(f"{whole} has no unit: say in {__name__} which, or that it is a bare number")
