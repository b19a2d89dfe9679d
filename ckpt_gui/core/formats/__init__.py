"""One file per container, reader and writer side by side; `open_checkpoint` looks at bytes, never at names."""

from __future__ import annotations

from ckpt_gui.core.formats.opening import open_checkpoint

__all__ = ["open_checkpoint"]
