"""What the command line shares: colours, width, progress, JSON, report files, and errors in one sentence.

Results go to standard output, everything else to standard error. There are colours only on a terminal, and progress
only where standard error is one. A pipe that is closed by its reader ends the printing, not the command.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.pace import Pace, left_words
from ckpt_gui.core.remote.address import without_secrets
from ckpt_gui.core.text import Line, Style, human_bytes, shown

PROGRAM = "ckpt-gui"
OK, TROUBLE, USAGE, CANCELLED = 0, 1, 2, 130
PIPE_WIDTH, NARROWEST, WIDEST = 100, 40, 120
Progress = Callable[[str, int, int], None]
Stop = Callable[[], bool]
_COLOURS: dict[Style, str] = {
    "title": "1", "heading": "1", "error": "31", "warning": "33", "info": "36", "fix": "2", "quiet": "2", "good": "32",
}  # fmt: skip


def width() -> int:
    """Return the columns to write in: the terminal's, within reason; a fixed number in a pipe."""
    columns = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    return max(NARROWEST, min(columns, WIDEST))


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if a stream is a terminal that is still open."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def has_colours(stream: TextIO) -> bool:
    """Return True if a stream shows colours and its user wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    able = os.name != "nt" or "WT_SESSION" in os.environ or "ANSICON" in os.environ
    return wanted and able and is_terminal(stream)


def painted(line: Line) -> str:
    """Return a line with the escape codes of its style."""
    code = _COLOURS.get(line.style)
    return f"\x1b[{code}m{line.text}\x1b[0m" if code and line.text else line.text


def show(lines: Iterable[Line], stream: TextIO | None = None) -> None:
    """Print lines, to standard output by default, in colour where that works."""
    out = stream or sys.stdout
    colours = has_colours(out)
    write("".join(f"{painted(line) if colours else line.text}\n" for line in lines), out)


def write(text: str, stream: TextIO | None = None) -> None:
    """Print text; what the encoding lacks is escaped, and a closed pipe is no error."""
    out = stream or sys.stdout
    encoding = out.encoding or "utf-8"
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and os.name != "nt":  # Windows calls a closed pipe EINVAL
            raise
        silence(out)


def silence(stream: TextIO) -> None:
    """Send what is still to be printed nowhere: the reader of the pipe has gone."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def say(sentence: str) -> None:
    """Print one sentence on standard error."""
    if sys.stderr is not None:
        write(f"{PROGRAM}: {shown(sentence)}\n", sys.stderr)


def say_error(error: CheckpointError) -> None:
    """Print what is wrong and what can be done about it."""
    say(error.message + (f" {error.fix}" if error.fix else ""))


def say_crash(error: BaseException, status: int) -> int:
    """Print an unexpected exception in one sentence, keep its details in the log, and return `status`."""
    log = _write_crash(error)
    where = f"; details are in {log}" if log else ""
    if isinstance(error, MemoryError):
        say(f"there is not enough memory for this{where}.")
        return status
    kind, text = type(error).__name__, str(error).strip() or "no message"
    say(f"something went wrong inside the program ({kind}: {' '.join(text.split())}){where}.")
    return status


def _write_crash(error: BaseException) -> Path | None:
    with contextlib.suppress(Exception):
        from platformdirs import user_log_path

        log = user_log_path("ckpt_gui", appauthor=False) / "crash.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(without_secrets("".join(traceback.format_exception(error))) + "\n")
        return log
    return None


# ------------------------------------------------------------------------------------------------------------- files


def refuse_protected(path: str, protected: Iterable[str]) -> None:
    """Raise if a file belongs to the checkpoint: no report may overwrite it."""
    for name in protected:
        if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
            raise CheckpointError("target-refused", f"{path} belongs to the checkpoint and is not overwritten.")


def write_file(path: str, text: str, protected: Iterable[str] = ()) -> None:
    """Write a report.

    Args:
        path: Where to.
        text: What.
        protected: Files that may not be overwritten: those of the checkpoint.

    Raises:
        CheckpointError: It is one of the checkpoint's files, or can not be written.
    """
    refuse_protected(path, protected)
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CheckpointError("target-refused", f"{path} can not be written: {reason}.") from error


def write_text(where: str, text: str, protected: Iterable[str] = ()) -> None:
    """Write a text to a file, or to standard output for `-`."""
    if where == "-":
        write(text)
    else:
        write_file(where, text, protected)


def write_json(where: str | None, value: Mapping[str, Any], protected: Iterable[str] = ()) -> None:
    """Write JSON to a file, or to standard output for `-`; nothing for None."""
    if where is not None:
        from ckpt_gui.core.report.as_file import json_text  # the window reports nothing, and shall not wait for it

        write_text(where, json_text(value), protected)


# ----------------------------------------------------------------------------------------------------------- progress


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """Give a progress callback that draws on standard error; None where that is no terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    # What changes its length comes last, and the bar stays where it is.
    columns = (BarColumn(24), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[left]}"))
    rest = TextColumn("{task.description}", markup=False)
    console = Console(stderr=True, highlight=False)
    with RichProgress(*columns, rest, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, left="")
        lock, pace = threading.Lock(), Pace()

        def report(label: str, done: int, total: int) -> None:
            with lock:
                pace.note(time.monotonic(), done, total)
                left = " · ".join(filter(None, (_of(done, total), left_words(pace.seconds_left()))))
                bar.update(task, description=shown(label), completed=done, total=total, left=left)

        yield report


def _of(done: int, total: int) -> str:
    """Say how much of how much; nothing of small numbers, which count files and not bytes."""
    return f"{human_bytes(done)} of {human_bytes(total)}" if total >= 1 << 20 else ""


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn Control-C, SIGTERM and a closed terminal into a request to stop, which long work asks for between blocks.

    A second one stops at once.

    Yields:
        What says whether to stop.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop.is_set
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup asks for
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
