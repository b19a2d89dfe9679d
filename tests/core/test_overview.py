"""The numbers that headers tell, counted a second time by hand."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.exprs import make
from ckpt_gui.core.file_map import ByteRange, byte_map
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.overview import overview
from ckpt_gui.core.part_ops import Concat
from ckpt_gui.core.roles import Role, role_groups, role_of
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.core.tokens import vocabulary
from tests import builders
from tests.core import models

PER_LAYER = sum(int(np.prod(part[3])) for part in models.PARTS)
EMBEDDING = models.VOCAB * models.HIDDEN


def test_shares_of_a_model_add_up() -> None:
    found = overview(models.model("meta"))
    parts = {share.name: share for share in found.by_part}
    assert list(parts) == ["embedding", "head", "attention", "feed-forward", "norms"]
    assert parts["embedding"].parameters == parts["head"].parameters == EMBEDDING
    assert parts["feed-forward"].parameters == models.LAYERS * 3 * models.FFN * models.HIDDEN
    assert parts["norms"].tensors == 2 * models.LAYERS + 1
    for shares in (found.by_part, found.by_role, found.by_layer, found.by_dtype):
        assert sum(share.parameters for share in shares) == found.parameters
        assert sum(share.nbytes for share in shares) == found.nbytes == 4 * found.parameters
    assert [share.name for share in found.by_layer] == ["layer 0", "layer 1", "layer 2", "outside the layers"]
    assert found.by_layer[1].parameters == PER_LAYER
    assert {s.name: s.tensors for s in found.by_role}["model.layers.N.self_attn.q_proj.weight"] == models.LAYERS
    assert found.largest[0].key == "tok_embeddings.weight"
    assert found.smallest[0].shape == (models.HIDDEN,)


def test_aliases_count_once_and_are_told() -> None:
    once, twice = (overview(models.model(head=head)) for head in ("absent", "same"))
    assert once.parameters == twice.parameters == once.parameters_stored
    assert twice.parameters_stored - twice.parameters == EMBEDDING
    assert twice.nbytes == once.nbytes


def test_what_loading_takes() -> None:
    found = {load.name: load.nbytes for load in overview(models.model(head="absent")).loads}
    matrices = models.LAYERS * (PER_LAYER - 2 * models.HIDDEN)
    total = overview(models.model(head="absent")).parameters
    assert found["bf16"] == found["fp16"] == 2 * total == found["fp32"] // 2
    rows = models.LAYERS * (32 + 16 + 16 + 24 + 40 + 40 + 24)
    assert found["int8"] == 2 * (total - matrices) + matrices + 4 * rows
    assert found["4-bit"] == 2 * (total - matrices) + matrices // 2 + 4 * (matrices // 64)


def test_experts_fused_or_not() -> None:
    def keys(fused: bool) -> dict[str, np.ndarray]:
        before = "model.layers.0.mlp."
        made = {"model.embed_tokens.weight": (20, 8), "model.norm.weight": (8,), "lm_head.weight": (20, 8)}
        made |= {f"model.layers.0.{n}_layernorm.weight": (8,) for n in ("input", "post_attention")}
        made |= {f"model.layers.0.self_attn.{n}.weight": (16, 8) for n in ("q_proj", "k_proj", "v_proj")}
        made |= {f"model.layers.0.self_attn.{n}.weight": (8,) for n in ("q_norm", "k_norm")}
        made |= {"model.layers.0.self_attn.o_proj.weight": (8, 16), before + "gate.weight": (4, 8)}
        if fused:
            made |= {before + "experts.gate_up_proj": (4, 12, 8), before + "experts.down_proj": (4, 8, 6)}
        else:
            for n in range(4):
                made |= {f"{before}experts.{n}.{name}.weight": (6, 8) for name in ("gate_proj", "up_proj")}
                made |= {f"{before}experts.{n}.down_proj.weight": (8, 6)}
        return {key: np.zeros(shape, np.float32) for key, shape in made.items()}

    apart, together = (overview(normalise(models.source(keys(fused)))) for fused in (False, True))
    assert [s.name for s in apart.by_expert] == ["expert 0", "expert 1", "expert 2", "expert 3"]
    assert [(s.name, s.parameters) for s in apart.by_expert] == [(s.name, s.parameters) for s in together.by_expert]
    assert {s.name: s.parameters for s in together.by_part}["experts"] == 4 * 3 * 6 * 8


def test_names_that_fit_no_layout_have_roles_all_the_same() -> None:
    made = {f"blocks.{n}.attn.w": np.zeros((4, 4), np.float32) for n in range(3)}
    found = overview(normalise(models.source(made | {"emb.table": np.zeros(3, np.float32)})))
    assert [(s.name, s.tensors) for s in found.by_role] == [("blocks.N.attn.w", 3), ("emb.table", 1)]
    assert [s.name for s in found.by_layer] == ["layer 0", "layer 1", "layer 2", "outside the layers"]


@pytest.mark.parametrize("made", ["meta", "hf", "odd", "experts"])
def test_groups_of_weights_have_the_role_of_each(made: str) -> None:
    odd = ("blocks.0.attn.w", "blocks.1.attn.w", "a.7.experts.3.w", "a.7.experts.4.w", "emb.table", "x.{}.norm", "5")
    if made in ("meta", "hf"):
        plan = models.model(made)
    else:
        names = odd if made == "odd" else [f"model.layers.{n}.mlp.experts.{e}.w" for n in range(2) for e in range(3)]
        plan = normalise(models.source({name: np.zeros((2, 2), np.float32) for name in names}))
    found: dict[int, Role] = {}
    for group in role_groups(plan):
        for n, place in enumerate(group.places):
            layer, expert = (numbers[n] if numbers is not None else None for numbers in (group.layers, group.experts))
            found[place] = Role(group.name, group.part, layer, expert)
    assert [found[place] for place in range(len(plan.weights))] == [role_of(plan, entry) for entry in plan.weights]


def test_a_tensor_that_is_used_twice_counts_once_beside_one_made_of_two() -> None:
    plan = normalise(models.source({name: np.zeros((2, 2), np.float32) for name in ("a", "b", "c")}))
    a, b, c = plan.weights
    fused = Entry(TensorSpec("bc", "fp32", (4, 2)), make(Concat(), b.expr, c.expr))
    found = overview(plan.replace(entries=(a, a.renamed("again"), fused), unmapped=()))
    assert (found.tensors, found.parameters, found.parameters_stored, found.nbytes) == (3, 12, 16, 48)


def test_files_say_how_full_they_are_and_what_lies_where(tmp_path: Path) -> None:
    a, b = np.arange(8, dtype=np.float32), np.arange(16, dtype=np.uint8)
    header = {
        "a.weight": builders.entry("F32", (8,), 0, 32),
        "b.weight": builders.entry("U8", (16,), 32, 48),
    }
    text = json.dumps(header).ljust(248)
    path = builders.write(tmp_path / "m.safetensors", builders.raw_safetensors(text, a.tobytes() + b.tobytes()))
    with open_checkpoint(path) as source:
        (use,) = overview(normalise(source)).files
        assert (use.name, use.size, use.tensors, use.nbytes) == ("m.safetensors", 256 + 48, 2, 48)
        assert byte_map(source, "m.safetensors") == (
            ByteRange(0, 256, "header", (), 4096),
            ByteRange(256, 288, "tensor", ("a.weight",), 256),
            ByteRange(288, 304, "tensor", ("b.weight",), 32),
        )


def test_a_torch_file_has_gaps_between_its_records(tmp_path: Path) -> None:
    made = {"a.weight": np.ones(8, np.float32), "b.weight": np.ones(5, np.float32)}
    path = builders.write(tmp_path / "m.pt", builders.state_dict_bytes(made))
    with open_checkpoint(path) as source:
        ranges = byte_map(source, "m.pt")
    assert [r.kind for r in ranges] == ["header", "tensor", "gap", "tensor", "gap"]
    assert [r.keys for r in ranges if r.keys] == [("a.weight",), ("b.weight",)]
    assert all(before.end == after.begin for before, after in itertools.pairwise(ranges))
    assert ranges[-1].end == path.stat().st_size


def test_holes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(builders.raw_safetensors({"a": builders.entry("U8", (8 << 20,), 0, 8 << 20)}))
    os.truncate(path, path.stat().st_size + (8 << 20))
    with open_checkpoint(path) as source:
        (use,) = overview(normalise(source)).files
    assert use.on_disk is None or use.on_disk < use.size


# ------------------------------------------------------------------------------------------------------------- tokens


def test_tokens_of_a_tokenizer_file(tmp_path: Path) -> None:
    value = {
        "model": {"type": "BPE", "vocab": {"a": 0, "Ġthe": 1, "Ã©": 2, "Ã": 3, "\u202eevil": 4}},
        "added_tokens": [{"id": 5, "content": "<|end|>"}, {"id": "x", "content": "no"}, 7],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(value), encoding="utf-8")
    found = vocabulary(str(tmp_path))
    assert found is not None
    assert [found.name(n) for n in range(7)] == ["a", " the", "é", "Ã", "\\u202eevil", "<|end|>", None]
    assert (found.find(" the"), found.find("Ġthe"), found.find("é"), found.find("nothing")) == (1, 1, 2, None)


def test_vocabularies_of_other_shapes(tmp_path: Path) -> None:
    assert vocabulary(None) is None
    assert vocabulary(str(tmp_path)) is None
    path = tmp_path / "vocab.json"
    path.write_text('{"▁hi": 3, "x": true, "y": -1.5}', encoding="utf-8")
    found = vocabulary(str(tmp_path))
    assert found is not None
    assert (dict(found.tokens), found.name(3)) == ({3: "▁hi"}, " hi")
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": [["<s>", 0], ["▁a", -1.5]]}}', encoding="utf-8")
    found = vocabulary(str(tmp_path))
    assert found is not None
    assert (found.origin, found.name(1)) == ("tokenizer.json", " a")
    for broken in ("[" * 100_000, "{", '{"model": [3]}', "[]"):
        (tmp_path / "tokenizer.json").write_text(broken, encoding="utf-8")
        path.write_text(broken, encoding="utf-8")
        assert vocabulary(str(tmp_path)) is None
