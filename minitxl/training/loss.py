"""The loss of one segment: the part of a training step that is differentiated, compiled and captured.

The whole step is ``step.train_step``. That function extends the memory, and this module does not, because
here memory may be padded (on a GPU), and with ``accumulate`` it is that of only some lanes. The stop-gradient
is in ``memory.extend``.
"""

import torch
from einops import repeat
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from minitxl.fast import cuda
from minitxl.fast.bfloat16 import products_in
from minitxl.model import TransformerLM
from minitxl.training import distributed
from minitxl.training.config import TrainConfig


class SegmentLoss(nn.Module):
    """The mean loss of a segment. It is a module, since data parallelism and CUDA graphs wrap modules."""

    def __init__(self, model: TransformerLM, settings: TrainConfig) -> None:
        super().__init__()
        self.model, self.settings = model, settings

    def forward(
        self, tokens: Tensor, targets: Tensor, memory: Tensor, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mean loss in nats, of all targets or of the later half, and the states."""
        settings = self.settings
        with products_in(settings.precision, memory.device):
            losses, states = self.model.token_losses(
                tokens,
                targets,
                memory,
                window=settings.window,
                clamp_len=settings.clamp_len,
                key_mask=key_mask,
            )
            first = losses.shape[1] // 2 if settings.loss == "half" else 0
            return losses[:, first:].mean(), states


class SegmentLossToCapture(SegmentLoss):
    """A ``SegmentLoss`` for a CUDA graph, whose states are detached before ``extend`` detaches them.

    The reason: a graph computes a gradient for each output that can have one, and no loss uses the states.
    """

    def forward(
        self, tokens: Tensor, targets: Tensor, memory: Tensor, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mean loss, and the detached states."""
        loss, states = super().forward(tokens, targets, memory, key_mask)
        return loss, states.detach()


def new_segment_loss(model: TransformerLM, settings: TrainConfig, accumulate: int) -> nn.Module:
    """Return the module that computes the loss; on a GPU compiled if that pays, and captured if possible."""
    device, n_lane = next(model.parameters()).device, settings.batch // distributed.size() // accumulate
    c, seg_len, mem_len = model.config, settings.seg_len, settings.mem_len
    if device.type == "cuda" and n_lane * c.n_head * seg_len * (mem_len + seg_len) >= cuda.WORTH_COMPILING:
        model = cuda.compiled(model)
    # Steps in parts add to one gradient, and processes exchange theirs: such steps are not captured.
    if accumulate > 1 or distributed.size() > 1 or not cuda.can_capture(c, device):
        return distributed.parallel(SegmentLoss(model, settings))
    tokens = torch.zeros(n_lane, seg_len, dtype=torch.int64, device=device)
    memory = model.empty_memory(n_lane)
    segment_loss = SegmentLossToCapture(model, settings)
    examples = tokens, tokens.clone(), *of_constant_length(memory, settings)
    return cuda.capture_training(segment_loss, examples)


def of_constant_length(memory: Tensor, settings: TrainConfig) -> tuple[Tensor, ...]:
    """Return (memory,), or on a GPU (padded memory, key_mask), as ``padded`` returns them.

    With one length for all steps, no step is compiled or captured again while memory fills.
    """
    if not settings.mem_len or not needs_constant_length(memory.device):
        return (memory,)
    return padded(memory, mem_len=settings.mem_len, seg_len=settings.seg_len)


def padded(
    memory: Float[Tensor, "layer batch mem model"], *, mem_len: int, seg_len: int
) -> tuple[Float[Tensor, "layer batch mem_len model"], Bool[Tensor, "batch key"]]:
    """Return memory, padded in front with zeros to ``mem_len`` tokens, and the ``key_mask`` that hides them.

    With this mask a model's outputs are those of ``memory`` alone, to rounding.
    """
    length = memory.shape[2]
    if length > mem_len:
        raise ValueError(f"memory must hold at most mem_len = {mem_len} tokens, got {length}")
    key_mask = torch.arange(mem_len + seg_len, device=memory.device) >= mem_len - length
    return pad(memory, (0, 0, mem_len - length, 0)), repeat(
        key_mask, "key -> batch key", batch=memory.shape[1]
    )


def needs_constant_length(device: torch.device) -> bool:
    """Return True if training steps may be compiled and captured on this device."""
    return device.type == "cuda"
