"""Find every text that a person may read in the source: what `make translations` puts before translators.

The core makes its sentences in English and knows no other language; the window looks them up as it shows them (see
`ckpt_gui.gui.language`). This finds them: the plain strings, and those with values in them as templates with numbered
places. Texts that stand in tr() or translate() are found too, with the context in which Qt will look for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("ckpt_gui/core", "ckpt_gui/plots", "ckpt_gui/gui")
CONTEXT = "sentences"  # that of texts which no class asks for
_ASKING = {"tr", "said", "mark", "translate"}
# Calls whose strings nobody reads: names of objects, patterns, keys of tables.
_INNER = {
    "setObjectName", "setProperty", "property", "findChild", "findChildren", "compile", "getLogger", "hasattr", "debug",
    "TypeVar", "cast", "startswith", "endswith", "encode", "isinstance", "fullmatch", "import_module",
}  # fmt: skip
# Methods that show a text as it is given to them.
_SHOWING = {
    "setText", "setToolTip", "setAccessibleName", "setAccessibleDescription", "setWindowTitle", "setStatusTip",
    "setTitle", "setPlaceholderText", "addItem", "addTab", "setTabToolTip", "addAction", "addMenu", "setHeaderLabels",
    "drawText", "setInformativeText", "QLabel", "QPushButton", "QAction", "QGroupBox", "QCheckBox", "QRadioButton",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A text in the source.

    Attributes:
        context: Where Qt looks for its translation: the name of a class, or `sentences`.
        text: The text; values are {0}, {1} and so on in texts of `sentences`.
        file: Where it stands, from the root of the project.
        line: The line there.
    """

    context: str
    text: str
    file: str
    line: int


def texts(root: Path = ROOT, places: Iterable[str] = PLACES) -> tuple[Found, ...]:
    """Return every text of the program, each once, in the order of files and lines."""
    seen: dict[tuple[str, str], Found] = {}
    for place in places:
        for file in sorted((root / place).rglob("*.py")):
            for found in _in_file(file, str(file.relative_to(root))):
                seen.setdefault((found.context, found.text), found)
    return tuple(seen.values())


def loose(root: Path = ROOT) -> tuple[Found, ...]:
    """Return the texts that a widget is given without being looked up: there must be none."""
    found: list[Found] = []
    for file in sorted((root / "ckpt_gui/gui").rglob("*.py")):
        name = str(file.relative_to(root))
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            if _name(call.func) in _SHOWING:
                texts_here = (text for argument in call.args for text in _bare(argument))
                found += [Found("", text, name, call.lineno) for text in texts_here if is_language(text)]
            if _name(call.func) == "tr" and not isinstance(call.args[0], ast.Constant):
                found.append(Found("", f"tr({ast.unparse(call.args[0])}): said() looks it up", name, call.lineno))
    return tuple(found)


def _bare(node: ast.expr) -> Iterator[str]:
    """Yield the strings of an expression that go through no function."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield template(node)
    elif isinstance(node, ast.BinOp | ast.IfExp | ast.List | ast.Tuple):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _bare(child)


def _in_file(file: Path, name: str) -> Iterator[Found]:
    reader = _Reader(name)
    reader.visit(ast.parse(file.read_text(encoding="utf-8")))
    return iter(reader.found)


class _Reader(ast.NodeVisitor):
    """Reads one module."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Found] = []
        self._classes: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._classes.append(node.name)
        self._body(node)
        self._classes.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._body(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a string alone is a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        called = node.exc.func if isinstance(node.exc, ast.Call) else None
        if called is None or _name(called) not in {"AssertionError", "TypeError", "NotImplementedError", "KeyError"}:
            self.generic_visit(node)  # those others say something to programmers alone

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        if name in _ASKING:
            self._asked(name, node)
        elif name == "plural":
            self._counted(node)
        elif name not in _INNER:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(CONTEXT, node.value, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._add(CONTEXT, template(node), node)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _body(self, node: ast.AST) -> None:
        self.generic_visit(node)

    def _asked(self, name: str, node: ast.Call) -> None:
        strings = [a for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name == "translate" and len(strings) >= 2:
            self._add(str(strings[0].value), str(strings[1].value), node, asked=True)
        elif strings:
            context = self._classes[-1] if name == "tr" and self._classes else CONTEXT
            self._add(context, str(strings[0].value), node, asked=True)
        for argument in node.args:
            if argument not in strings:
                self.visit(argument)

    def _counted(self, node: ast.Call) -> None:
        self.visit(node.args[0])
        noun = node.args[1]
        if isinstance(noun, ast.Constant):
            self._add(CONTEXT, f"1 {noun.value}", node, asked=True)
            self._add(CONTEXT, f"{{0}} {noun.value}s", node, asked=True)
        else:
            self.visit(noun)

    def _add(self, context: str, text: str, node: ast.expr, *, asked: bool = False) -> None:
        if asked or is_language(text):
            whole = text if asked else text.strip(" ;,·\n")  # a part of a sentence is looked up without what joins it
            self.found.append(Found(context, whole, self.file, node.lineno))


def template(node: ast.JoinedStr) -> str:
    """Return the template of an f-string: its values are {0}, {1} and so on."""
    parts, count = [], 0
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        else:
            parts.append(f"{{{count}}}")
            count += 1
    return "".join(parts)


def is_language(text: str) -> bool:
    """Tell a text for a person from a key, a name of a file or a pattern.

    >>> [is_language(t) for t in ("no config", "Shape", "model.norm.weight", "{0} of {1}", "%s", "rope_theta", "hf")]
    [True, True, False, True, False, False, False]
    """
    bare = re.sub(r"`[^`]*`|\{\d+\}", " ", text).replace("&", "")
    words = _WORD.findall(bare)
    if not words or re.search(r"[\\^$]|\(\?|::", bare):
        return False
    spaced = re.search(r"[A-Za-z,.;:]\s+\S|^\s+[a-z]|[a-z]\s+$", bare) is not None
    return spaced or re.fullmatch(r"[A-Z][a-z]+[.…?!]?", bare.strip()) is not None


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
