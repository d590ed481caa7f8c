"""How a text is scored: lengths of segment and memory."""

from dataclasses import dataclass, replace

from minitxl.fields import LONGEST, check_types, require


def check_lengths(seg_len: int, mem_len: int, window: int | None, clamp_len: int | None) -> None:
    """Raise a ValueError for a length out of its range, and for a window longer than memory allows."""
    lengths = {"seg_len": seg_len, "mem_len": mem_len, "window": window, "clamp_len": clamp_len}
    for name, length in lengths.items():
        require(length is None or length <= LONGEST, f"{name} must be at most {LONGEST:,}", length)
    require(seg_len >= 1, "seg_len must be 1 or more", seg_len)
    require(mem_len >= 0, "mem_len must be 0 or more", mem_len)
    require(window is None or window >= 1, "window must be 1 or more, the query itself counts", window)
    require(clamp_len is None or clamp_len >= 0, "clamp_len must be 0 or more", clamp_len)
    needed = 0 if window is None else window - 1
    rule = f"mem_len must be window - 1 = {needed} or more, so that each query has its window"
    require(mem_len >= needed, rule, mem_len)


@dataclass(frozen=True)
class EvaluateConfig:
    """How a stream is scored with memory."""

    seg_len: int = 32
    """Tokens of a segment, L. With a window it changes only the speed. Without one, or with absolute
    positions, which restart at each segment, it changes the losses too."""
    mem_len: int = 32
    """Tokens of memory, M."""
    window: int | None = None
    """Greatest number of keys that a query sees, itself included. (The original's same_length makes it
    mem_len.)"""
    clamp_len: int | None = None
    """Keys at this distance or farther count as equally far (not in absolute); none means the model's own."""

    def __post_init__(self) -> None:
        check_types(self)
        check_lengths(self.seg_len, self.mem_len, self.window, self.clamp_len)

    def attending(self, attention_len: int) -> "EvaluateConfig":
        """Return these settings with window = ``attention_len`` and mem_len = ``attention_len`` - 1.

        So each query sees ``attention_len`` keys, of which the query's own token is one.
        """
        return replace(self, mem_len=attention_len - 1, window=attention_len)
