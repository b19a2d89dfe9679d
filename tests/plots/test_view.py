"""Where a picture shows which values, and back."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ckpt_gui.plots import HistogramPlot, HistogramSide
from ckpt_gui.plots.view import AxesView, Scale, views_of


def test_a_scale_leads_both_ways() -> None:
    scale = Scale((2.0, 4.0), (10.0, 30.0))
    assert scale.place(3.0) == 20.0
    assert scale.value(25.0) == 3.5
    downwards = Scale((599.5, -0.5), (400.0, 100.0))
    assert downwards.value(250.0) == pytest.approx(299.5)
    ratios = Scale((1.0, 100.0), (200.0, 0.0), is_log=True)
    assert ratios.place(10.0) == pytest.approx(100.0)
    assert ratios.value(0.0) == pytest.approx(100.0)


def test_a_box_and_what_lies_in_it() -> None:
    view = AxesView(Scale((0.0, 1.0), (10.0, 110.0)), Scale((0.0, 1.0), (90.0, 20.0)))
    assert view.box == (10.0, 20.0, 100.0, 70.0)
    assert view.holds(10.0, 90.0)
    assert not view.holds(9.0, 50.0)
    assert view.with_limits((0.5, 1.0), (0.0, 2.0)).y.place(1.0) == pytest.approx(55.0)


def test_views_of_a_plot() -> None:
    figure = Figure(figsize=(6, 4), dpi=200)
    canvas = FigureCanvasAgg(figure)
    plot = HistogramPlot(figure)
    plot.show((HistogramSide("a", (-1.0, 0.0, 3.0), (5, 900), (0, 0, 0, 0)),))
    canvas.draw()
    bins, odd = views_of(plot, 2.0)
    assert bins.x.limits == (-1.0, 3.0)
    assert not bins.x.is_log
    assert bins.y.is_log
    assert 0 < bins.x.ends[0] < bins.x.ends[1] < odd.x.ends[0] < 600
    assert 400 > bins.y.ends[0] > bins.y.ends[1] > 0
    assert bins.x_with == {0}
    assert bins.y_with == odd.y_with == {0, 1}
