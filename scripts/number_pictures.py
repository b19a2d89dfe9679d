"""Draw the pictures of docs/reading-the-numbers.md, light and dark, from a real model and a poisoned copy of it.

`python scripts/number_pictures.py MODEL [--out docs/pictures]`. MODEL is SmolLM2-135M as `make_real_model.py` makes it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ckpt_gui.core.casts import as_float, cast
from ckpt_gui.core.file_map import HasRegions
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.scan import scan, strip
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import BINS, heat_map, tensor_stats
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.plots import (
    DARK,
    LIGHT,
    HistogramPlot,
    HistogramSide,
    Palette,
    Plot,
    StripPlot,
    new_figure,
    save_figure,
)
from ckpt_gui.plots.heat import HeatPlot

ROOT = Path(__file__).resolve().parent.parent
DOWN, UP = "model.layers.{}.mlp.down_proj.weight", "model.layers.{}.mlp.up_proj.weight"
SCALED, ODD = DOWN.format(20), UP.format(7)
SIZE = (7.0, 4.0)


def ref_of(source: Source, key: str) -> TensorRef:
    """Return the tensor of that name."""
    return next(ref for ref in source.refs if ref.key == key)


def poison(folder: Path) -> None:
    """Make one matrix thirty times as large, and put five NaN, an infinity and a row of zeros into another."""
    weights = folder / "model.safetensors"
    with open_checkpoint(weights) as source, weights.open("r+b") as file:
        reader = source.readers[weights.name]
        assert isinstance(reader, HasRegions)
        for key in (SCALED, ODD):
            ref = ref_of(source, key)
            values = as_float(np.frombuffer(source.read(ref), np.uint8), ref.dtype).reshape(ref.shape)
            if key == SCALED:
                values = values * np.float32(30)
            else:
                values[3, :5], values[9, 9], values[700] = np.nan, np.inf, 0
            file.seek(reader.region(ref)[0])
            file.write(cast(values.reshape(-1).view(np.uint8), "fp32", ref.dtype)[0].tobytes())


def plots(healthy: Source, sick: Source, palette: Palette) -> Iterator[tuple[str, Plot]]:
    """Yield name and plot."""
    role = DOWN.format("N")
    for name, source in (("layers", healthy), ("layers-poisoned", sick)):
        line = StripPlot(new_figure(SIZE[0], 5.0), palette)
        line.show(strip(scan(normalise(source), like=ref_of(source, SCALED)), role))
        yield name, line
    shown = HistogramPlot(new_figure(*SIZE), palette)
    stats = tensor_stats(sick, ref_of(sick, ODD), bins=BINS)
    shown.show((HistogramSide.of(stats.dtype, stats),), ODD)
    yield "histogram-poisoned", shown
    heat = HeatPlot(new_figure(*SIZE), palette)
    heat.show(heat_map(sick, ref_of(sick, ODD), rows=(0, 64), columns=(0, 96)))
    yield "heat-poisoned", heat


def main() -> int:
    """Draw every picture and print its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a Hugging Face folder")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work, "poisoned")
        shutil.copytree(args.model, copy)
        poison(copy)
        with open_checkpoint(args.model) as healthy, open_checkpoint(copy) as sick:
            for look, palette in (("light", LIGHT), ("dark", DARK)):
                for name, plot in plots(healthy, sick, palette):
                    path = args.out / f"{name}-{look}.png"
                    save_figure(plot.figure, path)
                    print(path.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
