"""State dicts in memory: listed without a copy, read on demand."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.memory import from_state_dict


def test_numpy_arrays_and_sections():
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    source = from_state_dict({"w": w, "n": {"t": w.T, "back": w[::-1]}, "step": 3})
    assert [(r.path, r.shape) for r in source.refs] == [(("w",), (2, 3)), (("n", "t"), (3, 2)), (("n", "back"), (2, 3))]
    assert [source.read(r) for r in source.refs] == [w.tobytes(), w.T.tobytes(), w[::-1].tobytes()]
    assert source.extras[0].text == "3"
    assert source.container == "memory"


def test_cycles_are_refused():
    loop = {}
    loop["self"] = loop
    with pytest.raises(CheckpointError) as caught:
        from_state_dict(loop)
    assert caught.value.code == "limit-exceeded"


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    w = torch.randn(6, 8)
    tensors = {"w": w, "t": w.t(), "slice": w[1:, 2:7:2], "wide": torch.zeros(1).expand(5, 3), "one": torch.tensor(2.0)}
    tensors |= {
        "conj": torch.randn(3, dtype=torch.complex64).conj(),
        "p": torch.nn.Parameter(w),
        "none": torch.zeros(0, 3),
    }
    source = from_state_dict(tensors)
    refs = {r.key: r for r in source.refs}
    for key, tensor in tensors.items():
        plain = tensor.detach().resolve_conj().contiguous()
        want = plain.numpy().tobytes()
        assert source.read(refs[key]) == want
        for start in range(0, len(want), 5):
            assert source.read(refs[key], start, min(start + 11, len(want))) == want[start : start + 11]
    assert refs["w"].place == refs["p"].place
    assert refs["w"].storage == refs["t"].storage != refs["wide"].storage


def test_meta_tensors_share_storage_and_have_no_values():
    torch = pytest.importorskip("torch")
    meta = torch.zeros(3, device="meta")
    source = from_state_dict({"a": meta, "b": meta.detach(), "c": torch.zeros(3, device="meta")})
    a, b, c = source.refs
    assert a.place == b.place != c.place
    with pytest.raises(CheckpointError, match="meta"):
        source.read(a)


def test_subclasses_are_listed_and_not_read():
    torch = pytest.importorskip("torch")

    class Special(torch.Tensor):
        pass

    source = from_state_dict({"w": torch.ones(2).as_subclass(Special)})
    assert source.refs[0].shape == (2,)
    with pytest.raises(CheckpointError, match="Special"):
        source.read(source.refs[0])
