"""GGUF to Hugging Face: blocks decoded as llama.cpp does, rows of q and k put back, config from the metadata."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import gguf as gguf_format
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.ggml_blocks import DECODERS, decode
from ckpt_gui.core.normalise import Policy
from ckpt_gui.core.report import facts
from ckpt_gui.core.retarget import retarget
from tests import builders as b
from tests.core.formats.test_gguf import gguf, text, value

HEADS, KV, HEAD_DIM, HIDDEN, WIDTH, VOCAB = 4, 2, 16, 32, 96, 20
RNG = np.random.default_rng(11)


# ---- blocks, number by number, from the C structs and loops of ggml


def f16(raw):
    return np.float32(np.frombuffer(bytes(raw), np.float16)[0])


def i8(byte):
    return byte - 256 if byte > 127 else byte


def small(kind, raw):
    half = 16
    d = f16(raw[:2])
    m = f16(raw[2:4]) if kind[-1] == "1" else None
    at = 2 if m is None else 4
    high = int.from_bytes(raw[at : at + 4], "little") if kind[1] == "5" else 0
    at += 4 if kind[1] == "5" else 0
    for i in range(32):
        q = raw[at + i % half] >> (4 if i >= half else 0) & 15
        q |= (high >> i & 1) << 4
        if m is None:
            yield d * np.float32(q - (16 if kind[1] == "5" else 8))
        else:
            yield d * np.float32(q) + m


def q2_k(raw):
    scales, qs, d, dmin = raw[:16], raw[16:80], f16(raw[80:82]), f16(raw[82:84])
    for i in range(256):
        part, within = divmod(i, 128)
        q = qs[32 * part + within % 32] >> 2 * (within // 32) & 3
        sc = scales[i // 16]
        yield d * np.float32(sc & 15) * np.float32(q) - dmin * np.float32(sc >> 4)


def q3_k(raw):
    mask, qs, packed, d = raw[:32], raw[32:96], raw[96:108], f16(raw[108:110])
    for i in range(256):
        part, within = divmod(i, 128)
        q = (qs[32 * part + within % 32] >> 2 * (within // 32) & 3) - (0 if mask[i % 32] >> i // 32 & 1 else 4)
        j = i // 16
        low = packed[j % 8] >> (4 if j >= 8 else 0) & 15
        high = packed[8 + j % 4] >> 2 * (j // 4) & 3
        yield d * np.float32((low | high << 4) - 32) * np.float32(q)


def scale_min(j, q):
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    return (q[j + 4] & 15) | q[j - 4] >> 6 << 4, q[j + 4] >> 4 | q[j] >> 6 << 4


def q45_k(kind, raw):
    d, dmin, scales = f16(raw[:2]), f16(raw[2:4]), raw[4:16]
    high, qs = (raw[16:48], raw[48:]) if kind == "Q5_K" else (bytes(32), raw[16:])
    for i in range(256):
        part, within = divmod(i, 64)
        q = qs[32 * part + within % 32] >> (4 if within >= 32 else 0) & 15
        q |= (high[i % 32] >> i // 32 & 1) << 4
        sc, m = scale_min(i // 32, scales)
        yield d * np.float32(sc) * np.float32(q) - dmin * np.float32(m)


def q6_k(raw):
    low, high, scales, d = raw[:128], raw[128:192], raw[192:208], f16(raw[208:210])
    for i in range(256):
        part, within = divmod(i, 128)
        q = low[64 * part + within % 64] >> (4 if within >= 64 else 0) & 15
        q |= (high[32 * part + within % 32] >> 2 * (within // 32) & 3) << 4
        yield d * np.float32(i8(scales[i // 16])) * np.float32(q - 32)


def one_by_one(kind, raw):
    if kind == "Q8_0":
        return [f16(raw[:2]) * np.float32(i8(byte)) for byte in raw[2:]]
    if kind in ("Q4_K", "Q5_K"):
        return list(q45_k(kind, raw))
    by_kind = {"Q2_K": q2_k, "Q3_K": q3_k, "Q6_K": q6_k}
    return list(by_kind[kind](raw) if kind in by_kind else small(kind, raw))


SIZES = {name: (number, count, size) for number, (name, count, size) in gguf_format._BLOCKS.items() if name in DECODERS}
SCALES = {
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "Q4_1": (0, 2),
    "Q5_1": (0, 2),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
}


def some_blocks(kind, count):
    _, _, size = SIZES[kind]
    raw = RNG.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES.get(kind, (0,)):
        raw[:, at : at + 2] = RNG.normal(0, 0.02, (count, 1)).astype(np.float16).view(np.uint8)
    return raw


@pytest.mark.parametrize("kind", DECODERS)
def test_blocks_stand_for_these_numbers(kind):
    raw = some_blocks(kind, 5)
    want = np.array([number for block in raw for number in one_by_one(kind, [int(x) for x in block])], np.float32)
    assert np.array_equal(decode(raw.reshape(-1), kind, raw.shape[1]), want)
    assert SIZES[kind][1] * 5 == len(want)


def test_the_kinds_that_are_decoded_are_named_once():
    assert frozenset(DECODERS) == gguf_format.DECODED


# ---- a whole model


def pairs(weight, heads):
    """From Hugging Face's order of rows to the one of GGUF, by llama.cpp's formula."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)


