"""Text to batches: corpora, downloads, tokenizers, token files."""
