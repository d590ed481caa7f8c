"""Flags of ``minitxl train``: settings whose values are checked once all of them are known."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import tyro

from minitxl.config import ModelConfig
from minitxl.fields import LONGEST, require
from minitxl.training.config import RunConfig, TrainConfig
from minitxl.training.schedules import learning_rate
from minitxl.training.validation import sufficient_tokens

CHANGEABLE = (
    *("learning_rate", "schedule", "eta_min", "weight_decay", "clip", "batch", "precision"),
    *("validate_every", "validate_tokens", "validate_attention_lens"),
)
"""Settings that a run may go on with at other values."""
REGULARIZATION = ("dropout", "attention_dropout", "word_dropout", "variational_dropout")
"""Settings of a model that may differ where training goes on from its weights: no weight's shape depends on
them."""
BASE = replace(TrainConfig(), warmup=200)
"""Settings of a training that names no preset. A post-norm model, the paper's and the default, needs this
warm-up: with few steps of it, a model of prose may learn the frequencies of single bytes and no more."""
FOLLOWING = ("warmup", "validate_tokens")
"""Settings that follow from others where they are not given."""
SMALLEST_SHARE = 5
"""A warm-up that is left at its default takes at most one step of so many, where there are fewer steps."""


@dataclass(frozen=True)
class ModelFlags(ModelConfig):
    """The architecture."""

    vocab_size: int | None = None  # type: ignore[assignment]
    """Number of token ids; none means those of the text."""
    clamp_len: tyro.conf.Suppress[int | None] = None
    """Training's flag of that name decides."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self, tokens: int) -> ModelConfig:
        """Return the configuration for a text that has so many different tokens."""
        size = tokens if self.vocab_size is None else self.vocab_size
        if size < tokens:
            raise ValueError(f"vocab_size must be {tokens} or more for this text, got {size}")
        return ModelConfig(**{**asdict(self), "vocab_size": size})


@dataclass(frozen=True)
class TrainFlags(TrainConfig):
    """How it is trained."""

    warmup: int | None = None  # type: ignore[assignment]
    """Steps of linear warm-up to the peak; none means those of the preset, or 200, and of a training with
    fewer steps at most a fifth of them."""
    validate_tokens: int | None = None  # type: ignore[assignment]
    """Tokens scored at each validation; none means 8192, or more where 8 lanes of 8 times memory and segment
    take more. A text that is not longer is scored whole, but for a few tokens at its end that don't fill all
    lanes. Of a longer one, 8 lanes or more from all over it are scored."""
    schedule_steps: tyro.conf.Suppress[int | None] = None
    """Set by --decay-now."""
    decay_from: tyro.conf.Suppress[int | None] = None
    """Set by --decay-now."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self, base: TrainConfig) -> TrainConfig:
        """Return the settings. What was left as in ``base`` follows fewer steps, and longer lengths."""
        left = {name: getattr(base, name) for name in FOLLOWING if getattr(self, name) is None}
        values = asdict(self) | left
        if self.warmup is None and self.steps < base.steps:
            values["warmup"] = min(base.warmup, max(0, self.steps) // SMALLEST_SHARE)
        first = base.average_from
        if first is not None and self.average_from == first and self.steps <= first:
            values["average_from"] = self.steps * first // base.steps
        settings = TrainConfig(**values)
        if self.validate_tokens is None:
            enough = max(base.validate_tokens, min(sufficient_tokens(settings), LONGEST))
            return replace(settings, validate_tokens=enough)
        return settings


@dataclass(frozen=True)
class RunFlags(RunConfig):
    """How the run is carried out and what it keeps; all of this may change when it goes on."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self) -> RunConfig:
        return RunConfig(**asdict(self))


