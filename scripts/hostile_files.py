#!/usr/bin/env python
"""Open every file of a folder of malicious files and see that nothing runs: `python scripts/hostile_files.py FOLDER`.

The test files of picklescan, modelscan and others are meant to be fetched for such a run; none is kept here. Each file
is opened, its checksums are read, and its plan is made, in a child process that dies at the first sign of life: a
program started, a socket, a module imported, a file opened for writing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 120  # a guard against hangs
RAN = 99  # the child's status when something ran

CHILD = r"""
import importlib, json, os, pkgutil, sys

import ckpt_gui.core.formats
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.verify import verify_checksums
from ckpt_gui.core.normalise import understand

import ast, encodings.cp437, encodings.raw_unicode_escape, encodings.unicode_escape
from tests import builders
from pathlib import Path

for module in pkgutil.iter_modules(ckpt_gui.core.formats.__path__, "ckpt_gui.core.formats."):
    importlib.import_module(module.name)  # each is imported late, when it is needed: here before the watch begins
warm = Path(sys.argv[2])  # so is what is imported inside functions
flat = builders.raw_safetensors({"__metadata__": {"format": "pt"}})
for data in (builders.state_dict_bytes({}), b"\x80\x02}.", flat):
    warm.write_bytes(data)
    try:
        with open_checkpoint(warm) as source:
            verify_checksums(source)
            understand(source)
    except CheckpointError:
        pass

STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.", "socket.", "pty.", "shutil.",
          "ctypes.", "urllib.", "ftplib.", "http.", "smtplib.", "webbrowser.", "pickle.", "marshal.", "exec", "compile",
          "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.putenv", "code.__new__", "builtins.input")
def watch(event, args):
    if event == "compile" and args[1] == "<unknown>":  # ast.literal_eval, which makes no code
        return
    wrong = event.startswith(STARTS)
    wrong = wrong or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    wrong = wrong or (event == "import" and args[0] not in sys.modules)
    if wrong:
        os.write(2, f"RAN {event} {args!r}"[:500].encode(errors="replace"))
        os._exit(99)

sys.addaudithook(watch)
answer = {}
try:
    with open_checkpoint(sys.argv[1]) as source:
        found = [*source.problems, *verify_checksums(source)]
        plan = understand(source)
        answer = {"opened": len(source.refs), "status": plan.status}
        answer["codes"] = sorted({f.code for f in (*found, *plan.findings)})
except CheckpointError as error:
    answer = {"refused": error.code, "message": error.message}
print(json.dumps(answer))
sys.stdout.flush()
os._exit(0)
"""


def judge(path: Path, scratch: Path) -> tuple[str, str]:
    """Return the verdict on a file, and a sentence.

    The verdicts: `RAN` (something ran), `CRASHED`, `CLEAN` (opened, nothing told), `unsafe`, `refused` with its code,
    `opened` with findings.
    """
    words = [sys.executable, "-c", CHILD, str(path), str(scratch)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=ROOT)
    if done.returncode == RAN:
        return "RAN", done.stderr
    if done.returncode:
        return "CRASHED", done.stderr[-400:]
    answer = json.loads(done.stdout)
    if "refused" in answer:
        unsafe = answer["refused"] == "unsafe-pickle" or "a permissive loader would run" in answer["message"]
        return ("unsafe" if unsafe else f"refused: {answer['refused']}"), answer["message"]
    told = f"{answer['opened']} tensors, {answer['status']}, {', '.join(answer['codes'])}"
    if "unsafe-pickle" in answer["codes"]:
        return "unsafe", told
    return ("CLEAN" if answer["status"] == "clean" else "opened"), told


def main() -> int:
    """Print a line for each file and the sums; return 1 if anything ran, crashed, or is called clean."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    sums: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            verdict, told = judge(path, Path(scratch) / "x.bin")
            sums[verdict] += 1
            print(f"{verdict:28} {os.path.relpath(path, folder)}: {told}".encode("ascii", "backslashreplace").decode())
    print()
    for verdict, count in sums.most_common():
        print(f"{count:6,}  {verdict}")
    return 1 if sums.keys() & {"RAN", "CRASHED", "CLEAN"} else 0


if __name__ == "__main__":
    sys.exit(main())
