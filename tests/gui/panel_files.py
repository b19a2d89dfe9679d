"""Small real checkpoints on disk for tests of the panels, and a session that has one open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from tests.builders import safetensors_bytes

HIDDEN, HEADS, KV_HEADS, FFN, VOCAB = 16, 4, 2, 24, 40
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "intermediate_size": FFN, "vocab_size": VOCAB,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
}  # fmt: skip


def llama_tensors(head: str = "equal") -> dict[str, np.ndarray]:
    """Return a tiny Llama in Hugging Face's layout; its head is `equal`, `differs` or `none`."""
    rng = np.random.default_rng(3)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (kv, HIDDEN), "self_attn.v_proj": (kv, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (FFN, HIDDEN), "mlp.up_proj": (FFN, HIDDEN),
        "mlp.down_proj": (HIDDEN, FFN), "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
    }  # fmt: skip
    tensors = {"model.embed_tokens.weight": rng.normal(0, 0.02, (VOCAB, HIDDEN))}
    tensors |= {f"model.layers.0.{name}.weight": rng.normal(0, 0.02, shape) for name, shape in shapes.items()}
    tensors["model.norm.weight"] = np.ones(HIDDEN)
    if head != "none":
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    if head == "differs":
        tensors["lm_head.weight"][7, 3] += 0.5
    return {key: value.astype(np.float32) for key, value in tensors.items()}


def llama_folder(
    folder: Path, head: str = "equal", *, config: Mapping[str, Any] | None = CONFIG, without: str = "", prefix: str = ""
) -> Path:
    """Write a tiny Llama into a new folder."""
    folder.mkdir()
    tensors = {prefix + k: v for k, v in llama_tensors(head).items() if not without or without not in k}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors, {"format": "pt"}))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


@contextmanager
def session_of(qtbot: QtBot, path: Path | str | None) -> Iterator[Session]:
    """Give a session with a checkpoint open; its jobs end with it."""
    jobs = JobManager()
    session = Session(jobs)
    if path is not None:
        open_in(qtbot, session, path)
    yield session
    jobs.shutdown()
    session.close()


def open_in(qtbot: QtBot, session: Session, path: Path | str) -> Snapshot:
    """Open a checkpoint in a session."""
    with qtbot.waitSignal(session.changed):
        session.open(path)
    assert session.snapshot is not None
    return session.snapshot


def make_theme(app: QApplication, scheme: str = "light") -> Theme:
    """Return a theme."""
    return Theme(app, scheme)
