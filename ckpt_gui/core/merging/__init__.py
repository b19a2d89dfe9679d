"""Merge an adapter into a base: one plan of two sources.

Each weight that the adapter changes is brought into the layout whose names the adapter has, takes its pair in there,
and is brought back: so the rows of B lie as those of the weight, whatever the base's own order, and where nothing has
to be reordered in the end nothing is. An embedding and a head that were one are two once only one of them is trained.
"""

from __future__ import annotations

from ckpt_gui.core.merging.run import merge_adapter

__all__ = ["merge_adapter"]
