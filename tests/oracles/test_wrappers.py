"""What wrappers of torch really write, saved by torch itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from torch import distributed, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ckpt_gui import normalise_state_dict
from tests.oracles import tiny

State = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _process_group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Module(nn.Module):
    """Keeps the model as an attribute and other tensors beside it, as a LightningModule does."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def compile_layers(model: Any) -> nn.Module:
    for number, layer in enumerate(model.model.layers):
        model.model.layers[number] = torch.compile(layer)
    return model  # type: ignore[no-any-return]


def compile_parts(model: Any) -> nn.Module:
    """Compile a part of a part, and the whole."""
    for layer in model.model.layers:
        layer.mlp = torch.compile(layer.mlp)
        layer.self_attn.q_proj = torch.compile(layer.self_attn.q_proj)
    return torch.compile(model)  # type: ignore[return-value]


def checkpoint_layers(model: Any) -> nn.Module:
    for number, layer in enumerate(model.model.layers):
        model.model.layers[number] = checkpoint_wrapper(layer)
    return model  # type: ignore[no-any-return]


def averaged(model: nn.Module) -> nn.Module:
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    ema.update_parameters(model)
    return ema


def parameters(model: nn.Module) -> State:
    """Names as `named_parameters` has them: there, wrappers show that `state_dict` hides."""
    return {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}


def full(model: nn.Module) -> State:
    fully_shard(model, mesh=distributed.init_device_mesh("cpu", (1,)))
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


WRAPPED: dict[str, tuple[Callable[[Any], State], str]] = {
    "compile": (lambda m: torch.compile(m).state_dict(), "_orig_mod."),
    "compile-layers": (lambda m: compile_layers(m).state_dict(), ".0._orig_mod."),
    "compile-parts": (lambda m: compile_parts(m).state_dict(), ".mlp._orig_mod."),
    "ddp": (lambda m: DistributedDataParallel(m).state_dict(), "module."),
    "data-parallel": (lambda m: DataParallel(m).state_dict(), "module."),
    "ddp-of-compile": (lambda m: DistributedDataParallel(torch.compile(m)).state_dict(), "module._orig_mod."),
    "compile-of-ddp": (lambda m: torch.compile(DistributedDataParallel(m)).state_dict(), "_orig_mod.module."),
    "ema": (lambda m: averaged(m).state_dict(), "n_averaged"),
    "ema-of-compile-of-ddp": (
        lambda m: AveragedModel(torch.compile(DistributedDataParallel(m))).state_dict(),
        "module._orig_mod.module.",
    ),
    "checkpointing": (lambda m: checkpoint_layers(m).state_dict(), ""),
    "checkpointing-names": (lambda m: parameters(checkpoint_layers(m)), "._checkpoint_wrapped_module."),
    "compile-of-checkpointing": (
        lambda m: parameters(compile_layers(checkpoint_layers(m))),
        "._orig_mod._checkpoint_wrapped_module.",
    ),
    "fsdp1-names": (
        lambda m: parameters(FullyShardedDataParallel(m, use_orig_params=True, device_id=torch.device("cpu"))),
        "_fsdp_wrapped_module.",
    ),
    "fsdp2-full": (full, ""),
    "attribute": (lambda m: Module(m).state_dict(), "model.model."),
    "attribute-compiled": (lambda m: Module(torch.compile(m)).state_dict(), "model._orig_mod.model."),
    "attribute-of-ddp": (lambda m: DistributedDataParallel(Module(m)).state_dict(), "module.model.model."),
}


@pytest.fixture(params=WRAPPED)
def case(request: pytest.FixtureRequest) -> tuple[Callable[[Any], State], str]:
    return WRAPPED[request.param]


def wrap(model: Any, case: tuple[Callable[[Any], State], str]) -> State:
    state = case[0](copy.deepcopy(model))
    assert any(case[1] in key for key in state)
    return state


def save(folder: Path, model: Any, content: Any) -> Path:
    folder.mkdir()
    model.config.save_pretrained(folder)
    torch.save(content, folder / "last.pt")
    return folder / "last.pt"


def assert_mends(path: Path, model: Any, out: Path) -> None:
    fixed = tiny.export(path, out)
    tiny.assert_clean(fixed)
    wanted = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        del wanted["lm_head.weight"]
    assert tiny.differing(tiny.read(fixed), wanted) == []
    assert torch.equal(tiny.logits_of(tiny.load(fixed)), tiny.logits_of(model))


@pytest.mark.parametrize("tied", [False, True])
def test_fix_gives_the_model(tmp_path: Path, case: tuple[Callable[[Any], State], str], tied: bool) -> None:
    model = tiny.make_model(tiny.make_config(tied=tied))
    assert_mends(save(tmp_path / "run", model, wrap(model, case)), model, tmp_path / "out")


