"""Matrix products in bfloat16 on a CPU: which CPU has them, and where they are switched on.

    check_precision("bfloat16", "cpu")   raises a ValueError where the CPU has none
    with bfloat16_products(): ...        the fast modules' products; sums, softmax and norms stay float32

A number in bfloat16 has float32's range and 8 significant bits. The factors of a product are rounded to it,
the terms are summed in float32, and the result is rounded once. Products whose factors are already in
bfloat16 need no switch: those of the backward pass, and of a model whose weights ``to_inference`` has
rounded.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from minitxl.fields import check, text
from minitxl.files import atomic_write, data_folder, read_json

Precision = Literal["float32", "bfloat16"]
INSTRUCTIONS = "avx512_bf16", "amx_bf16"
"""Instructions for such products, by the names that PyTorch gives them."""
TOLERANCE = 2**-5
"""Greatest error of a trial's product, in units of its largest number."""

_switched_on: ContextVar[bool] = ContextVar("bfloat16_products", default=False)


def products_in(precision: Precision, device: torch.device) -> AbstractContextManager:
    """Return the context in which a fast model's products on the device are of this precision."""
    check_precision(precision, device)
    if precision == "float32":
        return nullcontext()
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else bfloat16_products()


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """Compute the products of fast modules on a CPU in bfloat16 within the block."""
    token = _switched_on.set(True)
    try:
        yield
    finally:
        _switched_on.reset(token)


def in_bfloat16(x: Tensor, weight: Tensor) -> bool:
    """Return True if the product of these tensors is to be in bfloat16.

    Under the compiler float32 factors stay as they are.
    """
    formats = {x.dtype, weight.dtype}
    if formats == {torch.float32}:
        return x.device.type == "cpu" and not torch.compiler.is_compiling() and _switched_on.get()
    return torch.bfloat16 in formats and formats <= {torch.float32, torch.bfloat16}


def check_precision(precision: Precision, device: torch.device | str) -> None:
    """Raise a ValueError unless the device has products of this precision."""
    check("precision", precision, text(*get_args(Precision)))
    if precision == "float32" or torch.device(device).type != "cpu":
        return
    if not instructions():
        raise ValueError(
            f"precision must be float32 on a CPU without {' or '.join(INSTRUCTIONS)}, got bfloat16"
        )
    if not works_here():
        raise ValueError(
            f"precision must be float32 on this CPU, whose {' and '.join(instructions())} "
            f"failed in a trial, got bfloat16"
        )


def instructions() -> list[str]:
    """Return which of ``INSTRUCTIONS`` the CPU says it has."""
    return [name for name in INSTRUCTIONS if torch.cpu.get_capabilities().get(name)]


@cache
def works_here() -> bool:
    """Return True if products in bfloat16 work; a process of its own tries them, once on each machine.

    Some virtual machines name instructions that they lack, and end the process that uses them.
    """
    machine = repr((sorted(torch.cpu.get_capabilities().items()), torch.__version__))
    path = data_folder() / f"bfloat16-{sha256(machine.encode()).hexdigest()[:16]}.json"
    if path.exists():
        return bool(read_json(path))
    trial = [sys.executable, "-c", f"from {__name__} import try_products; try_products()"]
    works = subprocess.run(trial, capture_output=True, check=False).returncode == 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(works), "utf-8")
    return works


def try_products() -> None:
    """Compute a product of each kind and its gradients; raise a ValueError for a wrong one."""
    for rows in (1, 4, 64):
        x, weight = torch.randn(rows, 64), torch.randn(128, 64)
        _compare(functional.linear, x, weight, torch.randn(128))
        _compare(torch.bmm, torch.randn(2, rows, 64), torch.randn(2, 96, 64).mT)
        _compare(torch.baddbmm, torch.randn(2, rows, 96), torch.randn(2, rows, 64), torch.randn(2, 96, 64).mT)


def _compare(product: Callable[..., Tensor], *factors: Tensor) -> None:
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        cast = [factor.to(dtype).requires_grad_() for factor in factors]
        result = product(*cast)
        results.append([result, *torch.autograd.grad(result, cast, torch.ones_like(result))])
    for expected, found in zip(*results, strict=True):
        if not (expected - found).abs().max() <= TOLERANCE * expected.abs().max():
            raise ValueError(f"{product.__name__} must be right to {TOLERANCE}, got {found}")
