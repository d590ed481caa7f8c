"""One item of the benchmark as ``make gpu`` runs it: in bfloat16 on a GPU; of tiny shapes in a rehearsal."""

import argparse
from dataclasses import replace
from pathlib import Path

from minitxl.__main__ import main as minitxl
from minitxl.benchmark import bench
from minitxl.benchmark.peers import Size

TINY = Size(2, 16, 2, 8, 24, batch=2, seg_len=8, mem_len=8, dropout=0.1)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("item")
    parser.add_argument("--device")
    parser.add_argument("--size")
    parser.add_argument("--folder", type=Path)
    flags = parser.parse_args(words)
    quick: list[str] = []
    if flags.size == "tiny":
        bench.SIZES = {name: replace(TINY, batch=size.batch) for name, size in bench.SIZES.items()}
        quick = ["--rounds", "2", "--warm-up", "0", "--threads", "1"]
    precision = "bfloat16" if flags.device == "cuda" else "float32"
    place = ["--folder", str(flags.folder / flags.item)]
    minitxl(["bench", flags.item, "--device", flags.device, "--precision", precision, *place, *quick])


if __name__ == "__main__":
    main()
