"""One file per container, reader and writer side by side; `open_checkpoint` looks at bytes, never at names."""

from __future__ import annotations

from ckpt_gui.core.formats.opening import open_checkpoint
from ckpt_gui.core.formats.published import read_pointer, verify_pointer
from ckpt_gui.core.formats.verify import verify_checksums

__all__ = ["open_checkpoint", "read_pointer", "verify_checksums", "verify_pointer"]
