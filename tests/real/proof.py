"""The run itself: every case through the command line, judged by bytes and by perplexity."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file
from transformers.utils import logging as transformers_logging

from scripts import make_real_model
from tests.real import poison
from tests.real.cases import CASES, Case

COMMAND = [sys.executable, "-m", "ckpt_gui.cli.main"]
MB = 10**6
# A child starts with the peak memory of its parent, so a small parent measures it.
LAUNCHER = """
import json, subprocess, sys, time
start = time.monotonic()
status = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
seconds, memory = time.monotonic() - start, 0
try:
    import resource
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
except ImportError:
    pass  # Windows
print(json.dumps([status, seconds, memory]))
"""
Row = tuple[str, ...]


@dataclass
class Run:
    """What a child process did.

    Attributes:
        status: Its exit status.
        seconds: How long it took.
        memory: Its peak resident memory in bytes; 0 where that is not known.
    """

    status: int
    seconds: float
    memory: int


@dataclass
class Report:
    """Figures for the table, and what is wrong with them."""

    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def expect(self, right: bool, text: str) -> str:
        """Note a fault unless `right`; return a mark for the table."""
        if not right:
            self.faults.append(text)
        return "yes" if right else "NO"


def run(*arguments: str | Path) -> Run:
    """Run a command and measure it; what it says is shown if it fails."""
    command = [sys.executable, "-c", LAUNCHER, *(str(a) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    status, seconds, memory = json.loads(done.stdout.splitlines()[-1])
    if status != 0:
        print(done.stderr)
    return Run(status, seconds, memory)


def check(path: Path, *options: str) -> tuple[int, set[str]]:
    """Return the exit status of `check`, and its findings above info (and the nesting)."""
    done = subprocess.run([*COMMAND, "check", path, "--json", "-", *options], capture_output=True, text=True)
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {f["code"] for f in found if f["severity"] != "info" or f["code"] == "nested-state-dict"}


def equal_tensors(left: Path, right: Path) -> tuple[int, int]:
    """Return how many tensors of two Hugging Face folders are equal byte for byte, and how many names there are."""
    one, two = (_read(folder) for folder in (left, right))
    same = [k for k in one.keys() & two.keys() if _same(one[k], two[k])]
    return len(same), len(one.keys() | two.keys())


def _read(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
    return found


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    return torch.equal(left.view(torch.int16), right.view(torch.int16))


def fill(folder: Path, case: Case, model: Path) -> Path:
    """Make a broken checkpoint and return its file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.make(model, folder)
    return folder / case.file


def mend(case: Case, model: Path, work: Path, report: Report) -> None:
    """Break the model, check it, fix it to Hugging Face, and judge the result."""
    path = fill(work / case.name, case, model)
    status, codes = check(path)
    report.expect(status == (1 if case.codes else 0), f"{case.name}: check ended with {status}")
    report.expect(codes == case.codes, f"{case.name}: check found {sorted(codes)}")
    options = [o.format(model=model) for o in case.options]
    out = work / f"{case.name}-hf"
    done = run(*COMMAND, "fix", path, "-o", out, "--to", "hf", "--overwrite", *options)
    judge(f"{case.name} → hf", done, out, model, report)
    for folder in (path.parent, out):
        shutil.rmtree(folder, ignore_errors=True)


def plain(model: Path, work: Path, report: Report) -> None:
    """Write the model again as it is: the export's own cost."""
    out = work / "again"
    judge("hf → hf", run(*COMMAND, "fix", model, "-o", out, "--to", "hf", "--overwrite"), out, model, report)
    shutil.rmtree(out, ignore_errors=True)


def there_and_back(layout: str, model: Path, work: Path, report: Report) -> None:
    """Write the model in another layout and bring it back."""
    there, out = work / layout, work / f"{layout}-hf"
    first = run(*COMMAND, "fix", model, "-o", there, "--to", layout, "--overwrite")
    report.rows.append((f"hf → {layout}", *_costs(first), "", ""))
    report.expect(first.status == 0, f"hf → {layout}: fix ended with {first.status}")
    if first.status == 0:
        status, codes = check(there)
        report.expect((status, codes) == (0, set()), f"the {layout} export is not clean: {sorted(codes)}")
        done = run(*COMMAND, "fix", there, "-o", out, "--to", "hf", "--overwrite")
        judge(f"{layout} → hf, back", done, out, model, report)
    for folder in (there, out):
        shutil.rmtree(folder, ignore_errors=True)


