"""The language model: embeddings, N blocks, a softmax over the vocabulary.

    log_probs, states = model(tokens, memory)
    memory = extend(memory, states, mem_len=M)

``states[n]`` is what layer n read on this segment, before any norm. It is what layer n
of the next segment reads as memory, so there are N entries, and the output is not one.
"""

from functools import partial
from math import sqrt
from typing import Literal, Unpack, get_args

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from minitxl.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from minitxl.attention import MultiHeadAttention, ShawAttention, Sight, XLAttention, join
from minitxl.config import ModelConfig
from minitxl.fast import cpu_attention
from minitxl.fast.dropout import Dropout, VariationalDropout, factor
from minitxl.fast.feed_forward import feed_forward
from minitxl.fast.linear import Linear
from minitxl.positions import sinusoids

Tokens = Int[Tensor, "batch seg"]
Hidden = Float[Tensor, "batch seg model"]
States = Float[Tensor, "layer batch seg model"]
Memory = Float[Tensor, "layer batch mem model"]
Attention = MultiHeadAttention | ShawAttention | XLAttention
Path = Literal["explicit", "fused"]
"""The einsum text of ``attention``, or the same numbers faster, by ``cpu_attention`` and ``feed_forward``."""


class Block(nn.Module):
    """Attention, then a feed-forward layer, each inside a residual and a LayerNorm."""

    def __init__(self, config: ModelConfig, attention: Attention) -> None:
        super().__init__()
        dropout_kind = VariationalDropout if config.variational else Dropout
        self.pre = config.norm == "pre"
        self.attention = attention
        self.norm_attention = nn.LayerNorm(config.d_model)
        self.norm_inner = nn.LayerNorm(config.d_model)
        self.inner = nn.Sequential(
            Linear(config.d_model, config.d_inner),
            nn.ReLU(inplace=True) if config.activation == "relu" else nn.GELU(),
            dropout_kind(config.dropout),
            Linear(config.d_inner, config.d_model),
        )
        self.drop = dropout_kind(config.dropout)

    def read(self, states: Float[Tensor, "batch pos model"]) -> Float[Tensor, "batch pos model"]:
        """What attention is given of a segment, and alike of its memory: normed before, or as it is."""
        return self.norm_attention(states) if self.pre else states

    def forward(
        self,
        x: Hidden,
        memory: Float[Tensor, "batch mem model"],
        *,
        path: Path = "explicit",
        **sight: Unpack[Sight],
    ) -> Hidden:
        attend = partial(cpu_attention.attend, self.attention) if path == "fused" else self.attention
        return self.around(x, attend(self.read(x), self.read(memory), **sight), path=path)

    def around(self, x: Hidden, attended: Hidden, *, path: Path = "explicit") -> Hidden:
        """The layer's output: residuals, norms and the feed-forward layer around its attention's."""
        inner = partial(feed_forward, self.inner) if path == "fused" else self.inner
        attended = self.drop(attended)
        if self.pre:
            x = x + attended
            return x + self.drop(inner(self.norm_inner(x)))
        x = self.norm_attention(x + attended)
        return self.norm_inner(x + self.drop(inner(x)))


