"""Rows about starting and opening: the window's first picture, and files of very many tensors.

`python -m tests.bench.starts [--runs 5]` prints these alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import platformdirs

from tests.bench import compile_package
from tests.bench.measure import Row, command, job, printed

TENSORS = 122_880
NBYTES = 128  # of a tensor


def start_rows(folder: Path) -> list[Row]:
    """Return the rows.

    Args:
        folder: Where the files of many tensors are, or are made.
    """
    weights, pth = many(folder / "many")
    return [
        Row("window painted, process, against python -c 'import torch'", lambda: job("paint"),
            lambda: command(sys.executable, "-c", "import torch"), 0.25),
        Row(f"open {TENSORS:,} tensors .safetensors, process, against safe_open",
            lambda: job("open_ours", str(weights)), lambda: job("open_safetensors", str(weights)), 0.7),
        Row(f"open {TENSORS:,} tensors .pth, process, against torch.load(mmap)", lambda: job("open_ours", str(pth)),
            lambda: job("open_torch", str(pth)), 0.2),
    ]  # fmt: skip


def many(folder: Path) -> tuple[Path, Path]:
    """Return a safetensors and a torch file of very many small tensors, made once."""
    weights, pth = folder / "model.safetensors", folder / "pth" / "model.pt"
    if not weights.exists():
        folder.mkdir(parents=True, exist_ok=True)
        header = {
            f"model.layers.{n // 1024}.mlp.experts.{n % 1024}.gate_proj.weight": {
                "dtype": "BF16", "shape": [8, NBYTES // 16], "data_offsets": [n * NBYTES, (n + 1) * NBYTES],
            }
            for n in range(TENSORS)
        }  # fmt: skip
        text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
        text += b" " * (-len(text) % 8)
        data = bytes(i * 7 % 251 for i in range(NBYTES)) * TENSORS
        weights.write_bytes(len(text).to_bytes(8, "little") + text + data)
    if not pth.exists():
        job("as_torch", str(weights), str(pth))
    return weights, pth


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.starts", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench")
    args = parser.parse_args()
    compile_package()
    print(printed(start_rows(args.folder), args.runs))


if __name__ == "__main__":
    main()
