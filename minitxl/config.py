"""What a run is made of: frozen settings, checked when they are made.

Every field is a keyword of ``dataclasses.replace`` and a flag of the command line, so
an ablation is one ``replace(config, attention="absolute")``.
"""

from dataclasses import dataclass, replace
from typing import Literal


def _require(holds: bool, rule: str, got: object) -> None:
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
    attention: Literal["absolute", "shaw", "xl"] = "xl"
    """Where position enters: added to the input, or as a distance in each score."""
    positions: Literal["sinusoidal", "learned", "per-layer"] = "sinusoidal"
    """Positions of attention=absolute: fixed, learned, or learned and added at every layer."""
    max_seg_len: int = 512
    """Rows of a learned position table, the longest segment it can place."""
    max_distance: int = 16
    """Shaw's k: distances beyond it share one vector."""
    clamp_len: int | None = None
    """Distance beyond which all keys count as equally far, where a call names none (shaw, xl)."""
    share_uv: bool = True
    """One u and v for all layers (xl), or a pair for each layer."""
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each sublayer (the paper's), or before it."""
    norm_output: bool = True
    """Pre-norm has one more LayerNorm at the end; the released format has none."""
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
    """For each cluster, whether its output projection is the input's; none means all apart."""
    dropout: float = 0.1
    """Rate on embeddings, positions, sublayer outputs and the inner layer."""
    attention_dropout: float = 0.0
    """Rate on attention weights."""
    word_dropout: float = 0.0
    """Rate at which whole words of the vocabulary lose their input embedding."""
    variational: bool = False
    """Draw each dropout mask once for all tokens of a segment."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "n_layer", "d_model", "n_head", "d_head", "d_inner"):
            _require(getattr(self, name) >= 1, f"{name} must be 1 or more", getattr(self, name))
        _require(self.max_seg_len >= 1, "max_seg_len must be 1 or more", self.max_seg_len)
        _require(self.max_distance >= 0, "max_distance must be 0 or more", self.max_distance)
        _require(self.clamp_len is None or self.clamp_len >= 0, "clamp_len must be 0 or more", self.clamp_len)
        _require(self.d_embed is None or self.d_embed >= 1, "d_embed must be 1 or more", self.d_embed)
        _require(self.d_model % 2 == 0, "d_model must be even, half sines and half cosines", self.d_model)
        _one_of("attention", self.attention, ("absolute", "shaw", "xl"))
        _one_of("positions", self.positions, ("sinusoidal", "learned", "per-layer"))
        _one_of("norm", self.norm, ("post", "pre"))
        _one_of("activation", self.activation, ("relu", "gelu"))
        for name in ("dropout", "attention_dropout", "word_dropout"):
            _require(0 <= getattr(self, name) < 1, f"{name} must lie in [0, 1)", getattr(self, name))


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    _require(value in allowed, f"{name} must be {', '.join(allowed[:-1])} or {allowed[-1]}", value)


def _check_lengths(seg_len: int, mem_len: int, window: int | None, clamp_len: int | None) -> None:
    _require(seg_len >= 1, "seg_len must be 1 or more", seg_len)
    _require(mem_len >= 0, "mem_len must be 0 or more", mem_len)
    _require(window is None or window >= 1, "window must be 1 or more, the query itself counts", window)
    _require(clamp_len is None or clamp_len >= 0, "clamp_len must be 0 or more", clamp_len)
    needed = 0 if window is None else window - 1
    rule = f"mem_len must be window - 1 = {needed} or more, so that each query has its window"
    _require(mem_len >= needed, rule, mem_len)


@dataclass(frozen=True)
class EvaluateConfig:
    """How a stream is scored with memory."""

    seg_len: int = 32
    """Tokens of a segment, L; with a window it changes the speed and not the losses."""
    mem_len: int = 32
    """Tokens of memory, M."""
    window: int | None = None
    """Most keys a query sees, itself included; the original's same_length is window = mem_len."""
    clamp_len: int | None = None
    """Distance beyond which all keys count as equally far (xl)."""

    def __post_init__(self) -> None:
        _check_lengths(self.seg_len, self.mem_len, self.window, self.clamp_len)

    def attending(self, attention_len: int) -> "EvaluateConfig":
        """The same with a memory in which every query sees that many keys, itself included."""
        return replace(self, mem_len=attention_len - 1, window=attention_len)


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. The defaults suit the small models of the course."""

    seg_len: int = 32
    """Tokens of a segment, L."""
    mem_len: int = 32
    """Tokens of memory, M; 0 trains on isolated segments."""
    window: int | None = None
    """Most keys a query sees, itself included; none means all of memory and segment."""
    clamp_len: int | None = None
    """Distance beyond which all keys count as equally far (xl)."""
    batch: int = 16
    """Number of lanes the text is cut into."""
    steps: int = 900
    """Optimizer steps, one segment of every lane each."""
    learning_rate: float = 2e-3
    """Peak of the schedule."""
    warmup: int = 20
    """Steps of linear warm-up; then a cosine falls to zero at the last step."""
    weight_decay: float = 0.0
    """Decoupled weight decay; 0 makes AdamW the paper's Adam."""
    loss: Literal["full", "half"] = "full"
    """Train on all targets of a segment, or on those of its later half."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: matrix products in bfloat16, weights and sums in float32; on a CUDA GPU alone."""
    average_from: int | None = None
    """Step from which weights are averaged for evaluation; none means never."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    validate_every: int = 100
    """Steps between validations."""
    validate_tokens: int = 8192
    """Tokens of the validation text scored at each validation."""
    validate_attention_lens: tuple[int, ...] = ()
    """Further lengths to validate at, each with a memory in which every query sees that many keys."""
    seed: int = 0
    """Seed of the weights and of dropout."""

    def __post_init__(self) -> None:
        _check_lengths(self.seg_len, self.mem_len, self.window, self.clamp_len)
        for name in ("batch", "steps", "validate_every", "validate_tokens"):
            _require(getattr(self, name) >= 1, f"{name} must be 1 or more", getattr(self, name))
        lengths = self.validate_attention_lens
        _require(
            all(length >= 1 for length in lengths), "validate_attention_lens must be 1 or more each", lengths
        )
        _require(self.learning_rate > 0, "learning_rate must be positive", self.learning_rate)
        _require(0 <= self.warmup <= self.steps, f"warmup must lie in 0 … steps = {self.steps}", self.warmup)
        _require(self.weight_decay >= 0, "weight_decay must be 0 or more", self.weight_decay)
        _require(self.clip > 0, "clip must be positive", self.clip)
        _one_of("loss", self.loss, ("full", "half"))
        _one_of("precision", self.precision, ("float32", "bfloat16"))
        first = self.average_from
        _require(first is None or 0 <= first < self.steps, "average_from must lie in 0 … steps - 1", first)

    @property
    def evaluation(self) -> EvaluateConfig:
        """How a stream is scored as the model was trained."""
        return EvaluateConfig(self.seg_len, self.mem_len, self.window, self.clamp_len)


@dataclass(frozen=True)
class KeepConfig:
    """How a run is carried out and what it keeps. None of it decides what is learned, so it may
    change when a run goes on."""

    accumulate: int = 1
    """Parts that the lanes of a process are taken in, one after another, to need less memory."""
    checkpoint_every: int = 300
    """Steps between checkpoints."""
    checkpoint_minutes: float | None = None
    """Minutes after which there is a checkpoint in any case; none means steps alone decide."""
    keep: int = 2
    """Checkpoints that are kept, the newest ones."""
    log_every: int = 10
    """Steps between lines of the log."""
    tensorboard: bool = False
    """Write what is logged for TensorBoard too."""
    spike: float | None = 3.0
    """Stop where a loss is this many bits above the mean of the last 100; none means never."""

    def __post_init__(self) -> None:
        for name in ("accumulate", "checkpoint_every", "keep", "log_every"):
            _require(getattr(self, name) >= 1, f"{name} must be 1 or more", getattr(self, name))
        minutes = self.checkpoint_minutes
        _require(minutes is None or minutes > 0, "checkpoint_minutes must be positive", minutes)
        _require(self.spike is None or self.spike > 0, "spike must be positive", self.spike)
