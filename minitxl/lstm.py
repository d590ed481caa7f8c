"""The LSTM with which Transformers are compared: state goes in, new state comes out.

    losses, state = model.token_losses(tokens, targets, state)

It is called as ``TransformerLM`` is, but takes no options, and a state in place of the memory. There is no
``extend``: however long the text, the state is two vectors a layer. It comes out detached. So gradients go
back to the start of a segment and no farther, as in Transformer-XL.
"""

from dataclasses import dataclass
from math import isqrt

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from minitxl.arguments import check_hidden, check_kind, check_rank, check_tokens
from minitxl.fields import SIZES, check, optional, rate, whole

Tokens = Int[Tensor, "batch seg"]
State = Float[Tensor, "2 layer batch model"]
"""The two vectors h and c of each layer."""


@dataclass(frozen=True)
class LSTMConfig:
    """The architecture. The embedding is as wide as the state, because the output layer uses its matrix."""

    vocab_size: int = 256
    """Number of token ids; bytes by default."""
    n_layer: int = 2
    """Number of layers."""
    d_model: int = 256
    """Width of the embedding, and of the state of every layer."""
    dropout: float = 0.1
    """Rate on embeddings, between layers, and on the last layer's output."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "n_layer", "d_model"):
            check(name, getattr(self, name), SIZES[name])
        check("dropout", self.dropout, rate)

    @property
    def n_parameter(self) -> int:
        """Parameters of the model: the tied table and its biases, eight matrices and eight biases a layer."""
        return self.vocab_size * (self.d_model + 1) + self.n_layer * (8 * self.d_model**2 + 8 * self.d_model)


def config_near(
    n_parameter: int, *, vocab_size: int = 256, n_layer: int = 2, dropout: float = 0.1
) -> LSTMConfig:
    """Return the configuration whose number of parameters is nearest to ``n_parameter``.

    For an LSTM beside a Transformer, that is ``sum(p.numel() for p in model.parameters())``.
    """
    a, b, c = 8 * n_layer, vocab_size + 8 * n_layer, vocab_size - n_parameter  # a d² + b d + c = 0
    below = max(1, (isqrt(max(0, b**2 - 4 * a * c)) - b) // (2 * a))
    around = [LSTMConfig(vocab_size, n_layer, width, dropout) for width in (below, below + 1)]
    return min(around, key=lambda config: abs(config.n_parameter - n_parameter))


class LSTMLM(nn.Module):
    """Embedding, LSTM layers, and a softmax whose matrix is the embedding's."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.config = check_kind("config", config, LSTMConfig)
        dropout_between = config.dropout if config.n_layer > 1 else 0.0
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.lstm = nn.LSTM(
            config.d_model, config.d_model, config.n_layer, dropout=dropout_between, batch_first=True
        )
        self.dropout = nn.Dropout(config.dropout)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))
        self.initialise()

    def initialise(self) -> None:
        """Draw the parameters at random.

            embeddings                 mean 0, standard deviation 0.5
            matrices                   uniform between ±1/√d_model
            biases of forget gates     1
            other biases               0

        h lies in (-1, 1), so its products with the embeddings, the logits, are large only if the embeddings
        are. With a standard deviation of 0.1 or less, as is usual where the output has a matrix of its own,
        learning begins several times more slowly. With a forget bias of 1 a new LSTM remembers (Jozefowicz et
        al. 2015). PyTorch adds two biases, and one of the two is 1.
        """
        width = self.config.d_model
        nn.init.normal_(self.embedding.weight, std=0.5)
        nn.init.zeros_(self.bias)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight"):
                nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)
            else:
                nn.init.zeros_(parameter)
                if name.startswith("bias_ih"):
                    nn.init.ones_(parameter[width : 2 * width])

    def last_hidden(
        self, tokens: Tokens, state: State | None = None, *, n_last: int | None = None
    ) -> tuple[Float[Tensor, "batch n_last model"], State]:
        """Return the last layer's output, of the last tokens only with ``n_last=n``, and the state."""
        self._check_tokens("tokens", tokens)
        check("n_last", n_last, optional(whole(1, tokens.shape[1])))
        if state is None:
            n_layer, width = self.config.n_layer, self.config.d_model
            state = self.embedding.weight.new_zeros(2, n_layer, len(tokens), width)
        self._check_state(state, len(tokens))
        h, c = state
        x = self.dropout(self.embedding(tokens))
        x, (h, c) = self.lstm(x, (h.contiguous(), c.contiguous()))
        return self.dropout(x if n_last is None else x[:, -n_last:]), torch.stack([h, c]).detach()

    def forward(
        self, tokens: Tokens, state: State | None = None
    ) -> tuple[Float[Tensor, "batch seg vocab"], State]:
        """Return log-probabilities of each next token, normalised, in nats; and the state after the last."""
        hidden, state = self.last_hidden(tokens, state)
        return self._logits(hidden).log_softmax(dim=-1), state

    def token_losses(
        self, tokens: Tokens, targets: Tokens, state: State | None = None
    ) -> tuple[Float[Tensor, "batch seg"], State]:
        """Return -log p(target) in nats of each target, and the state, detached."""
        hidden, state = self.last_hidden(tokens, state)
        return self.losses(hidden, targets), state

    def losses(self, hidden: Float[Tensor, "batch seg model"], targets: Tokens) -> Float[Tensor, "batch seg"]:
        """Return -log p(target) in nats of each target; ``hidden`` is the first result of ``last_hidden``."""
        self._check_tokens("targets", targets)
        check_hidden(hidden, targets, d_model=self.config.d_model)
        logits = rearrange(self._logits(hidden), "batch seg vocab -> batch vocab seg")
        return cross_entropy(logits, targets, reduction="none")

    def _logits(self, hidden: Float[Tensor, "batch seg model"]) -> Float[Tensor, "batch seg vocab"]:
        return self.linear(hidden, self.embedding.weight, self.bias)

    def linear(
        self,
        x: Float[Tensor, "batch seg model"],
        weight: Float[Tensor, "vocab model"],
        bias: Float[Tensor, " vocab"],
    ) -> Float[Tensor, "batch seg vocab"]:
        """Return x Wᵀ + b. A fast model replaces this method."""
        return linear(x, weight, bias)

    def _check_tokens(self, name: str, ids: Tokens) -> None:
        check_tokens(name, ids, vocab_size=self.config.vocab_size, weight=next(self.parameters()))

    def _check_state(self, state: State, batch: int) -> None:
        expected = 2, self.config.n_layer, batch, self.config.d_model
        state = check_rank("state", state, "2 layer batch model")
        if state.shape != expected:
            raise ValueError(f"state must have the shape {expected}, got {tuple(state.shape)}")
