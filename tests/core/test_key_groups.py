"""Keys by their templates: the same as looking at each key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.key_groups import group_keys
from ckpt_gui.core.keys import indices, template

KEYS = st.lists(st.text(st.sampled_from("ab0129.{}_٣"), max_size=20), max_size=20)


@given(KEYS)
def test_groups_are_those_of_looking_at_each_key(keys: list[str]) -> None:
    wanted: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        wanted.setdefault(template(key), []).append(place)
    found = group_keys(keys)
    assert {name: list(group.places) for name, group in found.items()} == wanted
    assert list(found) == list(wanted)
    for group in found.values():
        assert list(group.numbers()) == [indices(keys[place]) for place in group.places]
        assert group.distinct == len({keys[place] for place in group.places})
        assert list(zip(*group.columns, strict=True)) == [n for n in group.numbers() if n]


def test_wherever_a_key_is_cut_it_is_in_its_group() -> None:
    keys = [f"model.layers.{layer}.mlp.experts.{expert}.w1" for layer in (0, 11, 1234) for expert in (7, 99, 4321)]
    [group] = group_keys(keys).values()
    assert group.template == "model.layers.{}.mlp.experts.{}.w1"
    assert list(group.numbers()) == [(layer, expert) for layer in (0, 11, 1234) for expert in (7, 99, 4321)]
    assert [list(column) for column in group.columns] == [[0] * 3 + [11] * 3 + [1234] * 3, [7, 99, 4321] * 3]
