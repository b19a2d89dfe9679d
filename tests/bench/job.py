"""One job in a fresh process: does it, and prints seconds by phase and peak memory as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path


def export(source: str, folder: str, layout: str, workers: str, dtype: str = "keep") -> dict[str, float]:
    """Export with our writer; return the seconds of writing and of verifying."""
    from ckpt_gui.core.export import Target
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import understand
    from ckpt_gui.core.retarget import retarget
    from ckpt_gui.core.writer import write_export

    with open_checkpoint(source) as opened:
        result = write_export(retarget(understand(opened), Target(layout, dtype=dtype)), folder, workers=int(workers))
    return dict(result.phases)


def open_ours(source: str) -> dict[str, float]:
    """List every tensor with our reader."""
    from ckpt_gui.core.formats import open_checkpoint

    begun = time.perf_counter()
    with open_checkpoint(source) as opened:
        count = len(opened.refs)
    return {"open": time.perf_counter() - begun, "tensors": count}


def open_torch(source: str) -> dict[str, float]:
    """List every tensor with torch.load, memory-mapped."""
    import torch

    begun = time.perf_counter()
    loaded = torch.load(source, mmap=True, weights_only=True, map_location="cpu")
    return {"open": time.perf_counter() - begun, "tensors": len(loaded)}


def open_safetensors(source: str) -> dict[str, float]:
    """List every tensor's shape and type with safetensors."""
    from safetensors import safe_open

    begun = time.perf_counter()
    with safe_open(source, "np") as opened:
        count = len([(opened.get_slice(k).get_shape(), opened.get_slice(k).get_dtype()) for k in opened.keys()])  # noqa: SIM118
    return {"open": time.perf_counter() - begun, "tensors": count}


def as_torch(source: str, target: str) -> dict[str, float]:
    """Save a safetensors file with torch, one storage a tensor."""
    import torch
    from safetensors.torch import load_file

    Path(target).parent.mkdir(parents=True, exist_ok=True)
    torch.save({key: tensor.clone() for key, tensor in load_file(source).items()}, target)
    return {}


