"""Checks of notebook 06b's readings: losses after exactly so much context, and the paper's table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.course.checker import NOTHING, Function, Verdict, judge
from minitxl.model import TransformerLM


def solution_losses_after(
    model: TransformerLM, passage: Int[Tensor, " time"], c: int, targets: int
) -> Float[Tensor, " target"]:
    """Return the losses in nats of the last ``targets`` tokens, each after exactly ``c`` others."""
    return _reading()(model, passage, c, targets)


def check_losses_after(attempt: Callable[..., Tensor]) -> Verdict:
    """Check ``attempt(model, passage, c, targets)``."""
    config = ModelConfig(11, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, tie_embeddings=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        model = TransformerLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(
                10 if parameter.ndim > 1 else 1
            )  # far from uniform: each mistake changes the losses
    passage = torch.randint(11, (60,), generator=torch.Generator().manual_seed(7))
    cases = [(model, passage, c, targets) for c, targets in ((3, 5), (8, 4), (2, 9), (5, 5))]
    mistakes: dict[str, Function | Sequence[Function]] = {
        "a window holds c characters and the target: c + 1": [
            _reading(longer=0),
            _reading(longer=0, part=lambda passage, c, targets: passage[1 - c - targets :]),
            _reading(longer=0, read=lambda windows: windows),
            _reading(
                longer=0,
                read=lambda windows: windows,
                part=lambda passage, c, targets: passage[1 - c - targets :],
            ),
            _before_a_gap,
        ],
        "the model reads c + 1 characters before each target: a window is c of them and the target": [
            _reading(longer=2),
            _reading(longer=2, part=lambda passage, c, targets: passage[-1 - c - targets :]),
        ],
        "that is the prediction after the first character of each window: take the last, [:, -1]": _reading(
            place=0
        ),
        "the model reads the target too: only the first c characters of a window are read": _reading(
            read=lambda windows: windows
        ),
        "the sign is turned: a loss is minus the log-probability": _reading(sign=1),
        "these are bits: leave the losses in nats": lambda *case: _reading()(*case) / torch.tensor(2.0).log(),
        "the targets are those that end the passage, and not those that begin it": _reading(
            part=lambda passage, c, targets: passage[: c + targets]
        ),
        "that is the loss of the character before the target: the target is the window's last": _reading(
            target=-2
        ),
        "a window bounds what one layer sees, and two layers see farther: cut a window for each target": (
            lambda *case: _at_once(*case, bounded=True),
            lambda *case: _at_once(*case, bounded=True, whole=True),
        ),
        "in one pass each target has more context than the one before: cut a window for each": (
            _at_once,
            lambda *case: _at_once(*case, whole=True),
        ),
        "that is the mean over a window: of its predictions the last alone has c characters before it": (
            _mean_over_windows
        ),
        "that is the mean: return a loss for each target": lambda *case: _reading()(*case).mean(),
    }
    praise = "each target is predicted from exactly c characters"
    with torch.no_grad():
        verdict = judge(
            attempt, reference=solution_losses_after, cases=cases, mistakes=mistakes, praise=praise
        )
        read = [] if verdict.blank else _readings(attempt, cases[0])
        _, _, c, targets = cases[0]
        longest = max((tokens.shape[1] for tokens, _ in read), default=0)
        if verdict.right and longest > c:
            return Verdict(
                False,
                f"the losses are right, but the model reads {longest} characters of a window where c is "
                f"{c}: the target too. A model that knows c places and no more would refuse",
            )
        begun = sum(len(tokens) for tokens, has_memory in read if not has_memory)
        if not verdict.right and begun < min(targets, sum(has_memory for _, has_memory in read)):
            return Verdict(
                False,
                "a memory is carried on from target to target, so the model knows of characters farther back "
                "than c: cut a window for each target, and read it without memory",
                details=verdict.details or verdict.message,
            )
    return verdict


def _readings(
    attempt: Callable[..., Tensor], case: tuple[TransformerLM, Tensor, int, int]
) -> list[tuple[Tensor, bool]]:
    """Return the tokens of each call of the model, and whether it was given a memory that is not empty."""
    read = list[tuple[Tensor, bool]]()

    def note(model: TransformerLM, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        tokens, memory, *_ = (*given, *([named["tokens"]] if "tokens" in named else []), None)
        memory = named.get("memory", memory)
        read.append((tokens, memory is not None and memory.shape[2] > 0))

    watch = case[0].register_forward_pre_hook(note, with_kwargs=True)
    try:
        attempt(*case)
    except Exception:
        return []  # the verdict says what it raised
    finally:
        watch.remove()
    return read


def _mean_over_windows(model: TransformerLM, passage: Tensor, c: int, targets: int) -> Tensor:
    """Return the mean loss of all predictions of each window, a mistake."""
    windows = passage[-c - targets :].long().unfold(0, c + 1, 1)
    log_probs, _ = model(windows[:, :-1])
    return -log_probs.gather(-1, windows[:, 1:, None]).mean(1)[:, 0]


def _before_a_gap(model: TransformerLM, passage: Tensor, c: int, targets: int) -> Tensor:
    """Return the losses after c - 1 characters that end one before the target, a mistake."""
    windows = passage[-c - targets : -1].long().unfold(0, c, 1)
    log_probs, _ = model(windows[:, :-1])
    return -log_probs[:, -1].gather(-1, passage[-targets:, None].long())[:, 0]


def _at_once(
    model: TransformerLM, passage: Tensor, c: int, targets: int, *, bounded: bool = False, whole: bool = False
) -> Tensor:
    """Return the losses of one pass, a mistake: contexts that grow, or that are bounded in each layer."""
    piece = passage[None, 0 if whole else -c - targets :].long()
    log_probs, _ = model(piece[:, :-1], window=c if bounded else None)
    return -log_probs[0, -targets:].gather(-1, piece[0, -targets:, None])[:, 0]


def _reading(
    *,
    longer: int = 1,
    place: int = -1,
    target: int = -1,
    sign: int = -1,
    read: Callable[[Tensor], Tensor] = lambda windows: windows[:, :-1],
    part: Callable[[Tensor, int, int], Tensor] = lambda passage, c, targets: passage[-c - targets :],
) -> Callable[..., Tensor]:
    """Return the reading with one step of it as given."""

    def losses(model: TransformerLM, passage: Tensor, c: int, targets: int) -> Tensor:
        windows = part(passage, c, targets).long().unfold(0, c + longer, 1)  # [target time]
        log_probs, _ = model(read(windows))
        return sign * log_probs[:, place].gather(-1, windows[:, target, None])[:, 0]

    return losses


def check_comparable(answer: Mapping[str, Any]) -> Verdict:
    """Judge which pairs of cells of the paper's Table 8 compare models of one group, at one share r."""
    right = {
        "XL 151M over Transformer, r = 0.1": False,
        "XL 151M over LSTM, r = 0.5": True,
        "XL 128M over Shaw's positions, r = 1.0": True,
        "XL 151M, r = 0.1, over QRNN, r = 1.0": False,
        "XL 151M over XL 128M, r = 0.5": False,
    }
    why = {
        "XL 151M over Transformer, r = 0.1": "900 is from the first group, and 128 from the second, with "
        "another baseline",
        "XL 151M over LSTM, r = 0.5": "800 and 300 stand in the first group, at the same share r",
        "XL 128M over Shaw's positions, r = 1.0": "500 and 300 stand in the second group, at the same r",
        "XL 151M, r = 0.1, over QRNN, r = 1.0": "900 and 300 are of one group, but at two shares r: other "
        "targets",
        "XL 151M over XL 128M, r = 0.5": "800 is from the first group and 600 from the second: with other "
        "rivals, either might have another number",
    }
    for name, value in right.items():
        given = answer.get(name)
        if given is None or given is Ellipsis:
            return Verdict.of_nothing(f"{NOTHING} ({name})")
        truth = given.item() if hasattr(given, "item") else given
        if not isinstance(truth, bool | int) or truth not in (0, 1):
            return Verdict(False, f"{name}: write True or False, without quotes, not {given!r}")
        if truth != value:
            return Verdict(False, f"{name}: {why[name]}")
    return Verdict(True, "a RECL compares with one of its own group, at the same share and step")
