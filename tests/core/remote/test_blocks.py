"""Blocks of remote files: no more are kept than may be, and what is kept is nobody else's to change."""

from __future__ import annotations

from ckpt_gui.core.remote.blocks import BLOCK, BlockCache


def test_no_more_is_kept_than_may_be() -> None:
    cache = BlockCache(2 * BLOCK)
    for number in range(4):
        cache.put_range(number, 0, bytes([number]) * BLOCK, BLOCK)
    assert cache.nbytes == 2 * BLOCK
    assert [bool(cache.get(number, [0])) for number in range(4)] == [False, False, True, True]


def test_what_is_kept_does_not_change_with_the_buffer_it_came_in() -> None:
    cache, data = BlockCache(), bytearray(b"a" * BLOCK)
    cache.put_range(1, 0, data, BLOCK)
    data[:1] = b"b"
    assert cache.get(1, [0]) == {0: b"a" * BLOCK}
