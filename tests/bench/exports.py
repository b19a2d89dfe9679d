"""Exports against cp, and against what people do without us: safetensors, transformers, torch.save.

Those peers that are not installed have no row. For a fair pair the old output is deleted first in both, and cp is
synced to the disk, as our exports are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.bench.measure import Row, command, fresh, job

WRITING = ("plan", "write")  # before anything is read back
Run = Callable[[], dict[str, Any]]


def export_rows(hf: Path, meta: Path, work: Path, workers: str) -> list[Row]:
    """Return what is measured of exports.

    Args:
        hf: A folder in Hugging Face's layout, one safetensors file.
        meta: The same model as Meta's .pth.
        work: Where outputs go, on the disk to be measured.
        workers: Threads of ours.
    """
    weights, pth, out, copy = hf / "model.safetensors", meta / "consolidated.00.pth", work / "out", work / "copy"

    def export(source: Path, layout: str, dtype: str = "keep") -> Run:
        return lambda: job("export", str(source), fresh(out), layout, workers, dtype)

    def cp(source: Path) -> Run:
        return lambda: command("sh", "-c", f"cp '{source}' '{fresh(copy)}' && sync '{copy}'")

    same, to_hf, to_meta, half = export(weights, "same"), export(meta, "hf"), export(hf, "meta"), export(hf, "same",
        "fp16")  # fmt: skip
    return [
        Row("export HF → same (rename), before verification, against cp + sync", same, cp(weights), 1.2, WRITING),
        Row("export HF → same, verified, process, against cp + sync", same, cp(weights), 2.0),
        Row("export Meta → HF (permute, drop tied), before verification, against cp + sync", to_hf, cp(weights), 1.2,
            WRITING),
        Row("export Meta → HF, verified, process, against cp + sync", to_hf, cp(weights), 2.0),
        Row("export HF → fp16, before verification, against cp + sync", half, cp(weights), 1.6, WRITING),
        Row("export HF → Meta .pth (with CRC), before verification, against cp + sync", to_meta, cp(pth), 1.4, WRITING),
        *_peers(weights, hf, meta, copy, (same, to_hf, to_meta)),
    ]  # fmt: skip


def _peers(weights: Path, hf: Path, meta: Path, copy: Path, ours: tuple[Run, Run, Run]) -> Iterator[Row]:
    """Yield a row for each way without us that is installed; none of them reads back what it wrote."""
    same, to_hf, to_meta = ours
    if find_spec("torch") and find_spec("safetensors"):
        yield Row("export HF → same, verified, process, against safetensors load + save", same,
                  lambda: job("load_and_save", str(weights), fresh(copy)), 0.4)  # fmt: skip
    if find_spec("torch"):
        yield Row("export HF → Meta .pth, verified, process, against torch.save (mmap)", to_meta,
                  lambda: job("torch_save", str(meta / "consolidated.00.pth"), fresh(copy)), 0.25)  # fmt: skip
    if find_spec("transformers"):
        yield Row("export HF → same, verified, process, against transformers", same,
                  lambda: job("transformers_save", str(hf), fresh(copy)), 0.25)  # fmt: skip
    if find_spec("torchtune"):
        yield Row("export Meta → HF, verified, process, against torchtune's conversion", to_hf,
                  lambda: job("torchtune_convert", str(meta), fresh(copy)), 0.25)  # fmt: skip
