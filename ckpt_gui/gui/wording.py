"""Numbers for people: bytes, counts and shapes as the window shows them."""

from __future__ import annotations

from collections.abc import Sequence


def human_bytes(size: int) -> str:
    """Return a size in decimal units, as file managers and the reports have it.

    >>> human_bytes(512), human_bytes(831_488), human_bytes(2_471_645_608)
    ('512 bytes', '831 kB', '2.47 GB')
    """
    if size < 1000:
        return plural(size, "byte")
    value, units = size / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{_three(value)} {units[0]}"


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
