"""Signs in a submission's code: what reaches for what is not its own, and not what is merely unusual."""

import pytest

from minitxl.course.marking.suspicion import of_another, reaching

HONEST = {
    "an annotation": "out: torch.Tensor = torch.zeros(3)",
    "a default": "def shift(scores, dtype: torch.dtype = torch.float32, *, out: torch.Tensor = None): pass",
    "a comparison": "if scores.dtype == torch.float32 or torch.pi == 3: pass",
    "a keyword": "torch.zeros(3, dtype=torch.float32)",
    "names": "half_back, signal = back, x\nsignal.shape\nself.buf_locals = signal.sum()",
    "a model's mode and a pattern": "def f(model, x):\n    model.eval()\n    return re.compile('x')",
    "words": 'def f(x):\n    """Like eval(x), or open(x)."""\n    return x  # no exec(x), no time.time()',
    "sizes": "def f(time, glob):\n    return time + glob.shape[0] if False else time",
    "a clock outside functions": "began = time.time()\nf(x)\nprint(perf_counter() - began)",
    "a word on PyTorch's attention": "def f(x):\n    return x  # as flex_attention, or torch.ops",
    "names like private ones": "import torch\n_ops = torch.nn.functional\nx._channel = _ops.pad(x, (1, 0))",
    "einops and torch": "def f(x):\n    return einsum(x, 'a b -> a').clone().exp().evaluate()",
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
    "def f(x):\n    return open('answers.txt').read()",
    "answers = open('answers.txt')",
    "def f(x):\n    return glob.glob('*')",
    "def f(x):\n    return pathlib.Path('a').read_text()",
    "def f(x):\n    return exec('y = 1')",
    "def f(x):\n    return eval('x')",
    "def f(x):\n    return torch.load('answers.pt')",
    "def f(x):\n    return x if time.time() % 2 else 0",
    "def f(x):\n    began = perf_counter()\n    return x",
    "from torch.utils._python_dispatch import _disable_current_modes",
    "from torch.utils import (\n    _python_dispatch as d,\n)",
    "def f(x):\n    return torch.ops.aten.mul(x, 2)",
    "from torch import nn, ops",
    "from torch._higher_order_ops.flex_attention import math_attention",
    "from torch.nn.attention import flex_attention",
    "torch._C._DisableTorchDispatch()",
    "def f(step, x):\n    return step.channel",
    "import __main__",
]


def counting(student):
    return {"layers": len(student)}, {}


@pytest.mark.parametrize(
    ("numbers", "other"),
    [
        ({"student": "ada", "layers": 3}, None),
        ({"student": "Ada Lovelace", "layers": 3}, None),
        ({"student": "Ada L.", "layers": 3}, None),  # her own and right, by whatever name
        ({"student": "Ada Lovelace", "layers": 4}, None),
        ({"student": None, "layers": 4}, None),
        ({"student": "Dora Rossi", "layers": 5}, "Dora Rossi"),
        ({"student": "ada", "layers": 5}, "doras"),
    ],
)
def test_numbers_are_anothers_by_name_or_value_and_never_where_they_are_right(numbers, other):
    assert of_another(numbers, "ada", "Ada Lovelace", counting, ["ada", "doras"]) == other


@pytest.mark.parametrize("name", HONEST)
def test_code_that_is_merely_unusual_is_no_sign(name):
    assert reaching({"shift": HONEST[name]}) == []


@pytest.mark.parametrize("line", REACHING)
def test_code_that_reaches_out_is_a_sign_with_its_cell(line):
    (sign,) = reaching({"shift": "x = 1\n" + line, "layer": "x = 1"})
    assert sign.startswith("shift: ")
