"""Ops of image encoders: patches as squares or in a row, and what is added to a tile by its place among others.

Meta's programs unfold a patch into a row and multiply; others have a convolution of the same numbers. For the places
of tiles Meta has a grid of tiles × tiles, of which an image takes the upper left corner; Hugging Face has a row for
each shape an image can have, with the tiles of that corner one behind the other. The grid's outer cells fit no image
and have no place in the rows; rows that are not those of one grid have none in a grid, and are refused. Sources: Meta
llama-models `models/llama3/multimodal/model.py`; transformers 4.45 `convert_mllama_weights_to_hf.py`,
`image_processing_mllama.py`; torchtune 0.6.1 `models/llama3_2_vision/_convert_weights.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any
from ckpt_gui.core.part_streams import seen_as
from ckpt_gui.core.symbols import Symbol, size_of, symbols_of
from ckpt_gui.dataclasses import dataclass

CHANNELS = 3  # of an image: red, green, blue
_MOST_TILES = 64  # what no model comes near
LOST_FIX = "Choose a layout that holds them, such as hf."


@dataclass(frozen=True, slots=True)
class Patches:
    """See the weights of a patch as a square of pixels, or in a row. No byte changes.

    Attributes:
        to: `square` (out, 3, side, side) or `row` (out, 3 · side · side).
    """

    name: ClassVar[str] = "patches"
    to: str = "square"

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing: a patch is a square of three channels."""
        return ()

    def inverse(self) -> Patches:
        """Return the way back."""
        return Patches("row" if self.to == "square" else "square")

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the shape after.

        Raises:
            CheckpointError: It is no square patch of three channels.
        """
        (shape,) = shapes
        if self.to == "row" and len(shape) == 4 and shape[1] == CHANNELS and shape[2] == shape[3]:
            return (shape[0], math.prod(shape[1:]))
        side = math.isqrt(shape[-1] // CHANNELS) if shape else 0
        if self.to == "square" and len(shape) == 2 and CHANNELS * side * side == shape[1]:
            return (shape[0], CHANNELS, side, side)
        text = f"A tensor of the shape {shape} does not hold square patches of {CHANNELS} channels."
        raise CheckpointError("shape-mismatch", text)

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the same bytes under another shape."""
        return seen_as(parts[0], self.shape([p.shape for p in parts], dims))

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""
        return "patches seen as squares" if self.to == "square" else "patches seen as rows"


@dataclass(frozen=True, slots=True)
class TilePlaces:
    """Turn a grid of what is added to each tile into a row for each shape of an image, or back.

    Attributes:
        patches: How many vectors a tile has, in symbols.
        width: How long each is.
        to: `rows` (Hugging Face) or `grid` (Meta, torchtune).
    """

    name: ClassVar[str] = "tiles"
    patches: Symbol
    width: Symbol
    to: str = "rows"

    @property
    def needs(self) -> tuple[str, ...]:
        """The sizes of a tile, which the rows do not show."""
        return (*symbols_of(self.patches), *symbols_of(self.width)) if self.to == "grid" else ()

    def inverse(self) -> TilePlaces:
        """Return the way back: exact for all cells that an image can have."""
        return TilePlaces(self.patches, self.width, "grid" if self.to == "rows" else "rows")

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the shape after.

        Raises:
            CheckpointError: It is no grid, or there are other rows than an image has shapes.
        """
        (shape,) = shapes
        if self.to == "rows":
            if len(shape) != 4 or shape[0] != shape[1] or not 0 < shape[0] <= _MOST_TILES:
                raise CheckpointError("shape-mismatch", f"A tensor of the shape {shape} is no grid of tiles.")
            return (len(image_shapes(shape[0])) + 1, math.prod(shape[1:]))
        patches, width = size_of(self.patches, dims), size_of(self.width, dims)
        tiles = shape[1] // max(patches * width, 1) if len(shape) == 2 else 0
        whole = 0 < tiles <= _MOST_TILES and shape == (len(image_shapes(tiles)) + 1, tiles * patches * width)
        if not whole:
            text = f"A tensor of the shape {shape} has not the tiles of every shape of an image in its rows."
            raise CheckpointError("shape-mismatch", text)
        return (tiles, tiles, patches, width)

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the other form as a stream; its unit is what one tile has."""
        shape = self.shape([p.shape for p in parts], dims)
        return _Rows(parts[0], shape) if self.to == "rows" else _Grid(parts[0], shape)

    def lost(self, rows: Stream, dims: Mapping[str, int]) -> str:
        """Return why rows can not be a grid, in a sentence; empty if they can.

        Raises:
            CheckpointError: They are not those of tiles at all.
        """
        return _Grid(rows, TilePlaces(self.patches, self.width, "grid").shape([rows.shape], dims)).lost()

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""
        if self.to == "rows":
            return "places of tiles: grid → a row for each shape of an image (cells that fit no image are left out)"
        return "places of tiles: a row for each shape of an image → grid"


