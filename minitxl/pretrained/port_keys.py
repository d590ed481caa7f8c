"""Keys of a config.json of Hugging Face's port that say nothing about what the model computes."""

OTHERS = frozenset(
    [
        # where a model comes from
        *("_commit_hash", "_name_or_path", "architectures", "auto_map", "finetuning_task", "model_type"),
        *("problem_type", "task_specific_params", "tokenizer_class", "torch_dtype", "transformers_version"),
        # how it is called and what it returns
        *("_attn_implementation_internal", "add_cross_attention", "attn_implementation"),
        *("chunk_size_feed_forward", "cross_attention_hidden_size", "gradient_checkpointing", "is_decoder"),
        *("is_encoder_decoder", "output_attentions", "output_hidden_states", "output_past", "pruned_heads"),
        *("return_dict", "tf_legacy_loss", "tie_encoder_decoder", "torchscript", "use_bfloat16"),
        *("use_cache",),
        # how a text is generated
        *("bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty"),
        *("do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "min_length"),
        *("no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores"),
        *("prefix", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate"),
        *("suppress_tokens", "temperature", "top_k", "top_p", "typical_p"),
        # names of tokens and classes
        *("bos_token_id", "eos_token_id", "id2label", "label2id", "num_labels", "pad_token_id"),
        *("sep_token_id",),
        # how weights begin, and training's segment
        *("adaptive", "init", "init_range", "init_std", "proj_init_std", "tgt_len"),
    ]
)
"""Names of keys that the port writes: of a model's origin, its calls, its training, and generation."""
