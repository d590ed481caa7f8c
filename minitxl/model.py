"""The language model: embeddings, N layers, a softmax over the vocabulary.

    log_probs, states = model(tokens, memory)
    memory = extend(memory, states, mem_len=M)

The caller extends the memory: in training ``training.step.train_step``.

``states[n]`` is the input of layer n on this segment: after absolute positions are added, if layer n adds
any, and before the LayerNorm of a pre-norm layer. ``extend`` takes it into the memory of layer n. There is
an entry for each of the N layers, and none for the last layer's output. Layers count from 0, and layer n is
``model.blocks[n]``.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Unpack, assert_never

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from minitxl.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from minitxl.arguments import check_hidden, check_kind, check_length, check_memory, check_tokens
from minitxl.attention import (
    AttentionOptions,
    Hidden,
    MultiHeadAttention,
    ShawAttention,
    XLAttention,
    attention_mask,
    concat_memory,
)
from minitxl.config import ModelConfig
from minitxl.fields import check, optional, whole
from minitxl.later_attention import ALiBiAttention, LaterAttention, RotaryAttention, T5Attention
from minitxl.position_encodings import sinusoids

Tokens = Int[Tensor, "batch seg"]
States = Float[Tensor, "layer batch seg model"]
Memory = Float[Tensor, "layer batch mem model"]
Attention = MultiHeadAttention | ShawAttention | XLAttention | LaterAttention


class VariationalDropout(nn.Dropout):
    """Dropout with one mask for all tokens of a segment (Gal and Ghahramani 2016)."""

    def forward(self, x: Float[Tensor, "batch seg width"]) -> Float[Tensor, "batch seg width"]:
        return x * functional.dropout(torch.ones_like(x[:, :1]), self.p, self.training)


def dropout_of(config: ModelConfig) -> nn.Dropout:
    """Return the configuration's kind of dropout for embeddings and sublayers."""
    return (VariationalDropout if config.variational_dropout else nn.Dropout)(config.dropout)


class FeedForward(nn.Sequential):
    """W_2 dropout(relu(W_1 x + b_1)) + b_2, each token by itself; GELU in place of ReLU if configured."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(
            nn.Linear(config.d_model, config.d_inner),
            nn.ReLU(inplace=True) if config.activation == "relu" else nn.GELU(),
            dropout_of(config),
            nn.Linear(config.d_inner, config.d_model),
        )


class Block(nn.Module):
    """Attention, then a feed-forward layer, each with a residual connection and a LayerNorm."""

    def __init__(self, config: ModelConfig, attention: Attention) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.attention = attention
        self.norm_attention = nn.LayerNorm(config.d_model, config.layer_norm_eps)
        self.norm_inner = nn.LayerNorm(config.d_model, config.layer_norm_eps)
        self.inner = FeedForward(config)
        self.dropout = dropout_of(config)

    def attention_input(self, states: Float[Tensor, "batch pos model"]) -> Float[Tensor, "batch pos model"]:
        """Return LayerNorm of the states if pre-norm, else the states; for a segment and its memory alike."""
        return self.norm_attention(states) if self.pre_norm else states

    def forward(
        self, x: Hidden, memory: Float[Tensor, "batch mem model"], **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the layer's output; ``memory`` holds earlier inputs of this layer."""
        attended = self.attention(self.attention_input(x), self.attention_input(memory), **options)
        return self.after_attention(x, attended)

    def after_attention(self, x: Hidden, attended: Hidden) -> Hidden:
        """Return the layer's output from its input and the attention's output.

        These formulas leave out the dropout of ``attended`` and of the result of ``inner``:

        Pre-norm:  y = x + attended, and the output is y + inner(norm_inner(y)).
        Post-norm: y = norm_attention(x + attended), and the output is norm_inner(y + inner(y)). The paper's.
        """
        attended = self.dropout(attended)
        if self.pre_norm:
            x = x + attended
            return x + self.dropout(self.inner(self.norm_inner(x)))
        x = self.norm_attention(x + attended)
        return self.norm_inner(x + self.dropout(self.inner(x)))


