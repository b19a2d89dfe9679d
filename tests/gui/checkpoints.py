"""Small checkpoints in memory for tests of the window: real names and shapes, bytes that are a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.passes.expectation import stored_name
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef

DIMS = {"hidden": 8, "heads": 2, "kv_heads": 1, "head_dim": 4, "ffn": 16, "vocab": 32, "layers": 2}
PARAMS = {"dim": 8, "n_layers": 2, "n_heads": 2, "n_kv_heads": 1, "vocab_size": 32, "multiple_of": 16, "hidden_dim": 16}


class PatternReader:
    """Gives the same bytes for every tensor, and remembers whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        out[:] = bytes((start + n) % 7 for n in range(len(out)))

    def close(self) -> None:
        self.closed = True


def llama_refs(layout: str = "meta", prefix: str = "", section: tuple[str, ...] = ()) -> list[TensorRef]:
    """Return the refs of a tiny Llama in a layout."""
    family = BY_NAME["llama"]
    found = family.layout(layout)
    assert found is not None
    refs = []
    for slot in family.slots:
        if slot.when:
            continue
        for layer in range(DIMS["layers"]) if "{layer}" in slot.key else (0,):
            key = prefix + stored_name(found, slot.key.format(layer=layer))
            refs.append(TensorRef(key, "bf16", tuple(map(_size, slot.shape)), section, "w.pt", key))
    return refs


def _size(symbol: str) -> int:
    size = 1
    for name in symbol.split("*"):
        size *= DIMS[name]
    return size


def source(
    refs: Iterable[TensorRef] | None = None,
    *,
    without: str = "",
    params: Mapping[str, object] | None = PARAMS,
    problems: tuple[Finding, ...] = (),
    path: str = "tiny.pt",
) -> Source:
    """Return a source of refs (a compiled Llama in Meta's layout by default), without those whose key holds a text."""
    kept = llama_refs(prefix="_orig_mod.") if refs is None else list(refs)
    kept = [r for r in kept if not without or without not in r.key]
    sidecars = Sidecars(params=params)
    return Source(
        path, "torch-zip", tuple(kept), problems=problems, sidecars=sidecars, readers={"w.pt": PatternReader()}
    )
