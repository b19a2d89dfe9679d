from __future__ import annotations

import argparse
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.cli import terminal
from ckpt_gui.cli.main import main, window_main
from ckpt_gui.cli.options import size
from ckpt_gui.core.text import Line
from tests.cli.conftest import Run


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """Put something in place of the window that remembers how it was called."""
    calls: list[tuple[Any, dict[str, Any]]] = []
    fake = types.ModuleType("ckpt_gui.gui.app")

    def run(paths: Any, **options: Any) -> int:
        calls.append((paths, options))
        return 0

    fake.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ckpt_gui.gui.app", fake)
    return calls


def test_no_command_opens_the_window(run: Run, window: list[Any]) -> None:
    assert run()[0] == 0
    assert (
        run(
            *("a.pt", "b", "--select", "k", "--filter", "wq", "--view", "tree", "--fresh", "--screenshot", "o.png"),
            *("--against", "Llama-3.2-1B", "--plan", "p.json"),
        )[0]
        == 0
    )
    nothing = dict.fromkeys(("screenshot", "select", "filter", "view", "against", "plan")) | {"fresh": False}
    all_ = {"screenshot": "o.png", "fresh": True, "select": "k", "filter": "wq", "view": "tree"}
    all_ |= {"against": "Llama-3.2-1B", "plan": "p.json"}
    assert window == [([], nothing), (["a.pt", "b"], all_)]


def test_window_main(window: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ckpt-gui-window", "x.pt"])
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert window_main() == 0
    assert window[0][0] == ["x.pt"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModuleNotFoundError("No module named 'PySide6'", name="PySide6"), "needs PySide6, which is not installed"),
        (
            ImportError("libEGL.so.1: cannot open", name="PySide6.QtGui"),
            "does not load here (libEGL.so.1: cannot open)",
        ),
    ],
)
def test_a_missing_qt_is_one_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: ImportError, sentence: str
) -> None:
    class Absent:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "ckpt_gui.gui.app":
                raise error

    monkeypatch.delitem(sys.modules, "ckpt_gui.gui.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    status, out, err = run("x.pt")
    assert (status, out) == (2, "")
    assert sentence in err


def test_help_and_version(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    for command in ("check", "diff", "fix", "stats", "families"):
        assert command in out
        assert run(command, "--help")[0] == 0
    assert run("--version")[1].startswith("ckpt-gui ")


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        ("check", "x", "--nonsense"),
        ("check", "x", "--budget", "much"),
        ("check", "x", "--report", "r.doc"),
        ("check", "x", "--family", "nobody"),
        ("check", "x", "--heads", "0"),
        ("check", "x", "--sec", "y"),
        ("check", "x", "--\x1b[31m"),
    ],
)
def test_usage_is_2_and_one_sentence(run: Run, words: tuple[str, ...]) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("5GB", 5 * 10**9), ("500MB", 5 * 10**8), ("5GiB", 5 * 2**30), ("1.5 kb", 1500), ("77", 77), ("2G", 2 * 10**9)],
)
def test_size(text: str, nbytes: int) -> None:
    assert size(text) == nbytes


@pytest.mark.parametrize("text", ["", "-1", "0", "5 XB", "GB", "1e9", "\uff15GB"])
def test_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size(text)


def test_an_unexpected_exception(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by \x1b zero")

    monkeypatch.setattr("ckpt_gui.cli.check.open_checkpoint", crash)
    status, out, err = run("check", model)
    assert (status, out) == (2, "")
    assert "ZeroDivisionError: by \\x1b zero" in err
    log = Path(err.rpartition("details are in ")[2].strip().rstrip("."))
    assert log.name == "crash.log"
    assert "ZeroDivisionError" in log.read_text()


def test_too_little_memory_is_said(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("ckpt_gui.cli.check.open_checkpoint", starve)
    status, out, err = run("check", model)
    assert (status, out) == (2, "")
    assert "there is not enough memory for this" in err
    assert "Traceback" not in err


def test_control_c(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ckpt_gui.cli.check.open_checkpoint", interrupt)
    assert run("check", model) == (130, "", "ckpt-gui: stopped.\n")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = [Line("bad", "error"), Line("plain"), Line("", "error")]

    def shown(stream: io.StringIO) -> str:
        terminal.show(lines, stream)
        return stream.getvalue()

    pipe = io.StringIO()
    assert shown(pipe) == "bad\nplain\n\n"
    if sys.platform != "win32":
        assert shown(Terminal()) == "\x1b[31mbad\x1b[0m\nplain\n\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(Terminal()) == "bad\nplain\n\n"


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal.progress_bar() as progress:
        assert progress is None
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with terminal.progress_bar() as progress:
        assert progress is not None
        progress("Reading [bold]x\x1b", 1, 2)
        progress("Reading [bold]x\x1b", 2, 2)
    assert "Reading [bold]x\\x1b" in screen.getvalue()


def test_families(run: Run) -> None:
    status, out, _ = run("families")
    assert status == 0
    assert "llama" in out
    assert "torchtune" in out
    status, out, _ = run("families", "--json", "-")
    value = json.loads(out)
    assert (status, value["schema"]) == (0, 1)
    assert [x["name"] for x in value["families"][0]["layouts"]][:3] == ["hf", "meta", "torchtune"]


def test_main_takes_the_arguments_of_the_process(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["ckpt-gui", "families"])
    assert main() == 0
    assert "llama" in capsys.readouterr().out


def test_a_mistyped_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chek", "x"]) == 2
    assert "did you mean ckpt-gui check?" in capsys.readouterr().err


def test_without_a_screen_the_window_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main([]) == 2
    assert "no screen here" in capsys.readouterr().err
