"""The table of the tied pair holds in every family: by role, at both levels of the config, with the class default.

The vision models' heads are among them, and the biases that a head of Phi's has do not matter.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest

from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import BY_NAME, FAMILIES
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan, account
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from tests.core import models, test_families_dense, test_families_fused

FLAGS = (True, False, None)  # None: the config does not say, and the class default is meant
# What is stored: the case, embedding there, head there; of the pairs what their bytes are.
PAIRS = ("differs", "equal", "alias", "no-head", "no-embedding", "neither")


@lru_cache
def _base(name: str) -> tuple[models.State, dict[str, Any]]:
    if name in test_families_fused.FAMILIES:
        return test_families_fused.hub_state(name), test_families_fused.config(name)
    family = BY_NAME[name]
    if name == "gemma3_vision":
        tensors = test_families_dense.with_images(pooling=False)
        head = tensors[str(family.role("embedding"))] + 1
        text = models.config(model_type="gemma3_text")
        return {**tensors, str(family.role("head")): head}, {"model_type": "gemma3", "text_config": text}
    return test_families_dense.tensors(family), test_families_dense.config(family)


# DeepSeek 2's table is DeepSeek 3's, less a tensor; the embedding of Llama 3.2 Vision has rows that its head has not.
NAMES = tuple(f.name for f in FAMILIES if f.name not in ("deepseek-v2", "mllama", "mllama-text"))


def made(family: Family, flag: bool | None, pair: str, level: str = "") -> Plan:
    """Return the plan of a model with such a pair."""
    tensors, config = _base(family.name)
    tensors, config = dict(tensors), dict(config)
    embedding, head = family.role("embedding"), family.role("head")
    assert embedding is not None
    assert head is not None
    if pair in ("equal", "alias"):
        tensors[head] = tensors[embedding].copy() if pair == "equal" else tensors[embedding]
    if pair in ("no-embedding", "neither"):
        del tensors[embedding]
    if pair in ("no-head", "neither"):
        del tensors[head]
    config.pop("tie_word_embeddings", None)
    config["text_config"] = dict(config.get("text_config") or {})
    config["text_config"].pop("tie_word_embeddings", None)
    if flag is not None:
        (config["text_config"] if level else config)["tie_word_embeddings"] = flag
    if not config["text_config"]:
        del config["text_config"]
    plan = understand(models.source(tensors, config), Policy())
    account(plan)
    return plan


def outcome(flag: bool, pair: str) -> tuple[set[str], bool | None]:
    """Return codes above an info, and the flag of an export: the table of the README, written down a second time."""
    if pair == "neither":
        return {"missing-tensor"}, None
    if pair == "differs":
        return ({"tied-conflict"} if flag else set()), False
    if pair == "equal":
        return ({"tied-redundant"} if flag else set()), flag
    if pair == "alias":
        return set(), flag
    if pair == "no-head":
        return (set() if flag else {"missing-tensor"}), (True if flag else None)
    return ({"tied-renamed"}, True) if flag else ({"missing-tensor"}, None)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", NAMES)
def test_the_table(name: str, flag: bool | None, pair: str) -> None:
    family = BY_NAME[name]
    plan = made(family, flag, pair)
    effective = family.tie_default if flag is None else flag
    assert plan.family is family
    assert plan.tie.flag is effective
    codes, tied = outcome(effective, pair)
    assert {f.code for f in plan.findings if f.severity != "info"} == codes
    assert plan.tie.tied is tied
    export = retarget(plan, Target("hf"))
    assert bool(export.blocked) == ("missing-tensor" in codes)
    if export.blocked:
        return
    embedding, head = family.role("embedding"), family.role("head")
    written = {e.key for e in export.entries}
    assert embedding in written
    assert (head in written) == (not tied)
    config = json.loads(export.texts["config.json"])
    assert config["tie_word_embeddings"] is tied
    assert (config.get("text_config") or {}).get("tie_word_embeddings", tied) is tied


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_the_level_below_decides(name: str, flag: bool) -> None:
    """A flag of the text model's own is the flag, and an export states the truth at both levels."""
    plan = made(BY_NAME[name], flag, "differs", "text_config")
    assert plan.tie.flag is flag
    assert "text_config" in plan.tie.flag_from
    config = json.loads(retarget(plan, Target("hf")).texts["config.json"])
    assert config["tie_word_embeddings"] is config["text_config"]["tie_word_embeddings"] is False
