"""`ckpt-gui`: a sub-command, or the window.

Each command lives in a file of its own with `add_arguments` and `run`, and is imported when it is asked for: `check`
must not wait for Qt, and the window not for argparse's other half.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ckpt_gui.cli.parser import Parser, place
from ckpt_gui.cli.terminal import CANCELLED, OK, PROGRAM, TROUBLE, USAGE, say, say_crash, say_error, write
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.version import installed

COMMANDS = {
    "check": "say what a checkpoint is and what is wrong with it",
    "diff": "compare two checkpoints, through whatever layouts they are in",
    "fix": "write it, mended and verified, into a new folder",
    "stats": "show the numbers in tensors, and compare two of them",
    "families": "list the models and layouts that are read and written",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    command = words[0] if words and words[0] in COMMANDS else None
    if words and not command and (meant := _meant(words[0])):
        say(f"there is no command and no file {words[0]}; did you mean {PROGRAM} {meant}?")
        return USAGE
    failed = TROUBLE if command == "fix" else USAGE
    gc.set_threshold(100_000, 20, 100)  # modules, and the million values of 100,000 tensors, stay: a fifth of the time
    try:
        return _run(command, words[1:]) if command else _window(words)
    except SystemExit as end:  # argparse: --help or a mistake in the arguments
        return end.code if isinstance(end.code, int) else 0 if end.code is None else USAGE
    except (KeyboardInterrupt, Cancelled):
        say("stopped.")
        return CANCELLED
    except CheckpointError as error:
        say_error(error)
        return failed
    except Exception as error:  # noqa: BLE001 - a person gets a sentence, the log gets the trace
        return say_crash(error, failed)


def window_main() -> int:
    """Run the window; the script for systems where a console would pop up beside it."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = sys.stdout or nowhere  # None without a console
        sys.stderr = sys.stderr or nowhere
        return main(sys.argv[1:])


def _run(command: str, words: list[str]) -> int:
    module = import_module(f"ckpt_gui.cli.{command}")
    parser = Parser(prog=f"{PROGRAM} {command}", description=(module.__doc__ or "").partition("\n")[0])
    module.add_arguments(parser)
    status: int = module.run(parser.read(words))
    return status


def _meant(word: str) -> str:
    """Return the command that a mistyped word is close to; empty for paths and options."""
    if word.startswith("-") or os.sep in word or "." in word or os.path.exists(word):
        return ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, COMMANDS, 1)), "")


def _window(words: list[str]) -> int:
    args = _window_parser().read(words)
    if args.version:
        write(f"{PROGRAM} {_version()}\n")
        return OK
    if args.install_desktop or args.uninstall_desktop:
        return _register(installs=args.install_desktop)
    if _handed_over(args):
        return OK
    if not _has_screen():
        if not args.screenshot:
            say(f"there is no screen here to open a window on; {PROGRAM} check and fix work without.")
            return USAGE
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    try:
        from ckpt_gui.gui.app import run
    except ImportError as error:
        return _no_window(error)
    status: int = run(
        args.paths,
        screenshot=args.screenshot,
        fresh=args.fresh,
        select=args.select,
        filter=args.filter,
        view=args.view,
        against=args.against,
        plan=args.plan,
    )
    return status


def _register(*, installs: bool) -> int:
    """Tell the desktop about the program, or take that back."""
    from ckpt_gui.desktop.install import install, uninstall

    try:
        return OK if (install if installs else uninstall)(say) else TROUBLE
    except OSError as error:
        say(f"{error.filename or 'A file'} can not be written or removed: {error.strerror or error}.")
        return TROUBLE


def _handed_over(args: Any) -> bool:
    """Hand what is asked for to the program that runs already; return False if there is none, or it shall not be."""
    if args.screenshot or args.fresh or not _has_screen():
        return False
    from ckpt_gui.core.remote.address import real_address  # the socket is private, and the other one hides it again
    from ckpt_gui.desktop.instance import Request, absolute, activation_token, address, hand_over

    against = absolute(args.against) if args.against and os.path.exists(args.against) else args.against or ""
    request = Request(
        tuple(real_address(absolute(path)) for path in args.paths), args.select or "", args.filter or "",
        args.view or "", real_address(against), args.new_window, activation_token(),
        absolute(args.plan) if args.plan else "",
    )  # fmt: skip
    return hand_over(address(), request)


def _has_screen() -> bool:
    """Return False where Qt would abort: on Linux without a display server, and no platform of Qt's chosen."""
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(name) for name in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"))


def _no_window(error: ImportError) -> int:
    """Say why the window can not open: a package or a system library of Qt is missing."""
    name = (error.name or "").partition(".")[0]
    if name not in ("PySide6", "shiboken6", "matplotlib"):
        raise error
    if isinstance(error, ModuleNotFoundError):
        say(f"the window needs {name}, which is not installed; {PROGRAM} check and fix work without.")
    else:
        say(f"the window can not open, as {name} does not load here ({error}); {PROGRAM} check and fix work without.")
    return USAGE


def _window_parser() -> Parser:
    listed = "\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [PATH …] [options]\n       {PROGRAM} COMMAND …",
        description="Open checkpoints of language models in a window, or run a command.",
        epilog=f"commands (see {PROGRAM} COMMAND --help):\n{listed}",
        formatter_class=_raw_formatter(),
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", type=place, help="a file, a folder, an index file; or its address"
    )
    parser.add_argument("--select", metavar="KEY", help="select this tensor")
    parser.add_argument("--filter", metavar="TEXT", help="show only tensors that pass this, such as 'dtype:bf16 !norm'")
    parser.add_argument(
        "--view", metavar="NAME",
        help="tree, list, families, plan, export, a page (overview, values, plots, plots/heat, scan, scan/start, "
        "compare), or a tab of the inspector (details, statistics, tied)",
    )  # fmt: skip
    parser.add_argument(
        "--against", metavar="REF", type=place, help="compare with a checkpoint, a config.json or a known model"
    )
    parser.add_argument("--plan", metavar="FILE", help="take over a fix plan that was saved")
    parser.add_argument(
        "--new-window", action="store_true", help="open a window of its own where the program runs already"
    )
    parser.add_argument("--fresh", action="store_true", help="start with the settings as they were delivered")
    parser.add_argument("--screenshot", metavar="OUT.png", help="draw the window into a picture and end")
    parser.add_argument(
        "--install-desktop", action="store_true", help="put menu entry, icon and file types where the desktop looks"
    )
    parser.add_argument("--uninstall-desktop", action="store_true", help="take them away again")
    parser.add_argument("--version", action="store_true", help="show the version of the program and end")
    return parser


def _raw_formatter() -> Any:
    import argparse

    return argparse.RawDescriptionHelpFormatter


def _version() -> str:
    return installed("ckpt_gui") or "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
