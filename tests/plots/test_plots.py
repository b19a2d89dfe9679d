"""Plots without a window: what the artists show, colours, hostile names, and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.scan import Strip
from ckpt_gui.core.stats import cast_stats, heat_map, pair_stats, tensor_stats
from tests.core.stats.arrays import bf16, make

pytest.importorskip("matplotlib")

from ckpt_gui.plots import (
    DARK,
    FORMATS,
    LIGHT,
    CastPlot,
    HistogramPlot,
    HistogramSide,
    PairPlot,
    StripPlot,
    new_figure,
    save_figure,
)
from ckpt_gui.plots.heat import HeatPairPlot, HeatPlot

rng = np.random.default_rng(4)
HOSTILE = "w$\\frac{1}{0$\u202e" + "x" * 300


def texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [t.get_text() for t in figure.findobj(Text) if t.get_text()]


def drawn(figure: Any) -> None:
    """Draw it, so that an artist that can not be drawn fails."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()


def test_a_histogram_shows_its_counts_and_odd_elements_as_bars() -> None:
    values = rng.normal(0, 1, 5000).astype(np.float32)
    values[:30], values[30:50], values[50:57], values[57] = 0, np.nan, np.inf, -np.inf
    source, (ref,) = make("fp32", values)
    stats = tensor_stats(source, ref, bins=40)
    plot = HistogramPlot(new_figure())
    plot.show((HistogramSide.of(HOSTILE, stats),), "A title")
    shown = plot.lines[0].get_data()
    assert stats.histogram is not None
    assert tuple(shown.edges) == stats.histogram.edges
    assert [round(v) if v >= 1 else 0 for v in shown.values] == list(stats.histogram.counts)
    assert [round(v) for v in plot.bars[0].get_data().values[::2]] == [30, 20, 7, 1]
    assert not plot.lines[1].get_visible()
    assert plot.axes.get_ylim()[1] > max(stats.histogram.counts)
    drawn(plot.figure)
    assert any("\\u202e" in text for text in texts(plot.figure))
    assert all(len(text) < 200 for text in texts(plot.figure))


def test_data_and_colours_change_without_new_artists() -> None:
    source, refs = make("bf16", bf16(rng.normal(0, 1, 20_000)), bf16(rng.normal(2, 1, 20_000)))
    plot = HistogramPlot(new_figure(), LIGHT)
    before = [artist for axes in plot.figure.axes for artist in axes.get_children()]
    pair = pair_stats(source, *refs)
    plot.show(HistogramSide.of_pair(pair, ("a", "b")))
    assert tuple(plot.lines[1].get_data().edges) == pair.edges
    plot.recolour(DARK, 12.0)
    plot.show(())
    drawn(plot.figure)
    assert before == [artist for axes in plot.figure.axes for artist in axes.get_children()]
    assert plot.figure.get_facecolor() == pytest.approx((0x14 / 255, 0x17 / 255, 0x1B / 255, 1.0))


def test_a_tensor_of_nan_says_that_there_is_nothing() -> None:
    source, (ref,) = make("fp32", np.full(10, np.nan, np.float32))
    plot = HistogramPlot(new_figure())
    plot.show((HistogramSide.of("t", tensor_stats(source, ref, bins=4)),))
    assert "There is no finite element." in texts(plot.figure)
    drawn(plot.figure)


@pytest.mark.parametrize("equal", [True, False])
def test_a_pair_shows_the_difference_by_row(equal: bool) -> None:
    a = rng.normal(0, 1, (5000, 8)).astype(np.float32)
    b = a if equal else a + np.eye(5000, 8, dtype=np.float32)
    source, refs = make("fp32", a, b)
    pair = pair_stats(source, *refs)
    plot = PairPlot(new_figure(8, 6), DARK)
    plot.show_pair(pair, ("left", "right"))
    assert ("No row differs." in texts(plot.figure)) == equal
    if not equal:
        assert tuple(plot.row_line.get_ydata()) == pair.rows.values
        assert "Difference by row, the largest of every 3" in texts(plot.figure)
    drawn(plot.figure)


def test_one_nan_in_a_block_makes_it_yellow_and_is_pointed_at() -> None:
    values = rng.normal(0, 1, (300, 200)).astype(np.float32)
    values[11, 23] = np.nan
    source, (ref,) = make("fp32", values)
    found = heat_map(source, ref, size=(100, 50))  # blocks of 3 × 4
    plot = HeatPlot(new_figure())
    for layer in ("mean", "abs_max"):
        plot.show(found, layer)
        assert np.argwhere(plot.image.get_array().mask).tolist() == [[3, 5]]
        assert plot.rings is not None
        assert plot.rings.get_offsets().tolist() == [[21.5, 10.0]]  # middle of rows 9 to 11, columns 20 to 23
        drawn(plot.figure)
    plot.show(heat_map(source, ref, rows=(5, 25), columns=(20, 40)))  # large enough to be seen by itself
    assert plot.rings is None
    assert np.argwhere(plot.image.get_array().mask).tolist() == [[6, 3]]
    values[:] = np.nan
    source, (ref,) = make("fp32", values)
    plot.show(heat_map(source, ref, size=(100, 50)))
    assert plot.rings is None


