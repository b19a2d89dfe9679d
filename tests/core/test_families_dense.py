"""Every dense family is clean as its slots say, and comes back from every layout byte for byte; no library needed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.against import against
from ckpt_gui.core.checked_stream import open_part
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.export_record import use_with
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.families.schema_check import check_family
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import template
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.out_files import Part
from ckpt_gui.core.passes.expectation import stored_name
from ckpt_gui.core.plan import Plan, account
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.source import Source
from ckpt_gui.core.symbols import size_of
from ckpt_gui.core.writer import write_export
from tests.core import models

DENSE = (
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "smollm3", "olmo2", "cohere", "cohere2",
    "starcoder2",
)  # fmt: skip
DIMS = {
    "hidden": models.HIDDEN, "heads": models.HEADS, "kv_heads": models.KV_HEADS, "head_dim": models.HEAD_DIM,
    "ffn": models.FFN, "vocab": models.VOCAB,
}  # fmt: skip
LAYERS = 3
WAYS = [(name, layout.name) for name in DENSE for layout in BY_NAME[name].layouts]
# Tensors of a layer without optional ones, and those beside the layers, the head among them.
COUNTS = {
    "llama": (9, 3), "mistral": (9, 3), "qwen2": (12, 3), "qwen3": (11, 3), "gemma": (9, 3), "gemma2": (11, 3),
    "gemma3": (13, 3), "smollm3": (9, 3), "olmo2": (11, 3), "cohere": (8, 3), "cohere2": (8, 3), "starcoder2": (10, 4),
}  # fmt: skip


def tensors(family: Family, *, head: bool = True, optional: bool = True) -> models.State:
    """A model under hub names, each element with a value of its own."""
    made: models.State = {}
    begin = 1
    for slot in family.slots:
        if (slot.role == "head" and not head) or (slot.when and not optional):
            continue
        for layer in range(LAYERS if "{layer}" in slot.key else 1):
            shape = tuple(size_of(symbol, DIMS) for symbol in slot.shape)
            made[slot.key.format(layer=layer)] = np.arange(begin, begin + math.prod(shape), dtype=np.float32).reshape(
                shape
            )
            begin += math.prod(shape)
    return made


def config(family: Family, **changes: Any) -> dict[str, Any]:
    """A config that fits; the optional tensors' flags are true."""
    flags = {slot.when: True for slot in family.slots if slot.when}
    named = {"model_type": family.model_types[0], "architectures": [family.architecture]}
    return models.config(**named, **flags | {"tie_word_embeddings": False} | changes)


def written(export: Export) -> Source:
    """What the files of an export would hold, in memory."""
    assert not export.blocked
    arrays = {}
    for entry in export.entries:
        out = np.zeros(entry.output.nbytes, np.uint8)
        open_part(export.plan.source, Part(entry.key, entry), export.plan.dims).read_into(0, out)
        arrays[entry.key] = out.view(np.float32).reshape(entry.output.shape)
    beside = {name: json.loads(text) for name, text in export.texts.items() if name.endswith(".json")}
    origin = export.plan.source.sidecars.config  # as the report of an export keeps it
    return models.source(arrays, beside.get("config.json", origin))


def sent(plan: Plan, layout: str) -> Source:
    """Write a plan in a layout, in memory."""
    return written(retarget(plan, Target(layout)))


@pytest.mark.parametrize("name", DENSE)
def test_tables(name: str) -> None:
    family = BY_NAME[name]
    assert check_family(family) == []
    assert all(layout.source for layout in family.layouts)
    assert {order for order, _ in family.row_order} == {layout.name for layout in family.layouts}


@pytest.mark.parametrize("name", DENSE)
def test_counts(name: str) -> None:
    family = BY_NAME[name]
    per_layer, beside = COUNTS[name]
    assert len(tensors(family, optional=False)) == per_layer * LAYERS + beside


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("optional", [True, False])
def test_clean(name: str, optional: bool) -> None:
    family = BY_NAME[name]
    flags = {slot.when: optional for slot in family.slots if slot.when}
    plan = models.plan(tensors(family, optional=optional), config(family, **flags))
    assert plan.findings == ()
    assert plan.family is family
    assert {name: plan.dims[name] for name in DIMS} == DIMS
    account(plan)


