"""The little of YAML that litgpt's config has, as PyYAML writes it; anything else is refused with its line."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.flat_yaml import dump, load

# What litgpt's own `save_config` (PyYAML's dump) makes.
WRITTEN = """attention_logit_softcapping: null
bias: false
hf_config:
  name: Llama-3.2-1B
  org: meta-llama
n_layer: 16
name: 'Llama: 3.2'
norm_eps: 1.0e-05
rope_adjustments:
  factor: 32.0
  original_max_seq_len: 8192
rope_indices:
- 1
- 0
sliding_window_indices:
  - 1
  - 1
empty: {}
rope_local_base_freq: .inf  # a remark
"""


def test_as_it_is_written() -> None:
    assert load(WRITTEN) == {
        "attention_logit_softcapping": None, "bias": False,
        "hf_config": {"name": "Llama-3.2-1B", "org": "meta-llama"}, "n_layer": 16, "name": "Llama: 3.2",
        "norm_eps": 1e-5, "rope_adjustments": {"factor": 32.0, "original_max_seq_len": 8192},
        "rope_indices": [1, 0], "sliding_window_indices": [1, 1], "empty": {}, "rope_local_base_freq": math.inf,
    }  # fmt: skip
    assert load("") == load("# nothing\n---\n") == {}


@pytest.mark.parametrize(("text", "line"), [
    ("a: &x 1", 1), ("a: !!python/object:os.system x", 1), ("a: 1\na: 2", 2), ("- 1", 1), ("a: 1\n  b: 2", 2),
    ("just words", 1), ("a:\t1", 1), ("a: [1, 2", 1), ("a: 'x", 1), ("a: *x", 1), ("a: |\n  text", 1),
    ("a: " + "[" * 100000, 1),
])  # fmt: skip
def test_refused(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"line {line} "):
        load(text)
    deep = "".join(f"{' ' * n}a:\n" for n in range(50))
    with pytest.raises(ValueError, match="no name and value"):
        load(deep)


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**15), 10**15), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)  # fmt: skip
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)
VALUES = st.one_of(PLAIN, st.lists(PLAIN, max_size=4), st.dictionaries(NAMES, PLAIN, max_size=3))


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_what_is_written_is_read(values: dict[str, Any]) -> None:
    assert load(dump(values)) == values


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        load(text)