def new_attention(config: ModelConfig, shared: Attention | None = None) -> Attention:
    """Return one layer's attention, as configured.

    ``shared`` is another layer's attention, whose u and v (xl) or table (t5) the new one uses.
    """
    dims, attention_dropout = (config.d_model, config.n_head, config.d_head), config.attention_dropout
    if config.attention == "absolute":
        return MultiHeadAttention(*dims, attention_dropout=attention_dropout)
    if config.attention == "shaw":
        return ShawAttention(*dims, max_distance=config.max_distance, attention_dropout=attention_dropout)
    if config.attention == "xl":
        u, v = (shared.u, shared.v) if isinstance(shared, XLAttention) else (None, None)
        return XLAttention(*dims, dropout=config.dropout, attention_dropout=attention_dropout, u=u, v=v)
    if config.attention == "rotary":
        return RotaryAttention(*dims, attention_dropout=attention_dropout)
    if config.attention == "alibi":
        return ALiBiAttention(*dims, attention_dropout=attention_dropout)
    if config.attention == "t5":
        table = shared.table if isinstance(shared, T5Attention) else None
        return T5Attention(
            *dims, config.n_bucket, config.bucket_distance, attention_dropout=attention_dropout, table=table
        )
    assert_never(config.attention)


def attentions(config: ModelConfig) -> Iterator[Attention]:
    """Yield each layer's attention; with ``share_biases`` all use the first one's u and v, or T5's table."""
    first = new_attention(config)
    yield first
    for _ in range(config.n_layer - 1):
        yield new_attention(config, first if config.share_biases else None)


