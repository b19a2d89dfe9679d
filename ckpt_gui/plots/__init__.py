"""Pictures of the numbers: matplotlib figures that know no window, for the window's canvas and for files alike.

Importing this package does not import matplotlib, which takes a second or two: making a figure does. Every plot is a
class that builds its axes and artists once, and is given data and colours as often as they change. The heat maps are
in `plots.heat`, apart from the others as they need numpy, before which the window is painted.
"""

from ckpt_gui.plots.base import DARK, LIGHT, Palette, Plot
from ckpt_gui.plots.cast import CastPlot
from ckpt_gui.plots.histograms import HistogramPlot, HistogramSide
from ckpt_gui.plots.pair import PairPlot
from ckpt_gui.plots.save import FORMATS, new_figure, save_figure
from ckpt_gui.plots.strips import StripPlot

__all__ = [
    "DARK", "FORMATS", "LIGHT", "CastPlot", "HistogramPlot", "HistogramSide", "PairPlot",
    "Palette", "Plot", "StripPlot", "new_figure", "save_figure",
]  # fmt: skip
