"""The language model: embeddings, N blocks, a softmax over the vocabulary.

    log_probs, states = model(tokens, memory)
    memory = extend(memory, states, mem_len=M)

``states[n]`` is what layer n read on this segment, before any norm. It is what layer n
of the next segment reads as memory, so there are N entries, and the output is not one.
"""

from math import sqrt
from typing import Unpack

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from minitxl.attention import MultiHeadAttention, Sight, XLAttention
from minitxl.config import ModelConfig
from minitxl.positions import sinusoids

Tokens = Int[Tensor, "batch seg"]
Hidden = Float[Tensor, "batch seg model"]
States = Float[Tensor, "layer batch seg model"]
Memory = Float[Tensor, "layer batch mem model"]
Attention = MultiHeadAttention | XLAttention


class Block(nn.Module):
    """Attention, then a feed-forward layer, each inside a residual and a LayerNorm."""

    def __init__(self, config: ModelConfig, attention: Attention) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention = attention
        self.norm_attention = nn.LayerNorm(config.d_model)
        self.norm_inner = nn.LayerNorm(config.d_model)
        self.inner = nn.Sequential(
            nn.Linear(config.d_model, config.d_inner),
            {"relu": nn.ReLU, "gelu": nn.GELU}[config.activation](),
            nn.Dropout(config.dropout),
            nn.Linear(config.d_inner, config.d_model),
        )
        self.drop = nn.Dropout(config.dropout)

    def read(self, x: Hidden, memory: Tensor) -> tuple[Tensor, Tensor]:
        """What attention is given: both parts of the context normed, or neither."""
        return (self.norm_attention(x), self.norm_attention(memory)) if self.pre else (x, memory)

    def forward(self, x: Hidden, memory: Float[Tensor, "batch mem model"], **sight: Unpack[Sight]) -> Hidden:
        attended = self.drop(self.attention(*self.read(x, memory), **sight))
        if self.pre:
            x = x + attended
            return x + self.drop(self.inner(self.norm_inner(x)))
        x = self.norm_attention(x + attended)
        return self.norm_inner(x + self.drop(self.inner(x)))


class TransformerLM(nn.Module):
    """One model for every system: ``attention`` is the only switch, no memory is vanilla."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        if config.attention == "absolute" and config.positions == "learned":
            self.positions = nn.Embedding(config.max_seg_len, config.d_model)
        self.blocks = nn.ModuleList()
        for _ in range(config.n_layer):
            self.blocks.append(Block(config, self._new_attention()))
        self.final_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.drop = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, config.vocab_size)
        if config.tie_embeddings:
            self.output.weight = self.embedding.weight
        self.apply(initialise)

    def _new_attention(self) -> Attention:
        c = self.config
        if c.attention == "absolute":
            return MultiHeadAttention(c.d_model, c.n_head, c.d_head, attention_dropout=c.attention_dropout)
        shared = self.blocks[0].attention if c.share_uv and self.blocks else None
        return XLAttention(
            c.d_model,
            c.n_head,
            c.d_head,
            dropout=c.dropout,
            attention_dropout=c.attention_dropout,
            u=getattr(shared, "u", None),
            v=getattr(shared, "v", None),
        )

    def embed(self, tokens: Tokens) -> Hidden:
        """√d_model E[token], plus U_0 … U_{L-1} from the segment's start where absolute."""
        x = self.embedding(tokens) * sqrt(self.config.d_model)
        if self.config.attention == "absolute":
            seg = torch.arange(tokens.shape[1], device=tokens.device)
            learned = self.config.positions == "learned"
            x = x + (self.positions(seg) if learned else sinusoids(seg.to(x.dtype), self.config.d_model))
        return self.drop(x)

    def hidden(
        self, tokens: Tokens, memory: Memory | None = None, **sight: Unpack[Sight]
    ) -> tuple[Hidden, States]:
        """The last layer's output, and each layer's input: what all other calls stand on."""
        memory = self._checked(tokens, memory)
        x, states = self.embed(tokens), []
        for block, past in zip(self.blocks, memory, strict=True):
            states.append(x)
            x = block(x, past, **sight)
        return self.drop(self.final_norm(x)), torch.stack(states)

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, **sight: Unpack[Sight]
    ) -> tuple[Float[Tensor, "batch seg vocab"], States]:
        """Log-probabilities of each next token, normalised, in nats; and the states."""
        hidden, states = self.hidden(tokens, memory, **sight)
        return self.output(hidden).log_softmax(dim=-1), states

    def token_losses(
        self, tokens: Tokens, targets: Tokens, memory: Memory | None = None, **sight: Unpack[Sight]
    ) -> tuple[Float[Tensor, "batch seg"], States]:
        """-log p(target) of each token in nats, in token order; and the states."""
        hidden, states = self.hidden(tokens, memory, **sight)
        return self.losses(hidden, targets), states

    def losses(self, hidden: Hidden, targets: Tokens) -> Float[Tensor, "batch seg"]:
        """-log p(target) in nats from what ``hidden`` returned, or from some of its positions."""
        self._check_ids(targets, "targets")
        logits = rearrange(self.output(hidden), "batch seg vocab -> batch vocab seg")
        return cross_entropy(logits, targets, reduction="none")

    def attention_weights(
        self, tokens: Tokens, memory: Memory | None = None, **sight: Unpack[Sight]
    ) -> Float[Tensor, "layer batch head query key"]:
        """The softmax weights of every layer and head."""
        memory = self._checked(tokens, memory)
        x, weights = self.embed(tokens), []
        for block, past in zip(self.blocks, memory, strict=True):
            weights.append(block.attention.weights(*block.read(x, past), **sight))
            x = block(x, past, **sight)
        return torch.stack(weights)

    def _checked(self, tokens: Tokens, memory: Memory | None) -> Memory:
        self._check_ids(tokens, "tokens")
        c, (batch, seg) = self.config, tokens.shape
        if hasattr(self, "positions") and seg > c.max_seg_len:
            raise ValueError(f"a segment may have max_seg_len = {c.max_seg_len} learned positions, got {seg}")
        if memory is None:
            return self.embedding.weight.new_zeros(c.n_layer, batch, 0, c.d_model)
        layer, rows, _, width = memory.shape
        if (layer, width) != (c.n_layer, c.d_model):
            raise ValueError(
                f"memory must come from a model of {c.n_layer} layers of width {c.d_model}, "
                f"got {layer} of width {width}"
            )
        if rows != batch:
            raise ValueError(f"memory must have a row for each row of tokens, {batch}, got {rows}")
        return memory

    def _check_ids(self, ids: Tokens, name: str) -> None:
        if ids.numel() and ids.device.type == "cpu":  # elsewhere reading one value waits for the device
            low, high = ids.aminmax()
            if low < 0 or high >= self.config.vocab_size:
                worst = (low if low < 0 else high).item()
                raise ValueError(f"{name} must lie in 0 … {self.config.vocab_size - 1}, got {worst}")


def initialise(module: nn.Module) -> None:
    """The original code's: weights and u, v N(0, .02), LayerNorm gains N(1, .02), biases 0."""
    for name, parameter in module.named_parameters(recurse=False):
        if name == "bias":
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, mean=float(isinstance(module, nn.LayerNorm)), std=0.02)