def judge(name: str, done: Run, out: Path, model: Path, report: Report) -> None:
    """Compare an export with the model and measure its perplexity."""
    report.expect(done.status == 0, f"{name}: fix ended with {done.status}")
    if done.status != 0:
        report.rows.append((name, *_costs(done), "", ""))
        return
    same, names = equal_tensors(out, model)
    found = make_real_model.perplexity(out, model)
    right = abs(found - make_real_model.PERPLEXITY) <= make_real_model.TOLERANCE
    report.expect(same == names, f"{name}: {same} of {names} tensors are equal")
    report.expect(right, f"{name}: perplexity {found:.3f}")
    status, codes = check(out)
    report.expect((status, codes) == (0, set()), f"{name}: the export is not clean: {sorted(codes)}")
    report.rows.append((name, *_costs(done), f"{same} of {names}", f"{found:.3f}"))


def _costs(done: Run) -> Row:
    return f"{done.seconds:.2f}", f"{done.memory / MB:.0f}" if done.memory else "?"


def copy(model: Path, work: Path, report: Report) -> None:
    """Copy the same bytes with `cp`, and bring them to the disk, as an export does."""
    if shutil.which("cp") is None:
        return
    target = work / "copy.safetensors"
    done = run("cp", model / "model.safetensors", target)
    start = time.monotonic()
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    report.rows.append(("cp", *_costs(done), "", ""))
    synced = Run(0, done.seconds + time.monotonic() - start, done.memory)
    report.rows.append(("cp and fsync", *_costs(synced), "", ""))
    target.unlink()


def wrong_rows(model: Path, work: Path, report: Report) -> None:
    """Negative control: with q and k rows in torchtune's order the model loads, and its perplexity tells."""
    from safetensors.torch import save_file

    from tests.real.cases import to_torchtune

    out = work / "wrong"
    shutil.copytree(model, out, dirs_exist_ok=True)
    tune, state = to_torchtune(model), load_file(model / "model.safetensors")
    for key in state:
        if "q_proj" in key or "k_proj" in key:
            state[key] = tune[key.removeprefix("model.").replace("self_attn", "attn")].contiguous()
    save_file(state, out / "model.safetensors", {"format": "pt"})
    found = make_real_model.perplexity(out, model)
    report.expect(found > 2 * make_real_model.PERPLEXITY, f"wrong rows are not seen: perplexity {found:.3f}")
    same, names = equal_tensors(out, model)
    report.rows.append(("wrong q/k rows", "", "", f"{same} of {names}", f"{found:.1f}"))
    shutil.rmtree(out)


def show(report: Report) -> None:
    """Print the figures and the faults."""
    table = Table(title="SmolLM2-135M through the command line")
    for title in ("step", "seconds", "peak MB", "tensors equal", "perplexity"):
        table.add_column(title, justify="left" if title == "step" else "right")
    for row in report.rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(table)
    for fault in report.faults:
        console.print(f"WRONG: {fault}", markup=False)
    console.print(f"{len(report.faults)} faults" if report.faults else "All figures are as they must be.")


def main() -> int:
    """Make the model if need be, run every case, and return the exit status."""
    parser = argparse.ArgumentParser(description="Prove the program on a real model.")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(platformdirs.user_cache_dir("ckpt_gui")) / "real",
        help="where the model is kept, 3 GB while this runs",
    )
    cache: Path = parser.parse_args().cache
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    transformers_logging.set_verbosity_error()
    model, work = cache / "smollm2-135m", cache / "work"
    if not (model / "generation_config.json").exists():  # written last
        make_real_model.make(model)
    work.mkdir(parents=True, exist_ok=True)
    report = Report()
    found = make_real_model.perplexity(model)
    report.expect(abs(found - make_real_model.PERPLEXITY) <= make_real_model.TOLERANCE, f"model: {found:.3f}")
    report.expect(check(model) == (0, set()), "the model itself is not clean")
    report.rows.append(("the model", "", "", "", f"{found:.3f}"))
    wrong_rows(model, work, report)
    report.faults += poison.faults(COMMAND, model, work)
    copy(model, work, report)
    for case in CASES:
        mend(case, model, work, report)
    plain(model, work, report)
    for layout in ("meta", "torchtune"):
        there_and_back(layout, model, work, report)
    shutil.rmtree(work)
    show(report)
    return 1 if report.faults else 0
