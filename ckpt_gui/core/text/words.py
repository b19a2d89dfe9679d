"""Words and figures as they are shown: foreign text escaped, sizes, counts."""

from __future__ import annotations

import re

from ckpt_gui.core.keys import safe_text

LONGEST = 4000  # characters of one text
CODE = re.compile(r"`([^`]*)`")  # a name of a tensor or a file in a sentence


def shown(text: str) -> str:
    r"""Return any text fit to be shown, whole unless it is absurdly long.

    >>> shown("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return safe_text(text, limit=LONGEST)


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
