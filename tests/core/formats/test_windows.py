"""The quick ways through long headers and indexes give what the strict parser gives, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import index_scan, open_checkpoint, safetensors_scan, shard_index, windows
from ckpt_gui.core.formats.strict_json import BadJsonError, loads


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "SIZE", 50)
    monkeypatch.setattr(index_scan, "LEAST", 0)


MAP = {f"layers.{n}.ß.weight": f"model-{n % 3}.safetensors" for n in range(40)}
STYLES: dict[str, dict[str, object]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "usual": {"ensure_ascii": False},
    "indented": {"indent": 2, "ensure_ascii": False},
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("first", [True, False])
def test_an_index_is_what_the_strict_parser_says(style: str, first: bool) -> None:
    rest: dict[str, object] = {"metadata": {"total_size": 12}}
    whole = {"weight_map": MAP, **rest} if first else {**rest, "weight_map": MAP}
    text = json.dumps(whole, **STYLES[style])  # type: ignore[arg-type]
    assert index_scan.scan(text.encode()) == loads(text) == whole


ODD = {
    "twice a key": '{"weight_map":{"a":"x","b":"y","a":"z"}}',
    "twice a map": '{"weight_map":{"a":"x","b":"y"},"weight_map":{"c":"x","d":"y"}}',
    "map inside": '{"metadata":{"weight_map":{"a":"x","b":"y"}}}',
    "escape": '{"weight_map":{"a":"x","b\\u0041":"y"}}',
    "number": '{"weight_map":{"a":"x","b":1}}',
    "one comma too many": '{"weight_map":{"a":"x","b":"y",}}',
    "control character": '{"weight_map":{"a":"x","b\n":"y"}}',
    "brace in a name": '{"weight_map":{"a":"x","b}":"y"}}',
    "open end": '{"weight_map":{"a":"x","b":"y"',
    "list": '[{"weight_map":{"a":"x","b":"y"}}]',
    "other spacing": '{"weight_map":{"a":"x","b":"y", "c":"z"}}',
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_left_to_the_strict_parser(name: str) -> None:
    assert index_scan.scan(ODD[name].encode()) is None


@pytest.mark.parametrize("text", ['{"weight_map":{"a":"x","b":"y"},"n":NaN}', '{"weight_map":{"a":"x","b":"y"}} x'])
def test_what_stands_around_the_map_is_parsed_strictly(text: str) -> None:
    with pytest.raises(BadJsonError):
        index_scan.scan(text.encode())


def test_where_an_index_is_no_utf8_is_said_of_the_whole(tmp_path: Path) -> None:
    data = json.dumps({"weight_map": MAP}, ensure_ascii=False).encode()
    at = len(data) - 200
    (tmp_path / "i.json").write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    with pytest.raises(CheckpointError, match=f"position {at}: invalid start byte"):
        shard_index.read_index(str(tmp_path), "i.json")


def test_where_a_header_is_no_utf8_is_said_of_the_whole(tmp_path: Path) -> None:
    tensors = {f"w.{n}": {"dtype": "U8", "shape": [1], "data_offsets": [n, n + 1]} for n in range(40)}
    data = json.dumps(tensors).encode()
    at = data.index(b"w.30")
    text = len(data).to_bytes(8, "little") + data[:at] + b"\xff" + data[at + 1 :] + bytes(40)
    (tmp_path / "m.safetensors").write_bytes(text)
    with pytest.raises(CheckpointError, match=rf"not UTF-8 at byte {8 + at:,}\.") as raised:
        open_checkpoint(tmp_path / "m.safetensors")
    assert raised.value.offset == 8 + at


NAMES = st.text(st.sampled_from(']},":{a.0'), min_size=1, max_size=12)


@given(st.lists(NAMES, unique=True, min_size=1, max_size=30))
def test_a_header_in_windows_is_the_header(names: list[str]) -> None:
    header = {
        name: {"dtype": "F32", "shape": [n + 1], "data_offsets": [4 * n * (n + 1) // 2, 4 * (n + 1) * (n + 2) // 2]}
        for n, name in enumerate(names)
    }
    scanned = safetensors_scan.scan(json.dumps(header, separators=(",", ":")).encode())
    if scanned is not None:
        columns, metadata = scanned
        assert (columns.keys, metadata) == (names, None)
        assert columns.shapes == [(n + 1,) for n in range(len(names))]
    if not any(c in name for name in names for c in ']"'):
        assert scanned is not None
