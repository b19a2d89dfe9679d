"""The notation in which a family is written down: slots, layouts, rules. Tables only; no family needs code.

The Hugging Face names of a family are the hub. A slot is a tensor of the family under its hub name with its shape in
symbols; a layout says how else the family is stored, as rules between a stored key and a hub key (see `rule_schema`).
`schema_check` holds the tables to their own rules.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.keys import anonymous, indices, template
from ckpt_gui.core.symbols import Symbol
from ckpt_gui.dataclasses import dataclass

EXTRA = "extra"  # the kind of layers that stand behind those that the config counts
BY_SHAPE = -1  # of `Layout.rank_dims`: the shapes tell


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor that the family expects.

    Attributes:
        key: Hub name; `{layer}` is an index.
        shape: A symbol, or a product such as `heads*head_dim`, for each size.
        role: `embedding`, `head`, or empty.
        when: Config flag that brings it (`attention_bias`), or a name for a set of tensors that are there all or none;
            empty where it is always there.
        group: Kind of layer that has it (`dense`, `moe`), where layers are of several kinds; a layer is of the kinds of
            which it has a tensor. Empty where every layer has it.
        own_type: True if it may well have another element type than the rest, and keeps it when those are cast.
    """

    key: str
    shape: tuple[str, ...]
    role: str = ""
    when: str = ""
    group: str = ""
    own_type: bool = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """A stored tensor that is known and not a weight.

    Attributes:
        key: Its name in the layout.
        reason: Why it can be left out: a verb in -s and what follows it.
        normal: True if the layout's own files carry it, so that it is no fault.
    """

    key: str
    reason: str
    normal: bool = False


class Oracle(Enum):
    """What a layout was checked against, beside reading, writing and coming back byte for byte; the strongest of them.

    The value is the sentence for people; `letter` marks it in a table.
    """

    SAVED = "files that transformers 4.57 and 5 save themselves, and their logits after loading ours"
    LOADED = "its own program loads what is written and computes the same logits; its converter makes the same bytes"
    CONVERTER = "a converter that is not ours makes the same bytes"
    DERIVED = "names and rows derived a second time in the tests, from its own sources; logits after the way back"
    NONE = "not yet checked against anything outside"

    @property
    def letter(self) -> str:
        """One letter for a table."""
        return {"SAVED": "s", "LOADED": "l", "CONVERTER": "c", "DERIVED": "d", "NONE": "u"}[self.name]