def paint() -> dict[str, float]:
    """Open the window on its start page, and end with its first picture."""
    import os

    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QEvent, QObject, QTimer

    from ckpt_gui.gui import app as gui

    class First(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                QTimer.singleShot(0, app.quit)
            return False

    gui.tune()
    app = gui.application()
    settings = gui.Settings(keeps=False)
    windows = gui.Windows(settings, gui.Theme(app, settings.scheme))
    first = First()
    app.installEventFilter(first)
    windows.add("")
    app.exec()
    app.removeEventFilter(first)
    windows.close_all()
    return {}


def compare(one: str, two: str, workers: str) -> dict[str, float]:
    """Compare two whole models by their values."""
    from ckpt_gui.core import compare as comparing

    begun = time.perf_counter()
    with comparing.opened_sides(one, two, values=True) as (a, b):
        found = comparing.compare(a, b, values=True, workers=int(workers))
    return {"compare": time.perf_counter() - begun, "equal": found.counts["equal"], "all": len(found.rows)}


def load_and_save(source: str, target: str) -> dict[str, float]:
    """Do a rename the usual way: load everything, save everything."""
    from safetensors.torch import load_file, save_file

    begun = time.perf_counter()
    save_file(dict(load_file(source)), target, metadata={"format": "pt"})
    return {"write": time.perf_counter() - begun}


def torch_save(source: str, target: str) -> dict[str, float]:
    """Write a torch file the usual way, from one that is mapped into memory."""
    import torch

    begun = time.perf_counter()
    torch.save(torch.load(source, mmap=True, weights_only=True), target)
    return {"write": time.perf_counter() - begun}


def transformers_save(source: str, target: str) -> dict[str, float]:
    """Load and save with transformers."""
    from transformers import AutoModelForCausalLM

    begun = time.perf_counter()
    AutoModelForCausalLM.from_pretrained(source, dtype="auto").save_pretrained(target)
    return {"write": time.perf_counter() - begun}


def torchtune_convert(source: str, target: str) -> dict[str, float]:
    """Convert Meta's file to Hugging Face's names with torchtune."""
    import torch
    from safetensors.torch import save_file
    from torchtune.models.convert_weights import meta_to_tune, tune_to_hf

    begun = time.perf_counter()
    params = json.loads(Path(source, "params.json").read_text(encoding="utf-8"))
    state = meta_to_tune(torch.load(Path(source, "consolidated.00.pth"), mmap=True, weights_only=True))
    made = tune_to_hf(state, params["n_heads"], params["n_kv_heads"], params["dim"])
    save_file({key: tensor.contiguous().clone() for key, tensor in made.items()}, target)
    return {"write": time.perf_counter() - begun}


def figures_ours(source: str, workers: str) -> dict[str, float]:
    """Calculate every figure and a histogram of every tensor, exactly."""
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.stats import many_stats

    with open_checkpoint(source) as opened:
        begun = time.perf_counter()
        found = many_stats(opened, opened.refs, bins=256, workers=int(workers))
        return {"figures": time.perf_counter() - begun, "tensors": len(found)}


def figures_numpy(source: str) -> dict[str, float]:
    """Calculate the same few figures with numpy, in fp32, tensor by tensor."""
    import numpy as np

    from ckpt_gui.core.formats import open_checkpoint

    with open_checkpoint(source) as opened:
        for ref in opened.refs:
            patterns = np.frombuffer(opened.read(ref), np.uint16)
            x = (patterns.astype(np.uint32) << 16).view(np.float32)
            good = x[np.isfinite(x)]
            (good.min(), good.max(), good.mean(), good.std(), np.linalg.norm(good))
            (np.isnan(x).sum(), np.isinf(x).sum(), (x == 0).sum(), np.histogram(good, 256))
    return {}


def figures_torch(source: str) -> dict[str, float]:
    """Calculate the same few figures with torch, in fp32, tensor by tensor."""
    import torch
    from safetensors import safe_open

    with safe_open(source, "pt") as opened:
        for key in opened.keys():  # noqa: SIM118
            x = opened.get_tensor(key).float()
            (x.min(), x.max(), x.mean(), x.std(), x.norm())
            (x.isnan().sum(), x.isinf().sum(), (x == 0).sum(), torch.histc(x, 256))
    return {}


def scan_ours(source: str, workers: str) -> dict[str, float]:
    """Scan a whole model for what looks wrong."""
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import normalise
    from ckpt_gui.core.scan import scan

    with open_checkpoint(source) as opened:
        plan = normalise(opened)
        begun = time.perf_counter()
        found = scan(plan, workers=int(workers))
        return {"scan": time.perf_counter() - begun, "tensors": len(found.tensors)}


def pair_ours(source: str, other: str) -> dict[str, float]:
    """Compare the largest tensors of two files element by element, with all figures."""
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.stats import pair_stats

    with open_checkpoint(source) as left, open_checkpoint(other) as right:
        a, b = (max(opened.refs, key=lambda ref: ref.nbytes) for opened in (left, right))
        return {"differing": float(pair_stats(left, a, b, other=right).differing)}


JOBS: dict[str, Callable[..., dict[str, float]]] = {
    "export": export,
    "open_ours": open_ours,
    "as_torch": as_torch,
    "paint": paint,
    "open_torch": open_torch,
    "open_safetensors": open_safetensors,
    "compare": compare,
    "load_and_save": load_and_save,
    "torch_save": torch_save,
    "transformers_save": transformers_save,
    "torchtune_convert": torchtune_convert,
    "figures_ours": figures_ours,
    "figures_numpy": figures_numpy,
    "figures_torch": figures_torch,
    "scan_ours": scan_ours,
    "pair_ours": pair_ours,
}


def peak_mib() -> float:
    """Return the most memory that this process has held. (`getrusage` also counts what its parent held before it.)"""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 1024


def main() -> None:
    """Run the job that the command line names."""
    seconds = JOBS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({**seconds, "peak_mib": peak_mib(), "torch": "torch" in sys.modules}))


if __name__ == "__main__":
    main()
