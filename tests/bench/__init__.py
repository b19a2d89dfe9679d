"""The benchmark: `python -m tests.bench`, or `make bench`. Figures are ratios against peers in the same run."""

from __future__ import annotations

import compileall
from pathlib import Path


def compile_package() -> None:
    """Compile the package, as an installation does: where no bytecode is kept, every process would do it anew."""
    compileall.compile_dir(str(Path(__file__).parents[2] / "ckpt_gui"), quiet=1)
