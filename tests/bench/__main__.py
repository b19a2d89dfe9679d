"""Measure opening, exporting and numbers against cp, cat, torch and safetensors, in turn and in fresh processes.

`python -m tests.bench [--size 1b] [--runs 5] [--no-window] [--folder DIR]` prints a table of medians and ratios, and
adds a line for the run and the version to `DIR/results.jsonl`; what is worse than in the last run of that size is said.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import platformdirs

from tests.bench import compile_package
from tests.bench.exports import export_rows
from tests.bench.measure import Row, command, job, printed
from tests.bench.numbers import number_rows
from tests.bench.remote import table as remote_table
from tests.bench.results import record
from tests.bench.shapes import SHAPES, make_hf
from tests.bench.simulate import table as simulated
from tests.bench.sparse import table as sparse_table
from tests.bench.starts import start_rows
from tests.bench.window import table as window_table


def twin(path: Path, work: Path) -> Path:
    """Return a copy of a file under its own name, made once."""
    copy = work / "twin" / path.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return copy


def rows(hf: Path, meta: Path, work: Path, workers: str) -> list[Row]:
    """Return what is measured."""
    weights, pth = hf / "model.safetensors", meta / "consolidated.00.pth"
    return [
        Row("open .pth, process, against torch.load(mmap)", lambda: job("open_ours", str(pth)),
            lambda: job("open_torch", str(pth)), 0.05),
        Row("open .safetensors, process, against safe_open", lambda: job("open_ours", str(weights)),
            lambda: job("open_safetensors", str(weights)), 1.0),
        *export_rows(hf, meta, work, workers),
        Row("diff --values of two equal files, process, against cmp",
            lambda: job("compare", str(weights), str(twin(weights, work)), workers),
            lambda: command("cmp", str(weights), str(twin(weights, work))), 1.0),
    ]  # fmt: skip


def main() -> int:
    """Make the files, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--size", choices=SHAPES, default="1b")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--no-window", dest="window", action="store_false", help="leave out the window's stalls")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench")
    args = parser.parse_args()
    compile_package()
    work = args.folder / args.size
    hf = make_hf(work / "hf", args.size)
    meta = work / "meta"
    if not meta.exists():
        job("export", str(hf), str(meta), "meta", args.workers)
    table = [*start_rows(args.folder), *rows(hf, meta, work, args.workers), *number_rows(work, args.size)]
    print(printed(table, args.runs))
    print()
    for line in sparse_table(args.folder / "sparse", args.runs):
        print(line)
    print()
    with tempfile.TemporaryDirectory() as made:
        print("\n".join(remote_table(Path(made))))
    print()
    for line in simulated(args.folder, args.runs, ("100k", "500k")):
        print(line)
    if args.window:
        print()
        for line in window_table(args.folder, args.size, args.runs, ("123k", "500k")):
            print(line)
    for line in record(args.folder, args.size, args.runs, table):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
