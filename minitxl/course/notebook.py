"""Helpers of a notebook's cells: the source of a piece, the device, and the profile."""

import inspect
import os
from typing import Any, Literal, cast, get_args

import torch
from IPython.display import Code

Profile = Literal["quick", "full"]

LARGER = {"n_layer": 4, "d_model": 192, "n_head": 6, "d_inner": 768}
"""Sizes of the models that notebooks train in the full profile."""


def show(piece: Any) -> Code:
    """Return the source of a function, class or module of the package, as it stands there."""
    return Code(inspect.getsource(piece), language="python")  # type: ignore[no-untyped-call]


def device() -> str:
    """cuda where there is a GPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def profile() -> Profile:
    """quick or full: what MINITXL_PROFILE says, and without it full where there is a GPU."""
    chosen = os.environ.get("MINITXL_PROFILE", "full" if device() == "cuda" else "quick")
    if chosen not in get_args(Profile):
        raise ValueError(f"MINITXL_PROFILE must be quick or full, got {chosen!r}")
    return cast(Profile, chosen)
