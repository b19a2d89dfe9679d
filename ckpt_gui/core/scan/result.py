"""What a scan of a model has found, tensor by tensor, and as strips over the layers."""

from __future__ import annotations

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.roles import Role
from ckpt_gui.core.stats import TensorStats
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """An element that is pointed at.

    Attributes:
        index: Where it stands, a number for each dimension.
        value: What stands there, in words or digits.
    """

    index: tuple[int, ...]
    value: str

    def __str__(self) -> str:
        """Return the place in words."""
        if len(self.index) == 2:
            return f"row {self.index[0]:,}, column {self.index[1]:,}"
        return f"[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that have something in common.

    Attributes:
        kind: `zero`, `equal` (each to another row) or `initial` (at the scale at which rows begin).
        count: How many there are.
        first: The numbers of the first of them; all dims but the last are rows.
    """

    kind: str
    count: int
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorScan:
    """What was found in one stored tensor.

    Attributes:
        ref: The tensor.
        key: Its hub name, or its own where it has none or holds several.
        role: What it is for.
        stats: Its figures.
        odd: The first elements that are not finite.
        odd_count: How many there are.
        saturated: Elements at the largest finite value of fp16, where a cast leaves what it can not hold.
        large: The first elements of a wider type that fp16 could not hold.
        large_count: How many there are.
        rows: Rows that look untrained or dead.
        error: Why it could not be read; empty if it could.
    """

    ref: TensorRef
    key: str
    role: Role
    stats: TensorStats
    odd: tuple[Place, ...] = ()
    odd_count: int = 0
    saturated: int = 0
    large: tuple[Place, ...] = ()
    large_count: int = 0
    rows: tuple[Rows, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """A model, scanned.

    Attributes:
        tensors: What was found in each, in file order; only those that were reached if it was stopped.
        findings: What looks wrong.
        complete: False if it was stopped before the end; findings are then those of the part that was read.
        parameters: Elements of the model, those at the same place once.
        parameters_stored: The same with every alias counted.
        nbytes: Bytes to read, those at the same place once.
        done: Bytes that were read.
    """

    tensors: tuple[TensorScan, ...]
    findings: tuple[Finding, ...]
    complete: bool
    parameters: int
    parameters_stored: int
    nbytes: int
    done: int


@dataclass(frozen=True, slots=True)
class Strip:
    """One role over the layers; of several experts in a layer, or parts of ranks, the one that stands out most.

    Attributes:
        role: Its name.
        layers: Numbers of the layers, ascending.
        keys: The stored tensor that each point stands for.
        std: Deviation in each layer.
        abs_max: Largest magnitude.
        mean: Mean.
    """

    role: str
    layers: tuple[int, ...]
    keys: tuple[str, ...]
    std: tuple[float, ...]
    abs_max: tuple[float, ...]
    mean: tuple[float, ...]


def roles_of(scan: Scan) -> tuple[str, ...]:
    """Return the roles that several layers have, in file order: those that a strip can be drawn of."""
    layers: dict[str, set[int]] = {}
    for found in scan.tensors:
        if found.role.layer is not None and found.stats.finite:
            layers.setdefault(found.role.name, set()).add(found.role.layer)
    return tuple(role for role, numbers in layers.items() if len(numbers) > 1)


def strip(scan: Scan, role: str) -> Strip:
    """Return the figures of a role over the layers."""
    widest: dict[int, TensorScan] = {}
    for found in scan.tensors:
        layer = found.role.layer
        if found.role.name != role or layer is None or found.stats.abs_max is None:
            continue
        before = widest.get(layer)
        if before is None or (before.stats.abs_max or 0.0) < found.stats.abs_max:
            widest[layer] = found
    layers = sorted(widest)
    figures = [widest[layer].stats for layer in layers]
    return Strip(
        role,
        tuple(layers),
        tuple(widest[layer].ref.full_key for layer in layers),
        tuple(f.std or 0.0 for f in figures),
        tuple(float(f.abs_max or 0.0) for f in figures),
        tuple(f.mean or 0.0 for f in figures),
    )
