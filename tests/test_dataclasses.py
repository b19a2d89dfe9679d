"""The quick data classes behave like the standard ones."""

from __future__ import annotations

import copy
import dataclasses as standard
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from ckpt_gui import dataclasses as quick


def make(module: Any) -> dict[str, Any]:
    """Define the same classes with one of the two modules."""

    @module.dataclass(frozen=True, slots=True)
    class Point:
        """A frozen one, with slots."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = module.field(default_factory=list, compare=False, repr=False)

        @property
        def norm(self) -> int:
            """A property stays one."""
            return self.x + self.y

    @module.dataclass(slots=True)
    class Work:
        """One that changes, with fields that are not given."""

        name: str
        parts: list[str] = module.field(init=False)
        count: int = module.field(init=False, default=3)
        room: dict[str, int] = module.field(init=False, default_factory=dict)

        def __post_init__(self) -> None:
            self.parts = self.name.split()

    @module.dataclass(frozen=True)
    class Loose:
        """A frozen one without slots."""

        a: float
        b: Any = None

    @module.dataclass(frozen=True, slots=True, eq=False)
    class Same:
        """One that is equal to itself alone."""

        a: int = 1

    @module.dataclass(frozen=True, slots=True)
    class Bare:
        """One without fields."""

    return {kind.__name__: kind for kind in (Point, Work, Loose, Same, Bare)}


KINDS = {"standard": make(standard), "quick": make(quick)}
NAN = float("nan")


def outcome(work: Callable[[], Any]) -> Any:
    """Return what comes of some work: a value, or the kind of what it raises."""
    try:
        return work()
    except (AttributeError, TypeError) as error:
        return AttributeError if isinstance(error, AttributeError) else TypeError


CASES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "given by place and by name": lambda k, m: (k["Point"](1).y, k["Point"](1, y=5).y, k["Point"](y=1, x=4).norm),
    "a missing field": lambda k, m: k["Point"](),
    "an unknown field": lambda k, m: k["Point"](1, z=2),
    "too many": lambda k, m: k["Point"](1, 2, [], 4),
    "a factory makes one each": lambda k, m: k["Point"](1).tags is not k["Point"](1).tags,
    "a factory's field given": lambda k, m: k["Point"](1, tags=["a"]).tags,
    "of the class": lambda k, m: (k["Point"].kind, k["Point"](1).kind),
    "equal": lambda k, m: (k["Point"](1) == k["Point"](1), k["Point"](1) == k["Point"](2), k["Point"](1) == (1, 2)),
    "equal but for what is not compared": lambda k, m: k["Point"](1, tags=["a"]) == k["Point"](1),
    "nan is the same nan": lambda k, m: k["Loose"](NAN) == k["Loose"](NAN),
    "hash": lambda k, m: (len({k["Point"](1), k["Point"](1), k["Point"](2)}), hash(k["Bare"]()) == hash(k["Bare"]())),
    "no hash of what changes": lambda k, m: hash(k["Work"]("a")),
    "identity": lambda k, m: (k["Same"]() == k["Same"](), len({k["Same"](), k["Same"]()})),
    "text": lambda k, m: (repr(k["Point"](1)), repr(k["Work"]("a b")), repr(k["Bare"]()), repr(k["Loose"](1, "x"))),
    "set": lambda k, m: setattr(k["Point"](1), "x", 2),
    "set without slots": lambda k, m: setattr(k["Loose"](1), "a", 2),
    "delete": lambda k, m: delattr(k["Point"](1), "x"),
    "another attribute": lambda k, m: setattr(k["Work"]("a"), "other", 2),
    "changed": lambda k, m: setattr(k["Work"]("a"), "name", "b"),
    "not given": lambda k, m: (lambda w: (w.parts, w.count, w.room))(k["Work"]("a b")),
    "not to be given": lambda k, m: k["Work"]("a", count=4),
    "replace": lambda k, m: (lambda p: (p.x, p.y, p.tags))(m.replace(k["Point"](1, 7, ["t"]), x=3)),
    "replace an unknown one": lambda k, m: m.replace(k["Point"](1), z=3),
    "replace runs __post_init__": lambda k, m: m.replace(k["Work"]("a b"), name="c").parts,
    "fields": lambda k, m: [[f.name for f in m.fields(k[name])] for name in k],
    "asdict": lambda k, m: m.asdict(k["Loose"](1, {"p": [k["Point"](1), (k["Bare"](), 2)]})),
    "match": lambda k, m: [kind.__match_args__ for kind in k.values()],
    "weak": lambda k, m: hasattr(k["Point"](1), "__dict__"),
    "copy": lambda k, m: (lambda p: (copy.copy(p) == p, copy.deepcopy(p).tags, copy.copy(p).tags is p.tags))(
        k["Point"](1, 2, ["a"])
    ),
    "names": lambda k, m: [(kind.__qualname__, kind.__module__, kind.__doc__) for kind in k.values()],
}


@pytest.mark.parametrize("case", CASES)
def test_as_the_standard_module(case: str) -> None:
    """Twice each: `__init__` is made at the first use."""
    expected = [outcome(lambda: CASES[case](KINDS["standard"], standard)) for _ in range(2)]
    assert [outcome(lambda: CASES[case](KINDS["quick"], quick)) for _ in range(2)] == expected


def test_a_default_that_would_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="`rows`"):

        @quick.dataclass(frozen=True, slots=True)
        class _Shared:
            rows: list[int] = []  # noqa: RUF012 (that is the point)


@quick.dataclass(frozen=True, slots=True)
class Sent:
    """One at the top of a module, as pickle wants it."""

    a: int
    b: tuple[str, ...] = ()


def test_pickled() -> None:
    """Jobs of an export are sent to other processes."""
    assert pickle.loads(pickle.dumps(Sent(1, ("x",)))) == Sent(1, ("x",))


def test_the_standard_functions_take_them() -> None:
    """Other libraries know the standard module."""
    point = KINDS["quick"]["Point"](1, 2, ["a"])
    assert standard.is_dataclass(point)
    assert standard.replace(point, x=5) == KINDS["quick"]["Point"](5, 2)
    assert standard.asdict(point) == {"x": 1, "y": 2, "tags": ["a"]}
    told = [(f.name, f.init, f.repr, f.compare) for f in standard.fields(KINDS["quick"]["Work"])]
    assert told == [(f.name, f.init, f.repr, f.compare) for f in standard.fields(KINDS["standard"]["Work"])]


def test_inspect_is_not_imported_for_them() -> None:
    """A third of what the standard module costs is what it imports."""
    found = subprocess.run(
        [sys.executable, "-c", "import sys, ckpt_gui.dataclasses; print('inspect' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "False"
