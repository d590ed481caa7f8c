"""Which backend of relative attention is fastest, at the benchmark's sizes and in both number formats.

Beside its seconds stands how far each backend's output and gradients lie from the eager one's in float32,
as a share of their norm.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gpu.bench_item import TINY
from torch import Tensor

from minitxl.benchmark import bench
from minitxl.benchmark.peers import Size
from minitxl.experiments.shared import results
from minitxl.fast import gpu_attention
from minitxl.fast.inputs import AttentionInputs


def shapes(size: Size) -> list[tuple[int, ...]]:
    """Return the shapes of q_u, q_v, k, v and r of a layer in training, memory full."""
    keys = size.mem_len + size.seg_len
    queries = (size.batch, size.n_head, size.seg_len, size.d_head)
    return [
        queries,
        queries,
        *[(size.batch, size.n_head, keys, size.d_head)] * 2,
        (size.n_head, keys + 1, size.d_head),
    ]


def measured(size: Size, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """Return seconds of each backend that runs there, and its distance from the eager one in float32."""
    exact = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes(size)]
    rounded = [part.detach().to(dtype).requires_grad_() for part in exact]
    workload = gpu_attention.workload_of(AttentionInputs(*rounded))
    expected = _outcome("eager", exact)
    return {
        name: {"seconds": seconds, "off": _off(_outcome(name, rounded), expected)}
        for name, seconds in gpu_attention.timed(workload).items()
    }


def _outcome(name: str, parts: Sequence[Tensor]) -> list[Tensor]:
    out = gpu_attention.backends()[name](AttentionInputs(*parts))
    return [out.detach(), *torch.autograd.grad(out.float().square().sum(), parts)]


def _off(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(float((one.float() - other).norm() / other.norm()) for one, other in pairs)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device")
    parser.add_argument("--size")
    parser.add_argument("--folder", type=Path)
    flags = parser.parse_args(words)
    sizes = {"tiny": TINY} if flags.size == "tiny" else {name: bench.SIZES[name] for name in ("M", "large")}
    found = {
        f"{name}, {precision}": measured(size, getattr(torch, precision), flags.device)
        for name, size in sizes.items()
        for precision in ("float32", "bfloat16")
    }
    machine = results.provenance(flags.device, seconds=0.0)
    flags.folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "backends": found}
    (flags.folder / "kernels.json").write_text(json.dumps(content, indent=1), "utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
