"""Tables of numbers and their CSV."""

from __future__ import annotations

import csv
import io

import numpy as np

from ckpt_gui.core.scan import Strip
from ckpt_gui.core.stats import cast_stats, heat_map, many_stats, pair_stats, tensor_stats
from ckpt_gui.core.tables import (
    Table,
    cast_table,
    csv_text,
    figures_table,
    heat_table,
    histogram_table,
    pair_table,
    rows_table,
    strip_table,
    values_table,
)
from ckpt_gui.core.values import read_values
from tests.core.stats.arrays import make


def read(table: Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(table))))


def test_numbers_keep_all_their_digits_and_texts_are_escaped() -> None:
    table = Table(("a,b", "=x"), ((0.1 + 0.2, None), ('say "hi"', "\u202e@")))
    assert read(table) == [["a,b", "'=x"], ["0.30000000000000004", ""], ['say "hi"', "\\u202e@"]]


def test_every_kind_of_table_holds_its_numbers() -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    b = a.copy()
    b[2, 3] += 1
    source, (left, right) = make("fp32", a, b)
    stats = tensor_stats(source, left, bins=4)
    assert stats.histogram is not None
    rows = read(histogram_table(["t0"], [stats.histogram]))
    assert [int(row[2]) for row in rows[1:]] == list(stats.histogram.counts)
    assert float(rows[1][0]) == 0.0
    pair = pair_stats(source, left, right)
    assert sum(int(row[2]) for row in read(pair_table(pair, ("a", "b")))[1:]) == 24
    assert [float(row[1]) for row in read(rows_table(pair.rows))[1:]] == list(pair.rows.values)
    heat = read(heat_table(heat_map(source, left, size=(2, 2))))
    assert [row[:3] for row in heat[1:]] == [
        ["0", "0", "4.0"],
        ["0", "3", "7.0"],
        ["2", "0", "16.0"],
        ["2", "3", "19.0"],
    ]
    cast = cast_stats(source, left, "fp16")
    assert sum(int(row[1]) for row in read(cast_table(cast))[1:]) == 23
    figures = read(figures_table(many_stats(source, (left, right))))
    assert [row[0] for row in figures] == ["key", "t0", "t1"]
    assert figures[0][-1] == "q0.999"
    strip = Strip("r", (0, 1), ("x", "y"), (1.0, 2.0), (3.0, 4.0), (5.0, 6.0))
    assert read(strip_table(strip))[1:] == [["0", "x", "1.0", "3.0", "5.0"], ["1", "y", "2.0", "4.0", "6.0"]]


def test_parts_of_tensors_of_any_rank() -> None:
    a = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    source, (ref,) = make("i64", a)
    assert read(values_table(read_values(source, ref, "[1, :2, 2:]"))) == [
        ["dim 0", "2", "3"], ["0", "14", "15"], ["1", "18", "19"],
    ]  # fmt: skip
    assert read(values_table(read_values(source, ref, "[:, 0, 0]"))) == [["0", "1"], ["0", "12"]]
    assert read(values_table(read_values(source, ref, "[1, 1, 1]"))) == [["value"], ["17"]]
    assert len(read(values_table(read_values(source, ref, "[...]")))) == 7
    assert read(values_table(read_values(source, ref, "[0:0]")))[1:] == []
