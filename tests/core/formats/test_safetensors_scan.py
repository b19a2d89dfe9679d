"""The quick way through a header gives what the strict parser gives, or leaves it to that one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt_gui.core.formats import windows
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.safetensors_header import parse_strictly
from ckpt_gui.core.formats.safetensors_scan import scan

FIELDS = ("dtype", "shape", "data_offsets")
# As the writers spell it: safetensors and most; Python's json; MLX, which sorts; and by hand.
STYLES: dict[str, dict[str, object]] = {
    "compact": {"separators": (",", ":")},
    "usual": {},
    "sorted": {"separators": (",", ":"), "sort_keys": True},
    "wide": {"separators": (" ,\t", " : ")},
    "letters": {"ensure_ascii": False},
}
ORDERS = [
    FIELDS, ("shape", "dtype", "data_offsets"), ("data_offsets", "shape", "dtype"), ("data_offsets", "dtype", "shape"),
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldFile]:
    """Any file: the strict parser names it in what it says."""
    path: Path = tmp_path_factory.mktemp("any") / "x.safetensors"
    path.write_bytes(b"x")
    held = HeldFile(path)
    yield held
    held.close()


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "SIZE", 300)


def header(count: int = 12, order: tuple[str, ...] = FIELDS) -> dict[str, object]:
    """Return a header with tensors of three shapes and two types, and names with all that a name may hold."""
    made: dict[str, object] = {}
    end = 0
    for n in range(count):
        shape, dtype = ([n % 3, 2], "F32") if n % 2 else ([], "BF16")
        nbytes = 8 * (n % 3) if n % 2 else 2
        entry = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + nbytes]}
        made[f"layers.{n}.ß:[{{,}}]"] = {name: entry[name] for name in order}
        end += nbytes
    return made


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("count", [1, 2, 12])
@pytest.mark.parametrize("metadata", [None, {"format": "pt", "a": "b:c, d"}])
def test_usual_spellings_are_quick_and_right(
    file: HeldFile, order: tuple[str, ...], style: str, count: int, metadata: dict[str, str] | None
) -> None:
    whole = {} if metadata is None else {"__metadata__": metadata}
    text = json.dumps(whole | header(count, order), **(STYLES[style] | {"ensure_ascii": False}))  # type: ignore[arg-type]
    for padded in (text, text + "   "):
        scanned = scan(padded.encode())
        assert scanned is not None
        columns, found = scanned
        strict, strict_metadata, _ = parse_strictly(padded, file)
        assert columns == strict
        assert (json.loads(found) if found else {}) == strict_metadata


ODD = {
    "comma at the end": "},}",
    "a name begins": '}}, "',
    "a brace too many": "}}}",
    "a value that is a number": '},"a":1}',
    "an entry without all": '},"w":{"dtype":"F32"}}',
    "the same name": '},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
    "metadata last": '},"__metadata__":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
    "another spacing": '},"v":{"dtype": "F32","shape":[1],"data_offsets":[4,8]}}',
    "another order": '},"v":{"shape":[1],"dtype":"F32","data_offsets":[4,8]}}',
    "an escape": '},"\\u0076":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
    "a control character": '},"v\n":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
    "a field more": '},"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8],"x":1}}',
    "a negative zero": '},"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8],"-0":{}}}',
}
BIG = 1 << 63
NUMBERS = {
    "offsets": [
        *("0,4,4", "-0,4", "0.0,4", "0,4.0", "0,4e0", "0 4", "0,", ",4", "00,4", "0,04", "4,8]],[", "4,0", "0,5"),
        *("[0],4", "null,4", f"{BIG},{BIG + 4}", "0," + "4" * 5000),
    ],
    "shape": [
        *("-1", "1.0", "1e0", "01", "true", "null", "1,", "[1]", "1 1", "-0", "2", "0", f"{BIG}", f"{BIG >> 1},4"),
        "9" * 5000,
    ],
}


@pytest.mark.parametrize("change", ODD)
def test_what_is_odd_is_left_to_the_strict_parser(change: str) -> None:
    text = '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]'
    assert scan((text + "}}").encode()) is not None
    assert scan((text + ODD[change]).encode()) is None


@pytest.mark.parametrize(("place", "numbers"), [(place, each) for place in NUMBERS for each in NUMBERS[place]])
@pytest.mark.parametrize("alone", [True, False])
def test_odd_numbers_are_left_to_the_strict_parser(place: str, numbers: str, alone: bool) -> None:
    """In the first entry, which the others are measured by, as well as in a later one."""
    shape, offsets = ("1", numbers) if place == "offsets" else (numbers, "0,4")
    odd = f'"w":{{"dtype":"F32","shape":[{shape}],"data_offsets":[{offsets}]}}'
    good = '"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}'
    assert scan(("{" + odd + "}" if alone else "{" + good + "," + odd + "}").encode()) is None


MARKS = st.sampled_from(
    [*'"{}[],:- .e0129\\/\t\n\x00xß', '":', "],", "}},", '"dtype"', '"w":', "null", "\u200b", "\ud800"]
)
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), MARKS), min_size=1, max_size=3)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(STYLES)), st.sampled_from(ORDERS), st.integers(1, 8), CHANGES)
def test_what_the_scan_takes_of_a_changed_header_is_what_stands_there(
    file: HeldFile, style: str, order: tuple[str, ...], count: int, changes: list[tuple[float, int, str]]
) -> None:
    text = json.dumps({"__metadata__": {"format": "pt"}} | header(count, order), **STYLES[style])  # type: ignore[arg-type]
    for place, gone, mark in changes:
        at = int(place * len(text))
        text = text[:at] + mark + text[at + gone :]
    scanned = scan(text.encode(errors="surrogatepass"))
    if scanned is None:
        return
    columns, metadata = scanned
    if metadata is not None:  # which is parsed by itself, and strictly
        text = text.replace(metadata, '{"format":"pt"}', 1)
    strict, found, _ = parse_strictly(text, file)
    assert columns == strict
    assert (metadata is None) == (not found)
