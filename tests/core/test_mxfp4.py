"""GPT-OSS as it is published: MXFP4 experts decoded exactly into every layout, left as they are in their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from ckpt_gui.core import mxfp4_ops
from ckpt_gui.core.api import compare
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.exprs import make
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.mxfp4_ops import DecodeMxfp4
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.openai_config import to_openai
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.overview import overview
from ckpt_gui.core.plan import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.shape_ops import Transpose
from ckpt_gui.core.writer import write_export
from tests.core import mxfp4_models as m
from tests.core.own_layouts import gpt_oss_openai, gpt_oss_titan

WANTED = {"hf": lambda state: state, "openai": gpt_oss_openai, "torchtitan": gpt_oss_titan}
SOURCES = ("hf", "openai")


def folder_of(path, stored="hf", *, lose=(), config=True, **changes):
    """A folder of MXFP4 in a layout, and the plain state that it stands for."""
    coded, plain = m.states()
    state = coded if stored == "hf" else m.openai_state(coded)
    state = {key: value for key, value in (state | changes).items() if key not in lose}
    told = (
        m.CONFIG
        if stored == "hf"
        else to_openai(m.CONFIG | {"swiglu_limit": 7.0, "rope_theta": 150000.0, "sliding_window": 128})
    )
    return m.save(path, state, told if config else None), state, plain


def read(folder):
    with open_checkpoint(folder) as made:
        return {r.key: (r.dtype, r.shape, made.read(r)) for r in made.refs}, understand(made).status


def as_bf16(state):
    return {key: ("bf16", value.shape, value.tobytes()) for key, value in state.items()}


@pytest.mark.parametrize("target", WANTED)
@pytest.mark.parametrize("stored", SOURCES)
def test_every_layout_holds_the_numbers(tmp_path, stored, target):
    folder, _, plain = folder_of(tmp_path / "q", stored)
    with open_checkpoint(folder) as source:
        export = retarget(understand(source), Target(target))
        assert export.blocked == ()
        write_export(export, tmp_path / "out")
    made, status = read(tmp_path / "out")
    assert made == as_bf16(WANTED[target](plain))
    assert status == "clean"
    assert "quantization_config" not in (tmp_path / "out/config.json").read_text()


@pytest.mark.parametrize("stored", SOURCES)
def test_the_same_layout_keeps_every_byte(tmp_path, stored):
    folder, state, _ = folder_of(tmp_path / "q", stored)
    wrapped = m.save(tmp_path / "w", {f"_orig_mod.{key}": value for key, value in state.items()},
                     json.loads((folder / "config.json").read_text()))  # fmt: skip
    with open_checkpoint(wrapped) as source:
        plan = understand(source)
        export = retarget(plan, Target("same"))
        assert export.blocked == ()
        assert not any(step.id in ("dequantise", "rearrange") for step in export.steps)
        write_export(export, tmp_path / "out")
        assert "quantised" in [f.code for f in retarget(plan, Target("same", dtype="fp16")).blocked]
    made, _ = read(tmp_path / "out")
    assert {key: value[2] for key, value in made.items()} == {key: value.tobytes() for key, value in state.items()}
    assert json.loads((tmp_path / "out/config.json").read_text()) == json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("stored", SOURCES)
def test_what_is_said(tmp_path, stored):
    folder, _, _ = folder_of(tmp_path / "q", stored)
    with open_checkpoint(folder) as source:
        plan = understand(source)
        assert plan.status == "fixable"
        assert [(f.code, f.severity) for f in plan.findings if f.severity != "info"] == [("quantised", "warning")]
        assert plan.missing == plan.unmapped == ()
        assert {name: plan.dims[name] for name in m.DIMS} == m.DIMS
        export = retarget(plan, Target("hf"))
    step = next(step for step in export.steps if step.id == "dequantise")
    assert (step.count, step.changes_values, step.certain) == (2 * m.LAYERS, True, True)
    assert step.title == "Decode MXFP4 to plain numbers"
    assert "MXFP4 with a scale for each 32 → bf16, exact" in step.evidence
    assert ("rearrange" in [s.id for s in export.steps]) == (stored == "openai")  # q, k and v lie in one tensor there
    [told] = [f for f in export.findings if f.code == "quantised"]
    assert (told.severity, told.blocking) == ("info", False)
    assert told.fix.endswith("as bf16.")
    rows = {row.key: row for row in diff_expected(export).rows}
    parts = [row for key, row in rows.items() if key.endswith(("blocks", "scales"))]
    assert {row.state for row in parts} == {"transform"}
    assert len(parts) == 4 * m.LAYERS


def test_sizes_without_a_config(tmp_path):
    """The decoded weights tell them: nothing else has the width of the feed-forward part alone."""
    folder, _, _ = folder_of(tmp_path / "q", config=False)
    with open_checkpoint(folder) as source:
        plan = understand(source, Policy(heads=6, kv_heads=2))
        assert {name: plan.dims[name] for name in m.DIMS} == m.DIMS
        assert overview(plan).nbytes == sum(ref.nbytes for ref in source.refs)


GATE = "model.layers.1.mlp.experts.gate_up_proj"
REFUSED = {
    "scales lost": {"lose": (GATE + "_scales",)},
    "scales of another shape": {GATE + "_scales": np.zeros((3, 192, 3), np.uint8)},
    "scales of another type": {GATE + "_scales": np.zeros((3, 192, 2), np.uint16)},
    "codes of another width": {GATE + "_blocks": np.zeros((3, 192, 2, 8), np.uint8)},
    "no GPT-OSS": {"lose": tuple(f"model.layers.{n}.self_attn.sinks" for n in range(m.LAYERS))},
    "the weight beside its codes": {GATE: np.zeros((3, 64, 192), np.uint16)},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(tmp_path, changes):
    folder, _, _ = folder_of(tmp_path / "q", **changes)
    with open_checkpoint(folder) as source:
        plan = understand(source)
        wanted = "missing-tensor" if changes.get("lose") == (GATE + "_scales",) else "quantised"
        assert wanted in [f.code for f in plan.findings if f.blocking]
        assert wanted in [f.code for f in retarget(plan, Target("hf")).blocked]


def test_what_is_more_than_codes_is_no_code_again(tmp_path):
    """As where an adapter has been merged into a weight."""
    folder, _, _ = folder_of(tmp_path / "q")
    with open_checkpoint(folder) as source:
        plan = understand(source)
        changed = [Entry(e.output, make(Cast("bf16", "bf16"), e.expr), e.why) for e in plan.entries]
        export = retarget(plan.replace(entries=tuple(changed)), Target("same"))
        assert "quantised" in [f.code for f in export.blocked]


def test_it_compares_with_the_plain_model(tmp_path):
    folder, _, plain = folder_of(tmp_path / "q")
    other = m.save(tmp_path / "plain", plain, m.CONFIG)
    with open_checkpoint(folder) as one, open_checkpoint(other) as two:
        found = compare(understand(one), understand(two), values=True)
    assert {row.state for row in found.rows} == {"equal"}


def test_a_lost_bias_is_told(tmp_path):
    key = "model.layers.1.mlp.experts.down_proj_bias"
    folder, _, _ = folder_of(tmp_path / "q", lose=(key,))
    with open_checkpoint(folder) as source:
        assert [f.keys for f in understand(source).findings if f.code == "missing-tensor"] == [(key,)]


# ------------------------------------------------------------------------------------------------------------- the op


class Held:
    """An array as a stream."""

    unit = 1

    def __init__(self, values: np.ndarray) -> None:
        self.dtype, self.shape, self.raw = "u8", values.shape, values.reshape(-1)

    def read_into(self, start: int, out: np.ndarray) -> None:
        out[:] = self.raw[start : start + out.nbytes]


def whole(stream, step: int) -> np.ndarray:
    out = np.empty(int(np.prod(stream.shape)) * 2, np.uint8)
    for start in range(0, out.nbytes, step):
        stream.read_into(start, out[start : start + step])
    return out.view(np.uint16).reshape(stream.shape)


def decoded(codes: np.ndarray, scales: np.ndarray):
    return DecodeMxfp4().apply([Held(codes), Held(scales)], {})


def test_every_code_with_every_scale():
    codes = np.tile(np.arange(256, dtype=np.uint8).reshape(1, 16, 16), (246, 1, 1))
    scales = np.repeat(np.arange(7, 253, dtype=np.uint8)[:, None], 16, axis=1)  # all products are normal numbers
    assert np.array_equal(whole(decoded(codes, scales), 64), m.numbers(codes, scales))


def test_the_ends_of_the_range():
    """Halves at the smallest scale are subnormal, what is beyond the largest number is infinite, zero stays zero."""
    codes = np.tile(np.array([0x10, 0x79], np.uint8), (2, 1, 8))
    made = whole(decoded(codes, np.array([[0], [255]], np.uint8)), 64)
    assert made[:, :4].tolist() == [[0x0000, 0x0020, 0x8020, 0x0140], [0x0000, 0x7F00, 0xFF00, 0x7F80]]


@pytest.mark.parametrize("slab", [1, 100, 1 << 20])
def test_turned_in_pieces(monkeypatch: pytest.MonkeyPatch, slab: int) -> None:
    """Whatever is held at once, and wherever blocks of the result begin."""
    monkeypatch.setattr(mxfp4_ops, "_SLAB", slab)
    monkeypatch.setattr("ckpt_gui.core.part_streams._TRANSPOSE_BLOCK", 7 * 10)
    codes, scales = m.packed((2, 5, 96))
    stream = Transpose().apply([decoded(codes, scales)], {})
    assert stream.unit == 7 * 10
    assert np.array_equal(whole(stream, stream.unit), m.numbers(codes, scales).transpose(0, 2, 1))


SHAPES: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((4, 2, 15), (4, 2)), ((4, 2, 16), (4, 1)), ((16,), ()), ((0, 2, 16), (0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("codes", "scales"), SHAPES)
def test_shapes_that_are_none(codes, scales):
    with pytest.raises(CheckpointError, match="do not fit MXFP4 codes"):
        DecodeMxfp4().shape([codes, scales], {})