@dataclass(frozen=True)
class Layout:
    """One way in which a family is stored.

    Attributes:
        name: `hf`, `meta`, `torchtune`, ….
        rules: Stored ⇄ hub.
        ignored: Computed buffers and the like.
        head_always: True if the layout's files hold the output head even when it is tied to the embedding.
        source: Where the table was taken from.
        rank_dims: For each stored key that tensor-parallel ranks share, the dimension along which it is cut; `BY_SHAPE`
            where that differs from release to release. All other tensors every rank holds whole. Empty where the
            layout's ranks are not known.
        oracle: What it was checked against.
        always: Sets of tensors (`Slot.when`) that its programs do not do without.
        program_type: Word by which its program is told what to load (torchtune's `model_type`); empty if none is known.
        always_ties: True if its program has no place for a head of its own.
        caution: What can not be known of a file in this layout, and what to do then; empty as a rule.
        numbering: How layers that look at an image are counted, where they are counted by themselves: `spread` (in a
            row of their own, at places that follow from their number) or `beside` (with the layer that they stand
            before); empty where each layer has the hub's number.
        leaves: Parts of the model that its programs do not have, which are left out and told: how their hub keys begin
            (`EXTRA` for layers behind those that the config counts), and what they are.
        rank_parts: For stored keys whose rows are several tensors one below the other, each of which ranks cut by
            itself: how many there are, in symbols, or what each measures.
    """

    name: str
    rules: tuple[Rule, ...]
    ignored: tuple[Ignored, ...] = ()
    head_always: bool = False
    source: str = ""
    rank_dims: tuple[tuple[str, int], ...] = ()
    oracle: Oracle = Oracle.NONE
    always: tuple[str, ...] = ()
    program_type: str = ""
    always_ties: bool = False
    caution: tuple[str, str] = ("", "")
    numbering: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    rank_parts: tuple[tuple[str, Symbol | tuple[Symbol, ...]], ...] = ()

    @cached_property
    def by_stored(self) -> dict[str, Rule]:
        """Rules by the stored key's anonymous template."""
        return {anonymous(stored): rule for rule in self.rules for stored in rule.storeds}

    @cached_property
    def by_rank(self) -> dict[str, int]:
        """Dimensions along which ranks cut, by anonymous template."""
        return {anonymous(stored): dim for stored, dim in self.rank_dims}

    @cached_property
    def by_part(self) -> dict[str, Symbol | tuple[Symbol, ...]]:
        """The tensors that rows are cut in by themselves, by anonymous template."""
        return {anonymous(stored): parts for stored, parts in self.rank_parts}

    @cached_property
    def by_hub(self) -> dict[str, Rule]:
        """Rules by each hub key's anonymous template; where layers of several kinds have a rule each, the first."""
        return {anonymous(hub): rule for rule in reversed(self.rules) if not rule.also for hub in rule.hubs}

    def rule_of(self, hub: str) -> Rule | None:
        """Return the rule of a hub key: among those of several kinds of layers that of the layer's kind."""
        return self.rule_like(template(hub), indices(hub) if self._by_layer else ())

    def rule_like(self, shape: str, numbers: tuple[int, ...]) -> Rule | None:
        """Return the rule of a hub key by its template and its numbers."""
        own = self._by_layer.get((shape, numbers[0])) if numbers and self._by_layer else None
        return own or self.by_hub.get(shape)

    @cached_property
    def _by_layer(self) -> dict[tuple[str, int], Rule]:
        """Rules by template and the hub's number of the layer, where the layout counts by kinds."""
        return {(anonymous(hub), n): rule for rule in self.rules for n in rule.numbers.to_stored for hub in rule.hubs}

    @cached_property
    def by_ignored(self) -> dict[str, Ignored]:
        """Ignored tensors by anonymous template."""
        return {anonymous(i.key): i for i in self.ignored}


@dataclass(frozen=True)
class Family:
    """An architecture.

    Attributes:
        name: Our name for it.
        title: How people call it.
        model_types: `model_type` values of config.json that mean this family.
        architecture: Class that `architectures` of config.json names.
        slots: The tensors it expects.
        layouts: The ways it is stored; the first is `hf`.
        tie_default: `tie_word_embeddings` of the config class when the flag is absent.
        row_order: Rotary convention by layout, for the user's eyes.
        defaults: Fields of a new config.json where the source has none in Hugging Face's terms.
        spelling: Fields of config.json that transformers 5 calls anew, with the name that version 4 reads, and 5 too.
        source: Where the table was taken from.
        scaling_kind: Field of `rope_scaling` in which transformers 4 looks for the kind: a few classes of it take
            nothing but `type` and `factor`.
        exact: Every tensor with its shape, where transformers and not a table says what is expected.
    """

    name: str
    title: str
    model_types: tuple[str, ...]
    architecture: str
    slots: tuple[Slot, ...]
    layouts: tuple[Layout, ...]
    tie_default: bool
    row_order: tuple[tuple[str, str], ...] = ()
    defaults: tuple[tuple[str, object], ...] = ()
    spelling: tuple[tuple[str, str], ...] = ()
    source: str = ""
    scaling_kind: str = "rope_type"
    exact: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @cached_property
    def by_slot(self) -> dict[str, Slot]:
        """Slots by the hub key's anonymous template."""
        return {anonymous(s.key): s for s in self.slots}

    def layout(self, name: str) -> Layout | None:
        """Return the layout of that name, or None."""
        return next((x for x in self.layouts if x.name == name), None)

    def role(self, role: str) -> str | None:
        """Return the hub key with that role (`embedding`, `head`), or None."""
        return next((s.key for s in self.slots if s.role == role), None)


def hf_layout(
    slots: tuple[Slot, ...], ignored: tuple[Ignored, ...], source: str, oracle: Oracle = Oracle.NONE
) -> Layout:
    """Return the hub itself as a layout: every name stands for itself."""
    return Layout("hf", tuple(Rule(s.key, s.key) for s in slots), ignored, source=source, oracle=oracle)
