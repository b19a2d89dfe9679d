"""Painting that ends when it is over, whatever happens: a painter that outlives its paint event crashes the program.

Python lets go of a painter when the last frame that knows it goes; a traceback, or anything that looks at the stacks of
threads, keeps frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtGui import QPaintDevice, QPainter


@contextmanager
def painting(device: QPaintDevice, *, smooth: bool = False) -> Iterator[QPainter]:
    """Give a painter for a widget or a picture.

    Args:
        device: What is painted on.
        smooth: Whether edges are smoothed.
    """
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, smooth)
    try:
        yield painter
    finally:
        painter.end()
