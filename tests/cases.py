"""The numbered cases of broken and hostile input: what comes in, what must come of it, and which promise that keeps.

A test claims cases by `@pytest.mark.case(12, 13)`. `tests/test_cases.py` sees to it that each case has a test;
`scripts/cases_table.py` makes the table in SECURITY.md from this one and from the marks. Numbers never change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Case(NamedTuple):
    """One case.

    Attributes:
        number: Its number.
        promise: The promise of SECURITY.md that it is about.
        given: What comes in.
        outcome: What must come of it.
    """

    number: int
    promise: int
    given: str
    outcome: str


class Marked(NamedTuple):
    """A test that claims cases.

    Attributes:
        path: Its file, from the root of the project.
        name: Its name.
        numbers: The cases.
    """

    path: str
    name: str
    numbers: tuple[int, ...]


# Cases that no test can show on every machine, each with the reason.
NOT_RUN: dict[int, str] = {}

CASES = (
    # safetensors
    Case(1, 5, "a good safetensors file", "listed, measured, exported with equal bytes"),
    Case(2, 3, "no byte, seven bytes", "refused as too short"),
    Case(3, 3, "a header that is longer than the file, or of 2^63 bytes", "refused before anything is reserved"),
    Case(4, 6, "a header of 100,000,001 bytes; of exactly 100,000,000", "refused unread; opened"),
    Case(5, 4, "a header that is not UTF-8", "refused, with the byte"),
    Case(6, 4, "no JSON, an array, null, text after the object", "refused"),
    Case(7, 4, "spaces before the header", "opened, with a note"),
    Case(8, 4, "a byte order mark, padding by NUL", "refused; `--salvage` reads around it"),
    Case(9, 4, "a tensor that stands twice", "refused, both entries shown"),
    Case(10, 4, "metadata, a field or a metadata key that stands twice", "refused"),
    Case(11, 4, "a field that the format does not know", "opened, with a warning"),
    Case(12, 3, "no type, an unknown one, one in lower case", "refused, the tensor named"),
    Case(13, 3, "sizes that are negative, 2.0, text, true, 4e0 or 2^64", "refused"),
    Case(14, 3, "sizes whose product overflows, wraps, or is zero only afterwards", "refused"),
    Case(15, 3, "a zero before sizes that would overflow", "opened as empty"),
    Case(16, 3, "overlaps; a million of them", "refused within the memory that there is"),
    Case(17, 3, "holes between tensors", "refused; the whole ones can be saved"),
    Case(18, 3, "offsets that run backwards or past the end", "refused"),
    Case(19, 5, "bytes after the last tensor", "opened, described; the export leaves them out"),
    Case(20, 5, "a file that is cut short", "the first tensor that is not whole is named, the whole ones counted"),
    Case(21, 3, "a size that does not fit, three offsets", "refused"),
    Case(22, 4, "metadata of numbers, nested, a list; null", "refused; opened"),
    Case(23, 5, "no tensors at all", "opened, and said"),
    Case(24, 8, "a tensor without a name", "listed as such; an export to safetensors is refused with a reason"),
    Case(25, 8, "names with escape codes, markup, bidi characters", "shown escaped in every place"),
    Case(26, 4, "half a character in a name", "refused"),
    Case(27, 4, "NaN in a header", "refused"),
    Case(28, 6, "JSON nested 200,000 deep", "refused"),
    Case(29, 4, "a raw control character in a name", "refused"),
    Case(30, 6, "a hundred thousand tensors", "listed; the tree is virtual"),
    Case(31, 8, "a name of a megabyte", "shown shortened, kept whole"),
    Case(32, 8, "a thousand dimensions", "shown shortened"),
    Case(33, 5, "odd numbers of half bytes; 4 and 6 bit types", "refused; listed"),
    Case(34, 5, "truth values that are 7 or 255", "a warning"),
    Case(35, 5, "NaN, infinities, minus zero", "counted, with their places; minus zero is no fault"),
    Case(36, 5, "scalars, tensors out of order, misaligned, unpadded", "equal to what safetensors reads"),
    Case(37, 2, "an LFS pointer, a web page, a zip by the wrong name", "named for what it is"),
    Case(38, 2, "an archive inside a tensor of bytes", "opened, with a note"),
    Case(39, 3, "six gigabytes, mostly holes of the disk", "opened without being read, the last byte right"),
    # an index
    Case(40, 7, "shards named ../x, /x, C:\\\\x, NUL, … in an index", "refused before any of them is opened"),
    Case(41, 7, "shards that are links", "out of the folder refused, into the cache's blobs followed"),
    Case(42, 5, "a shard that is missing", "the others are listed, its tensors named"),
    Case(43, 5, "keys only in the index, only in a shard, in two shards", "three different findings"),
    Case(44, 5, "a total size that is wrong, absent, huge or negative", "a warning, or nothing where it is absent"),
    Case(45, 4, "a weight_map of numbers, null, a list, none", "refused"),
    Case(46, 7, "a shard that is a folder, pipe, socket, device, or the index", "refused without waiting"),
    Case(47, 6, "a thousand shards where 64 files may be open", "opened"),
    Case(48, 6, "links in a circle, an index of 64 MB, a million keys", "bounded"),
    Case(49, 4, "shards whose names differ in case only", "a note"),
    Case(50, 5, "the index of a large model, and of a quantised one", "read, the codes told apart from weights"),
    # pickles and archives
    Case(51, 5, "torch files, new and old", "equal to what torch loads"),
    Case(52, 1, "pickles that would run something, in every container", "nothing runs, and the file is called unsafe"),
    Case(53, 1, "the same by other opcodes, and with a misused memo", "nothing runs"),
    Case(54, 2, "an attack with junk behind it", "unsafe, not merely broken"),
    Case(55, 1, "classes of others", "named with their place, inert; tensors listed; nothing imported"),
    Case(56, 3, "a storage that claims more than its record holds", "the tensor is refused by name"),
    Case(57, 3, "two billion elements in an old stream of 500 bytes", "refused by the sizes"),
    Case(58, 3, "shapes, strides, offsets beyond the storage", "the tensor is refused by name"),
    Case(59, 1, "an item set on a tensor", "refused"),
    Case(60, 6, "2^40 elements by strides of zero", "opened; never written out or read whole"),
    Case(61, 3, "a quantised tensor that reaches out of its storage", "named, not read"),
    Case(62, 5, "deflated storages", "right values"),
    Case(63, 6, "records that inflate without end", "stopped at the cap"),
    Case(64, 4, "records that stand twice, have two names, lie before the archive, lead out", "refused as ambiguous"),
    Case(65, 5, "a record that is missing", "its tensor is named, the others are listed"),
    Case(66, 5, "a checksum that does not fit; no checksums", "the tensor is named; said, no damage"),
    Case(67, 2, "bytes after an archive, an archive in an archive", "opened, with a note"),
    Case(68, 4, "an encrypted record", "refused"),
    Case(69, 5, "no version, no byte order", "read as little-endian, with a note"),
    Case(70, 5, "big-endian files; an order that there is not", "right values; refused"),
    Case(71, 5, "archives that are cut short", "the whole tensors can be saved"),
    Case(72, 4, "records that overlap", "refused"),
    Case(73, 5, "a record of more than four gigabytes", "opened"),
    Case(74, 4, "`a.b` beside `b` in `a`", "both listed, told apart"),
    Case(75, 8, "keys that are no text", "shown with their kind; an export asks for names"),
    Case(76, 6, "cycles, 200,000 levels, a billion laughs", "bounded"),
    Case(77, 5, "tied, overlapping, transposed, expanded, empty tensors", "told apart; exported with equal values"),
    Case(78, 5, "sparse, quantised, complex, meta tensors", "listed or named, never dropped in silence"),
    Case(79, 5, "tensors of devices that are not there", "opened"),
    Case(80, 3, "texts and numbers that claim gigabytes", "refused before anything is reserved"),
    Case(81, 3, "stack underflow, bad memo, unknown persistent ids", "refused"),
    Case(82, 2, "LFS pointers, GGUF, PNG, HTML, TorchScript by torch's names", "named by kind"),
    Case(83, 5, "the file of a trainer", "the model is found, the optimiser is told apart"),
    Case(84, 6, "twenty thousand storages", "listed"),
    Case(85, 5, "ten thousand mutants of good files", "refused, or what the reference reads"),
    Case(86, 5, "corpus and mutants, beside safetensors, torch and NumPy", "the same, or a difference that is listed"),
    # faults
    Case(87, 3, "a source that is cut while it is opened, measured, exported", "an error; nothing is left"),
    Case(88, 9, "a source that grows, is written over, replaced, deleted", "noticed; the export is given up"),
    Case(89, 7, "unreadable files, folders, pipes, devices, dangling links, odd names", "the right sentence"),
    Case(90, 3, "an error of the disk", "the tensor is named, the others go on"),
    Case(91, 9, "a target that is the source, by any name", "refused; the source keeps its bytes"),
    Case(92, 9, "a target that is a link into the Hugging Face cache", "the blobs keep their bytes"),
    Case(93, 9, "a target that can not be written", "refused before anything is made"),
    Case(94, 9, "a full disk, a limit on sizes", "what stood there stays; the bytes needed and free are named"),
    Case(95, 9, "SIGKILL at any point, one file or shards", "absent, old, or new and whole; leftovers are found"),
    Case(96, 9, "SIGTERM, cancel at any point", "nothing is left"),
    Case(97, 9, "the order of an export's calls", "written, synced, verified, renamed, synced"),
    Case(98, 9, "modes of new and of replaced files", "as the umask has it; as they were"),
    Case(99, 9, "two exports to one target at once", "one is whole, the other is told"),
    Case(100, 9, "a source that changes before the end", "the export is given up"),
    Case(101, 9, "a byte that flips on its way to the disk", "found by reading back"),
    Case(102, 4, "names that become `__metadata__`, empty, another's, or another's twin", "refused or warned of"),
    Case(103, 5, "metadata of safetensors", "kept, with the format that transformers asks for"),
    Case(104, 6, "a header that would be too long", "refused before anything is written"),
    Case(105, 5, "casts that overflow", "counted; NaN stays; what is not cast keeps its bits"),
    Case(106, 9, "an export of an export", "the same findings less the mended ones; the same bytes"),
    Case(107, 6, "six gigabytes in two of memory", "works, by blocks"),
    Case(108, 1, "the death of a worker process", "a message; the window lives"),
    Case(109, 6, "bad files dropped by tens, files by thousands", "no hang"),
    Case(110, 8, "reports about hostile names", "parse as JSON, HTML and SARIF, with nothing active"),
)


def marked_tests(root: Path = ROOT) -> Iterator[Marked]:
    """Yield every test that claims cases, by reading the sources: those that need Qt are seen without it."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        whole = [n.value for n in tree.body if isinstance(n, ast.Assign) and _names(n) == ["pytestmark"]]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                numbers = tuple(sorted({n for mark in (*node.decorator_list, *whole) for n in _numbers(mark)}))
                if numbers:
                    yield Marked(path.relative_to(root).as_posix(), node.name, numbers)


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _numbers(mark: ast.expr) -> Iterator[int]:
    """Yield the numbers of every `case(…)` in a decorator."""
    for node in ast.walk(mark):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "case":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and type(arg.value) is int)
