"""What is wanted of an export, and everything that will be written: values."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.entry import Entries, as_entries
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.plan import Dropped, Plan, Step
from ckpt_gui.dataclasses import dataclass, field

GB = 10**9


@dataclass(frozen=True, slots=True)
class Target:
    """What the user wants.

    Attributes:
        layout: `hf`, `meta`, `torchtune` or `same`.
        container: `safetensors` or `torch`; None for the layout's usual one.
        dtype: `keep`, `bf16`, `fp16` or `fp32`.
        max_shard_bytes: A safetensors file gets no larger, unless one tensor is.
        base: Config, tokenizer and generation files of another folder, for what the source lacks.
        model_parallel: Number of tensor-parallel ranks that the files are cut for; None for one file, or as many as the
            source has where the layout stays the `same`.
        metadata: Texts of the metadata of safetensors files that shall have other values; `format` is always there.
    """

    layout: str = "same"
    container: str | None = None
    dtype: str = "keep"
    max_shard_bytes: int = 5 * GB
    base: Sidecars | None = None
    model_parallel: int | None = None
    metadata: tuple[FieldEdit, ...] = ()


@dataclass(frozen=True, slots=True)
class Export:
    """Everything that will be written.

    Attributes:
        plan: Where it comes from.
        target: What was wanted.
        layout: The layout of the names; None where `same` keeps unknown names.
        container: `safetensors` or `torch`.
        entries: The tensors in writing order, under the names they will have.
        dropped: Tensors that are left out, with reasons.
        beside: Tensors that are not weights and are carried as they are, in the nesting of the source.
        texts: Small files to write: name → content.
        carried: Files to copy: name → path.
        steps: The rows of the fix plan.
        findings: What the user should know of this export; a blocking one refuses it.
        left_out: Values in the source that are not tensors and will not be written.
        ranks: Tensor-parallel ranks that the files are cut for; the entries are whole all the same.
    """

    plan: Plan
    target: Target
    layout: Layout | None
    container: str
    entries: Entries
    dropped: tuple[Dropped, ...] = ()
    beside: tuple[Dropped, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    ranks: int = 1

    def __post_init__(self) -> None:
        """Let the entries know the groups of their keys, whoever made them."""
        object.__setattr__(self, "entries", as_entries(self.entries))

    @property
    def blocked(self) -> tuple[Finding, ...]:
        """The findings that refuse it."""
        return tuple(f for f in self.findings if f.blocking)

    @property
    def certain(self) -> bool:
        """True if no step is guessed and nothing blocks: one click may do it."""
        return not self.blocked and all(s.certain for s in self.steps)

    @property
    def nbytes(self) -> int:
        """Bytes of tensor data to be written; aliases in a torch file counted once."""
        if self.container == "torch":
            return sum({e.identity: e.output.nbytes for e in self.entries}.values())
        return sum(e.output.nbytes for e in self.entries)
