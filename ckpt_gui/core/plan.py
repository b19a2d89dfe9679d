"""The plan: for every output tensor, which stored tensors make it, through which ops, and why.

A plan is a frozen value and a pure function of (refs, config, policy, evidence). The passes turn one plan into the
next; nothing else in the program changes one. `retarget` then turns a plan, whose names are the family's hub names,
into an `Export` in a layout's own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ckpt_gui import dataclasses
from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.entry import Entries, Entry, as_entries, places_of, walk
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.key_groups import KeyGroups
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef, TensorSpec
from ckpt_gui.dataclasses import dataclass, field

if TYPE_CHECKING:
    from ckpt_gui.core.families.generic import Saved
    from ckpt_gui.core.families.schema import Family, Layout
    from ckpt_gui.core.model_config import ModelConfig

Status = Literal["clean", "fixable", "blocked", "unreadable"]
TieName = Literal["absent", "same-storage", "equal", "different", "unchecked"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A stored tensor that is left out, and why.

    Attributes:
        ref: The tensor.
        reason: One sentence.
        kind: `buffer`, `redundant`, `replica`, `not-weights`, `other-section`, `not-held` (by the target's programs),
            `unassigned` (to its shard by the index) or `user`.
        key: Its name after unwrapping.
    """

    ref: TensorRef
    reason: str
    kind: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A row of the fix plan: one kind of change, with its evidence.

    Attributes:
        id: Stable name: `section`, `unwrap`, `prefix`, `rename`, `dequantise`, `rearrange`, `permute`, `buffers`,
            `tie`, `assigned`, `cast`, `index`, `shards`, `config`, `metadata`, `fields`; `edit:0` and so on for the
            rules of the user.
        title: What is done, for a person.
        count: Tensors concerned.
        evidence: Why this is right.
        changes_values: True if bytes of tensors change.
        certain: True if nothing is guessed.
        optional: True if it can be left out and the export is still whole.
        examples: Up to a few (before, after) pairs.
        keys: Hub or stored keys concerned, for filtering the tree.
    """

    id: str
    title: str
    count: int
    evidence: str
    changes_values: bool = False
    certain: bool = True
    optional: bool = False
    examples: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Byte facts gathered by `probe`, by the full keys of the two tensors.

    Attributes:
        pairs: (embedding, head) → `equal` or `different`.
        replicas: Name of a group of copies (see `Replica`) → `equal` or `different`.
        repeat: How many neighbouring ranks hold the same key/value heads; 0 if that was not looked at.
        saved: What transformers writes for the config, where no table has its family; None if it was not asked.
        rows: Full key of what has a row for each shape of an image → why these are not of one grid; empty if they are.
    """

    pairs: Mapping[tuple[str, str], TieName] = field(default_factory=dict)
    replicas: Mapping[tuple[str, ...], TieName] = field(default_factory=dict)
    repeat: int = 0
    saved: Saved | None = None
    rows: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replica:
    """A tensor that several ranks hold: what is kept, and what must equal it byte for byte.

    Attributes:
        kept: The tensor that stands for all.
        copies: The others.
    """

    kept: TensorRef
    copies: tuple[TensorRef, ...]

    @property
    def name(self) -> tuple[str, ...]:
        """The name under which evidence about it is kept."""
        return (self.kept.full_key, self.kept.file, *(ref.file for ref in self.copies))


@dataclass(frozen=True, slots=True)
class Edited:
    """A name that a rule of the user has changed.

    Attributes:
        before: The name at the rule's turn, without wrappers.
        after: What it became.
        full_key: Of the stored tensor.
    """

    before: str
    after: str
    full_key: str


