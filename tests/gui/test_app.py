"""The program from outside: pictures, exit status, what the command line asks for."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from ckpt_gui.desktop.resources import ICON, SAMPLE, resource
from ckpt_gui.gui import app

START = "import json, sys; from ckpt_gui.gui.app import run; sys.exit(run(**json.loads(sys.argv[1])))"


def run_window(tmp_path: Path, **arguments: object) -> tuple[int, QImage, str]:
    """Run the program for one picture in a process of its own."""
    out = tmp_path / "out" / "window.png"
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = subprocess.run(
        [sys.executable, "-c", START, json.dumps({"screenshot": str(out), **arguments})],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, QImage(str(out)), done.stderr


def colours(image: QImage) -> int:
    small = image.scaled(120, 80)
    return len({small.pixel(x, y) for x in range(120) for y in range(80)})


def test_resources_are_there() -> None:
    assert resource(ICON).is_file()
    assert resource(SAMPLE).is_file()
    assert resource("icons/chevron-down.svg").is_file()


def test_the_sample_is_drawn(tmp_path: Path) -> None:
    status, image, errors = run_window(
        tmp_path, paths=[str(resource(SAMPLE))], select="_orig_mod.output.weight", filter="weight", view="stat"
    )
    assert status == 0, errors
    assert errors == "", "not even of the platform without a screen"
    assert not (tmp_path / "config" / "ckpt_gui").exists(), "a picture leaves no traces in the settings"
    assert (image.width(), image.height()) == (1280, 800)
    assert colours(image) > 50


def test_the_start_page_is_drawn(tmp_path: Path) -> None:
    status, image, errors = run_window(tmp_path, paths=[], fresh=True)
    assert status == 0, errors
    assert colours(image) > 10


@pytest.mark.parametrize("view", ["export", "nonsense"])
def test_dialogs_and_mistakes_are_drawn(tmp_path: Path, view: str) -> None:
    status, image, errors = run_window(tmp_path, paths=[str(resource(SAMPLE))], view=view, select="no such key")
    assert status == 0, errors
    assert not image.isNull()
    assert "Traceback" not in errors


def test_a_bad_file_is_drawn_and_told_by_the_exit_status(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(b"no checkpoint at all")
    status, image, _ = run_window(tmp_path, paths=[str(path)])
    assert status == 2
    assert not image.isNull()


def test_a_picture_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    status, _, errors = run_window(tmp_path, paths=[], screenshot=str(tmp_path / "window.nonsense"))
    assert status == 1
    assert "cannot be written" in errors


def test_threads_that_work_make_room_and_garbage_is_looked_for_in_small_parts() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    try:
        app.tune()
        young, middle, _ = gc.get_threshold()
        assert sys.getswitchinterval() <= 0.001
        assert young * (middle + 1) <= 100_000, "values looked at in one go, with Python's lock held"
    finally:
        gc.set_threshold(*before[0])
        sys.setswitchinterval(before[1])
