"""The architecture's settings, frozen. They are checked when they are made, cutoffs with the model.

Every field is a keyword of ``dataclasses.replace`` and a flag of the command line, so
an ablation is one ``replace(config, attention="absolute")``.
"""

from dataclasses import dataclass
from typing import Literal

from minitxl.fields import LARGEST, check_types


def require(holds: bool, rule: str, got: object) -> None:
    """Raise a ValueError that names the rule and the value, unless the rule holds."""
    if not holds:
        raise ValueError(f"{rule}, got {got!r}")


@dataclass(frozen=True)
class ModelConfig:
    """The architecture. Lengths of segment and memory are the caller's and not in here."""

    vocab_size: int = 256
    """Number of token ids; bytes by default."""
    n_layer: int = 3
    """Number of layers N."""
    d_model: int = 128
    """Width of the residual stream."""
    n_head: int = 4
    """Number of attention heads."""
    d_head: int = 32
    """Width of one head."""
    d_inner: int = 512
    """Width of the feed-forward layer."""
    attention: Literal["absolute", "shaw", "xl", "rotary", "alibi", "t5"] = "xl"
    """Positions added to the input (absolute), distances in scores and values (shaw) or scores alone."""
    positions: Literal["sinusoidal", "learned", "per-layer", "none"] = "sinusoidal"
    """Positions of attention=absolute: fixed, learned, learned and added at every layer, or none at all."""
    max_seg_len: int = 512
    """Rows of a learned position table, the longest segment it can place."""
    max_distance: int = 16
    """Shaw's k: distances beyond it share one vector."""
    n_bucket: int = 32
    """Number of buckets of distances (t5): half of them hold a distance each, the others more and more."""
    bucket_distance: int = 128
    """Distance at which the last bucket (t5) would end; it holds all that are farther, too."""
    clamp_len: int | None = None
    """Distance beyond which all keys count as equally far, the default when a call passes none."""
    share_biases: bool = True
    """One u and v (xl) or one table of buckets (t5) for all layers, or its own for each layer."""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each sublayer (the paper's), or before it."""
    final_norm: bool = True
    """LayerNorm after the last layer of a pre-norm model; the released format has none."""
    layer_norm_eps: float = 1e-5
    """ε of every LayerNorm, added to the variance."""
    activation: Literal["relu", "gelu"] = "relu"
    """Non-linearity of the feed-forward layer."""
    d_embed: int | None = None
    """Width of the first cluster's embedding; none means d_model."""
    cutoffs: tuple[int, ...] = ()
    """Adaptive embedding and softmax: the ids at which rarer clusters of words begin."""
    div_val: int = 1
    """Each cluster's embedding is narrower than the one before by this factor."""
    tie_embeddings: bool = True
    """The output layer uses the input embedding's matrix."""
    tie_projections: tuple[bool, ...] = ()
    """For each cluster, True if its output projection is the input's; () means none is."""
    dropout: float = 0.1
    """Rate on embeddings, positions, sublayer outputs, the inner layer and the last output."""
    attention_dropout: float = 0.0
    """Rate on attention weights."""
    word_dropout: float = 0.0
    """Rate at which whole words of the vocabulary lose their input embedding."""
    variational_dropout: bool = False
    """Draw the masks of ``dropout`` once for all tokens of a segment; distances keep ordinary masks."""

    @property
    def absolute(self) -> bool:
        """True if a token's place in its segment is added to it, so that memory has the segment's places."""
        return self.attention == "absolute" and self.positions != "none"

    def __post_init__(self) -> None:
        check_types(self)
        for name, largest in LARGEST.items():
            value = getattr(self, name)
            require(value is None or value <= largest, f"{name} must be at most {largest:,}", value)
        for name in ("vocab_size", "n_layer", "d_model", "n_head", "d_head", "d_inner"):
            require(getattr(self, name) >= 1, f"{name} must be 1 or more", getattr(self, name))
        require(self.div_val >= 1, "div_val must be 1 or more", self.div_val)
        require(self.max_seg_len >= 1, "max_seg_len must be 1 or more", self.max_seg_len)
        require(self.max_distance >= 0, "max_distance must be 0 or more", self.max_distance)
        require(self.n_bucket >= 2, "n_bucket must be 2 or more", self.n_bucket)
        require(
            self.bucket_distance > self.n_bucket // 2,
            "bucket_distance must be greater than n_bucket / 2",
            self.bucket_distance,
        )
        require(self.clamp_len is None or self.clamp_len >= 0, "clamp_len must be 0 or more", self.clamp_len)
        require(self.d_embed is None or self.d_embed >= 1, "d_embed must be 1 or more", self.d_embed)
        require(self.layer_norm_eps > 0, "layer_norm_eps must be positive", self.layer_norm_eps)
        require(self.d_model % 2 == 0, "d_model must be even, half sines and half cosines", self.d_model)
        rotary = self.attention == "rotary"
        require(not rotary or self.d_head % 2 == 0, "d_head must be even where pairs rotate", self.d_head)
        for name in ("dropout", "attention_dropout", "word_dropout"):
            require(0 <= getattr(self, name) < 1, f"{name} must lie in [0, 1)", getattr(self, name))
