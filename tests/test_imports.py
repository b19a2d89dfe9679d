"""What may be imported when. Opening and checking must be instant, and must work where Qt is not installed.

import-linter (pyproject.toml) checks which module may import which; it cannot tell a late import from an early one, and
it does not see what is really loaded. That is tested here.
"""

from __future__ import annotations

import ast
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "ckpt_gui"
HEAVY = ("torch", "numpy", "PySide6", "matplotlib")

# Runs the command line in a fresh interpreter and prints what it loaded on the last line.
CHECK = """
import sys
sys.argv = ["ckpt-gui", "check", sys.argv[1]]
from ckpt_gui.cli.main import main
try:
    status = main()
except SystemExit as end:
    status = end.code
print()
print(status or 0, *(name for name in {heavy!r} if name in sys.modules))
"""


def run_python(code: str, *arguments: str) -> list[str]:
    """Return the words of the last line that `code` prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def safetensors_bytes() -> bytes:
    """Return a file with one tensor, made by hand: no library may be needed to read it."""
    header = json.dumps({"lm_head.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(range(16))


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = run_python(
        f"import sys, ckpt_gui; print('loaded', *(n for n in {(*HEAVY, 'rich', 'argparse')!r} if n in sys.modules))"
    )
    assert loaded == ["loaded"]


def test_check_loads_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes())
    status, *loaded = run_python(CHECK.format(heavy=HEAVY), str(path))
    assert status in {"0", "1"}, "the file is readable"
    assert loaded == []


def module_level_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and module of what importing this file imports; functions and TYPE_CHECKING blocks do not run."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"), str(path))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize(
    ("folder", "banned"),
    [
        (
            "core",
            (
                "torch",
                "PySide6",
                "matplotlib",
                "argparse",
                "safetensors",
                "transformers",
                "ckpt_gui.gui",
                "ckpt_gui.cli",
            ),
        ),
        ("cli", ("torch", "numpy", "PySide6", "matplotlib", "ckpt_gui.gui")),
        ("gui", ("torch", "matplotlib.pyplot")),
        ("plots", ("torch", "PySide6", "matplotlib", "ckpt_gui.gui", "ckpt_gui.cli")),
    ],
)
def test_module_level_imports(folder: str, banned: tuple[str, ...]) -> None:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert files, f"no module in {PACKAGE / folder}"
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}"
        for path in files
        for line, module in module_level_imports(path)
        if any(module == name or module.startswith(f"{name}.") for name in banned)
    ]
    assert not wrong, "\n".join(wrong)


def test_module_level_imports_sees_early_and_skips_late_ones(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "try:\n    import numpy.linalg\nexcept ImportError:\n    pass\n"
        "class C:\n    import json\n"
        "def f():\n    import matplotlib\n"
        "from ckpt_gui import gui\n"
    )
    found = {module for _, module in module_level_imports(path)}
    assert found == {"typing", "typing.TYPE_CHECKING", "numpy.linalg", "json", "ckpt_gui", "ckpt_gui.gui"}