def test_same_layout_loads_strictly(tmp_path: Path, case: tuple[Callable[[Any], State], str]) -> None:
    """The container stays as it is; only the wrappers' names go."""
    model = tiny.make_model(tiny.make_config())
    path = save(tmp_path / "run", model, {"model": wrap(model, case), "step": 7})
    tiny.export(path, tmp_path / "out", "same")
    content = torch.load(tmp_path / "out" / "last.pt", weights_only=True)
    assert content["step"] == 7
    content["model"].pop("n_averaged", None)
    fresh = tiny.make_model(model.config, seed=1)
    fresh.load_state_dict(content["model"], strict=True)
    assert torch.equal(tiny.logits_of(fresh), tiny.logits_of(model))


def test_state_dict_in_memory(case: tuple[Callable[[Any], State], str]) -> None:
    model = tiny.make_model(tiny.make_config())
    state = wrap(model, case)
    clean = normalise_state_dict(state)
    assert {id(v) for v in clean.values()} == {id(v) for v in state.values()}
    clean.pop("n_averaged", None)
    fresh = tiny.make_model(model.config, seed=1)
    fresh.load_state_dict(clean, strict=True)
    assert torch.equal(tiny.logits_of(fresh), tiny.logits_of(model))


@pytest.mark.parametrize("name", ["model", "state_dict", "module", "model_state_dict"])
def test_container_of_a_trainer(tmp_path: Path, name: str) -> None:
    """Weights beside real optimizer, scheduler and random state."""
    model = tiny.make_model(tiny.make_config(tied=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    model(tiny.IDS, labels=tiny.IDS).loss.backward()
    optimizer.step()
    scheduler.step()
    content = {
        "epoch": 3,
        name: torch.compile(model).state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state(),
    }
    assert_mends(save(tmp_path / "run", model, content), model.eval(), tmp_path / "out")


def test_dtensors_in_memory_are_the_same_objects() -> None:
    model = torch.compile(tiny.make_model(tiny.make_config()))
    fully_shard(model._orig_mod, mesh=distributed.init_device_mesh("cpu", (1,)))
    state = model.state_dict()
    assert type(next(iter(state.values()))).__name__ == "DTensor"
    clean = normalise_state_dict(state)
    assert list(clean) == [key.removeprefix("_orig_mod.") for key in state]
    assert all(a is b for a, b in zip(clean.values(), state.values(), strict=True))


def test_saved_dtensors_of_one_rank_are_read_whole(tmp_path: Path) -> None:
    """On a mesh of one device a rank's part is the whole tensor; parts of larger meshes are tested with the readers."""
    model = tiny.make_model(tiny.make_config())
    fully_shard(copy := tiny.make_model(model.config), mesh=distributed.init_device_mesh("cpu", (1,)))
    state = copy.state_dict()
    model.load_state_dict({key: value.full_tensor() for key, value in state.items()})
    assert_mends(save(tmp_path / "run", model, state), model.eval(), tmp_path / "out")


def test_flat_parameters_of_fsdp1_are_refused(tmp_path: Path) -> None:
    model = tiny.make_model(tiny.make_config())
    sharded = FullyShardedDataParallel(tiny.make_model(model.config), device_id=torch.device("cpu"))
    flat = {name: p.detach() for name, p in sharded.named_parameters()}
    assert any("_flat_param" in name for name in flat)
    assert tiny.plan_of(save(tmp_path / "run", model, flat)).status in ("blocked", "fixable")
    assert tiny.plan_of(tmp_path / "run" / "last.pt").family is None


@pytest.mark.parametrize("kind", [torch.Tensor, nn.Parameter])
def test_tensors_with_attributes(tmp_path: Path, kind: Any) -> None:
    """Megatron marks its parameters so; torch saves such tensors in another way."""
    model = tiny.make_model(tiny.make_config())
    state = {key: kind(value.clone()) for key, value in model.state_dict().items()}
    for value in state.values():
        value.tensor_model_parallel = True
    fixed = tiny.export(save(tmp_path / "run", model, state), tmp_path / "out")
    assert tiny.differing(tiny.read(fixed), model.state_dict()) == []


def test_a_pickled_model_does_not_count_as_weights(tmp_path: Path) -> None:
    """`torch.save(model)`: code and tensors in one; nothing of it runs, and it is said what it is."""
    model = tiny.make_model(tiny.make_config())
    plan = tiny.plan_of(save(tmp_path / "run", model, model))
    assert plan.status == "blocked"
    assert any(f.code == "foreign-object" and "LlamaForCausalLM" in f.message for f in plan.findings)