class TransformerLM(nn.Module):
    """The language model, with the attention that ``config.attention`` names in every layer.

    The paper's vanilla model is ``attention="absolute"``, called without memory.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = check_kind("config", config, ModelConfig)
        dims = config.vocab_size, config.d_embed or config.d_model, config.d_model
        self.embedding = AdaptiveEmbedding(*dims, cutoffs=config.cutoffs, div_val=config.div_val)
        n_tables = {"sinusoidal": 0, "learned": 1, "per-layer": config.n_layer, "none": 0}[config.positions]
        # Empty unless positions are learned. In a state dict the tables are ``positions.0.weight`` and so on.
        self.positions = nn.ModuleList(
            nn.Embedding(config.max_seg_len, config.d_model)
            for _ in range(n_tables if config.attention == "absolute" else 0)
        )
        self.blocks = nn.ModuleList(Block(config, attention) for attention in attentions(config))
        self.final_norm = (
            nn.LayerNorm(config.d_model, config.layer_norm_eps)
            if config.norm == "pre" and config.final_norm
            else nn.Identity()
        )
        self.dropout = dropout_of(config)
        self.output = AdaptiveSoftmax(*dims, cutoffs=config.cutoffs, div_val=config.div_val)
        self.output.tie(
            self.embedding, tie_tables=config.tie_embeddings, tie_projections=config.tie_projections
        )
        self.apply(initialise)

    def embed(self, tokens: Tokens, *, isolated: Bool[Tensor, "batch_or_1 seg"] | None = None) -> Hidden:
        """Return the first layer's input: √d_model E[token] plus absolute positions, if any, after dropout.

        Word dropout spares ``isolated`` tokens, which attend to no token before them, such as the first of a
        text. The reason: a dropped token's input is 0. If an isolated token were dropped, its state would
        stay 0 in every layer of a new model, whose Linear and LayerNorm biases are 0. For an input of zeros,
        a LayerNorm multiplies the gradient by 1/√ε, 316 by default. In post-norm the gradient passes through
        every LayerNorm, so in a deep model it would overflow. In pre-norm it grows more slowly, since
        residual connections go around the LayerNorms. (With absolute positions or Shaw's
        a_V the state of a dropped token does not stay 0, so there is no such danger.)

        Don't train with word dropout and a short ``window`` at once: chance may drop all tokens that a query
        attends to. In a new model the query's state is then 0 after the first layer, like that of a dropped
        isolated token.
        """
        x = self.embedding(tokens) * sqrt(self.config.d_model)
        if self.training and self.config.word_dropout:
            id_scale = functional.dropout(x.new_ones(self.config.vocab_size), self.config.word_dropout)
            scale = id_scale[tokens] if isolated is None else id_scale[tokens].masked_fill(isolated, 1.0)
            x = x * rearrange(scale, "batch seg -> batch seg 1")
        return self.dropout(self.add_positions(x, layer=0))

    def _isolated(
        self, tokens: Tokens, memory: Memory, options: AttentionOptions
    ) -> Bool[Tensor, "batch_or_1 seg"] | None:
        """Return which tokens attend to no token before them; None without word dropout."""
        if not (self.training and self.config.word_dropout):
            return None
        mem, seg = memory.shape[2], tokens.shape[1]
        mask_options = {name: options.get(name) for name in ("window", "key_mask")}
        mask = attention_mask(seg, mem + seg, **mask_options, device=tokens.device)
        # Token i is key mem + i, so ``tril(mem - 1)`` keeps the keys before it, 0 … mem + i - 1.
        return ~mask.tril(mem - 1).any(dim=-1)

    def add_positions(self, x: Hidden, *, layer: int) -> Hidden:
        """Return x plus this layer's absolute positions, if it has any; they restart at each segment."""
        position = torch.arange(x.shape[1], device=x.device)
        if layer < len(self.positions):  # one learned table, of layer 0, or one for each layer
            return x + self.positions[layer](position)
        if layer == 0 and self.config.has_absolute_positions:
            return x + sinusoids(position, self.config.d_model, dtype=x.dtype)
        return x

    def last_hidden(
        self,
        tokens: Tokens,
        memory: Memory | None = None,
        *,
        n_last: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> tuple[Float[Tensor, "batch n_last model"], States]:
        """Return the last layer's output, after final norm and dropout, and the states: each layer's input.

        With ``n_last=n``, the output has the last n tokens only, and the last layer computes queries for no
        others. The states have all tokens.
        """
        memory, options = self._checked_inputs(tokens, memory, options)
        check("n_last", n_last, optional(whole(1, tokens.shape[1])))
        x, states = self.embed(tokens, isolated=self._isolated(tokens, memory, options)), []
        for layer, (block, layer_memory) in enumerate(zip(self.blocks, memory, strict=True)):
            x = self.add_positions(x, layer=layer) if layer else x  # ``embed`` has added those of layer 0
            states.append(x)
            if n_last is not None and layer == self.config.n_layer - 1:
                # In the last layer the other tokens serve only as keys, so they may join the memory.
                layer_memory, x = concat_memory(layer_memory, x[:, :-n_last]), x[:, -n_last:]
            x = block(x, layer_memory, **options)
        return self.dropout(self.final_norm(x)), torch.stack(states)

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, **options: Unpack[AttentionOptions]
    ) -> tuple[Float[Tensor, "batch seg vocab"], States]:
        """Return the log-probabilities of each next token, in nats, and the states."""
        hidden, states = self.last_hidden(tokens, memory, **options)
        return self.output.log_probs(hidden), states

    def token_losses(
        self,
        tokens: Tokens,
        targets: Tokens,
        memory: Memory | None = None,
        *,
        ignore_index: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> tuple[Float[Tensor, "batch seg"], States]:
        """Return -log p(target) in nats of each target [batch seg], and the states.

        A target equal to ``ignore_index`` is padding: its loss is 0, without a gradient. For the mean, divide
        the sum by the number of other targets, (targets != ignore_index).sum(): ``losses.mean()`` divides by
        the number of all targets.
        """
        hidden, states = self.last_hidden(tokens, memory, **options)
        return self.losses(hidden, targets, ignore_index=ignore_index), states

    def losses(
        self, hidden: Hidden, targets: Tokens, *, ignore_index: int | None = None
    ) -> Float[Tensor, "batch seg"]:
        """Return -log p(target) in nats of each target.

        ``hidden`` is the first result of ``self.last_hidden``, of all tokens or of some.
        """
        check("ignore_index", ignore_index, optional(whole()))
        ignored = None if ignore_index is None else targets == ignore_index
        targets = targets if ignored is None else targets.masked_fill(ignored, 0)
        self._check_tokens("targets", targets)
        check_hidden(hidden, targets, d_model=self.config.d_model)
        losses = self.output.losses(hidden, targets)
        return losses if ignored is None else losses.masked_fill(ignored, 0.0)

    def attention_weights(
        self, tokens: Tokens, memory: Memory | None = None, **options: Unpack[AttentionOptions]
    ) -> Float[Tensor, "layer batch head query key"]:
        """Return the softmax weights of every layer and head, before ``attention_dropout``.

        Use evaluation mode. In training mode each call draws its dropout anew, so these weights are not those
        of any forward pass.
        """
        _, states = self.last_hidden(tokens, memory, **options)
        memory, options = self._checked_inputs(tokens, memory, options)
        weights = []
        for block, x, layer_memory in zip(self.blocks, states, memory, strict=True):
            inputs = block.attention_input(x), block.attention_input(layer_memory)
            weights.append(block.attention.attention_weights(*inputs, **options))
        return torch.stack(weights)

    def empty_memory(self, batch: int) -> Memory:
        """Return the memory before the first segment, for batches of this size: zero tokens long."""
        check_length("batch", batch, 1)
        return next(self.parameters()).new_zeros(self.config.n_layer, batch, 0, self.config.d_model)

    def check_segment_tokens(self, tokens: Tokens) -> None:
        """Raise a ValueError unless tokens are ids [batch seg], no longer than learned positions allow."""
        self._check_tokens("tokens", tokens)
        most, seg = self.config.max_seg_len, tokens.shape[1]
        if self.positions and seg > most:
            raise ValueError(f"a segment may have at most max_seg_len = {most} tokens, got {seg}")

    def _check_tokens(self, name: str, ids: Tokens) -> None:
        check_tokens(name, ids, vocab_size=self.config.vocab_size, weight=next(self.parameters()))

    def _checked_inputs(
        self, tokens: Tokens, memory: Memory | None, options: AttentionOptions
    ) -> tuple[Memory, AttentionOptions]:
        """Check all arguments. Return memory (an empty one for None) and options with clamp_len."""
        self.check_segment_tokens(tokens)
        config, batch = self.config, len(tokens)
        memory = self.empty_memory(batch) if memory is None else memory
        dims, weight = (config.n_layer, batch, config.d_model), next(self.parameters())
        check_memory(memory, options, dims, seg=tokens.shape[1], weight=weight)
        if options.get("clamp_len") is None:
            options = {**options, "clamp_len": config.clamp_len}
        return memory, options


GAUSSIAN = "weight", "u", "v", "a_K", "a_V", "table"
"""Names of the parameters that ``initialise`` draws from a normal distribution."""


def initialise(module: nn.Module) -> None:
    """Draw a module's parameters at random, from the original code's distributions where it has them.

    ``apply`` calls it for each module. It draws the module's own parameters, and ``adaptive``'s projections:

        matrices, u, v, a_K, a_V, table    mean 0, standard deviation 0.02
        projections of ``adaptive``        mean 0, standard deviation 0.01
        gains of LayerNorm                 mean 1, standard deviation 0.02
        biases of Linear and LayerNorm     0

    Raises a ValueError for a parameter of any other name: add new names to ``GAUSSIAN``, and register
    constants by ``register_buffer``.
    """
    for name, parameter in module.named_parameters(recurse=False):
        if name == "bias":
            nn.init.zeros_(parameter)
        elif name not in GAUSSIAN:
            raise ValueError(f"model.GAUSSIAN must name each parameter, got {type(module).__name__}.{name}")
        else:
            nn.init.normal_(parameter, mean=1.0 if isinstance(module, nn.LayerNorm) else 0.0, std=0.02)
    # ``apply`` reaches children first: it has drawn the projections as Linear layers. Here they are redrawn.
    if isinstance(module, AdaptiveEmbedding | AdaptiveSoftmax):
        for projection in module.projections:
            nn.init.normal_(projection.get_parameter("weight"), std=0.01)
