"""Figures into files, without a window and without pyplot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ckpt_gui.core.errors import CheckpointError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
# Nothing in a file says when or by which machine it was made, so that equal numbers make equal files.
_METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "ckpt_gui"},
    "png": {"Software": "ckpt_gui"},
    "pdf": {"CreationDate": None, "Creator": "ckpt_gui"},
}


def new_figure(width: float = 8.0, height: float = 5.0) -> Figure:
    """Return an empty figure of a size in inches.

    Raises:
        CheckpointError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        text = "Plots need matplotlib, which is not installed."
        raise CheckpointError("target-refused", text, fix="pip install matplotlib") from error
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's name asks for.

    Raises:
        CheckpointError: There is no such format, or the file can not be written.
    """
    import matplotlib

    kind = path.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise CheckpointError("target-refused", f"{path.name} must end in .svg, .png or .pdf.")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "ckpt_gui", "svg.fonttype": "none"}):
            figure.savefig(path, format=kind, dpi=150, metadata=_METADATA[kind])
    except OSError as error:
        raise CheckpointError("target-refused", f"{path} can not be written: {error.strerror}.") from error
