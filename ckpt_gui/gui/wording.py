"""Numbers for people: bytes, counts and shapes, the same in the window, on the command line and in reports."""

from __future__ import annotations

from collections.abc import Sequence


def human_bytes(size: int) -> str:
    """Return a size in binary units, with three digits that matter.

    >>> human_bytes(512), human_bytes(831_488), human_bytes(2_471_645_608)
    ('512 B', '812 KiB', '2.30 GiB')
    """
    if abs(size) < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        if abs(value) < 999.5 or unit == "PiB":
            return f"{_three(value)} {unit}"
    raise AssertionError("unreachable")


def human_count(number: int) -> str:
    """Return a large count in words, a small one in full.

    >>> human_count(120_144), human_count(1_235_814_400), human_count(8_030_261_248)
    ('120,144', '1.24 billion', '8.03 billion')
    """
    for limit, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= limit:
            return f"{_three(number / limit)} {word}"
    return f"{number:,}"


def shape_text(shape: Sequence[int | None]) -> str:
    """Return a shape as it is shown; a size that is not known is a question mark.

    >>> shape_text((128256, 2048)), shape_text((None, 4)), shape_text(())
    ('128256 × 2048', '? × 4', 'scalar')
    """
    return " × ".join("?" if size is None else str(size) for size in shape) or "scalar"


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a count and its noun.

    >>> plural(1, "tensor"), plural(1200, "tensor"), plural(2, "entry", "entries")
    ('1 tensor', '1,200 tensors', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
