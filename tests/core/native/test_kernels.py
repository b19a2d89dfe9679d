"""The compiled kernels against those in numpy: the same results bit for bit, whatever the length and the address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.native import SWITCH, Array, Compiled, Kernels, Plain
from scripts import native_build

ROOT = Path(__file__).resolve().parents[3]
EVERY = np.arange(1 << 16, dtype=np.uint16)
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 1001, 4095, 4096, 4097, (1 << 18) + 3)


def both(compiled: Compiled, work: Callable[[Kernels], tuple[int, Array]]) -> tuple[int, Array]:
    """Return what a piece of work gives with the compiled kernels, which is what it gives in numpy."""
    (number, result), (plain_number, plain) = work(compiled), work(Plain())
    assert number == plain_number
    assert result.tobytes() == plain.tobytes()
    return number, result


def moved(values: Array, by: int) -> Array:
    """Return the same elements at an address that is no multiple of their size."""
    raw = np.zeros(values.nbytes + by, dtype=np.uint8)
    raw[by:] = values.view(np.uint8)
    return raw[by:].view(values.dtype)


def numbers() -> Array:
    """Return fp32 of every upper half with lower ones around each border of rounding, and every half number."""
    low = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    near = ((EVERY.astype(np.uint32) << 16)[:, None] + low).ravel()
    halves = EVERY.view(np.float16).astype(np.float32).view(np.uint32)
    random = np.random.default_rng(3).integers(0, 1 << 32, 300_001, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([near, halves, halves + 1, halves + 0xFFF, halves + 0x1000, halves + 0x1001, random]).view(
        np.float32
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["uint8", "uint16"])
@pytest.mark.parametrize("by", [0, 1])
def test_counts(compiled: Compiled, size: int, kind: str, by: int) -> None:
    most = 1 << 8 * np.dtype(kind).itemsize
    patterns = moved(np.random.default_rng(size).integers(0, most, size).astype(kind), by)

    def work(kernels: Kernels) -> tuple[int, Array]:
        counts = np.arange(most)  # counts are added to those that are there
        kernels.count(counts, patterns)
        return 0, counts

    assert both(compiled, work)[1].sum() == np.arange(most).sum() + size


@pytest.mark.parametrize("which", [0, 1])
def test_counts_of_every_other_pattern(compiled: Compiled, which: int) -> None:
    values = moved(np.random.default_rng(1).normal(size=5001).astype(np.float32), 1)

    def work(kernels: Kernels) -> tuple[int, Array]:
        counts = np.zeros(1 << 16, dtype=np.int64)
        kernels.count(counts, values.view(np.uint16)[which::2])
        return 0, counts

    assert both(compiled, work)[1].sum() == 5001


def test_counts_of_runs(compiled: Compiled) -> None:
    """Four of one pattern are added at once, three and a stranger are not."""
    patterns = np.repeat(np.array([7, 9, 65535, 0], dtype=np.uint16), [6, 7, 8, 1])
    counts = np.zeros(1 << 16, dtype=np.int64)
    compiled.count(counts, patterns)
    assert counts[[7, 9, 65535, 0]].tolist() == [6, 7, 8, 1]
    assert counts.sum() == 22


@pytest.mark.parametrize(("low", "high", "bins"), [(-1.0, 1.0, 256), (-0.3, 0.7, 7), (0.5, 0.5000001, 3), (2, 9, 1)])
@pytest.mark.parametrize("by", [0, 1])
def test_counts_by_bin(compiled: Compiled, low: float, high: float, bins: int, by: int) -> None:
    edges = np.linspace(low, high, bins + 1)
    random = np.random.default_rng(6).normal(0, 0.6, 20_001)
    near = [np.nextafter(edges, end) for end in (-np.inf, np.inf)]
    odd = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0]
    values = moved(np.concatenate([random, edges, *near, odd]).astype(np.float32), by)

    def work(kernels: Kernels) -> tuple[int, Array]:
        counts = np.arange(bins)  # counts are added to those that are there
        kernels.count_bins(counts, values, edges)
        return 0, counts

    assert both(compiled, work)[1].sum() == np.arange(bins).sum() + values.size - 3
    finite = values[np.isfinite(values)].astype(np.float64)
    wanted = np.clip(np.searchsorted(edges, finite, side="right") - 1, 0, bins - 1)
    assert (both(compiled, work)[1] == np.arange(bins) + np.bincount(wanted, minlength=bins)).all()


RANGES = [(-1, 1), (0, 3), (-0.07, 0.013), (1000, 1001), (-3e38, 3e38), (0, 1e-37), (-3e-39, 1e-39)]


@pytest.mark.parametrize("bins", [1, 2, 256, 1024, 1025])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_numbers_at_the_borders_of_bins(compiled: Compiled, low: float, high: float, bins: int) -> None:
    """Bins are estimated: what lies at a border, or next to it, is where an estimate would be off by one."""
    edges = np.linspace(np.float64(np.float32(low)), np.float64(np.float32(high)), bins + 1)
    near = edges.astype(np.float32)
    above, below = (np.nextafter(near, np.float32(end)) for end in (np.inf, -np.inf))
    between = np.linspace(low, high, 4096).astype(np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38], dtype=np.float32)
    at = np.concatenate([near, above, below])
    for values in (between, np.concatenate([between, odd, at]), np.repeat(at, 70), between[:63], between[:65]):
        counts, finite = np.zeros(bins, dtype=np.int64), values[np.isfinite(values)].astype(np.float64)
        compiled.count_bins(counts, values, edges)
        wanted = np.clip(np.searchsorted(edges, finite, side="right") - 1, 0, bins - 1)
        assert (counts == np.bincount(wanted, minlength=bins)).all()


def test_bins_whose_borders_are_one_number(compiled: Compiled) -> None:
    counts = np.zeros(4, dtype=np.int64)
    compiled.count_bins(counts, np.array([1.0, 2.0], dtype=np.float32), np.array([1.0, 1.0, 1.0, 1.0, 3.0]))
    assert counts.tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("kind", ["uint16", "uint32"])
@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 5, 4097, 1 << 16])
def test_look_ups(compiled: Compiled, kind: str, by: int, size: int) -> None:
    table = np.random.default_rng(4).permutation(1 << 16).astype(kind) * np.dtype(kind).type(3)
    patterns = moved(EVERY[::-1][:size].copy(), by)

    def work(kernels: Kernels) -> tuple[int, Array]:
        out = moved(np.zeros(size, dtype=kind), by)
        return kernels.look_up(patterns, table, out, 0x4780, 0x7F80), out

    number, result = both(compiled, work)
    assert (result == table[patterns]).all()
    assert number == np.count_nonzero(((patterns & 0x7FFF) >= 0x4780) & ((patterns & 0x7FFF) < 0x7F80))


def test_a_look_up_in_place(compiled: Compiled) -> None:
    def work(kernels: Kernels) -> tuple[int, Array]:
        patterns = EVERY.copy()
        return kernels.look_up(patterns, EVERY[::-1].copy(), patterns), patterns

    number, result = both(compiled, work)
    assert number == 0  # no range, no count
    assert (result == EVERY[::-1]).all()


@pytest.mark.parametrize("target", ["bf16", "fp16"])
@pytest.mark.parametrize("by", [0, 1])
def test_narrowing(compiled: Compiled, target: str, by: int) -> None:
    for values in (numbers(), np.abs(numbers())[:4099], np.zeros(0, np.float32), np.array([1.5], np.float32)):
        placed = moved(values, by)

        def work(kernels: Kernels, placed: Array = placed) -> tuple[int, Array]:
            out = moved(np.zeros(placed.size, dtype=np.uint16), by)
            return (kernels.to_bf16 if target == "bf16" else kernels.to_fp16)(placed, out), out

        both(compiled, work)


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_sums(compiled: Compiled, size: int, by: int) -> None:
    values = np.random.default_rng(size).normal(2, 0.1, size).astype(np.float32)
    values[::7], values[1::11], values[2::13] = 0.0, -0.0, -1e-41
    found, wanted = compiled.sums(moved(values, by)), Plain().sums(values)
    if not size:
        assert found is wanted is None
        return
    assert found is not None
    assert wanted is not None
    assert found[3:] == wanted[3:]
    assert found[:3] == pytest.approx(wanted[:3], rel=1e-13)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 4095, 4096, 9000])
def test_no_sums_of_what_is_not_finite(compiled: Compiled, odd: float, at: int) -> None:
    values = np.ones(9001, dtype=np.float32)
    assert compiled.sums(values) == Plain().sums(values) == (1.0, 0.0, 9001.0, 1.0, 1.0, 0, 0, 0)
    values[at] = odd
    assert compiled.sums(values) is Plain().sums(values) is None


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 4099), (7, 5), (33, 130)])
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("by", [0, 1])
def test_columns(compiled: Compiled, shape: tuple[int, int], odd: bool, by: int) -> None:
    values = np.random.default_rng(5).normal(0, 3, shape).astype(np.float32)
    if odd:
        values.reshape(-1)[::3], values.reshape(-1)[1::7], values.reshape(-1)[2::9] = np.nan, np.inf, -np.inf
    placed = moved(values.reshape(-1), by).reshape(shape)
    for found, wanted in zip(compiled.columns(placed), Plain().columns(values), strict=True):
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()
    if not odd:
        assert compiled.columns(placed[:, ::-1]).sums.tolist() == compiled.columns(placed).sums[::-1].tolist()


def test_what_c_takes_on_trust_is_checked(compiled: Compiled) -> None:
    counts, table, out = np.zeros(1 << 16, dtype=np.int64), EVERY.copy(), np.zeros(4, dtype=np.uint16)
    patterns, values = np.zeros(4, dtype=np.uint16), np.zeros(4, dtype=np.float32)
    fixed = np.zeros(4, dtype=np.uint16)
    fixed.flags.writeable = False
    for wrong in (
        lambda: compiled.count(counts[:-1], patterns),
        lambda: compiled.count(counts, patterns.astype(np.uint32)),
        lambda: compiled.count(counts.astype(np.int32), patterns),
        lambda: compiled.count(counts, table[::3]),
        lambda: compiled.look_up(patterns, table[:-1], out),
        lambda: compiled.look_up(patterns, table, out[:-1]),
        lambda: compiled.look_up(patterns, table, fixed),
        lambda: compiled.look_up(patterns, table, out, 3, 2),
        lambda: compiled.look_up(patterns, table, out, 0, 1 << 16),
        lambda: compiled.look_up(patterns.reshape(2, 2), table, out),
        lambda: compiled.to_bf16(values, out[:-1]),
        lambda: compiled.to_fp16(values.astype(np.float64), out),
        lambda: compiled.to_fp16(np.zeros(8, dtype=np.float32)[::2], out),
        lambda: compiled.sums(values.astype(np.float64)),
        lambda: compiled.count_bins(counts, values, np.arange(4.0)),
        lambda: compiled.count_bins(counts[:3].copy(), values.astype(np.float64), np.arange(4.0)),
        lambda: compiled.columns(values.astype(np.float64).reshape(2, 2)),
    ):
        with pytest.raises(ValueError, match=r"wanted|range"):
            wrong()


def test_a_library_of_another_version_is_refused(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_gui.core.native.compiled.VERSION", -1)
    with pytest.raises(ValueError, match="version"):
        Compiled(Path(compiled.path))


@pytest.mark.parametrize(("value", "wanted"), [("0", False), ("1", True)])
def test_the_environment_switches_it_off(compiled: Compiled, value: str, wanted: bool) -> None:
    code = (
        "import sys, pathlib; from ckpt_gui.core.native import choose; "
        f"choose.LIBRARY = pathlib.Path({str(compiled.path)!r}); sys.exit(choose.kernels().is_compiled)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT, env={SWITCH: value, "PATH": ""})
    assert bool(done.returncode) is wanted


def test_a_library_that_is_damaged_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_gui.core.native import choose

    broken = tmp_path / "kernels.so"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(choose, "LIBRARY", broken)
    assert isinstance(choose.kernels.__wrapped__(), Plain)


def test_without_a_compiler_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "kernels.so"
    monkeypatch.setenv("CFLAGS", "--no-such-option-of-a-compiler")
    assert "statistics and casts go by numpy" in (native_build.build(target) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler" in (native_build.build(target) or "")
    assert not list(tmp_path.iterdir())