@lru_cache
def image_shapes(tiles: int) -> tuple[tuple[int, int], ...]:
    """Return the shapes that an image of at most so many tiles can have, in Hugging Face's order.

    >>> image_shapes(4)
    ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1), (4, 1))
    """
    sides = range(1, tiles + 1)
    return tuple((height, width) for height in sides for width in sides if height * width <= tiles)


class _Tiles:
    """What both streams have: tiles of one size."""

    def __init__(self, inner: Stream, shape: Shape, tiles: int, size: int) -> None:
        self.inner, self.shape, self.dtype, self.tiles = inner, shape, inner.dtype, tiles
        self.unit = max(size * BY_NAME[inner.dtype].bits // 8, 1)

    def _read(self, tile: int, out: Bytes) -> None:
        read_any(self.inner, tile * self.unit, out)


class _Rows(_Tiles):
    """A grid as rows: row 0 stands for padding and is zero, and so is what a row has behind its image."""

    def __init__(self, grid: Stream, shape: Shape) -> None:
        super().__init__(grid, shape, grid.shape[0], math.prod(grid.shape[2:]))

    def read_into(self, start: int, out: Bytes) -> None:
        for at in range(0, out.nbytes, self.unit):
            row, place = divmod((start + at) // self.unit, self.tiles)
            height, width = image_shapes(self.tiles)[row - 1] if row else (0, 0)
            if place < height * width:
                self._read(place // width * self.tiles + place % width, out[at : at + self.unit])
            else:
                out[at : at + self.unit] = 0


class _Grid(_Tiles):
    """Rows as a grid. Before the first byte is given out all rows are compared with it: nothing may get lost."""

    def __init__(self, rows: Stream, shape: Shape) -> None:
        super().__init__(rows, shape, shape[0], math.prod(shape[2:]))

    def read_into(self, start: int, out: Bytes) -> None:
        if start == 0 and (text := self.lost()):
            raise CheckpointError("unknown-layout", text, fix=LOST_FIX)
        for at in range(0, out.nbytes, self.unit):
            tile = _source(self.tiles, *divmod((start + at) // self.unit, self.tiles))
            if tile is None:
                out[at : at + self.unit] = 0
            else:
                self._read(tile, out[at : at + self.unit])

    def lost(self) -> str:
        """Return which rows are not those of one grid, in a sentence; empty if all are."""
        import numpy as np

        found, wanted = np.empty(self.unit, np.uint8), np.empty(self.unit, np.uint8)
        for row, (height, width) in enumerate(((0, 0), *image_shapes(self.tiles))):
            for place in range(self.tiles):
                self._read(row * self.tiles + place, found)
                if place < height * width:
                    tile = _source(self.tiles, place // width, place % width)
                    assert tile is not None
                    self._read(tile, wanted)
                else:
                    wanted[:] = 0
                if (found != wanted).any():
                    return (
                        "The encoder adds other values to a tile at the same place in images of other shapes (row "
                        f"{row}, tile {place}), which a grid can not hold: the model was trained so with transformers."
                    )
        return ""


@lru_cache
def _source(tiles: int, row: int, column: int) -> int | None:
    """Return which tile of all rows holds a cell: that of the largest image, of the last of these; None if no image."""
    shapes = enumerate(image_shapes(tiles), 1)
    fitting = [(h * w, n, row * w + column) for n, (h, w) in shapes if row < h and column < w]
    if not fitting:
        return None
    _, number, place = max(fitting)
    return number * tiles + place
