"""Builds the bundle (PyInstaller, see packaging/ckpt_gui.spec) and proves that it works; run by `make bundle`.

The proof: `check` on the sample says in JSON what the source tree says, a picture of the window on the sample is not
blank, and `fix` writes the sample and finds it clean. Size and start times are printed. Other systems have recipes in
the same spec: .ico and a program without a console on Windows, an .app with its document types on macOS.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "resources" / "sample" / "tiny-llama-compiled.pt"
BUNDLE = ROOT / "dist" / "ckpt-gui"
PROGRAM = BUNDLE / ("ckpt-gui.exe" if os.name == "nt" else "ckpt-gui")
MIB = 1 << 20


def main() -> int:
    """Build, prove, report."""
    if "--prove-only" not in sys.argv[1:]:
        build()
    with tempfile.TemporaryDirectory() as folder:
        for line in prove(Path(folder)):
            print(f"   {line}")
    files = [path for path in BUNDLE.rglob("*") if path.is_file() and not path.is_symlink()]
    print(f"   {sum(path.stat().st_size for path in files) / MIB:.0f} MiB in {len(files):,} files: {BUNDLE}")
    return 0


def build() -> None:
    """Run PyInstaller."""
    shutil.rmtree(BUNDLE, ignore_errors=True)
    words = ["--noconfirm", "--log-level", "WARN", "--distpath", ROOT / "dist", "--workpath", ROOT / "build" / "bundle"]
    spec = ROOT / "packaging" / "ckpt_gui.spec"
    subprocess.run([sys.executable, "-m", "PyInstaller", *map(str, words), str(spec)], cwd=ROOT, check=True)


def prove(folder: Path) -> list[str]:
    """Run the program of the bundle away from the source tree; return a line for each thing that it did right."""
    proven = []
    seconds, printed = run(folder, "check", str(SAMPLE), "--json", "-", statuses=(1,))
    source = [sys.executable, "-m", "ckpt_gui.cli.entry", "check", str(SAMPLE), "--json", "-"]
    expected = subprocess.run(source, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if json.loads(printed) != json.loads(expected):
        raise SystemExit("check of the bundle and check of the source tree differ")
    proven.append(f"check of the sample: the same JSON as from the source tree ({seconds:.2f} s)")
    picture = folder / "window.png"
    seconds, _ = run(folder, str(SAMPLE), "--screenshot", str(picture))
    proven.append(f"the window on the sample: {colours(picture)} colours in its picture ({seconds:.2f} s, to its end)")
    seconds, _ = run(folder, "fix", str(SAMPLE), "-o", str(folder / "fixed"), "--to", "hf")
    run(folder, "check", str(folder / "fixed"))
    proven.append(f"fix of the sample: written, verified, and clean when checked ({seconds:.2f} s)")
    run(folder, "stats", str(folder / "fixed"), "model.norm.weight", "--plot", str(folder / "plot.svg"))
    proven.append("stats with a plot: drawn")
    return proven


def run(folder: Path, *words: str, statuses: tuple[int, ...] = (0,)) -> tuple[float, str]:
    """Run the bundle's program with settings of its own; return the seconds that it took, and what it printed."""
    kept = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    environment |= {"QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(folder), "MPLCONFIGDIR": str(folder)}
    begun = time.monotonic()
    done = subprocess.run(
        [str(PROGRAM), *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode not in statuses:
        raise SystemExit(
            f"{' '.join(words)} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return time.monotonic() - begun, done.stdout


def colours(picture: Path) -> int:
    """Return how many colours a picture has.

    Raises:
        SystemExit: Hardly any: it is blank.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QImage

    small = QImage(str(picture)).scaled(120, 80)
    found = len({small.pixel(x, y) for x in range(small.width()) for y in range(small.height())})
    if found < 50:
        raise SystemExit(f"the window is blank: {found} colours")
    return found


if __name__ == "__main__":
    sys.exit(main())
