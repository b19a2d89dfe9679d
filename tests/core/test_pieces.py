"""Long work is cut at whole units and blocks; the biggest pieces come first; nothing is left out."""

from __future__ import annotations

import pytest

from ckpt_gui.core import pieces
from ckpt_gui.core.pieces import big_first, blocks, cut


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BLOCK", 10)
    monkeypatch.setattr(pieces, "PIECE", 100)


@pytest.mark.parametrize(("total", "unit", "sizes"), [
    (0, 1, [0]), (100, 7, [100]), (101, 1, [100, 1]), (250, 7, [98, 98, 54]), (300, 12, [96, 96, 96, 12]),
    (500, 200, [200, 200, 100]),
])  # fmt: skip
def test_pieces_are_whole_blocks_of_whole_units(total: int, unit: int, sizes: list[int]) -> None:
    made = list(cut("w", total, lambda: unit))
    assert [piece.nbytes for piece in made] == sizes
    assert [piece.start for piece in made] == [sum(sizes[:i]) for i in range(len(sizes))]


def test_the_unit_is_not_asked_for_where_there_is_one_piece() -> None:
    def unit() -> int:
        raise AssertionError

    assert len(list(cut("w", 100, unit))) == 1


def test_big_ones_first_and_equal_ones_in_order() -> None:
    made = big_first([*cut("a", 30), *cut("b", 130), *cut("c", 30)])
    assert [(piece.of, piece.nbytes) for piece in made] == [("b", 100), ("a", 30), ("b", 30), ("c", 30)]


def test_blocks() -> None:
    assert list(blocks(100, 125)) == [(100, 10), (110, 10), (120, 5)]
    assert list(blocks(0, 30, 14)) == [(0, 14), (14, 14), (28, 2)]