def resumed(
    flags: TrainConfig,
    own: TrainConfig,
    *,
    step: int,
    until_step: int | None,
    decay_now: int | None,
    folder: Path,
) -> TrainConfig:
    """Return the settings that a run goes on with from ``step``: its own, with what the flags change.

    Both ``until_step`` and ``decay_now`` may be given again: a run that has so many steps, or that is
    decaying already, goes on as it is.
    """
    changes = {
        field.name: getattr(flags, field.name)
        for field in fields(TrainConfig)
        if getattr(flags, field.name) != getattr(own, field.name)
    }
    changes = {name: value for name, value in changes.items() if not (value is None and name in FOLLOWING)}
    for name in changes:
        if name not in CHANGEABLE:
            hint = (
                "--until-step and --decay-now change it"
                if name == "steps"
                else "for other settings use another folder"
            )
            raise ValueError(
                f"{name} must be {getattr(own, name)} as in the run in {folder}, got {changes[name]}; {hint}"
            )
    settings = replace(own, **changes)
    if until_step is not None and decay_now is not None:
        raise ValueError(f"until_step must be given without decay_now, got {until_step} with {decay_now}")
    if until_step is not None:
        require(
            until_step >= own.steps,
            f"until_step must be {own.steps} or more, the steps of the run in {folder}",
            until_step,
        )
        settings = replace(settings, steps=until_step)
    if decay_now is not None and own.decay_from is None:
        require(decay_now >= 1, "decay_now must be 1 or more", decay_now)
        steps, rate = step + decay_now, learning_rate(max(1, step), settings)
        if rate <= settings.eta_min:
            raise ValueError(
                f"decay_now must begin at a rate above eta_min = {settings.eta_min}, got {rate} at step "
                f"{step}; --schedule constant keeps the rate up"
            )
        average = settings.average_from
        settings = replace(
            settings,
            steps=steps,
            decay_from=step,
            schedule_steps=own.schedule_steps or own.steps,
            average_from=average if average is None or average < steps else step,
        )
    return settings


def in_words(settings: TrainConfig) -> str:
    """Return one line that says in which lengths and at which rate a run is trained."""
    window = "" if settings.window is None else f", window {settings.window:,}"
    low, since = settings.eta_min, settings.decay_from
    falls = "" if since is None else f", and from step {since:,} in a line to {low:g}"
    clamp = "" if settings.clamp_len is None else f", clamp_len {settings.clamp_len:,}"
    return (
        f"training: segments of {settings.seg_len:,}, memory {settings.mem_len:,}{window}{clamp}, batch "
        f"{settings.batch:,}; {settings.steps:,} steps, rate {settings.learning_rate:g} after a warm-up of "
        f"{settings.warmup:,}, {settings.schedule}{falls}"
    )


def check_effect(config: ModelConfig, settings: TrainConfig) -> None:
    """Raise a ValueError for a setting that isn't left at its default, and would change nothing."""
    attention = config.attention
    table = attention == "absolute" and config.positions in ("learned", "per-layer")
    projected = config.div_val > 1 or config.d_embed not in (None, config.d_model)
    needed = {
        "positions": (attention == "absolute", "attention = absolute"),
        "max_seg_len": (table, "positions = learned or per-layer"),
        "max_distance": (attention == "shaw", "attention = shaw"),
        "n_bucket": (attention == "t5", "attention = t5"),
        "bucket_distance": (attention == "t5", "attention = t5"),
        "share_biases": (attention in ("xl", "t5"), "attention = xl or t5"),
        "clamp_len": (attention != "absolute", "an attention that reads distances"),
        "variational_dropout": (config.dropout > 0, "dropout above 0"),
        "final_norm": (config.norm == "pre", "norm = pre"),
        "tie_projections": (projected, "div_val above 1, or a d_embed other than d_model"),
    }
    values = asdict(config) | asdict(settings)
    defaults = asdict(ModelConfig()) | asdict(TrainConfig())
    for name, (is_there, what) in needed.items():
        if values[name] != defaults[name] and not is_there:
            raise ValueError(f"{name} must be given with {what}, got {values[name]} without")


def check_same_model(flags: ModelConfig, own: ModelConfig, *, name: str, but: tuple[str, ...] = ()) -> None:
    """Raise a ValueError unless the flags ask for the model of ``name``; the settings ``but`` may differ."""
    for field in fields(ModelConfig):
        value, wanted = getattr(flags, field.name), getattr(own, field.name)
        if value != wanted and field.name not in (*but, "clamp_len"):
            raise ValueError(
                f"{field.name} must be {wanted} as in {name}, got {value}; "
                f"for other settings use another folder"
            )
