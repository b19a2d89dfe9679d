"""Compiles ckpt_gui/core/native/kernels.c; without a compiler the program does the same in numpy, more slowly.

Run by scripts/setup.sh, where it compiles in place if the library is older than its source, and by the build hook.
`CC` and `CFLAGS` of the environment are respected.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "ckpt_gui" / "core" / "native"
SOURCE = FOLDER / "kernels.c"
NAME = {"win32": "kernels.dll", "darwin": "kernels.dylib"}.get(sys.platform, "kernels.so")
FLAGS = ("-std=c99", "-O3", "-fno-trapping-math", "-fvisibility=hidden", "-Wall", "-Wextra", "-shared")
MAC_VERSION = "11.0"  # the oldest macOS that Apple's compilers of today serve on both processors


def build(target: Path) -> str | None:
    """Compile the library; return a sentence that says why not if it could not be done."""
    compiler = _compiler()
    if compiler is None:
        return "There is no C compiler: statistics and casts go by numpy, several times as slow."
    system = {"win32": (), "darwin": (f"-mmacosx-version-min={MAC_VERSION}",)}.get(sys.platform, ("-fPIC",))
    own = shlex.split(os.environ.get("CFLAGS", ""))
    part = target.with_name(f".{os.getpid()}.{target.name}")
    command = [*compiler, *FLAGS, *system, *own, str(SOURCE), "-o", str(part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        part.unlink(missing_ok=True)
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return f"`{' '.join(compiler)}` could not compile {SOURCE.name} ({last}): statistics and casts go by numpy."
    os.replace(part, target)  # a process that has the old one loaded keeps it
    return None


def build_in_place() -> str | None:
    """Compile the library beside its source, if it is not there or older; see `build`."""
    target = FOLDER / NAME
    if target.exists() and target.stat().st_mtime_ns >= SOURCE.stat().st_mtime_ns:
        return None
    return build(target)


def wheel_tag() -> str:
    """Return the tag of a wheel with the library: any Python 3, this system and processor."""
    if sys.platform == "darwin":
        return f"py3-none-macosx_{MAC_VERSION.replace('.', '_')}_{platform.machine()}"
    return f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _compiler() -> list[str] | None:
    """Return the command of a C compiler that takes the options of gcc."""
    named = (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang")
    commands = (shlex.split(command) for command in named if command)
    return next((command for command in commands if command and shutil.which(command[0])), None)


if __name__ == "__main__":
    if said := build_in_place():
        print(f"   {said}")
