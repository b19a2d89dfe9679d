"""What a checkpoint is, in a few sentences: the opening of every report."""

from __future__ import annotations

from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.adapter_findings import scales
from ckpt_gui.core.passes.section import shown as shown_section
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.report.facts import facts
from ckpt_gui.core.tensors import unique_bytes
from ckpt_gui.core.text import human_bytes, plural

CONTAINERS = {
    "safetensors": "safetensors",
    "torch-zip": "torch (zip)",
    "torch-legacy": "torch (before 1.6)",
    "torch-tar": "torch (tar, of 2016)",
    "torchscript": "TorchScript",
    "npz": "NumPy",
    "gguf": "GGUF",
    "dcp": "distributed torch",
    "dcp-safetensors": "distributed torch, parts in safetensors",
    "fsdp-ranks": "FSDP rank",
    "deepspeed": "DeepSpeed ZeRO",
    "memory": "state dict in memory",
}
_DIMS = {
    "layers": "{} layers", "hidden": "hidden {}", "ffn": "feed-forward {}", "heads": "{} heads",
    "kv_heads": "{} key/value heads", "vocab": "vocabulary {}",
}  # fmt: skip


def opening(plan: Plan) -> list[str]:
    """Say what a checkpoint is: container, where the weights lie, model, sizes, what is beside them."""
    numbers = facts(plan)
    what = [_container(plan), _where(plan), _model(plan)]
    mixed = len(numbers.dtypes) > 1
    types = ", ".join(f"{n:,} {name}" if mixed else name for name, n in numbers.dtypes.items())
    counts = f"{plural(numbers.tensors, 'tensor')}, {numbers.parameters:,} parameters, {human_bytes(numbers.nbytes)}"
    what.append(f"{counts} ({types})." if types else f"{counts}.")
    what.append(_beside(plan))
    return [" ".join(sentence for sentence in what if sentence)]


def _container(plan: Plan) -> str:
    source = plan.source
    kind = CONTAINERS.get(source.container, source.container)
    if not source.files:
        return f"A {kind}."
    size = human_bytes(sum(file.size for file in source.files))
    if len(source.files) == 1:
        name = f" (`{source.files[0].name}`)" if source.is_folder else ""
        return f"A {kind} file{name} of {size}."
    return f"{len(source.files)} {kind} files, {size} in all."


def _where(plan: Plan) -> str:
    parts = []
    if plan.section:
        parts.append(f"the weights lie under `{shown_section(plan.section)}`")
    if plan.wrappers:
        parts.append("the keys carry " + ", ".join(f"`{name}`" for name in plan.wrappers))
    text = " and ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def _model(plan: Plan) -> str:
    if plan.adapter is not None:
        return _adapter(plan, plan.adapter)
    if plan.family is None or plan.layout is None:
        return "The names fit no layout that is known here."
    sizes = ", ".join(text.format(f"{plan.dims[name]:,}") for name, text in _DIMS.items() if name in plan.dims)
    layout = title_of(plan.layout.name)
    return f"{plan.family.title} in the {layout} layout" + (f": {sizes}." if sizes else ".")


def _adapter(plan: Plan, adapter: Adapter) -> str:
    targets = list(dict.fromkeys(lora.module.rpartition(".")[2] for lora in adapter.loras))
    title = title_of(plan.layout.name) if plan.layout else "adapter"
    if adapter.others:
        return f"A {title} of the kind {safe_text(adapter.kind, 40)}: {plural(len(adapter.others), 'tensor')}."
    base = f" for {plan.family.title}" if plan.family else ""
    text = f"A {title}{base} on {plural(len(adapter.loras), 'module')}"
    text += f" ({', '.join(safe_text(t, 40) for t in targets[:10])}{', …' if len(targets) > 10 else ''})"
    text += f": {scales(adapter)}"
    text += ", rslora" if adapter.config.get("use_rslora") is True else ""
    trained = adapter.config.get("base_model_name_or_path")
    text += f"; trained on {safe_text(trained, 80)}" if isinstance(trained, str) and trained else ""
    whole = [safe_text(name, 80) for name in adapter.whole]
    return text + (f"; stored whole: {', '.join(whole[:4])}{', …' if len(whole) > 4 else ''}." if whole else ".")


def _beside(plan: Plan) -> str:
    kinds = {"not-weights": "of optimizer state", "other-section": "elsewhere", "buffer": "computed and not trained"}
    parts = []
    for kind, where in kinds.items():
        refs = [d.ref for d in plan.dropped if d.kind == kind]
        if refs:
            parts.append(f"{plural(len(refs), 'tensor')} {where} ({human_bytes(unique_bytes(refs))})")
    return f"Beside them: {'; '.join(parts)}." if parts else ""
