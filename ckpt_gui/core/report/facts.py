"""The model in numbers, counted once for every report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from operator import attrgetter

from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.plan import Plan, Status
from ckpt_gui.core.tensors import count_places
from ckpt_gui.dataclasses import dataclass

_INPUTS, _KEY, _DTYPE = attrgetter("inputs"), attrgetter("key"), attrgetter("dtype")


@dataclass(frozen=True, slots=True)
class Facts:
    """The model in numbers; tensors at the same place count once, except in `tensors` and `dtypes`.

    Attributes:
        tensors: Weights of the model.
        parameters: Their elements.
        nbytes: Their bytes.
        dtypes: Weights by element type.
    """

    tensors: int
    parameters: int
    nbytes: int
    dtypes: Mapping[str, int]


def facts(plan: Plan) -> Facts:
    """Count the model's weights."""
    refs = list({id(ref): ref for ref in chain.from_iterable(map(_INPUTS, plan.weights))}.values())
    distinct = len(set(map(_KEY, refs))) == len(refs)
    stored = refs if distinct else list({ref.path: ref for ref in refs}.values())  # slices of all ranks are one tensor
    places = count_places(refs)
    parameters = sum(math.prod(shape) * n for (_, shape), n in places.items())
    blocks = plan.source.blocks
    parameters += sum(plan.source.numel(ref) - ref.numel for ref in (refs if blocks else ()) if ref.key in blocks)
    dtypes = dict(Counter(map(_DTYPE, stored)).most_common())
    nbytes = sum(num_bytes(dtype, math.prod(shape)) * n for (dtype, shape), n in places.items())
    return Facts(len(stored), parameters, nbytes, dtypes)


def status(plan: Plan) -> Status:
    """Return the plan's status; `unreadable` where no tensor can be listed."""
    return plan.status if plan.source.refs else "unreadable"
