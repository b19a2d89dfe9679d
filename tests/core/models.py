"""Tiny Llama models as numpy arrays, in any layout; names and row order are written here a second time, by hand.

Every element of a model has a value of its own, so a tensor in the wrong place, or a row in the wrong order, is seen.
The sizes avoid the traps: head_dim 8 (with 4 the permutation undoes itself), kv_heads other than heads, heads x
head_dim other than hidden, an odd number of layers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.source import Source
from tests import builders

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 24, 3, 4, 2, 8, 40, 50
State = dict[str, np.ndarray]

# Part of a layer: (hf, meta, torchtune, shape).
PARTS = (
    ("input_layernorm.weight", "attention_norm.weight", "sa_norm.scale", (HIDDEN,)),
    ("self_attn.q_proj.weight", "attention.wq.weight", "attn.q_proj.weight", (HEADS * HEAD_DIM, HIDDEN)),
    ("self_attn.k_proj.weight", "attention.wk.weight", "attn.k_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)),
    ("self_attn.v_proj.weight", "attention.wv.weight", "attn.v_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)),
    ("self_attn.o_proj.weight", "attention.wo.weight", "attn.output_proj.weight", (HIDDEN, HEADS * HEAD_DIM)),
    ("post_attention_layernorm.weight", "ffn_norm.weight", "mlp_norm.scale", (HIDDEN,)),
    ("mlp.gate_proj.weight", "feed_forward.w1.weight", "mlp.w1.weight", (FFN, HIDDEN)),
    ("mlp.down_proj.weight", "feed_forward.w2.weight", "mlp.w2.weight", (HIDDEN, FFN)),
    ("mlp.up_proj.weight", "feed_forward.w3.weight", "mlp.w3.weight", (FFN, HIDDEN)),
)
BIASES = (
    ("self_attn.q_proj.bias", "attention.wq.bias", "attn.q_proj.bias", (HEADS * HEAD_DIM,)),
    ("self_attn.k_proj.bias", "attention.wk.bias", "attn.k_proj.bias", (KV_HEADS * HEAD_DIM,)),
    ("self_attn.v_proj.bias", "attention.wv.bias", "attn.v_proj.bias", (KV_HEADS * HEAD_DIM,)),
    ("self_attn.o_proj.bias", "attention.wo.bias", "attn.output_proj.bias", (HIDDEN,)),
)
TOP = (
    ("model.embed_tokens.weight", "tok_embeddings.weight", "tok_embeddings.weight", (VOCAB, HIDDEN)),
    ("model.norm.weight", "norm.weight", "norm.scale", (HIDDEN,)),
    ("lm_head.weight", "output.weight", "output.weight", (VOCAB, HIDDEN)),
)
COLUMN = {"hf": 0, "meta": 1, "torchtune": 2}
EMBEDDING = {name: TOP[0][column] for name, column in COLUMN.items()}
HEAD = {name: TOP[2][column] for name, column in COLUMN.items()}
ROTARY = {"self_attn.q_proj": HEADS, "self_attn.k_proj": KV_HEADS}


def names(layout: str, *, biases: bool = False, layers: int = LAYERS) -> list[tuple[str, str, tuple[int, ...]]]:
    """(hf name, name in the layout, shape) of every tensor, in file order."""
    column = COLUMN[layout]
    before = "model.layers." if layout == "hf" else "layers."
    middle = [
        (f"model.layers.{n}.{part[0]}", f"{before}{n}.{part[column]}", part[3])
        for n in range(layers)
        for part in (*PARTS, *(BIASES if biases else ()))
    ]
    top = [(row[0], row[column], row[3]) for row in TOP]
    return [top[0], *middle, *top[1:]]


def to_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """From Hugging Face's row order to Meta's, row by row: meta[h, 2i + j] = hf[h, j * half + i]."""
    size = len(rows) // heads
    half = size // 2
    out = np.empty_like(rows)
    for h in range(heads):
        for i in range(half):
            for j in range(2):
                out[h * size + 2 * i + j] = rows[h * size + j * half + i]
    return out


def state(layout: str = "hf", *, head: str = "own", biases: bool = False, layers: int = LAYERS) -> State:
    """A model in a layout.

    Args:
        layout: `hf`, `meta` or `torchtune`.
        head: `own`, `absent`, `equal` (a copy), `same` (the same array), or `only` (a head, no embedding).
        biases: With attention biases.
        layers: Number of layers.
    """
    made: State = {name: array.copy() for name, array in _state(layout, biases, layers).items()}
    embedding, output = EMBEDDING[layout], HEAD[layout]
    if head == "absent":
        del made[output]
    elif head == "equal":
        made[output] = made[embedding].copy()
    elif head == "same":
        made[output] = made[embedding]
    elif head == "only":
        made[output] = made.pop(embedding)
    return made


@lru_cache
def _state(layout: str, biases: bool, layers: int) -> State:
    made: State = {}
    begin = 1
    for hub, name, shape in names(layout, biases=biases, layers=layers):
        size = int(np.prod(shape))
        array = np.arange(begin, begin + size, dtype=np.float32).reshape(shape)
        begin += size
        heads = ROTARY.get(hub.rpartition(".")[0].partition("layers.")[2].partition(".")[2])
        made[name] = array if heads is None or layout == "hf" else to_pairs(array, heads)
    return made


def config(**changes: Any) -> dict[str, Any]:
    """A config.json that fits; a value of `...` takes a field out."""
    made = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": FFN,
        "vocab_size": VOCAB, "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "max_position_embeddings": 512,
        "tie_word_embeddings": False, "torch_dtype": "float32",
    } | changes  # fmt: skip
    return {key: value for key, value in made.items() if value is not ...}


def params(**changes: Any) -> dict[str, Any]:
    """A params.json of Meta's that fits (2/3 of 4 x 24 is 64, which 40 is not: `hidden_dim` says it)."""
    made = {
        "dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "hidden_dim": FFN, "vocab_size": VOCAB, "norm_eps": 1e-5, "rope_theta": 500000.0, "multiple_of": 8,
    } | changes  # fmt: skip
    return {key: value for key, value in made.items() if value is not ...}


