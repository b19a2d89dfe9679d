"""The benchmark: `python -m tests.bench`, or `make bench`. Figures are ratios against peers in the same run."""

from __future__ import annotations


def compile_package() -> None:
    """Compile the package, as an installation does: where no bytecode is kept, every process would do it anew."""
    import compileall  # not in the jobs, each of which is a process whose start is measured
    from pathlib import Path

    root = Path(__file__).parents[2]
    for folder in (root / "ckpt_gui", root / "tests" / "bench"):
        compileall.compile_dir(str(folder), quiet=1)
