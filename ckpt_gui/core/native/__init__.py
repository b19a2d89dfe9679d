"""The loops that numpy is slow at, in C where they could be compiled, in numpy everywhere else, with the same results.

The library is plain C (`kernels.c`), reached through ctypes: it needs neither Python's headers nor a build for each
version of Python, ctypes is loaded with numpy anyway, and the interpreter's lock is released in every call, so that
further threads help. It is compiled when the package is built or installed from its source, if there is a compiler
(scripts/native_build.py). The environment variable `CKPT_GUI_NATIVE=0` leaves it out.
"""

from ckpt_gui.core.native.choose import LIBRARY, SWITCH, kernels
from ckpt_gui.core.native.compiled import Compiled
from ckpt_gui.core.native.interface import Array, Kernels, Sums
from ckpt_gui.core.native.plain import Plain, bin_numbers, columns_of, sums_of

__all__ = [
    "LIBRARY", "SWITCH", "Array", "Compiled", "Kernels", "Plain", "Sums", "bin_numbers", "columns_of", "kernels",
    "sums_of",
]  # fmt: skip
