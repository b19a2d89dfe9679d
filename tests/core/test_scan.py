"""A model that is healthy has no finding; each fault that is put into it is found and pointed at."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.families.registry import FAMILIES
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan import Scan, roles_of, scan, strip
from ckpt_gui.core.stats import StatsCache
from tests.core import models

Tensors = dict[str, np.ndarray]
LAYERS, HIDDEN, FFN, VOCAB = 6, 64, 96, 400


def healthy(dtype: Any = np.float32) -> Tensors:
    """A Llama with the spread of a trained one: layers grow, norms vary, the embedding has a scale of its own."""
    rng = np.random.default_rng(5)

    def normal(std: float, *shape: int) -> np.ndarray:
        return rng.normal(0, std, shape).astype(np.float32).astype(dtype)

    made = {"model.embed_tokens.weight": normal(0.11, VOCAB, HIDDEN)}
    for n in range(LAYERS):
        before, grow = f"model.layers.{n}.", 1 + n / 3
        for name, rows, columns in (
            ("self_attn.q_proj", 48, HIDDEN), ("self_attn.k_proj", 16, HIDDEN), ("self_attn.v_proj", 16, HIDDEN),
            ("self_attn.o_proj", HIDDEN, 48), ("mlp.gate_proj", FFN, HIDDEN), ("mlp.up_proj", FFN, HIDDEN),
            ("mlp.down_proj", HIDDEN, FFN),
        ):  # fmt: skip
            made[f"{before}{name}.weight"] = normal(0.05 * grow, rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"{before}{name}.weight"] = (0.4 * grow + normal(0.1, HIDDEN)).astype(dtype)
    return made | {
        "model.norm.weight": (2 + normal(0.3, HIDDEN)).astype(dtype),
        "lm_head.weight": normal(0.04, VOCAB, HIDDEN),
    }


def plan_of(tensors: Tensors) -> Plan:
    return normalise(models.source(tensors))


def scanned(tensors: Tensors, **options: Any) -> Scan:
    return scan(plan_of(tensors), **options)


def messages(found: Scan, code: str) -> list[str]:
    return [f.message for f in found.findings if f.code == code]


def test_a_healthy_model_has_no_findings() -> None:
    tensors = healthy()
    found = scanned(tensors)
    assert found.findings == ()
    assert found.complete
    assert len(found.tensors) == len(tensors)
    assert found.parameters == found.parameters_stored == sum(a.size for a in tensors.values())
    assert found.done == found.nbytes == sum(a.nbytes for a in tensors.values())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_random_models_of_every_family_have_none(family: Any) -> None:
    rng = np.random.default_rng(3)
    made = {}
    for slot in family.slots:
        for layer in range(4) if "{" in slot.key else (0,):
            key = re.sub(r"\{\w+\}", str(layer), slot.key)
            shape = tuple({0: 80, 1: 48}.get(at, 3) for at in range(len(slot.shape)))
            made[key] = (rng.normal(0, 0.3, shape) if len(shape) > 1 else rng.normal(0.5, 0.2, shape)).astype(
                np.float32
            )
    assert scanned(made).findings == ()


def poison(key: str, change: Callable[[np.ndarray], None], dtype: Any = np.float32) -> Scan:
    tensors = healthy(dtype)
    change(tensors[key])
    found = scanned(tensors)
    assert {k for f in found.findings for k in f.keys} == {key}
    return found


@pytest.mark.case(35)
def test_one_nan_is_found_where_it_stands() -> None:
    def change(a: np.ndarray) -> None:
        a[7, 33] = np.nan

    found = poison("model.layers.3.mlp.down_proj.weight", change)
    assert messages(found, "non-finite") == [
        "`model.layers.3.mlp.down_proj.weight` holds 1 NaN, it stands at row 7, column 33."
    ]
    (odd,) = [t for t in found.tensors if t.odd]
    assert (odd.odd[0].index, odd.odd[0].value, odd.odd_count) == ((7, 33), "NaN", 1)
    assert [f.severity for f in found.findings] == ["warning"]


@pytest.mark.case(35)
def test_many_odd_elements_are_counted_and_the_first_shown() -> None:
    def change(a: np.ndarray) -> None:
        a[50:] = np.inf
        a[2, 1] = -np.inf

    found = poison("model.layers.0.mlp.up_proj.weight", change)
    count = 46 * HIDDEN
    assert messages(found, "non-finite") == [
        f"`model.layers.0.mlp.up_proj.weight` holds {count:,} +∞ and 1 −∞, the first at row 2, column 1."
    ]


def test_one_row_of_zeros_is_found() -> None:
    def change(a: np.ndarray) -> None:
        a[11] = 0

    found = poison("model.layers.2.self_attn.o_proj.weight", change)
    assert messages(found, "dead-rows") == ["`model.layers.2.self_attn.o_proj.weight` holds row 11, which is zero."]


def test_zeros_that_are_no_row_are_none() -> None:
    tensors = healthy()
    tensors["model.layers.2.self_attn.o_proj.weight"][:, 5] = 0
    tensors["model.layers.2.self_attn.o_proj.weight"][::7, ::3] = 0
    assert scanned(tensors).findings == ()


def test_a_matrix_scaled_by_thirty_is_found_and_a_whole_layer_too() -> None:
    def change(a: np.ndarray) -> None:
        a *= 30

    found = poison("model.layers.4.mlp.gate_proj.weight", change)
    (message,) = messages(found, "outlier")
    assert "times as large as in other layers" in message
    tensors = healthy()
    layer = [key for key in tensors if key.startswith("model.layers.4.")]
    for key in layer:
        tensors[key] *= np.float32(30)
    found = scanned(tensors)
    assert {k for f in found.findings for k in f.keys} == set(layer)
    assert [f.code for f in found.findings] == ["outlier"] * 6
    assert found.findings[-1].message.startswith("4 more tensors hold values far from")


def test_one_huge_element_is_an_outlier() -> None:
    def change(a: np.ndarray) -> None:
        a[3, 3] = 40

    found = poison("model.layers.1.self_attn.q_proj.weight", change)
    assert "largest element" in messages(found, "outlier")[0]


def test_what_a_cast_to_fp16_could_not_hold_is_found() -> None:
    def overflow(a: np.ndarray) -> None:
        a[9, 2] = np.inf

    def clip(a: np.ndarray) -> None:
        a[:] = np.clip(a.astype(np.float32) * 1e6, -65504, 65504)

    key = "model.layers.5.mlp.down_proj.weight"
    found = poison(key, overflow, np.float16)
    (message,) = messages(found, "cast-overflow")
    assert "1 infinite element" in message
    assert "row 9, column 2" in message
    assert "exactly ±65,504" in messages(poison(key, clip, np.float16), "cast-overflow")[0]


def test_what_a_cast_to_fp16_would_make_infinite_is_pointed_at() -> None:
    def change(a: np.ndarray) -> None:
        a[5, 6], a[5, 7], a[4, 1] = -1e5, 65504, 65504

    key = "model.layers.5.mlp.down_proj.weight"
    found = poison(key, change)
    assert messages(found, "beyond-fp16") == [
        f"`{key}` holds 1 element beyond ±65,504, the largest that fp16 has: -100,000 at row 5, column 6; "
        "a cast to fp16 makes it infinite."
    ]

    def change_more(a: np.ndarray) -> None:
        a[5, 6], a[9, 7], a[1, 1] = -1e5, 7e4, np.nan

    (message,) = messages(poison(key, change_more), "beyond-fp16")
    assert "2 elements beyond ±65,504, the largest that fp16 has: the first -100,000 at row 5, column 6" in message
    assert not messages(poison(key, lambda a: a.fill(65504)), "beyond-fp16")


def test_the_norm_of_one_layer_that_was_never_loaded_is_found() -> None:
    key = "model.layers.2.input_layernorm.weight"
    assert messages(poison(key, lambda a: a.fill(1)), "fresh-weights") == [
        f"`{key}` holds nothing but ones, as before training; that of most layers does not."
    ]


def test_all_zero_and_constant_weights_are_found_but_no_biases() -> None:
    key = "model.layers.5.self_attn.k_proj.weight"
    assert messages(poison(key, lambda a: a.fill(0)), "all-zero")
    assert "the same value everywhere, 3" in messages(poison(key, lambda a: a.fill(3)), "constant-tensor")[0]
    assert messages(poison("model.layers.5.input_layernorm.weight", lambda a: a.fill(0)), "all-zero")
    tensors = healthy()
    tensors |= {f"model.layers.{n}.self_attn.q_proj.bias": np.zeros(48, np.float32) for n in range(LAYERS)}
    assert scanned(tensors).findings == ()


def test_rows_of_the_embedding_that_were_never_trained() -> None:
    rng = np.random.default_rng(9)

    def change(a: np.ndarray) -> None:
        a[10:13] = 0
        a[300:340] = a[17]
        a[350:] = rng.normal(0, 0.02, (50, HIDDEN))

    found = poison("model.embed_tokens.weight", change)
    (message,) = messages(found, "untrained-rows")
    assert "3 that are zero (10–12)" in message
    assert "41 that are equal to each other (17, 300–339)" in message
    assert "50 that are of the size that rows have before training (350–399)" in message
    assert [f.severity for f in found.findings] == ["info"]


def test_a_model_that_was_never_trained() -> None:
    rng = np.random.default_rng(1)
    tensors = {
        key: np.ones_like(a) if a.ndim == 1 else rng.normal(0, 0.02, a.shape).astype(np.float32)
        for key, a in healthy().items()
    }
    (found,) = scanned(tensors).findings
    assert found.code == "fresh-weights"
    assert "all 13 norms are exactly 1" in found.message
    assert "have the initial deviation of 0.02" in found.message


@pytest.mark.parametrize("narrow", ["bf16", "fp16"])
def test_widened_copies_are_found(narrow: str) -> None:
    tensors = healthy(np.float16)
    if narrow == "bf16":
        tensors = {
            key: (a.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32) for key, a in tensors.items()
        }
    (found,) = scanned({key: a.astype(np.float32) for key, a in tensors.items()}).findings
    assert found.code == "upcast-copy"
    assert f"hold nothing that {narrow} does not" in found.message
    assert f"--dtype {narrow}" in (found.fix or "")


def test_an_adapter_that_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    made = {}
    for n in range(3):
        for name, rows in (("q_proj", 32), ("v_proj", 16)):
            before = f"base_model.model.model.layers.{n}.self_attn.{name}."
            made[before + "lora_A.weight"] = rng.normal(0, 0.1, (4, 24)).astype(np.float32)
            made[before + "lora_B.weight"] = np.zeros((rows, 4), np.float32)
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    found = scan(normalise(models.source(made, adapter=config))).findings
    assert [(f.code, len(f.keys)) for f in found] == [("all-zero", 6)]
    assert found[0].message == "The second matrices of 6 modules are zero: there the adapter changes nothing."


def test_biases_may_differ_by_any_factor_and_the_first_norm_may_be_small() -> None:
    tensors = healthy()
    rng = np.random.default_rng(6)
    for n in range(LAYERS):
        bias = rng.normal(0, 100 if n == 0 else 0.1, 64).astype(np.float32)
        tensors[f"model.layers.{n}.self_attn.q_proj.bias"] = bias
    tensors["model.layers.0.input_layernorm.weight"] /= np.float32(8)
    assert scanned(tensors).findings == ()


def test_aliases_are_read_once() -> None:
    tensors = healthy()
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    found = scanned(tensors)
    assert found.parameters_stored - found.parameters == VOCAB * HIDDEN
    assert len(found.tensors) == len(tensors) - 1


def test_results_come_one_by_one_and_what_was_read_is_kept_when_it_is_stopped() -> None:
    seen: list[str] = []
    progress: list[tuple[int, int]] = []
    found = scan(
        plan_of(healthy()), on_result=lambda t: seen.append(t.key), progress=lambda _, *step: progress.append(step)
    )
    assert sorted(seen) == sorted(t.key for t in found.tensors)
    assert progress[-1] == (found.nbytes, found.nbytes)
    stop = threading.Event()
    part = scan(plan_of(healthy()), workers=1, cancelled=stop.is_set, on_result=lambda _: stop.set())
    assert not part.complete
    assert 1 <= len(part.tensors) < len(found.tensors)
    assert part.done < part.nbytes


def test_stopping_while_tensors_wait_for_a_thread_ends_it() -> None:
    """Futures that are cancelled while they wait are never reported: whoever waits for them waits for ever."""
    plan = plan_of(healthy())
    stop, reading = threading.Event(), threading.Event()
    reader = plan.source.readers[""]

    class Slow:
        def read_into(self, ref: Any, start: int, out: memoryview) -> None:
            reading.set()
            stop.wait(60)
            reader.read_into(ref, start, out)

        def close(self) -> None:
            pass

    plan = plan.replace(source=plan.source.replace(readers={"": Slow()}))
    ended: list[Scan] = []
    thread = threading.Thread(target=lambda: ended.append(scan(plan, cancelled=stop.is_set)), daemon=True)
    thread.start()
    assert reading.wait(60)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert not ended[0].complete


def test_an_error_in_the_caller_stops_the_threads() -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError, match="of the caller"):
        scan(plan_of(healthy()), on_result=fail)
    assert not [t for t in threading.enumerate() if t.name.startswith("scan")]


def test_a_tensor_that_can_not_be_read_is_said_and_the_rest_is_scanned(tmp_path: Path) -> None:
    tensors = healthy()
    path = models.save(tmp_path / "m", tensors) / "model.safetensors"
    with open_checkpoint(path) as source:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(size - 100)
        found = scan(normalise(source))
    assert found.complete
    assert "damaged" in {f.code for f in found.findings}
    assert any(t.error for t in found.tensors)


def test_strips_over_the_layers() -> None:
    tensors = healthy()
    found = scanned(tensors)
    assert len(roles_of(found)) == 9
    role = "model.layers.N.mlp.up_proj.weight"
    assert role in roles_of(found)
    line = strip(found, role)
    arrays = [tensors[f"model.layers.{n}.mlp.up_proj.weight"].astype(np.float64) for n in range(LAYERS)]
    assert line.layers == tuple(range(LAYERS))
    assert line.std == pytest.approx([a.std() for a in arrays])
    assert line.abs_max == pytest.approx([np.abs(a).max() for a in arrays])
    assert line.mean == pytest.approx([a.mean() for a in arrays])


def test_a_second_scan_comes_from_the_cache(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tensors = healthy() | {"model.embed_tokens.weight": rng.normal(0, 1, (8000, HIDDEN)).astype(np.float32)}
    tensors["lm_head.weight"] = rng.normal(0, 1, (8000, HIDDEN)).astype(np.float32)
    folder = models.save(tmp_path / "m", tensors)
    cache = StatsCache(tmp_path / "cache")
    with open_checkpoint(folder) as source:
        first = scan(normalise(source), cache=cache)
    with open_checkpoint(folder) as source:
        assert scan(normalise(source), cache=cache) == first
    assert len(list((tmp_path / "cache").iterdir())) == 2
