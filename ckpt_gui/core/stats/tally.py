"""Which tally a tensor gets."""

from __future__ import annotations

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.stats.moments import Moments
from ckpt_gui.core.stats.patterns import Patterns
from ckpt_gui.core.stats.tally_base import Tally
from ckpt_gui.core.tensors import TensorRef

FEW = 1 << 14  # below this, looking at the elements is cheaper than at all the patterns


def tally_for(ref: TensorRef) -> Tally:
    """Return an empty tally for a tensor."""
    narrow = BY_NAME[ref.dtype].bits <= 16 and ref.numel >= FEW
    return Patterns(ref.dtype, ref.numel) if narrow else Moments(ref.dtype, ref.numel)
