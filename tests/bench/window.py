"""The window's longest stalls: `python -m tests.bench.window`, or `make bench`.

Windows are driven without a screen, each scene in a process of its own (see `window_job`). Nobody notices 50 ms. What a
busy machine takes from the window's thread counts as well, so the time of the processor that this thread itself used in
the longest gap stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from tests.bench.shapes import SHAPES, make_hf, normal_noise
from tests.bench.wide import WIDE, make_wide

AIM = 0.05  # seconds


@dataclass(frozen=True)
class Scene:
    """A window that is driven.

    Attributes:
        name: As in `window_job`.
        title: What the table calls it.
        words: The files it is about.
    """

    name: str
    title: str
    words: tuple[str, ...]


def scenes(folder: Path, size: str, wide: Sequence[str], only: Sequence[str] | None) -> Iterator[Scene]:
    """Yield the scenes, all or some, and make their files."""
    if only is None or set(only) - {"many", "keys"}:
        yield from _of_values(folder, size, only)
    for each in wide:
        made = make_wide(folder / "wide" / each, each)
        count = len(json.loads((made / "model.safetensors.index.json").read_text())["weight_map"])
        for name, title in (("many", "tensors"), ("keys", "keys")):
            if only is None or name in only:
                yield Scene(name, f"{count:,} {title}", (str(made),))


def _of_values(folder: Path, size: str, only: Sequence[str] | None) -> Iterator[Scene]:
    """Yield the scenes that read values."""
    model = make_hf(folder / size / "normal", size, normal_noise)
    other = folder / size / "other"
    if not other.exists():
        shutil.copytree(model, other)
    for name in ("scan", "plots", "export", "compare"):
        if only is None or name in only:
            yield Scene(name, size, (str(model), str(other)) if name == "compare" else (str(model),))


def driven(scene: Scene) -> list[dict[str, Any]]:
    """Drive a window through a scene, with an empty cache; return what was measured of each of its phases."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_CACHE_HOME": cache}
        words = [sys.executable, "-m", "tests.bench.window_job", scene.name, *scene.words]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    return list(json.loads(done.stdout.splitlines()[-1]))


def lines(scene: Scene, runs: int) -> Iterator[str]:
    """Yield the lines of a scene: medians over some runs."""
    found = [driven(scene) for _ in range(runs)]
    for phases in zip(*found, strict=True):
        seconds, stall, own, over = (
            statistics.median(phase[name] for phase in phases) for name in ("seconds", "stall", "own", "over")
        )
        peak = max(phase["peak_mib"] for phase in phases)
        verdict = "met" if stall <= AIM else "MISSED"
        yield (
            f"| {scene.title} | {phases[0]['title']} | {seconds:.2f} s | {1000 * stall:.0f} ms "
            f"| {1000 * own:.0f} ms | {over:.0f} | {verdict} | {peak:.0f} MiB |"
        )


def table(folder: Path, size: str, runs: int, wide: Sequence[str], only: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the lines of the table, of some scenes or of all."""
    yield "| file | what goes on | takes | longest stall | of it own work | stalls over 50 ms | ≤ 50 ms | peak |"
    yield "|---|---|---|---|---|---|---|---|"
    for scene in scenes(folder, size, wide, only):
        yield from lines(scene, runs)


def main() -> int:
    """Make the files, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.window", description=__doc__)
    parser.add_argument("--size", choices=SHAPES, default="1b")
    parser.add_argument("--wide", choices=WIDE, nargs="*", default=["123k", "500k"])
    parser.add_argument("--scene", nargs="*", help="only these scenes, such as keys")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench")
    args = parser.parse_args()
    for line in table(args.folder, args.size, args.runs, args.wide, args.scene):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
