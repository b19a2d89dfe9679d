"""CRC-32 of pieces, put together, is that of the whole; isal and zlib give the same."""

from __future__ import annotations

import itertools
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.crc import Sums, crc32, joined


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_two_runs_are_joined(one: bytes, two: bytes) -> None:
    assert joined(zlib.crc32(one), zlib.crc32(two), len(two)) == zlib.crc32(one + two)


@pytest.mark.parametrize("length", [1, 255, 256 << 10, (1 << 20) + 3])
def test_long_runs_are_joined(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert joined(zlib.crc32(b"head"), zlib.crc32(data), length) == zlib.crc32(b"head" + data)


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_it_is_the_checksum_of_zip(data: bytes, before: int) -> None:
    isal = pytest.importorskip("isal.isal_zlib")
    assert crc32(data, before) == isal.crc32(data, before) == zlib.crc32(data, before)


@given(st.binary(min_size=2, max_size=400), st.lists(st.integers(1, 399), unique=True), st.randoms())
def test_pieces_in_any_order(data: bytes, cuts: list[int], chance: random.Random) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = list(itertools.pairwise(places))
    chance.shuffle(pieces)
    sums = Sums()
    found = [sums.add("w", a, b - a, zlib.crc32(data[a:b]), len(data)) for a, b in pieces]
    assert found == [None] * (len(pieces) - 1) + [zlib.crc32(data)]
