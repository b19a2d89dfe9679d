"""Which names a permissive loader could call without harm, and which not.

Names outside the allow-list are never imported here, whatever this module says of them. It decides only between two
findings: `foreign-object` for a class of somebody's, and `unsafe-pickle` for what is made to run.
"""

from __future__ import annotations

import re
import sys

# Classes and functions that hold data and do nothing when called.
_INERT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("argparse", ("Namespace",)),
    ("types", ("SimpleNamespace",)),
    ("pathlib", ("Path", "PosixPath", "PurePath", "PurePosixPath", "WindowsPath", "PureWindowsPath")),
    ("pathlib._local", ("Path", "PosixPath", "PurePath", "PurePosixPath", "WindowsPath", "PureWindowsPath")),
    ("datetime", ("datetime", "date", "time", "timedelta", "timezone")),
    ("decimal", ("Decimal",)),
    ("fractions", ("Fraction",)),
    ("uuid", ("UUID", "SafeUUID")),
    ("functools", ("partial",)),
    ("copyreg", ("_reconstructor", "__newobj__")),
    ("builtins", ("object", "int", "float", "str", "bool", "bytes", "range", "slice", "NoneType")),
    ("builtins", ("Exception", "ValueError", "RuntimeError", "KeyError")),
    ("typing", ("Any", "Union", "Optional")),
    ("enum", ("Enum", "IntEnum")),
    ("ipaddress", ("IPv4Address", "IPv6Address")),
    ("array", ("_array_reconstructor",)),
    ("random", ("Random",)),
    ("numpy", ("ndarray", "dtype")),
    ("numpy.core.multiarray", ("scalar", "_reconstruct")),
    ("numpy._core.multiarray", ("scalar", "_reconstruct")),
    ("numpy.core.numeric", ("_frombuffer",)),
    ("numpy._core.numeric", ("_frombuffer",)),
    ("numpy.random._pickle", ("__randomstate_ctor", "__generator_ctor", "__bit_generator_ctor")),
    ("torch.nested._internal.nested_tensor", ("_rebuild_njt",)),
    ("torch.jit._pickle", ("build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")),
    ("torch.jit._pickle", ("build_tensor_from_id", "restore_type_tag")),
    ("jax._src.array", ("_reconstruct_array",)),
)
INERT = frozenset(f"{module}.{name}" for module, names in _INERT for name in names)
STDLIB = frozenset(sys.stdlib_module_names) | {"__builtin__", "commands", "urllib2"}
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)


def is_unsafe(module: str, qualname: str) -> bool:
    """True if loading the name in a permissive loader could run code that is not known to be harmless.

    >>> is_unsafe("os", "system"), is_unsafe("argparse", "Namespace"), is_unsafe("mytrainer.config", "Config")
    (True, False, False)
    """
    if f"{module}.{qualname}" in INERT:
        return False
    root = module.partition(".")[0]
    if root in STDLIB and module != "__main__":
        return not (root == "collections" and qualname[:1].isupper())
    if not is_plain(module) or not is_plain(qualname) or "." in qualname or "__" in qualname:
        return True
    if module == "torch._utils" and qualname.startswith("_rebuild_"):
        return False
    return not qualname.lstrip("_")[:1].isupper()  # a function; classes are written with a capital


def is_plain(name: str) -> bool:
    """True if a name is nothing but identifiers and dots.

    >>> is_plain("torch.nn"), is_plain("os;x")
    (True, False)
    """
    return _PLAIN_NAME.match(name) is not None


def is_standard(name: str) -> bool:
    """True if a name belongs to Python itself.

    >>> is_standard("os.path.join"), is_standard("torch.nn")
    (True, False)
    """
    return name.partition(".")[0] in STDLIB
