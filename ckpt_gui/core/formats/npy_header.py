"""The first bytes of a NumPy array file: where its header ends and its content begins.

An array of objects is a pickle behind that header (`numpy.lib.format`, versions 1.0 to 3.0), in a member of an archive
as well as in a file of its own.
"""

from __future__ import annotations

MAGIC = b"\x93NUMPY"
MAX_HEADER = 10_000  # as numpy itself
MAX_START = MAX_HEADER + 12


def header_width(head: bytes) -> int:
    """Return how many bytes hold the length of the header."""
    return 2 if head[6:7] == b"\x01" else 4


def data_start(head: bytes) -> int:
    """Return where the content of an array begins."""
    width = header_width(head)
    return 8 + width + int.from_bytes(head[8 : 8 + width], "little")


def may_hold_objects(head: bytes) -> bool:
    r"""True unless the header can only name a type of numbers; an escape in it may hide an `O`.

    >>> may_hold_objects(MAGIC + bytes((1, 0, 16, 0)) + b"{'descr': '|O'}    "), may_hold_objects(MAGIC)
    (True, False)
    """
    header = head[8 : data_start(head)]
    return head.startswith(MAGIC) and (b"O" in header or b"\\" in header)
