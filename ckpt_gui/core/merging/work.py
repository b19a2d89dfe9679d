"""The base's tensors in the layout whose names the adapter has, while the adapter goes into them."""

from __future__ import annotations

from ckpt_gui import dataclasses
from ckpt_gui.core.adapters import Adapter, Lora, Tokens
from ckpt_gui.core.dtypes import CASTABLE
from ckpt_gui.core.entry import Entry, carried
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, make, shape_of
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.layouting import to_layout
from ckpt_gui.core.merge_ops import MergeBias
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.passes.adapter import is_swapped, merged, with_rows
from ckpt_gui.core.passes.adapter_findings import strange_rows
from ckpt_gui.core.passes.expectation import stored_name
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.replace_ops import Replace
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef, TensorSpec
from ckpt_gui.dataclasses import dataclass, field

# Prefixes that one module has had in several versions: in the adapter, in the base.
_MOVES: tuple[tuple[str, str], ...] = (
    ("", ""),
    ("", "model."),
    ("model.", ""),
    ("model.language_model.", "model."),
    ("model.language_model.", "language_model.model."),
    ("language_model.model.", "model.language_model."),
    ("language_model.model.", "model."),
    ("model.", "model.language_model."),
    ("model.", "language_model.model."),
)


@dataclass(slots=True)
class Work:
    """The base's tensors in the adapter's layout, while the adapter goes into them.

    Attributes:
        plan: The base's.
        adapter: With refs of the common source.
        source: The common source.
        layout: Whose names the adapter has.
        stored: Tensors by their names in that layout.
        touched: Names of those that change.
        added: Tensors of the adapter that the base has no place for.
        stuck: Modules without a weight that fits.
        unbiased: Modules with a trained bias, and without one in the base.
        apart: True if the embedding and the head were one and are no longer.
        gone: Tensors of the adapter that are left out, with reasons.
        findings: What the user should know.
    """

    plan: Plan
    adapter: Adapter
    source: Source
    layout: Layout | None
    stored: dict[str, Entry] = field(init=False)
    touched: dict[str, None] = field(default_factory=dict)
    added: list[Entry] = field(default_factory=list)
    stuck: list[Lora] = field(default_factory=list)
    unbiased: list[Lora] = field(default_factory=list)
    apart: bool = False
    gone: list[Dropped] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = to_layout(self.plan.entries, self.layout, self.plan)[0] if self.layout else self.plan.entries
        self.stored = {e.key: e for e in (*self.plan.unmapped, *made)}

    def most_found(self) -> int:
        """Return how many of the adapter's modules are in the base, with the prefix that fits best."""
        return max(self._found(self._names()))

    def _names(self) -> list[str]:
        modules = [x.module for x in self.adapter.loras] + [x.module for x in self.adapter.tokens]
        return [f"{module}.weight" for module in modules] or list(self.adapter.whole)

    def _found(self, names: list[str]) -> list[int]:
        return [sum(_move(name, move) in self.stored for name in names) for move in _MOVES]

    def fit_names(self) -> None:
        """Give the adapter's modules the prefix that the base has."""
        names = self._names()
        counts = self._found(names)
        best = _MOVES[counts.index(max(counts, default=0))]
        if best == ("", "") or not max(counts):
            return
        loras = tuple(dataclasses.replace(x, module=_move(x.module, best)) for x in self.adapter.loras)
        tokens = tuple(dataclasses.replace(t, module=_move(t.module, best)) for t in self.adapter.tokens)
        whole = {_move(name, best): ref for name, ref in self.adapter.whole.items()}
        trained = frozenset(_move(name, best) for name in self.adapter.trained)
        self.adapter = dataclasses.replace(self.adapter, loras=loras, whole=whole, trained=trained, tokens=tokens)
        text = (
            f"With its own names {counts[0]:,} of {len(names):,} modules of the adapter are in the base; with "
            f"`{best[1]}` for `{best[0]}` before them {max(counts):,} are."
        )
        self.findings.append(Finding("renamed", "warning", text, fix="fix takes these names; look whether they fit."))

    def role(self, role: str) -> str | None:
        """Return what the adapter's layout calls the `embedding` or the `head`; None if that is not known."""
        hub = self.plan.family.role(role) if self.plan.family else None
        return stored_name(self.layout, hub) if hub and self.layout else None

    def is_trained(self, name: str) -> bool:
        """Return True if the adapter has a whole tensor that was trained apart from the base's."""
        module = name.rpartition(".")[0]
        stated = self.adapter.config.get("modules_to_save")
        saved = [str(m) for m in stated] if isinstance(stated, list) else [stated] if isinstance(stated, str) else []
        listed = any(module == m or module.endswith(f".{m}") for m in saved)
        return name in self.adapter.whole and (name in self.adapter.trained or listed)

    def replace(self) -> None:
        """Put whole tensors in the place of the base's."""
        for name, ref in self.adapter.whole.items():
            if name in self.stored:
                self.put(name, ref)
            else:
                self.added.append(carried(ref, name, "the adapter brings it"))

    def put(self, name: str, ref: TensorRef) -> None:
        """Put a whole tensor in the place of the base's, in the base's type where there is a cast to it."""
        entry = self.stored[name]
        dtype = entry.output.dtype
        new: Expr = ref
        if ref.dtype != dtype:
            if not {ref.dtype, dtype} <= set(CASTABLE):
                dtype = ref.dtype
            else:
                new = make(Cast(ref.dtype, dtype), ref)
        self._set(name, make(Replace(), entry.expr, new), dtype, ref.shape)

    def merge(self) -> None:
        """Put every pair into its weight."""
        for lora in self.adapter.loras:
            name = f"{lora.module}.weight"
            entry = self.stored.get(name)
            expr = self._merged(entry, lora) if entry else None
            if entry is None or expr is None:
                self.stuck.append(lora)
            else:
                self._set(name, expr, entry.output.dtype, entry.output.shape)
            if lora.bias is not None:
                self._add_bias(lora, lora.bias)

    def _add_bias(self, lora: Lora, bias: TensorRef) -> None:
        entry = self.stored.get(f"{lora.module}.bias")
        if entry is None or entry.output.shape != bias.shape or entry.output.dtype not in CASTABLE:
            self.unbiased.append(lora)
            return
        self._set(entry.key, make(MergeBias(lora.scale or 0.0), entry.expr, bias), entry.output.dtype, bias.shape)

    def put_rows(self) -> None:
        """Put trained rows into embeddings, and into a head that is tied to one."""
        ends = [name for role in ("embedding", "head") if (name := self.role(role))]
        for tokens in self.adapter.tokens:
            own = f"{tokens.module}.weight"
            both = own in ends and self.plan.tie.tied is True and not self.apart
            names = [name for name in (ends if both else [own]) if name in self.stored]
            try:
                made = {name: self._rows(name, tokens) for name in names}
            except CheckpointError:
                made = {}
            if not made:
                self.findings.append(strange_rows(tokens.module, "the base"))
            for name, expr in made.items():
                self._set(name, expr, self.stored[name].output.dtype, self.stored[name].output.shape)

    def _rows(self, name: str, tokens: Tokens) -> Expr:
        entry = self.stored[name]
        expr = with_rows(entry.expr, entry.output.dtype, tokens)
        shape_of(expr, self.plan.dims)
        return expr

    def _merged(self, entry: Entry, lora: Lora) -> Expr | None:
        if entry.output.dtype not in CASTABLE:
            return None
        expr = merged(entry.expr, lora, swapped=is_swapped(entry.output.shape, lora, self.adapter))
        try:
            shape_of(expr, self.plan.dims)
        except CheckpointError:
            return None
        return expr

    def _set(self, name: str, expr: Expr, dtype: str, shape: tuple[int, ...]) -> None:
        self.stored[name] = Entry(TensorSpec(name, dtype, shape), expr, self.stored[name].why)
        self.touched[name] = None


def _move(name: str, move: tuple[str, str]) -> str:
    old, new = move
    return new + name[len(old) :] if name.startswith(old) else name
