"""What compiler and CUDA graph gain: a training step with neither, with one of them, and with both."""

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import torch
from gpu.bench_item import TINY

from minitxl.benchmark import bench, limits, peers
from minitxl.benchmark.peers import Precision, Size
from minitxl.data.batching import ContiguousBatches
from minitxl.experiments.shared import results
from minitxl.fast import cuda
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.step import train_step

WAYS = {
    "plain": {"compiled": False, "captured": False},
    "captured": {"compiled": False, "captured": True},
    "compiled": {"compiled": True, "captured": False},
    "compiled and captured": {"compiled": True, "captured": True},
}
STEPS, UNCOUNTED = 12, 4


def measured(
    size: Size, precision: Precision, device: str, *, compiled: bool, captured: bool
) -> dict[str, Any]:
    """Return the median seconds of a step, the most GB that were held, and the last loss."""
    settings = TrainConfig(size.seg_len, size.mem_len, batch=size.batch, precision=precision, seed=0)
    worth = 0 if compiled else float("inf")
    can_capture = cuda.can_capture if captured else lambda config, device: False
    with patch.object(cuda, "WORTH_COMPILING", worth), patch.object(cuda, "can_capture", can_capture):
        run = loop.start(limits.config(size), settings, device=device)
    job = peers.Job("minitxl", "training", size, 1, device, precision, 0)
    segments = ContiguousBatches(peers.text(job).flatten(), batch=size.batch, seg_len=size.seg_len)
    seconds = []
    for _ in range(STEPS):
        began = perf_counter()
        record = train_step(run, segments)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(perf_counter() - began)
    held = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None
    return {"seconds": median(seconds[UNCOUNTED:]), "gigabytes": held, "bits": record.bits}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device")
    parser.add_argument("--size")
    parser.add_argument("--folder", type=Path)
    flags = parser.parse_args(words)
    sizes = {"tiny": TINY} if flags.size == "tiny" else {name: bench.SIZES[name] for name in ("M", "large")}
    precision: Precision = "bfloat16" if flags.device == "cuda" else "float32"
    found: dict[str, dict[str, Any]] = {}
    for name, size in sizes.items():
        for way, how in WAYS.items():
            if flags.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            found.setdefault(name, {})[way] = measured(size, precision, flags.device, **how)
            print(name, way, found[name][way], flush=True)
    machine = results.provenance(flags.device, seconds=0.0)
    flags.folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "ways": found}
    (flags.folder / "steps.json").write_text(json.dumps(content, indent=1), "utf-8")


if __name__ == "__main__":
    main()