def test_a_heat_map_keeps_the_numbers_of_rows_and_marks_what_is_not_finite() -> None:
    values = rng.normal(0, 1, (300, 200)).astype(np.float32)
    values[:3] = np.nan
    source, (ref,) = make("fp32", values)
    found = heat_map(source, ref, size=(100, 50))
    plot = HeatPlot(new_figure())
    plot.show(found)
    assert plot.image.get_extent() == [-0.5, 199.5, 299.5, -0.5]
    low, high = plot.image.get_clim()
    assert low == -high
    assert plot.image.get_array().mask[0].all()
    assert "Mean of blocks of 3 × 4; 600 not finite" in texts(plot.figure)
    plot.show(found, "abs_max")
    assert plot.image.get_clim()[0] == 0
    drawn(plot.figure)
    plot.show(heat_map(source, ref, rows=(10, 20), columns=(5, 9)))
    assert plot.image.get_extent() == [4.5, 8.5, 19.5, 9.5]
    assert "Values" in texts(plot.figure)
    pair = HeatPairPlot(new_figure())
    pair.show(found)
    assert {"Mean of blocks of 3 × 4", "Largest |x|; 600 not finite"} <= set(texts(pair.figure))
    plot.recolour(DARK)
    plot.show(dataclasses.replace(found, mean=np.full((2, 2), np.nan), bad=np.ones((2, 2), np.int64)))
    drawn(plot.figure)


def test_a_strip_marks_the_layer_that_is_unlike_the_others() -> None:
    strip = Strip("model.layers.N.w", (0, 1, 2, 5), tuple("abcd"), (0.1, 0.1, 30.0, 0.1), (1, 1, 1, 1), (0, 0, 0, -1))
    plot = StripPlot(new_figure())
    plot.show(strip)
    assert tuple(plot.lines[0].get_xdata()) == (0, 1, 2, 5)
    assert tuple(plot.marks[0].get_xdata()) == (2,)
    assert tuple(plot.marks[1].get_xdata()) == ()
    assert tuple(plot.marks[2].get_xdata()) == (5,)
    assert [axes.get_yscale() for axes in plot.strips] == ["log", "linear", "linear"]
    drawn(plot.figure)
    plot.show(Strip("none", (), (), (), (), ()))
    drawn(plot.figure)


def test_a_cast_says_what_it_does() -> None:
    values = np.array([1.0, 1e-30, 1e30, 0.0, np.nan, -3.5, 0.1], np.float32)
    source, (ref,) = make("fp32", values)
    plot = CastPlot(new_figure())
    plot.show_cast(cast_stats(source, ref, "fp16"))
    assert "3 of 7 change, 1 become zero, 1 become infinite" in texts(plot.figure)
    drawn(plot.figure)
    source, (ref,) = make("fp32", np.zeros(3, np.float32))
    plot.show_cast(cast_stats(source, ref, "fp16"))
    drawn(plot.figure)


@pytest.mark.parametrize("kind", FORMATS)
def test_files_are_the_same_each_time(kind: str, tmp_path: Path) -> None:
    source, (ref,) = make("fp32", rng.normal(0, 1, 500).astype(np.float32))
    stats = tensor_stats(source, ref, bins=20)
    written = []
    for name in "ab":
        plot = HistogramPlot(new_figure())
        plot.show((HistogramSide.of(HOSTILE, stats),))
        save_figure(plot.figure, tmp_path / f"{name}.{kind}")
        written.append((tmp_path / f"{name}.{kind}").read_bytes())
    assert written[0] == written[1]
    assert written[0][:4] == {"png": b"\x89PNG", "svg": b"<?xm", "pdf": b"%PDF"}[kind]


def test_other_formats_and_folders_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"must end in \.svg"):
        save_figure(new_figure(), tmp_path / "plot.gif")
    with pytest.raises(CheckpointError, match="can not be written"):
        save_figure(new_figure(), tmp_path / "absent" / "plot.png")


def test_importing_plots_does_not_import_matplotlib_or_a_window() -> None:
    code = "import sys, ckpt_gui.plots; print([n for n in ('matplotlib', 'PySide6') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    code = (
        "import sys; from ckpt_gui.plots import *; HistogramPlot(new_figure());"
        "print([n for n in ('matplotlib.pyplot', 'PySide6') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