def mistral_config(**changes: Any) -> dict[str, Any]:
    """A config.json of a Mistral of the same sizes."""
    kind = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 4096}
    return config(**(kind | {"rope_theta": 10000.0} | changes))


def source(tensors: Mapping[str, Any], config: Any = None, params: Any = None, **more: Any) -> Source:
    """A source in memory, with what would lie beside a file."""
    return from_state_dict(tensors).replace(sidecars=Sidecars(config=config, params=params, **more))


def keys_plan(keys: Iterable[str], **policy: Any) -> Plan:
    """The plan of tensors of one element under these names."""
    return normalise(source({key: np.zeros(1, np.float32) for key in keys}), Policy(**policy))


def plan(tensors: Mapping[str, Any], config: Any = None, params: Any = None, **policy: Any) -> Plan:
    """The plan of a state dict, with the pair compared."""
    return understand(source(tensors, config, params), Policy(**policy))


def model(layout: str = "hf", *, head: str = "own", biases: bool = False, **policy: Any) -> Plan:
    """The plan of a whole model with its own config."""
    tied = head in ("absent", "equal", "same", "only")
    tensors = state(layout, head=head, biases=biases)
    return plan(tensors, config(tie_word_embeddings=tied, **({"attention_bias": True} if biases else {})), **policy)


def codes(found: Any) -> list[str]:
    """The codes of the findings of a plan or an export, sorted."""
    return sorted(f.code for f in found.findings)


def finding(found: Any, code: str) -> Any:
    """The only finding with that code."""
    (one,) = [f for f in found.findings if f.code == code]
    return one


def stored(read: Source) -> dict[str, bytes]:
    """Every tensor's bytes by full key."""
    return {ref.full_key: read.read(ref) for ref in read.refs}


def as_bytes(tensors: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    """The bytes of arrays."""
    return {key: np.ascontiguousarray(value).tobytes() for key, value in tensors.items()}


def save(folder: Path, tensors: Mapping[str, np.ndarray], *, name: str = "model.safetensors", config: Any = None,
         params: Any = None, metadata: Any = None) -> Path:  # fmt: skip
    """Write a folder with one file, by hand; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if name.endswith(".safetensors"):
        data = builders.safetensors_bytes(tensors, {"format": "pt"} if metadata is None else metadata)
    else:
        data = builders.state_dict_bytes(tensors)
    (folder / name).write_bytes(data)
    for file, value in (("config.json", config), ("params.json", params)):
        if value is not None:
            (folder / file).write_text(json.dumps(value), encoding="utf-8")
    return folder


def save_shards(folder: Path, tensors: Mapping[str, np.ndarray], count: int, *, config: Any = None) -> Path:
    """Write safetensors shards with an index, by hand; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = list(tensors)
    where = {}
    for n in range(count):
        name = f"model-{n + 1:05d}-of-{count:05d}.safetensors"
        mine = {key: tensors[key] for key in keys[n::count]}
        where |= dict.fromkeys(mine, name)
        (folder / name).write_bytes(builders.safetensors_bytes(mine, {"format": "pt"}))
    total = sum(a.nbytes for a in tensors.values())
    (folder / "model.safetensors.index.json").write_bytes(builders.index_bytes(where, total))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def opened(path: Path) -> dict[str, bytes]:
    """Every tensor's bytes of a file or a folder by full key."""
    with open_checkpoint(path) as read:
        return stored(read)