@dataclass(frozen=True, slots=True)
class Tie:
    """What is known of the input embedding and the output head.

    Attributes:
        flag: `tie_word_embeddings` as it takes effect (class default resolved); None if nothing tells.
        flag_from: Where the flag stands, in words.
        embedding: The stored embedding, or None.
        head: The stored head, or None.
        state: How the two compare.
        tied: What an export will say; None where it can not be known.
    """

    flag: bool | None = None
    flag_from: str = ""
    embedding: TensorRef | None = None
    head: TensorRef | None = None
    state: TieName = "absent"
    tied: bool | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A checkpoint understood: every ref is in exactly one of entries, unmapped and dropped.

    Attributes:
        source: The opened checkpoint.
        policy: The user's decisions.
        evidence: Byte facts.
        entries: Tensors of the model, under hub names once the rename pass has run.
        unmapped: Tensors that fit no slot of the layout, under their unwrapped names; an export carries them along.
        dropped: Tensors left out, with reasons.
        findings: What the user should know.
        section: Where the weights lie.
        wrappers: Names of wrappers removed, such as `_orig_mod`.
        prefix: What was added to the front of each key to fit the layout.
        family: The architecture, or None.
        layout: The way it is stored, or None.
        evidence_text: Why we think so, one sentence each.
        config: What config.json, params.json or an earlier export say, in one vocabulary; None if nothing does.
        dims: Sizes by name (`hidden`, `heads`, …).
        dims_from: Where each comes from.
        tie: The pair of embedding and head.
        missing: Expected tensors that are not there, as hub specs.
        known: Published models that have these sizes, where no config tells more.
        replicas: Tensors that several ranks hold, of which one is taken.
        shared: Key/value parts of all ranks, tensor by tensor, where only their bytes can tell whether neighbours hold
            the same heads.
        adapter: The adapter that this checkpoint is, with no base weights in it; None for a model.
        merged: The adapter that the entries have taken in; None if there is none.
        edited: What each of the user's rules has renamed.
    """

    source: Source
    policy: Policy = field(default_factory=Policy)
    evidence: Evidence = field(default_factory=Evidence)
    entries: Entries = field(default_factory=Entries)
    unmapped: tuple[Entry, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    findings: tuple[Finding, ...] = ()
    section: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    prefix: str = ""
    family: Family | None = None
    layout: Layout | None = None
    evidence_text: tuple[str, ...] = ()
    config: ModelConfig | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    dims_from: Mapping[str, str] = field(default_factory=dict)
    tie: Tie = field(default_factory=Tie)
    missing: tuple[TensorSpec, ...] = ()
    known: tuple[str, ...] = ()
    replicas: tuple[Replica, ...] = ()
    shared: tuple[tuple[TensorRef, ...], ...] = ()
    adapter: Adapter | None = None
    merged: Adapter | None = None
    edited: tuple[tuple[Edited, ...], ...] = ()

    def __post_init__(self) -> None:
        """Let the entries know the groups of their keys, whoever made them."""
        object.__setattr__(self, "entries", as_entries(self.entries))

    @property
    def groups(self) -> KeyGroups:
        """The keys of the entries by their templates."""
        return self.entries.groups

    def entry(self, key: str | None) -> Entry | None:
        """Return the first entry of a key; None if there is none."""
        return self.entries.find(key) if key is not None else None

    def replace(self, **changes: Any) -> Plan:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def found(self, *findings: Finding) -> Plan:
        """Return a copy with findings added."""
        return self.replace(findings=(*self.findings, *findings))

    def explained(self, *sentences: str) -> Plan:
        """Return a copy with evidence added."""
        return self.replace(evidence_text=(*self.evidence_text, *sentences))

    @property
    def status(self) -> Status:
        """`blocked` if a finding blocks, `fixable` if one is above info, else `clean`."""
        if any(f.blocking for f in self.findings):
            return "blocked"
        return "fixable" if any(f.severity != "info" for f in self.findings) else "clean"

    @property
    def weights(self) -> tuple[Entry, ...]:
        """Entries and unmapped tensors: all that an export carries."""
        return (*self.entries, *self.unmapped)


def account(plan: Plan) -> None:
    """Check rule 2: every ref ends in exactly one of entries, unmapped and dropped.

    Raises:
        AssertionError: A mistake in a pass.
    """
    refs = plan.source.refs
    found = bytearray(len(refs))
    for _, at in walk(plan.entries, refs):
        found[at] = 1
    loose = [at for _, at in walk(plan.unmapped, refs)]
    if plan.dropped:
        places = places_of(refs)
        loose += [places[id(d.ref)] for d in plan.dropped]
    assert not any(found[at] for at in loose), "a tensor is both used and left out"
    assert len(loose) == len(set(loose)), "a tensor is left out twice"
    assert sum(found) + len(loose) == len(refs), "a tensor is lost"