class TransformerLM(nn.Module):
    """One model for every system: ``attention`` is the only switch, no memory is vanilla."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        words = config.vocab_size, config.d_embed or config.d_model, config.d_model
        self.embedding = AdaptiveEmbedding(*words, cutoffs=config.cutoffs, div_val=config.div_val)
        tables = {"sinusoidal": 0, "learned": 1, "per-layer": config.n_layer}[config.positions]
        self.positions = nn.ModuleList(
            nn.Embedding(config.max_seg_len, config.d_model)
            for _ in range(tables if config.attention == "absolute" else 0)
        )
        self.blocks = nn.ModuleList()
        for _ in range(config.n_layer):
            self.blocks.append(Block(config, self._new_attention()))
        self.final_norm = (
            nn.LayerNorm(config.d_model) if config.norm == "pre" and config.norm_output else nn.Identity()
        )
        self.drop = VariationalDropout(config.dropout) if config.variational else Dropout(config.dropout)
        self.output = AdaptiveSoftmax(*words, cutoffs=config.cutoffs, div_val=config.div_val)
        self.output.tie(self.embedding, tables=config.tie_embeddings, projections=config.tie_projections)
        self.apply(initialise)

    def _new_attention(self) -> Attention:
        c = self.config
        if c.attention == "absolute":
            return MultiHeadAttention(c.d_model, c.n_head, c.d_head, attention_dropout=c.attention_dropout)
        if c.attention == "shaw":
            return ShawAttention(
                c.d_model,
                c.n_head,
                c.d_head,
                max_distance=c.max_distance,
                attention_dropout=c.attention_dropout,
            )
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
        """√d_model E[token], and where absolute the segment's U_0 … U_{L-1}: the first layer's input."""
        x = self.embedding(tokens) * sqrt(self.config.d_model)
        if self.training and self.config.word_dropout:
            words = factor(x.new_empty(self.config.vocab_size), self.config.word_dropout)
            x = x * rearrange(words[tokens], "batch seg -> batch seg 1")
        return self.drop(self.place(x, layer=0))

    def place(self, x: Hidden, *, layer: int) -> Hidden:
        """x as this layer reads it: absolute positions restart at each segment, the rest adds none."""
        place = torch.arange(x.shape[1], device=x.device)
        if layer < len(self.positions):
            return x + self.positions[layer](place)
        if layer == 0 and self.config.attention == "absolute":
            return x + sinusoids(place.to(x.dtype), self.config.d_model)
        return x

    def hidden(
        self,
        tokens: Tokens,
        memory: Memory | None = None,
        *,
        last: int | None = None,
        path: Path = "explicit",
        **sight: Unpack[Sight],
    ) -> tuple[Float[Tensor, "batch last model"], States]:
        """The last layer's output, and each layer's input: what all other calls stand on.

        Where only the ``last`` positions are wanted, the last layer has no other queries.
        """
        if path not in get_args(Path):
            raise ValueError(f"path must be explicit or fused, got {path!r}")
        memory, sight = self._checked(tokens, memory, sight)
        x, states = self.embed(tokens), []
        for layer, (block, past) in enumerate(zip(self.blocks, memory, strict=True)):
            x = self.place(x, layer=layer) if layer else x
            states.append(x)
            if last is not None and layer == self.config.n_layer - 1:
                past, x = join(past, x[:, :-last]), x[:, -last:]
            x = block(x, past, path=path, **sight)
        return self.drop(self.final_norm(x)), torch.stack(states)

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, *, path: Path = "explicit", **sight: Unpack[Sight]
    ) -> tuple[Float[Tensor, "batch seg vocab"], States]:
        """Log-probabilities of each next token, normalised, in nats; and the states."""
        hidden, states = self.hidden(tokens, memory, path=path, **sight)
        return self.output.log_probs(hidden), states

    def token_losses(
        self,
        tokens: Tokens,
        targets: Tokens,
        memory: Memory | None = None,
        *,
        path: Path = "explicit",
        **sight: Unpack[Sight],
    ) -> tuple[Float[Tensor, "batch seg"], States]:
        """-log p(target) of each token in nats, in token order; and the states."""
        hidden, states = self.hidden(tokens, memory, path=path, **sight)
        return self.losses(hidden, targets), states

    def losses(self, hidden: Hidden, targets: Tokens) -> Float[Tensor, "batch seg"]:
        """-log p(target) in nats from what ``hidden`` returned, or from some of its positions."""
        self._check_ids(targets, "targets")
        return self.output.losses(hidden, targets)

    def attention_weights(
        self, tokens: Tokens, memory: Memory | None = None, **sight: Unpack[Sight]
    ) -> Float[Tensor, "layer batch head query key"]:
        """The softmax weights of every layer and head."""
        _, states = self.hidden(tokens, memory, **sight)
        memory, sight = self._checked(tokens, memory, sight)
        layers = zip(self.blocks, states, memory, strict=True)
        return torch.stack(
            [block.attention.weights(block.read(x), block.read(past), **sight) for block, x, past in layers]
        )

    def no_memory(self, batch: int) -> Memory:
        """The memory of so many rows before their first segment: zero tokens long."""
        c = self.config
        return next(self.parameters()).new_zeros(c.n_layer, batch, 0, c.d_model)

    def check(self, tokens: Tokens) -> None:
        """Refuse ids that are not in the vocabulary, and a segment beyond a learned table."""
        self._check_ids(tokens, "tokens")
        most, seg = self.config.max_seg_len, tokens.shape[1]
        if self.positions and seg > most:
            raise ValueError(f"a segment may have max_seg_len = {most} learned positions, got {seg}")

    def _checked(self, tokens: Tokens, memory: Memory | None, sight: Sight) -> tuple[Memory, Sight]:
        """The memory, zero tokens long where there is none, and the sight with the model's own clamp."""
        self.check(tokens)
        c, batch = self.config, len(tokens)
        if sight.get("clamp_len") is None:
            sight = {**sight, "clamp_len": c.clamp_len}
        if memory is None:
            return self.no_memory(batch), sight
        layer, rows, _, width = memory.shape
        if (layer, width) != (c.n_layer, c.d_model):
            raise ValueError(
                f"memory must come from a model of {c.n_layer} layers of width {c.d_model}, "
                f"got {layer} of width {width}"
            )
        if rows != batch:
            raise ValueError(f"memory must have a row for each row of tokens, {batch}, got {rows}")
        return memory, sight

    def _check_ids(self, ids: Tokens, name: str) -> None:
        if ids.numel() and ids.device.type == "cpu":  # elsewhere reading one value waits for the device
            low, high = ids.aminmax()
            if low < 0 or high >= self.config.vocab_size:
                worst = (low if low < 0 else high).item()
                raise ValueError(f"{name} must lie in 0 … {self.config.vocab_size - 1}, got {worst}")


def initialise(module: nn.Module) -> None:
    """The original code's: weights and u, v N(0, .02), projections of embeddings N(0, .01),
    LayerNorm gains N(1, .02), biases 0."""
    for name, parameter in module.named_parameters(recurse=False):
        if name == "bias":
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, mean=float(isinstance(module, nn.LayerNorm)), std=0.02)
    if isinstance(module, AdaptiveEmbedding | AdaptiveSoftmax):
        for projection in module.projections:
            nn.init.normal_(projection.get_parameter("weight"), std=0.01)
