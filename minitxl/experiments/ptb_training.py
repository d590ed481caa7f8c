"""The models of the experiment ``ptb``: trained once, kept as checkpoints until their result is whole.

    model, speed = kept_model(settings, corpus, "xl_memory", seed, device=, models=, report=)

As in ``trained``, a kept model is trained anew where its settings, its text or the code are other ones,
and its weights are rounded to float16 before anything is measured.
"""

from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

from jaxtyping import Float
from torch import Tensor

from minitxl.adaptive import AdaptiveSoftmax
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.fingerprints import TINY, exact, merged, tiny_corpus
from minitxl.experiments.shared.runner import Report
from minitxl.experiments.shared.trained import Model, kept, of_equal_size, train_lstm
from minitxl.fast import to_fast
from minitxl.lstm import LSTMLM, LSTMConfig
from minitxl.model import Tokens, TransformerLM
from minitxl.training import checkpoints
from minitxl.training.config import TrainConfig
from minitxl.training.step import Record

SYSTEMS: dict[str, dict[str, Any]] = {
    "xl_memory": {"attention": "xl", "memory": True},
    "xl": {"attention": "xl", "memory": False},
    "absolute": {"attention": "absolute", "memory": False},
    "absolute_memory": {"attention": "absolute", "memory": True},
    "shaw_memory": {"attention": "shaw", "memory": True},
    "rotary_memory": {"attention": "rotary", "memory": True},
    "lstm": {"attention": None, "memory": True},
}


class AdaptiveLSTM(LSTMLM):
    """The LSTM with the adaptive softmax of the Transformers beside it, tied to its embedding as theirs."""

    def __init__(self, config: LSTMConfig, cutoffs: tuple[int, ...]) -> None:
        super().__init__(config)
        self.output = AdaptiveSoftmax(config.vocab_size, config.d_model, config.d_model, cutoffs=cutoffs)
        table: Any = self.output.tables[0]
        table.weight, table.bias = self.embedding.weight, self.bias

    def losses(self, hidden: Float[Tensor, "batch seg model"], targets: Tokens) -> Float[Tensor, "batch seg"]:
        """Return -log p(target) in nats from what ``hidden`` returned."""
        self._check_tokens("targets", targets)
        return self.output.losses(hidden, targets)

    def _logits(self, hidden: Float[Tensor, "batch seg model"]) -> Float[Tensor, "batch seg vocab"]:
        return self.output.log_probs(hidden)


def kept_model(
    settings: dict[str, Any],
    corpus: Corpus,
    system: str,
    seed: int,
    *,
    device: str,
    models: Path,
    report: Report,
) -> tuple[Model, float]:
    """Return the system's model, and the tokens a second that its training read.

    It lies at ``models/ptb-SYSTEM-SEED.safetensors``, and is trained if need be.
    """
    path, config = models / f"ptb-{system}-{seed}.safetensors", config_of(settings, system)
    about = {
        "model": asdict(config),
        "trained": {
            "corpus": settings["corpus"],
            "cutoffs": settings["model"]["cutoffs"],
            "train": asdict(train_of(settings, system, seed)),
        },
        "fingerprint": fingerprint(system),
    }

    def fresh() -> tuple[Model, dict[str, Any]]:
        trained, records = _train(settings, corpus, system, seed, device, report)
        return trained, {"tokens_per_second": median(record.tokens / record.seconds for record in records)}

    model, measured = kept(path, about, _new(settings, config).to(device), fresh)
    return model, measured["tokens_per_second"]


@cache
def fingerprint(system: str) -> list[float]:
    """Return the training loss of every step of the system's tiny run, in bits."""
    corpus = tiny_corpus()
    tiny = {"model": asdict(ModelConfig()), "train": asdict(TrainConfig()), "changes": {}}
    tiny = merged(tiny, {name: TINY["ptb"][name] for name in ("model", "train")})
    with exact():
        _, records = _train(tiny, corpus, system, 0, "cpu", lambda label, steps, record: None)
    return [record.bits for record in records]


def config_of(settings: dict[str, Any], system: str) -> ModelConfig | LSTMConfig:
    """Return the system's configuration, with about as many parameters as Transformer-XL."""
    return of_equal_size(checkpoints.model_config(settings["model"]), SYSTEMS[system]["attention"])


def _new(settings: dict[str, Any], config: ModelConfig | LSTMConfig) -> Model:
    if isinstance(config, ModelConfig):
        return TransformerLM(config)
    return AdaptiveLSTM(config, tuple(settings["model"]["cutoffs"]))


def train_of(settings: dict[str, Any], system: str, seed: int) -> TrainConfig:
    """Return the training of a system: that of all, with its own changes; mem_len is 0 without memory."""
    own = settings["changes"].get(system, {})
    train = checkpoints.train_config({**settings["train"], **own, "seed": seed})
    return train if SYSTEMS[system]["memory"] else replace(train, mem_len=0)


def _train(
    settings: dict[str, Any], corpus: Corpus, system: str, seed: int, device: str, report: Report
) -> tuple[Model, list[Record]]:
    config, train = config_of(settings, system), train_of(settings, system, seed)
    label = f"{system}, seed {seed}"
    if isinstance(config, ModelConfig):
        run, records = setup.train_on(
            corpus, config, train, label=label, device=device, report=report, validate=False
        )
        return run.model_to_evaluate, records
    build = partial(AdaptiveLSTM, config, tuple(settings["model"]["cutoffs"]))
    return train_lstm(corpus, lambda: to_fast(build()), train, label=label, device=device, report=report)
