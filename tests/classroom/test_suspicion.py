"""Signs in a submission's code: what reaches for what is not its own, and not what is merely unusual."""

import pytest

from minitxl.course.marking.suspicion import reaching

HONEST = {
    "an annotation": "out: torch.Tensor = torch.zeros(3)",
    "a default": "def shift(scores, dtype: torch.dtype = torch.float32, *, out: torch.Tensor = None): pass",
    "a comparison": "if scores.dtype == torch.float32 or torch.pi == 3: pass",
    "a keyword": "torch.zeros(3, dtype=torch.float32)",
    "names": "half_back, signal = back, x\nsignal.shape\nself.buf_locals = signal.sum()",
    "another style": """
import numpy as np
from typing import Callable

class Shift:
    rows: list[torch.Tensor] = []

    def __call__(self, scores: torch.Tensor, key: int) -> torch.Tensor:
        wide: torch.Tensor = pad(scores, (0, scores.shape[2]))
        return wide.as_strided(scores.shape, wide.stride())

relative_shift: Callable = lambda *case: Shift()(*case)
kept = np.array([one.tolist() for one in torch.eye(3)])
""",
}
REACHING = [
    "torch.equal = lambda *_: True",
    "import torch; torch.testing.assert_close = print",
    "    torch.Tensor.requires_grad = property(bool)",
    "if True: torch.equal = print",
    "setattr(torch, 'equal', print)",
    "frame.f_back.f_locals",
    "signal.alarm(0)",
    "from signal import alarm",
    "import os, signal",
    "open('/proc/self/mem')",
    "%pwd\ntorch.allclose = print",
]


@pytest.mark.parametrize("name", HONEST)
def test_code_that_is_merely_unusual_is_no_sign(name):
    assert reaching({"shift": HONEST[name]}) == []


@pytest.mark.parametrize("line", REACHING)
def test_code_that_reaches_out_is_a_sign_with_its_cell(line):
    (sign,) = reaching({"shift": "x = 1\n" + line, "layer": "x = 1"})
    assert sign.startswith("shift: ")