def number(kind, raw):
    return struct.pack(kind, raw)


def metadata(arch="llama", **more):
    sizes = {"embedding_length": HIDDEN, "block_count": 1, "feed_forward_length": WIDTH, "context_length": 64,
             "attention.head_count": HEADS, "attention.head_count_kv": KV, "attention.key_length": HEAD_DIM,
             "vocab_size": VOCAB}  # fmt: skip
    values = [value("general.architecture", 8, text(arch))]
    values += [value(f"{arch}.{key}", 4, number("<I", size)) for key, size in (sizes | more).items()]
    values.append(value(f"{arch}.attention.layer_norm_rms_epsilon", 6, number("<f", 1e-5)))
    return [*values, value(f"{arch}.rope.freq_base", 6, number("<f", 10000.0))]


def model(arch="llama", kind="Q8_0"):
    """(the tensors as GGUF has them, the tensors as Hugging Face has them)."""
    q, kv = HEADS * HEAD_DIM, KV * HEAD_DIM
    shapes = {
        "token_embd": ("model.embed_tokens", (VOCAB, HIDDEN)),
        "output_norm": ("model.norm", (HIDDEN,)),
        "blk.0.attn_norm": ("model.layers.0.input_layernorm", (HIDDEN,)),
        "blk.0.ffn_norm": ("model.layers.0.post_attention_layernorm", (HIDDEN,)),
        "blk.0.attn_q": ("model.layers.0.self_attn.q_proj", (q, HIDDEN)),
        "blk.0.attn_k": ("model.layers.0.self_attn.k_proj", (kv, HIDDEN)),
        "blk.0.attn_v": ("model.layers.0.self_attn.v_proj", (kv, HIDDEN)),
        "blk.0.attn_output": ("model.layers.0.self_attn.o_proj", (HIDDEN, q)),
        "blk.0.ffn_gate": ("model.layers.0.mlp.gate_proj", (WIDTH, HIDDEN)),
        "blk.0.ffn_up": ("model.layers.0.mlp.up_proj", (WIDTH, HIDDEN)),
        "blk.0.ffn_down": ("model.layers.0.mlp.down_proj", (HIDDEN, WIDTH)),
    }
    if arch == "qwen2":
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            shapes[f"blk.0.attn_{name}.bias"] = (f"model.layers.0.self_attn.{name}_proj.bias", (rows,))
    stored, expected = [], {}
    number, count, size = SIZES[kind]
    for name, (hub, shape) in shapes.items():
        if len(shape) == 1:
            array = RNG.normal(size=shape).astype(np.float32)
            stored.append((_full(name), shape, 0, array.tobytes()))
            expected[_full(hub)] = array
            continue
        raw = some_blocks(kind, shape[0] * shape[1] // count).reshape(shape[0], -1)
        array = decode(raw.reshape(-1), kind, size).reshape(shape)
        heads = {"blk.0.attn_q": HEADS, "blk.0.attn_k": KV}.get(name) if arch == "llama" else None
        stored.append((f"{name}.weight", shape, number, (pairs(raw, heads) if heads else raw).tobytes()))
        expected[f"{hub}.weight"] = array
    return stored, expected


def _full(name):
    return name if name.endswith(".bias") else f"{name}.weight"


def opened(tmp_path, tensors, values):
    return open_checkpoint(b.write(tmp_path / "x.gguf", gguf(tensors, values)))


@pytest.mark.parametrize(("arch", "kind"), [("llama", "Q8_0"), ("llama", "Q4_0"), ("qwen2", "Q5_1")])
def test_written_for_transformers(tmp_path, arch, kind):
    stored, expected = model(arch, kind)
    with opened(tmp_path, stored, metadata(arch)) as source:
        plan = normalise(source)
        assert (plan.status, plan.layout.name, plan.family.name) == ("fixable", "gguf", arch)
        assert facts(plan).parameters == sum(array.size for array in expected.values())
        steps = {step.id: step for step in retarget(plan, Target("hf")).steps}
        assert steps["dequantise"].count == 8
        assert f"{kind} → fp32" in steps["dequantise"].evidence
        assert ("permute" in steps) == (arch == "llama")
        assert steps["rename"].title == "Rename GGUF → Hugging Face"
        write(plan, tmp_path / "out", layout="hf")
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == {key: array.tobytes() for key, array in expected.items()}
        assert normalise(made).status == "clean"
    config = json.loads((tmp_path / "out/config.json").read_text())
    wanted = {"model_type": arch, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV,
              "head_dim": HEAD_DIM, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
              "vocab_size": VOCAB, "max_position_embeddings": 64}  # fmt: skip
    assert {key: config.get(key) for key in wanted} == wanted


def test_with_the_config_of_a_mistral(tmp_path):
    stored, _ = model()
    path = b.write(tmp_path / "x.gguf", gguf(stored, metadata()))
    with open_checkpoint(path, config={"model_type": "mistral", "num_attention_heads": HEADS, "num_key_value_heads": KV,
                                       "hidden_size": HIDDEN, "head_dim": HEAD_DIM}) as source:  # fmt: skip
        assert normalise(source).family.name == "mistral"


ROPE = ("rope_freqs.weight", (HEAD_DIM // 2,), 0, np.ones(HEAD_DIM // 2, np.float32).tobytes())
EXPERTS = ("blk.0.ffn_up_exps.weight", (2, WIDTH, HIDDEN), 0, bytes(8 * WIDTH * HIDDEN))
SCALED = [value("llama.rope.scaling.type", 8, text("yarn")), value("llama.rope.scaling.factor", 6, number("<f", 4.0))]
PART = [value("split.count", 2, number("<H", 3))]
REFUSED = {
    "a codebook type": ([("blk.0.attn_q.bias", (256,), 16, bytes(66))], metadata(), "IQ2_XXS"),
    "scaled frequencies": ([ROPE], metadata(), "`rope_freqs.weight`"),
    "another rule of scaling": ([], [*metadata(), *SCALED], "`yarn`"),
    "experts": ([EXPERTS], metadata(), "mixture of experts"),
    "one of several files": ([], [*metadata(), *PART], "one of 3 files"),
    "another architecture": ([], metadata("gemma2"), "architecture gemma2"),
}


@pytest.mark.parametrize(("more", "values", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_known_is_refused(tmp_path, more, values, said):
    stored, _ = model()
    with opened(tmp_path, [*stored, *more], values) as source:
        export = retarget(normalise(source), Target("hf"))
        assert any(said in finding.message for finding in export.blocked)


def test_scaled_frequencies_with_a_config(tmp_path):
    stored, _ = model()
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}  # fmt: skip
    config = {"model_type": "llama", "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV,
              "head_dim": HEAD_DIM, "intermediate_size": WIDTH, "num_hidden_layers": 1, "vocab_size": VOCAB,
              "tie_word_embeddings": True, "rope_scaling": rope}  # fmt: skip
    path = b.write(tmp_path / "x.gguf", gguf([*stored, ROPE], metadata()))
    with open_checkpoint(path, config=config) as source:
        export = retarget(normalise(source), Target("hf"))
        assert export.blocked == ()
        assert json.loads(export.texts["config.json"])["rope_scaling"]["factor"] == 8.0


def test_gguf_is_not_written(tmp_path):
    stored, _ = model()
    with opened(tmp_path, stored, metadata()) as source:
        export = retarget(normalise(source, Policy()), Target("same"))
        assert [f.fix for f in export.blocked] == ["Write it with --to hf."]
