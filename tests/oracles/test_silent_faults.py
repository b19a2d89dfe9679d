"""With a reference, what no name and no shape shows is told in every family; and where nothing is wrong nothing is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from safetensors.torch import save_file
from torch import Tensor

from ckpt_gui.core.against import Against, against
from tests.oracles import dense, moe, tiny

State = dict[str, Tensor]
DENSE = ("llama", "qwen2", "qwen3", "gemma2", "mistral", "starcoder2", "olmo2", "smollm3")
MOE = ("phi3", "phi", "gpt-neox", "gpt2", "mixtral", "qwen3-moe", "deepseek-v3")


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    def save(kind: str) -> Path:
        folder = tmp_path / "good"
        model = dense.make(kind) if kind in dense.KINDS else moe.random_model(kind)
        model.save_pretrained(folder)
        return folder

    return save


def beside(good: Path, change: Callable[[State], State], *, dtype: torch.dtype | None = None) -> Against:
    """Compare a changed copy with the original."""
    bad = good.with_name("bad")
    bad.mkdir()
    state = change(tiny.read(good))
    made = {key: (value.to(dtype) if dtype else value).contiguous() for key, value in state.items()}
    save_file(made, bad / "model.safetensors", metadata={"format": "pt"})
    (bad / "config.json").write_bytes((good / "config.json").read_bytes())
    return against(tiny.plan_of(bad), str(good))


def heads_of(good: Path) -> tuple[int, int]:
    config = tiny.raw_config(good)
    return config["num_attention_heads"], config.get("num_key_value_heads", config["num_attention_heads"])


def turned(rows: Tensor, heads: int) -> Tensor:
    """Rows of each head from halves to neighbouring pairs."""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def parts(state: State, change: dict[str, Callable[[Tensor], Tensor]]) -> State:
    """Change the tensors whose names have these parts."""
    made = dict(state)
    for key, value in state.items():
        for part, function in change.items():
            if part in key:
                made[key] = function(value)
    return made


@pytest.mark.parametrize("kind", [*DENSE, *MOE])
def test_a_copy_and_a_cast_are_no_fault(kind: str, saved: Any) -> None:
    good = saved(kind)
    assert against(tiny.plan_of(good), str(good)).findings == ()
    found = beside(good, dict, dtype=torch.bfloat16)
    assert {r.state for r in found.rows} == {"cast"}
    assert found.findings == ()


@pytest.mark.parametrize("kind", [*DENSE, *MOE])
def test_a_trained_copy_is_no_fault(kind: str, saved: Any) -> None:
    """A little noise on everything: it differs, and nothing has changed its place."""
    good = saved(kind)
    found = beside(good, lambda state: {k: v + 0.01 * torch.randn(v.shape) for k, v in state.items()})
    assert {r.state for r in found.rows} == {"differs"}
    assert found.findings == ()


@pytest.mark.parametrize("kind", [*DENSE, "mixtral", "qwen3-moe", "phi"])
def test_rows_of_q_and_k(kind: str, saved: Any) -> None:
    """Also in families that no program keeps in the other order, weights and biases."""
    good = saved(kind)
    heads, kv_heads = heads_of(good)
    change = {"q_proj": lambda t: turned(t, heads), "k_proj": lambda t: turned(t, kv_heads)}
    found = beside(good, lambda state: parts(state, change))
    wrong = {r.key for r in found.rows if r.state == "permuted"}
    assert wrong == {key for key in tiny.read(good) if "q_proj" in key or "k_proj" in key}
    assert [f.code for f in found.findings] == ["rope-permuted"]


def test_rows_of_q_and_k_in_a_fused_tensor(saved: Any) -> None:
    good = saved("phi3")
    heads, kv_heads = heads_of(good)
    rows = (48, 48 // heads * kv_heads, 48 // heads * kv_heads)

    def fused(weight: Tensor) -> Tensor:
        q, k, v = weight.split(rows)
        return torch.cat((turned(q, heads), turned(k, kv_heads), v))

    found = beside(good, lambda state: parts(state, {"qkv_proj": fused}))
    assert [f.code for f in found.findings] == ["rope-permuted"]
    assert len(found.findings[0].keys) == 3


def exchange(state: State, one: str, two: str) -> State:
    """Exchange two tensors of every layer."""
    made = dict(state)
    for key in state:
        if one in key:
            made[key], made[key.replace(one, two)] = state[key.replace(one, two)], state[key]
    return made


SWAPS = [
    *((kind, ".input_layernorm.", ".post_attention_layernorm.") for kind in ("llama", "qwen2", "phi3", "gpt-neox")),
    *((kind, ".mlp.gate_proj.", ".mlp.up_proj.") for kind in ("llama", "gemma2", "qwen2", "deepseek-v3")),
    ("gemma2", ".pre_feedforward_layernorm.", ".post_feedforward_layernorm."),
    ("gemma2", ".post_attention_layernorm.", ".pre_feedforward_layernorm."),
    ("qwen3", ".q_norm.", ".k_norm."),
    ("qwen2", ".k_proj.", ".v_proj."),
    ("mixtral", ".w1.", ".w3."),
    ("qwen3-moe", ".gate_proj.", ".up_proj."),
    ("gpt2", ".ln_1.", ".ln_2."),
    ("starcoder2", ".input_layernorm.", ".post_attention_layernorm."),
]


@pytest.mark.parametrize(("kind", "one", "two"), SWAPS)
def test_tensors_in_each_others_place(kind: str, one: str, two: str, saved: Any) -> None:
    good = saved(kind)
    found = beside(good, lambda state: exchange(state, one, two))
    wrong = {r.key for r in found.rows if r.state == "swapped"}
    assert wrong == {key for key in tiny.read(good) if one in key or two in key}
    assert [f.code for f in found.findings] == ["tensors-swapped"]


def alternate(rows: Tensor) -> Tensor:
    return rows.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)


@pytest.mark.parametrize("change", [lambda t: torch.cat(t.chunk(2)[::-1]), alternate], ids=["exchanged", "alternate"])
def test_gate_and_up_in_one_tensor(change: Any, saved: Any) -> None:
    found = beside(saved("phi3"), lambda state: parts(state, {"gate_up_proj": change}))
    assert [f.code for f in found.findings] == ["values-reordered"]
    assert {r.order for r in found.rows if r.state == "permuted"} == {"gate-up"}


@pytest.mark.parametrize("back", [False, True], ids=["blocks", "again-by-heads"])
def test_q_k_and_v_in_one_tensor(back: bool, saved: Any) -> None:
    good = saved("gpt-neox")
    groups = (3, 6) if back else (6, 3)

    def regrouped(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (*groups, -1)).transpose(0, 1).flatten(0, 2)

    found = beside(good, lambda state: parts(state, {"query_key_value": regrouped}))
    assert [f.code for f in found.findings] == ["values-reordered"]
    assert {r.order for r in found.rows if r.state == "permuted"} == {"qkv"}


@pytest.mark.parametrize(("kind", "part"), [("gpt2", "attn.c_proj.weight"), ("gpt-neox", "attention.dense.weight")])
def test_a_square_matrix_that_is_transposed(kind: str, part: str, saved: Any) -> None:
    found = beside(saved(kind), lambda state: parts(state, {part: torch.t}))
    assert [f.code for f in found.findings] == ["values-reordered"]
    assert {r.order for r in found.rows if r.state == "permuted"} == {"transposed"}
    assert len(found.findings[0].keys) == 3


def test_torchtunes_own_gemma_2_is_told(saved: Any, tmp_path: Path) -> None:
    """What torchtune 0.6.1 makes of Hugging Face's files has two norms in each other's place."""
    pytest.importorskip("torchtune")
    from torchtune.models.gemma2._convert_weights import gemma2_hf_to_tune

    from tests.oracles.test_converters_dense import sizes

    good = saved("gemma2")
    there = tmp_path / "tune"
    there.mkdir()
    torch.save(gemma2_hf_to_tune(tiny.read(good), **sizes(good)), there / "model.pt")
    (there / "config.json").write_bytes((good / "config.json").read_bytes())
    found = against(tiny.plan_of(there), str(good))
    assert [f.code for f in found.findings] == ["tensors-swapped"]
    assert len(found.findings[0].keys) == 6
    assert "--from torchtune-0.6.1" in (found.findings[0].fix or "")
