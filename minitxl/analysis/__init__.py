"""What a model uses and what it costs: dependency reach, context length, operations, saved tensors."""