@pytest.mark.parametrize("name", DENSE)
def test_the_flag_that_is_absent_is_the_default(name: str) -> None:
    family = BY_NAME[name]
    plan = models.plan(tensors(family, head=False), config(family, tie_word_embeddings=...))
    assert plan.tie.tied is (True if family.tie_default else None)
    assert models.codes(plan) == ([] if family.tie_default else ["missing-tensor"])


@pytest.mark.parametrize(("name", "layout"), WAYS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optional", [True, False])
def test_there_and_back(name: str, layout: str, tied: bool, optional: bool) -> None:
    family = BY_NAME[name]
    table = family.layout(layout)
    assert table is not None
    flags = {slot.when: optional for slot in family.slots if slot.when}
    start = tensors(family, head=not tied, optional=optional)
    plan = models.plan(start, config(family, tie_word_embeddings=tied, **flags))
    nameless = [key for key in start if template(key) not in table.by_hub]
    if nameless:
        export = retarget(plan, Target(layout))
        assert [f.code for f in export.blocked] == ["unknown-layout"]
        assert layout in export.blocked[0].message
        return
    there = understand(sent(plan, layout), Policy(stored=layout))
    assert [f for f in there.findings if f.severity != "info"] == []
    assert there.layout is table
    assert there.tie.tied is tied
    account(there)
    wanted = {stored_name(table, key) for key in start}
    wanted |= {stored_name(table, "lm_head.weight")} if table.head_always else set()
    assert {ref.key for ref in there.source.refs} == wanted
    assert models.stored(sent(there, "hf")) == models.as_bytes(start)
    assert models.stored(sent(there, layout)) == models.stored(there.source)


PAIRS = [(name, first, second) for name, first in WAYS for other, second in WAYS if name == other and first != second]


@pytest.mark.parametrize(("name", "first", "second"), [way for way in PAIRS if "hf" not in way])
def test_from_layout_to_layout(name: str, first: str, second: str) -> None:
    """Through two layouts, whatever their rows and their fused tensors, as through one."""
    family = BY_NAME[name]
    flags = {slot.when: False for slot in family.slots if slot.when}
    tied = "google" in (first, second)  # which has no head
    plan = models.plan(
        tensors(family, head=not tied, optional=False), config(family, tie_word_embeddings=tied, **flags)
    )
    through = understand(sent(understand(sent(plan, first), Policy(stored=first)), second))
    assert models.stored(through.source) == models.stored(sent(plan, second))


@pytest.mark.parametrize("name", ["qwen2", "gemma2", "gemma3", "olmo2", "starcoder2", "qwen3", "cohere"])
def test_names_alone_tell(name: str) -> None:
    """Without a config the family is told by the tensors that only it has."""
    plan = models.plan(tensors(BY_NAME[name], optional=name == "cohere"))
    assert plan.family is BY_NAME[name]
    assert "family-ambiguous" not in models.codes(plan)


def test_names_alone_do_not_tell_a_llama_from_a_gemma() -> None:
    plan = models.plan(tensors(BY_NAME["llama"], optional=False))
    assert plan.family is BY_NAME["llama"]
    message = models.finding(plan, "family-ambiguous").message
    assert "Mistral" in message
    assert "Gemma" in message


def test_a_family_is_believed_over_names_that_fit_another_better() -> None:
    """A Qwen 2 with norms of its heads fits Qwen 3 in more keys; its config says what it should be."""
    family = BY_NAME["qwen2"]
    extra = {f"model.layers.{n}.self_attn.q_norm.weight": np.ones(8, np.float32) for n in range(LAYERS)}
    start = {key: value for key, value in (tensors(family) | extra).items() if not key.endswith("bias")}
    plan = models.plan(start, config(family))
    assert plan.family is family
    assert {"unexpected-tensor", "missing-tensor"} <= set(models.codes(plan))


def test_a_config_of_another_model() -> None:
    plan = models.plan(models.state("meta"), config(BY_NAME["gemma2"]))
    assert plan.family is None
    assert "Gemma 2" in models.finding(plan, "unknown-layout").message


@pytest.mark.parametrize("version", [4, 5])
def test_gemma_3_has_two_rotary_bases(version: int) -> None:
    """Version 4 needs the one of the layers with a window by its own name; version 5 takes both spellings."""
    family = BY_NAME["gemma3"]
    kinds = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    old = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    changes = old if version == 4 else {"rope_theta": ..., "rope_parameters": kinds}
    export = retarget(models.plan(tensors(family, head=False), config(family, **changes)), Target("hf"))
    found = json.loads(export.texts["config.json"])
    assert {name: found[name] for name in old} == old
    assert found.get("rope_parameters", kinds) == kinds


def test_olmo_2_names_the_kind_of_scaling_as_its_class_wants_it() -> None:
    family = BY_NAME["olmo2"]
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
    export = retarget(models.plan(tensors(family), config(family, rope_theta=..., rope_parameters=rope)), Target("hf"))
    assert json.loads(export.texts["config.json"])["rope_scaling"] == {"type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    ("name", "tied", "wanted"),
    [("qwen2", True, "QWEN2"), ("gemma", True, "GEMMA"), ("gemma2", False, "GEMMA2"), ("mistral", False, "MISTRAL")],
)
def test_the_report_names_torchtunes_model_type(name: str, tied: bool, wanted: str) -> None:
    family = BY_NAME[name]
    plan = models.plan(tensors(family, head=not tied, optional=False), config(family, tie_word_embeddings=tied))
    used = use_with(retarget(plan, Target("torchtune")))
    assert used["torchtune_model_type"] == wanted
    assert ("warning" in used) == (name == "gemma2")


def test_what_can_not_be_known_of_a_gemma_2_of_torchtune_is_said() -> None:
    family = BY_NAME["gemma2"]
    start = tensors(family, head=False, optional=False)
    plan = models.plan(start, config(family, tie_word_embeddings=True, attention_bias=False))
    there = understand(sent(plan, "torchtune"))
    assert there.status == "clean"
    assert "0.6.1" in models.finding(there, "layout-ambiguous").message
    assert "layout-ambiguous" not in models.codes(understand(sent(there, "hf")))


@pytest.mark.parametrize("layout", ["torchtune", "torchtune-0.6.1"])
def test_our_own_report_tells_who_made_a_gemma_2(layout: str, tmp_path: Path) -> None:
    family = BY_NAME["gemma2"]
    start = tensors(family, head=False, optional=False)
    plan = models.plan(start, config(family, tie_word_embeddings=True, attention_bias=False))
    write_export(retarget(plan, Target(layout)), tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as source:
        there = understand(source)
        assert models.codes(there) == ["tokenizer-missing"] or models.codes(there) == []
        assert there.layout is not None
        assert there.layout.name == layout
        assert models.stored(sent(there, "hf")) == models.as_bytes(start)
        other = understand(source, Policy(stored="torchtune"))  # what the user says counts more
        assert other.layout is not None
        assert other.layout.name == "torchtune"


def test_a_gemma_2_that_torchtune_s_converter_has_mixed_up(tmp_path: Path) -> None:
    """With the original beside it the cause is known, and the fix is named; told of it, nothing is wrong."""
    family = BY_NAME["gemma2"]
    start = tensors(family, head=False, optional=False)
    made = config(family, tie_word_embeddings=True, attention_bias=False)
    mixed = sent(models.plan(start, made), "torchtune-0.6.1")
    models.save(tmp_path / "good", start, config=made)
    found = against(understand(mixed), str(tmp_path / "good"))
    assert [f.code for f in found.findings] == ["tensors-swapped"]
    assert "--from torchtune-0.6.1" in (found.findings[0].fix or "")
    told = understand(mixed, Policy(stored="torchtune-0.6.1"))
    assert told.findings == ()
    assert against(told, str(tmp_path / "good")).findings == ()
    assert models.stored(sent(told, "hf")) == models.as_bytes(start)


@pytest.mark.parametrize("stored", ["litgpt", "meta"])
def test_a_layout_that_the_names_are_not_of(stored: str) -> None:
    plan = models.plan(tensors(BY_NAME["gemma2"], head=False, optional=False), None, stored=stored)
    assert models.finding(plan, "unknown-layout").blocking


VISION = {
    **DIMS, "vision_hidden": 16, "vision_ffn": 20, "channels": 3, "patch": 2, "image_patches": 4,
}  # fmt: skip
NAMED = ("hf", "hf-v5", "hf-memory", "hf-fused")


def with_images(*, pooling: bool) -> models.State:
    """A Gemma 3 with images under the hub's names."""
    made: models.State = {}
    for slot in BY_NAME["gemma3_vision"].slots:
        if slot.role == "head" or slot.when == "attention_bias" or (slot.when and not pooling):
            continue
        shape = tuple(size_of(symbol, VISION) for symbol in slot.shape)
        for number in range(LAYERS if "{layer}" in slot.key else 2 if "{block}" in slot.key else 1):
            key = slot.key.format(layer=number, block=number)
            made[key] = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + len(made)
    return made


def test_litgpt_has_the_text_model_of_gemma_3_with_images() -> None:
    """What else there is is left out, and told before; what comes back is the text model."""
    text = models.config(model_type="gemma3_text", tie_word_embeddings=True)
    whole = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    start = with_images(pooling=False)
    export = retarget(models.plan(start, whole), Target("litgpt"))
    assert not export.blocked
    told = [f for f in export.findings if f.code == "unknown-layout"]
    assert [f.severity for f in told] == ["warning", "warning"]
    others = {key for key in start if not key.startswith("language_model.")}
    assert {d.ref.key for d in export.dropped} == others == {key for f in told for key in f.keys}
    assert [s.count for s in export.steps if s.id == "not-held"] == [len(others)]
    there = understand(sent(models.plan(start, whole), "litgpt"))
    assert there.family is BY_NAME["gemma3"]
    assert there.status == "clean"
    wanted = {key.removeprefix("language_model."): value for key, value in start.items() if key not in others}
    assert models.stored(sent(there, "hf")) == models.as_bytes(wanted)
    made = json.loads(retarget(there, Target("hf")).texts["config.json"])
    assert (made["model_type"], made["architectures"]) == ("gemma3_text", ["Gemma3ForCausalLM"])
    assert made["hidden_size"] == models.HIDDEN
    assert "text_config" not in made


@pytest.mark.parametrize("pooling", [True, False])
@pytest.mark.parametrize("layout", NAMED)
def test_every_way_of_naming_gemma_3_with_images(pooling: bool, layout: str) -> None:
    family = BY_NAME["gemma3_vision"]
    assert check_family(family) == []
    text = models.config(model_type="gemma3_text", tie_word_embeddings=True)
    whole = {"model_type": "gemma3", "architectures": [family.architecture], "text_config": text}
    start = with_images(pooling=pooling)
    there = understand(sent(models.plan(start, whole), layout))
    assert there.findings == ()
    assert there.family is family
    assert there.layout is family.layout(layout)
    assert (there.dims["layers"], there.dims["blocks"]) == (LAYERS, 2)
    assert models.stored(sent(there, "hf")) == models.as_bytes(start)


def test_the_text_model_alone_is_the_text_models_family() -> None:
    """A folder with the config of the whole and the weights of the text model: its text_config says what they are."""
    family = BY_NAME["gemma3"]
    text = config(family, tie_word_embeddings=True, attention_bias=False)
    whole = {"model_type": "gemma3", "text_config": text}
    plan = models.plan(tensors(family, head=False, optional=False), whole)
    assert plan.family is family
    assert plan.status == "clean"


def test_google_s_program_looks_below_a_key(tmp_path: Path) -> None:
    family = BY_NAME["gemma"]
    made = config(family, tie_word_embeddings=True, attention_bias=False)
    plan = models.plan(tensors(family, head=False, optional=False), made)
    write_export(retarget(plan, Target("google")), tmp_path / "out")
    with open_checkpoint(tmp_path / "out" / "model.ckpt") as source:
        assert {ref.section for ref in source.refs} == {("model_state_dict",)}
        assert "model.layers.0.self_attn.qkv_proj.weight" in {ref.key for ref in source.refs}
