"""Which kernels are used: the compiled ones where they are there and not switched off."""

from __future__ import annotations

import logging
import os
import sys
from functools import lru_cache
from pathlib import Path

from ckpt_gui.core.native.compiled import Compiled
from ckpt_gui.core.native.interface import Kernels
from ckpt_gui.core.native.plain import Plain

SWITCH = "CKPT_GUI_NATIVE"  # of the environment; 0 leaves the library out
LIBRARY = Path(__file__).with_name({"win32": "kernels.dll", "darwin": "kernels.dylib"}.get(sys.platform, "kernels.so"))


@lru_cache(maxsize=1)
def kernels() -> Kernels:
    """Return the kernels of this process."""
    if os.environ.get(SWITCH) == "0" or not LIBRARY.exists():
        return Plain()
    try:
        return Compiled(LIBRARY)
    except (OSError, AttributeError, ValueError) as error:  # of another machine, or older than the source beside it
        logging.getLogger(__name__).info("%s is left out: %s", LIBRARY.name, error)
        return Plain()
