"""Which nested dict holds the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.passes.section import PREFERRED, is_optimizer
from ckpt_gui.core.plan import Plan, account
from tests.core import models

STATE = models.state("meta")
MOMENTS = {f"{key}.{kind}": value for key, value in STATE.items() for kind in ("exp_avg", "exp_avg_sq")}
BY_NUMBER = {
    n: {"step": np.zeros((), np.float32), "exp_avg": value, "exp_avg_sq": value}
    for n, value in enumerate(STATE.values())
}
ADAM = {"state": BY_NUMBER, "param_groups": [{"lr": 1e-3, "params": list(BY_NUMBER)}]}


def plan(tensors: Any, **policy: Any) -> Plan:
    made = models.plan(tensors, models.config(), **policy)
    account(made)
    return made


def blocking(made: Plan) -> list[Finding]:
    return [f for f in made.findings if f.blocking]


@pytest.mark.parametrize("name", [*PREFERRED, "weights", "net_g", "ema"])
@pytest.mark.parametrize("beside", [{}, {"optimizer": ADAM, "step": 3}, {"optimizer_states": [ADAM]}, {"opt": MOMENTS}])
def test_one_level_down(name: str, beside: dict[str, Any]) -> None:
    made = plan({**beside, name: STATE})
    assert made.section == (name,)
    assert {e.key for e in made.entries} == set(models.state("hf"))
    assert not blocking(made)
    assert made.status == "clean"
    found = models.finding(made, "nested-state-dict")
    assert name in found.message
    assert all(word in found.message for word in beside)
    assert {d.kind for d in made.dropped} <= {"not-weights"}


def test_two_levels_down() -> None:
    made = plan({"checkpoint": {"model": STATE, "epoch": 3}, "optimizer": ADAM})
    assert made.section == ("checkpoint", "model")
    assert "checkpoint → model" in models.finding(made, "nested-state-dict").message


@pytest.mark.parametrize("layout", models.COLUMN)
def test_weights_at_the_top_beside_optimizer_state(layout: str) -> None:
    tensors = models.state(layout)
    made = plan({**tensors, "optimizer": ADAM})
    assert made.section == ()
    assert len(made.entries) == len(tensors)
    assert "nested-state-dict" not in models.codes(made)


def test_the_name_does_not_matter_where_the_keys_fit() -> None:
    made = plan({"model": {"fc.weight": STATE["norm.weight"]}, "checkpoint": STATE})
    assert made.section == ("checkpoint",)
    assert [d.kind for d in made.dropped] == ["other-section"]
    assert "checkpoint" in made.dropped[0].reason


@pytest.mark.parametrize("names", [("state_dict", "state_dict_ema"), ("model", "model_ema"), ("b", "a")])
def test_two_copies_are_the_users_choice(names: tuple[str, str]) -> None:
    copy = {key: value + 1 for key, value in STATE.items()}
    made = plan({names[0]: STATE, names[1]: copy})
    (found,) = blocking(made)
    assert found.code == "several-sections"
    assert all(name in found.message for name in names)
    assert "--section" in (found.fix or "")
    for name in names:
        chosen = plan({names[0]: STATE, names[1]: copy}, section=(name,))
        assert chosen.section == (name,)
        assert not blocking(chosen)
        assert {e.ref.section for e in chosen.entries} == {(name,)}


def test_a_section_that_is_not_there() -> None:
    made = plan({"model": STATE}, section=("weights",))
    (found,) = blocking(made)
    assert found.code == "several-sections"
    assert "weights" in found.message
    assert "model" in found.message


@pytest.mark.parametrize(
    "tensors",
    [
        ADAM,
        {"optimizer": ADAM},
        {"state": BY_NUMBER},
        MOMENTS,
        {"optim": {"a": np.zeros(1, np.float32)}, "lr_scheduler": {"x": np.zeros(1, np.float32)}},
    ],
)
def test_optimizer_state_only(tensors: dict[str, Any]) -> None:
    made = plan(tensors)
    (found,) = blocking(made)
    assert found.code == "not-a-checkpoint"
    assert "optimizer state only" in found.message
    assert made.weights == ()


@pytest.mark.parametrize("tensors", [{}, {"epoch": 3}, {"model": {}}])
def test_nothing(tensors: dict[str, Any]) -> None:
    (found,) = blocking(plan(tensors))
    assert found.code == "not-a-checkpoint"
    assert "no tensors" in found.message


def test_modules_of_modules() -> None:
    """A pickled tree of dicts, one a module, is read as if its names were joined."""
    nested: dict[str, Any] = {}
    for key, value in STATE.items():
        *path, last = key.split(".")
        inner = nested
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = value
    made = plan({"model": nested})
    assert made.section == ("model",)
    assert {e.key for e in made.entries} == set(models.state("hf"))


def test_unknown_names_by_preference() -> None:
    weights = {f"blocks.{n}.w": np.zeros(4, np.float32) for n in range(8)}
    made = plan({"state_dict": weights, "hist": {"loss": np.zeros(3, np.float32)}})
    assert made.section == ("state_dict",)
    assert not [f for f in made.findings if f.code == "several-sections"]
    both = plan({"model": weights, "weights": weights})
    assert [f.code for f in blocking(both)] == ["several-sections"]


@pytest.mark.parametrize(
    ("key", "section", "wanted"),
    [
        ("layers.0.w.exp_avg", (), True),
        ("0", ("optimizer", "state"), True),
        ("w", ("opt_g",), True),
        ("w", ("model",), False),
        ("optimizer.w", (), False),
        ("exp_avg_layer.weight", (), False),
    ],
)
def test_is_optimizer(key: str, section: tuple[str, ...], wanted: bool) -> None:
    ref = models.source({"x": np.zeros(1, np.float32)}).refs[0]
    assert is_optimizer(type(ref)(key, "fp32", (1,), section)) is wanted
