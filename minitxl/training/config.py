"""How a model is trained (``TrainConfig``), and how its run is carried out (``RunConfig``)."""

from dataclasses import dataclass
from typing import Literal

from minitxl.fields import LONGEST, check, check_types, optional, positive, require
from minitxl.inference.config import EvaluateConfig, check_lengths


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. The defaults suit the small models of the course."""

    seg_len: int = 32
    """Tokens of a segment, L."""
    mem_len: int = 32
    """Tokens of memory, M; 0 trains on isolated segments."""
    window: int | None = None
    """Greatest number of keys that a query attends to, the one at its own place included; none means all."""
    clamp_len: int | None = None
    """Keys at this distance or farther count as equally far (not in absolute); none means the model's own."""
    batch: int = 16
    """Number of lanes, of all processes together: the text is cut into so many long stretches, which are read
    side by side."""
    steps: int = 900
    """Optimizer steps, one segment of every lane each."""
    learning_rate: float = 2e-3
    """Peak of the schedule."""
    warmup: int = 20
    """Steps of linear warm-up to the peak."""
    schedule: Literal["cosine", "constant", "inv_sqrt"] = "cosine"
    """After the warm-up the rate falls along a cosine to eta_min, stays, or falls as √(warmup / step)."""
    eta_min: float = 0.0
    """Rate at the end of the cosine, and of the decay after ``decay_from``; the inverse square root falls no
    lower."""
    schedule_steps: int | None = None
    """Step at which the cosine reaches eta_min, where the rate then stays; none means the last step."""
    decay_from: int | None = None
    """Step after which the rate falls linearly to eta_min at the last step; none means never."""
    weight_decay: float = 0.0
    """Decoupled decay of matrices, not of LayerNorms and biases; 0 makes AdamW the paper's Adam."""
    loss: Literal["full", "half"] = "full"
    """Train on all targets of a segment (full), or on those of its later half (half), and log the loss of the
    same targets. Validation scores all."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: matrix products in bfloat16, weights and sums in float32; on a CUDA GPU, and on a CPU with
    instructions for it (avx512_bf16 or amx_bf16). The validation is in float32 in both."""
    average_from: int | None = None
    """Step after which weights are averaged for evaluation; none means never."""
    clip: float = 1.0
    """Norm to which a larger gradient is scaled down."""
    validate_every: int = 100
    """Steps between validations."""
    validate_tokens: int = 8192
    """Tokens scored at each validation. A text that is not longer is scored whole, but for a few tokens at
    its end that don't fill all lanes. Of a longer one, 8 lanes or more from all over it are scored (fewer if
    this number is below 8)."""
    validate_attention_lens: tuple[int, ...] = ()
    """Further numbers of keys to validate with: each query sees so many, itself included."""
    seed: int = 0
    """Seed of the weights and of dropout."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("seg_len", "mem_len", "batch", "steps", "warmup", "validate_every", "validate_tokens"):
            require(
                getattr(self, name) <= LONGEST, f"{name} must be at most {LONGEST:,}", getattr(self, name)
            )
        check_lengths(self.seg_len, self.mem_len, self.window, self.clamp_len)
        for name in ("batch", "steps", "validate_every", "validate_tokens"):
            require(getattr(self, name) >= 1, f"{name} must be 1 or more", getattr(self, name))
        lengths = self.validate_attention_lens
        require(
            all(1 <= length < self.validate_tokens for length in lengths),
            f"validate_attention_lens must lie in 1 … validate_tokens - 1 = {self.validate_tokens - 1:,}",
            lengths,
        )
        check("learning_rate", self.learning_rate, positive)
        require(0 <= self.warmup <= self.steps, f"warmup must lie in 0 … steps = {self.steps}", self.warmup)
        require(self.weight_decay >= 0, "weight_decay must be 0 or more", self.weight_decay)
        check("clip", self.clip, positive)
        low, peak = self.eta_min, self.learning_rate
        require(0 <= low <= peak, f"eta_min must lie in 0 … learning_rate = {peak}", low)
        schedule_steps, decay_from = self.schedule_steps, self.decay_from
        require(
            schedule_steps is None or schedule_steps >= 1, "schedule_steps must be 1 or more", schedule_steps
        )
        require(
            decay_from is None or 1 <= decay_from < self.steps,
            f"decay_from must lie in 1 … steps - 1 = {self.steps - 1}",
            decay_from,
        )
        require(0 <= self.seed < 2**63, "seed must lie in 0 … 2**63 - 1", self.seed)
        first = self.average_from
        require(first is None or 0 <= first < self.steps, "average_from must lie in 0 … steps - 1", first)

    @property
    def evaluation(self) -> EvaluateConfig:
        """How a stream is scored as the model was trained."""
        return EvaluateConfig(self.seg_len, self.mem_len, self.window, self.clamp_len)


@dataclass(frozen=True)
class RunConfig:
    """Settings of how a run is carried out and what it stores. They may change on resume.

    No step's update depends on them, but for ``accumulate``: each part draws its own dropout, and sums round
    differently. ``spike`` and ``patience`` may end the run early.
    """

    accumulate: int = 1
    """Parts that the lanes of a process are taken in, one after another, to need less RAM."""
    checkpoint_every: int = 300
    """Steps between checkpoints."""
    checkpoint_minutes: float | None = None
    """Minutes after which there is a checkpoint in any case; none means steps alone decide."""
    checkpoints: int = 2
    """Number of newest checkpoints to keep."""
    log_every: int = 10
    """Steps between lines of the log."""
    tensorboard: bool = False
    """Write what is logged for TensorBoard too."""
    spike: float | None = 3.0
    """Stop where a loss is this many bits above the mean of the last 100, or where that mean is more than
    1.05 times the bits of a uniform guess; none means never. Both need the losses of 100 steps since the
    training was begun or resumed, and the second also 100 steps after the warm-up."""
    patience: int | None = None
    """Stop after so many validations in a row without a new best; none means never."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("accumulate", "checkpoint_every", "checkpoints", "log_every"):
            require(getattr(self, name) >= 1, f"{name} must be 1 or more", getattr(self, name))
        for name in ("checkpoint_minutes", "spike"):
            check(name, getattr(self, name), optional(positive))
        require(self.patience is None or self.patience >= 1, "patience must be 1 or more", self.patience)
