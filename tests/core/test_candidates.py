"""Which expected tensor a stored one may be."""

from __future__ import annotations

from ckpt_gui.core.candidates import candidates, distance
from tests.core import models


def test_those_of_the_shape_come_first_then_the_missing_then_the_nearest() -> None:
    tensors = models.state("meta")
    tensors["layers.1.attn.wk_lost"] = tensors.pop("layers.1.attention.wk.weight")
    plan = models.plan(tensors, models.config())
    (loose,) = plan.unmapped
    found = candidates(plan, loose.ref, loose.key)
    first = found[0]
    assert (first.key, first.fits, first.missing) == ("layers.1.attention.wk.weight", True, True)
    assert first.hub == "model.layers.1.self_attn.k_proj.weight"
    assert first.shape == (models.KV_HEADS * models.HEAD_DIM, models.HIDDEN)
    assert found[1].fits
    assert not found[1].missing
    ranks = [(not each.fits, not each.missing, each.distance) for each in found]
    assert ranks == sorted(ranks)


def test_another_shape_is_offered_last() -> None:
    tensors = models.state("meta")
    tensors["odd"] = tensors.pop("norm.weight")[:3]
    plan = models.plan(tensors, models.config())
    (loose,) = plan.unmapped
    assert not any(each.fits for each in candidates(plan, loose.ref, loose.key))
    assert candidates(plan, loose.ref, loose.key)[0].key == "norm.weight"


def test_nothing_is_offered_where_no_layout_is_known() -> None:
    plan = models.keys_plan(["a.b", "c.d"])
    assert candidates(plan, plan.unmapped[0].ref, "a.b") == ()


def test_distance() -> None:
    assert (distance("", "abc"), distance("kitten", "sitting"), distance("ab", "ba")) == (3, 3, 2)
