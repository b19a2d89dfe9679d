"""The wheel as a user gets it: built, installed in an environment of its own, and run there from another folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "resources" / "sample" / "tiny-llama-compiled.pt"


def run(*command: str | Path, cwd: Path, statuses: tuple[int, ...] = (0,)) -> str:
    """Run a command away from the source tree, which must not be on its path, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode in statuses, (
        f"{command} ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it with the tools of this environment."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it with all that it depends on, and return the folder of the environment's programs."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    constraints = ROOT / "constraints-dev.txt"
    run(scripts / "python", "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=folder)
    return scripts


def test_the_kernels_are_compiled_if_there_is_a_compiler(wheel: Path) -> None:
    libraries = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("ckpt_gui/core/native/kernels.")]
    assert "ckpt_gui/core/native/kernels.c" in libraries
    if any(map(shutil.which, ("cc", "gcc", "clang"))):
        assert len(libraries) == 2
        assert "-py3-none-" in wheel.name
        assert not wheel.name.endswith("-any.whl")


def test_a_wheel_without_a_compiler_is_for_any_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (path,) = tmp_path.glob("*.whl")
    assert path.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(path).namelist()
    assert [name for name in names if "kernels." in name] == ["ckpt_gui/core/native/kernels.c"]


def test_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    present = set(names)
    assert {
        "ckpt_gui/__init__.py",
        "ckpt_gui/_resources/icons/ckpt-gui.svg",
        f"ckpt_gui/_resources/sample/{SAMPLE.name}",
        "ckpt_gui/_resources/sample/params.json",
    } <= present
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if ".d" not in top} == {"ckpt_gui"}, "nothing but the package"
    assert not [name for name in names if name.endswith((".pyc", ".part"))]
    assert any(name.endswith("/share/applications/org.ckpt_gui.CkptGui.desktop") for name in names)


def test_the_installed_kernels_work(scripts: Path, wheel: Path, tmp_path: Path) -> None:
    code = "from ckpt_gui.core.native import kernels; print(kernels().is_compiled)"
    compiled = run(scripts / "python", "-c", code, cwd=tmp_path).strip() == "True"
    assert compiled is not wheel.name.endswith("-any.whl")


def test_import(scripts: Path, tmp_path: Path) -> None:
    where = run(scripts / "python", "-c", "import ckpt_gui; print(ckpt_gui.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(scripts.parent), "the installed package, not the source tree"


def test_check_of_the_shipped_sample(scripts: Path, tmp_path: Path) -> None:
    code = "import ckpt_gui, pathlib; print(pathlib.Path(ckpt_gui.__file__).parent / '_resources' / 'sample')"
    sample = Path(run(scripts / "python", "-c", code, cwd=tmp_path).strip()) / SAMPLE.name
    report = json.loads(run(scripts / "ckpt-gui", "check", sample, "--json", "-", cwd=tmp_path, statuses=(1,)))
    assert (report["schema"], report["status"]) == (1, "fixable")


def test_fix_and_check(scripts: Path, tmp_path: Path) -> None:
    run(scripts / "ckpt-gui", "fix", SAMPLE, "-o", tmp_path / "hf", "--to", "hf", cwd=tmp_path)
    report = json.loads(run(scripts / "ckpt-gui", "check", tmp_path / "hf", "--json", "-", cwd=tmp_path))
    assert (report["status"], report["layout"]) == ("clean", "hf")


def test_both_commands_are_installed(scripts: Path, tmp_path: Path) -> None:
    names = {path.stem for path in scripts.iterdir()}
    assert {"ckpt-gui", "ckpt-gui-window"} <= names
    assert "ckpt-gui" in run(scripts / "ckpt-gui", "--help", cwd=tmp_path)
