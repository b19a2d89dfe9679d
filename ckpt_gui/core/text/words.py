"""Words and figures as they are shown: foreign text escaped, sizes, counts."""

from __future__ import annotations

import re

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text

LONGEST = 4000  # characters of one text
CODE = re.compile(r"`([^`]*)`")  # a name of a tensor or a file in a sentence
_NAMELESS = re.compile(r"(?<![^\s(])``(?![^\s.,;:)])")


def with_names(sentence: str) -> str:
    """Return a sentence in which a tensor whose name is empty is called something.

    >>> with_names("it starts with ``, `w`.")
    'it starts with `(no name)`, `w`.'
    """
    return _NAMELESS.sub("`(no name)`", sentence)


def shown(text: str) -> str:
    r"""Return any text fit to be shown, whole unless it is absurdly long.

    >>> shown("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return safe_text(with_names(text), limit=LONGEST)


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?", re.IGNORECASE | re.ASCII)


def read_bytes(text: str) -> int:
    """Return a number of bytes that is written as a person does: `5GB`, `500MB`, `5GiB`, `1000000`.

    Raises:
        CheckpointError: It is no such thing, or nothing.

    >>> read_bytes("5GB"), read_bytes("1.5 GiB"), read_bytes("4096")
    (5000000000, 1610612736, 4096)
    """
    match = _SIZE.fullmatch(text.strip())
    count = int(float(match[1]) * _UNITS[(match[2] or "").upper()]) if match else 0
    if count < 1:
        text = f"{safe_text(text, 40)} is no size; write 5GB, 500MB, 5GiB or a number of bytes"
        raise CheckpointError("limit-exceeded", f"{text}.")
    return count


def human_bytes(size: int) -> str:
    """Return a size in binary units, with three digits that matter.

    >>> human_bytes(512), human_bytes(831_488), human_bytes(2_471_645_608)
    ('512 B', '812 KiB', '2.30 GiB')
    """
    if size < 1024:
        return f"{size} B"
    value, units = size / 1024, ["PiB", "TiB", "GiB", "MiB", "KiB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop()
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {units[-1]}"


def plural(count: int, noun: str) -> str:
    """Return a count and its noun.

    >>> plural(1, "tensor"), plural(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
