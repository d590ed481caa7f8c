"""The architecture's settings, frozen.

Types and ranges are checked on construction. How the settings of adaptive embedding and softmax fit together
(``cutoffs``, ``div_val``, ``d_embed``, ``tie_projections``) is checked in ``adaptive`` when the model is
built.

``dataclasses.replace`` returns a copy with other values, so an ablation is one call: ``replace(config,
attention="absolute")``. Each field but ``clamp_len`` is a flag of ``minitxl train``. (That command's
``--clamp-len`` is ``TrainConfig.clamp_len``, a setting of the training. If it is given, it overrides the
model's.)
"""

from dataclasses import dataclass
from typing import Literal

from minitxl.fields import SIZES, check, check_buckets, check_types, positive, rate, require


@dataclass(frozen=True)
class ModelConfig:
    """The architecture. Lengths of segment and memory are no settings here: each call may choose them.

    Only learned positions limit a segment's length, to ``max_seg_len`` tokens.
    """

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
    """absolute adds position encodings to the states, as ``positions`` says. The others score by distance;
    in shaw the values, too, get a vector for their distance."""
    positions: Literal["sinusoidal", "learned", "per-layer", "none"] = "sinusoidal"
    """Position encodings of attention=absolute: sinusoids, one learned table, a learned table for each
    layer, or none."""
    max_seg_len: int = 512
    """Longest segment with learned positions: their tables have this many rows."""
    max_distance: int = 16
    """Shaw's k: keys at this distance or farther share one vector."""
    n_bucket: int = 32
    """Number of T5's buckets (num_buckets). The first n_bucket // 2 buckets hold one distance each. Beyond
    them a bucket's number grows like the logarithm of the distance (``later_attention.T5Attention``)."""
    bucket_distance: int = 128
    """T5's max_distance. The last bucket holds it, all greater distances, and usually some smaller ones."""
    clamp_len: int | None = None
    """Keys at this distance or farther count as equally far (not in absolute); a call may override it."""
    share_biases: bool = True
    """True: one u and v (xl), or one table of biases (t5), for all layers. False: each layer has its own."""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each sublayer (the paper's), or before it."""
    final_norm: bool = True
    """LayerNorm after the last layer of a pre-norm model. False: none, as in the authors' code."""
    layer_norm_eps: float = 1e-5
    """ε of every LayerNorm, added to the variance."""
    activation: Literal["relu", "gelu"] = "relu"
    """Non-linearity of the feed-forward layer."""
    d_embed: int | None = None
    """Width of the first cluster's embedding; None means d_model."""
    cutoffs: tuple[int, ...] = ()
    """Adaptive embedding and softmax: the ids at which the clusters of rarer words begin."""
    div_val: int = 1
    """Each cluster's embedding is narrower, by this factor, than the previous cluster's. If it is above 1,
    each cluster has a projection to d_model, even if there is one cluster alone."""
    tie_embeddings: bool = True
    """The output layer uses the input embedding's matrix."""
    tie_projections: tuple[bool, ...] = ()
    """For each cluster, True if the output layer uses the embedding's projection; () is False for all."""
    dropout: float = 0.1
    """Rate of dropout on the first layer's input (embeddings plus positions), the distance encodings, the
    hidden layer of the feed-forward, each sublayer's output and the last output. Learned positions of later
    layers are not dropped."""
    attention_dropout: float = 0.0
    """Rate on attention weights."""
    word_dropout: float = 0.0
    """Rate at which a word's input embedding is set to 0 wherever the word stands in the batch (embedding
    dropout in AWD-LSTM). Isolated tokens are spared: ``TransformerLM.embed`` says what they are, and why."""
    variational_dropout: bool = False
    """One mask of ``dropout`` for all tokens of a segment; distance encodings keep ordinary dropout."""

    @property
    def has_absolute_positions(self) -> bool:
        """True if position encodings are added to the states, which carry them into memory."""
        return self.attention == "absolute" and self.positions != "none"

    def __post_init__(self) -> None:
        check_types(self)
        for name, rule in SIZES.items():
            check(name, getattr(self, name), rule)
        check_buckets(self.n_bucket, self.bucket_distance)
        check("layer_norm_eps", self.layer_norm_eps, positive)
        require(self.d_model % 2 == 0, "d_model must be even", self.d_model)
        rotary = self.attention == "rotary"
        require(not rotary or self.d_head % 2 == 0, "d_head must be even for attention = rotary", self.d_head)
        for name in ("dropout", "attention_dropout", "word_dropout"):
            check(name, getattr(self, name), rate)
