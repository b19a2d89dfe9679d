"""A window that is driven in a process of its own, and how long its thread did nothing for the user (see `clock`).

With `--blame` it writes to stderr who kept the window from working.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollBar

from ckpt_gui.gui.app import application, tune
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from tests.bench.clock import Clock


def opened(clock: Clock, window: MainWindow, path: str) -> None:
    """Open a checkpoint, and wait for its first rows."""

    def shown() -> bool:
        return window.tree_panel.model.rowCount() > 0 and window.pages.currentWidget() is window.page_tabs

    clock.run("open, to first rows", lambda: window.open_path(path), shown)
    clock.run("from first rows to the plan", lambda: None, lambda: window.session.snapshot is not None)
    clock.run("after opening, nothing asked for", lambda: None, lambda: True, 1.0)


def page_of(clock: Clock, window: MainWindow, name: str) -> Any:
    """Turn to a page for the first time."""
    clock.run(f"turn to {name} for the first time", lambda: window.page_tabs.show_page(name), lambda: True, 0.3)
    return window.page_tabs.page(name)


def scan(clock: Clock, window: MainWindow, path: str) -> None:
    """Scan all values while somebody looks at the page."""
    opened(clock, window, path)
    page = page_of(clock, window, "scan")
    clock.run("scan of all values", page.start, lambda: not page.job.running)
    clock.run("sort the scan", lambda: page.table.sortByColumn(3, Qt.SortOrder.DescendingOrder), lambda: True, 0.2)
    clock.run("scan again, all kept", page.start, lambda: not page.job.running)


def compare(clock: Clock, window: MainWindow, path: str, other: str = "") -> None:
    """Compare a checkpoint with another, or itself: names, then values."""
    opened(clock, window, path)
    page = page_of(clock, window, "compare")
    clock.run("compare names", lambda: page.start(other or path, False), lambda: not page.job.running, 0.2)
    clock.run("compare values", lambda: page.start(other or path, True), lambda: not page.job.running, 0.2)


def plots(clock: Clock, window: MainWindow, path: str) -> None:
    """Look at the largest matrix: distribution, heat map, zoom."""
    opened(clock, window, path)
    largest = max(window.session.snapshot.source.refs, key=lambda ref: ref.nbytes)  # type: ignore[union-attr]
    page = page_of(clock, window, "plots")
    canvases = page.canvases

    def drawn(name: str) -> Callable[[], bool]:
        return lambda: name in page._shown and canvases[name].ready and not page.job.running

    clock.run(
        "first picture, with the import of matplotlib", lambda: page.choice.choose(largest), drawn("distribution"), 1.0
    )
    clock.run("heat map, first drawn", lambda: page.turn_to("heat"), drawn("heat"), 0.5)
    canvas = canvases["heat"]

    def zoom() -> None:
        for _ in range(3):
            view = canvas.picture.views()[0]
            canvas.picture.wheeled.emit(0, sum(view.x.limits) / 2, sum(view.y.limits) / 2, True)

    def zoomed() -> bool:
        return not page.zoom._timer.isActive() and not page.job.running and canvas.ready

    for number in range(3):
        clock.run(f"heat map, zoom {number + 1}", zoom, zoomed, 0.5)


def export(clock: Clock, window: MainWindow, path: str) -> None:
    """Export from the dialog."""
    opened(clock, window, path)
    with tempfile.TemporaryDirectory(dir=Path(path).parent, prefix="window-") as out:
        clock.run("open the export dialog", window.commands.export, lambda: True, 0.3)
        dialog = window.commands.dialog
        assert dialog is not None
        target = str(Path(out, "out"))
        clock.run(
            "look at the folder",
            lambda: dialog.set_folder(target),
            lambda: dialog._check is not None and dialog._check.folder == target,
        )
        clock.run("export", dialog.start, lambda: not dialog.run.running, 0.3)
        if dialog.run.written is None:
            raise RuntimeError("nothing was exported")


def many(clock: Clock, window: MainWindow, path: str) -> None:
    """List very many tensors: filter, scroll, every page."""
    opened(clock, window, path)
    panel = window.tree_panel
    for text in ("q_proj", "q_proj !layers.1", "experts.7"):
        clock.run(f"filter: {text}", lambda text=text: panel.filter_box.setText(text), _filtered(window), 0.25)
    clock.run("all as a list", lambda: (panel.clear_filter(), panel.set_mode("flat")), _filtered(window), 0.25)
    bar = panel.view.list.verticalScrollBar()
    steps = iter(range(1, 41))

    def scroll() -> bool:
        step = next(steps, None)
        bar.setValue(bar.maximum() * step // 40 if step is not None else bar.maximum())
        return step is None

    clock.run("scroll from the first row to the last", lambda: None, scroll)
    page_of(clock, window, "overview")
    overview = window.page_tabs.page("overview")
    clock.run("overview worked out", lambda: None, lambda: overview.overview is not None and not overview.job.running)
    for name in ("values", "plots", "scan"):
        page = page_of(clock, window, name)
        if name == "values":
            clock.run("offer every name in the box", page.choice._offer, lambda: True, 0.2)
    page = page_of(clock, window, "compare")
    clock.run("compare names", lambda: page.start(path, False), lambda: not page.job.running, 0.2)


def replaced(clock: Clock, window: MainWindow, path: str) -> None:
    """Open very many tensors, the same once more in their place, and close them."""
    opened(clock, window, path)
    clock.run("open again, to the rows of the index", lambda: window.open_path(path), lambda: window.session.listing)
    clock.run("open again, to the plan", lambda: None, lambda: window.session.snapshot is not None)
    clock.run("after opening again, nothing asked for", lambda: None, lambda: True, 1.5)
    clock.run("close", window.commands.close_checkpoint, lambda: True, 1.5)


def keys(clock: Clock, window: MainWindow, path: str) -> None:
    """Look at very many keys in every mode: turn, type, unfold, scroll, walk, select and copy."""
    opened(clock, window, path)
    panel, done = window.tree_panel, _filtered(window)
    for mode in ("flat", "tree", "families", "flat", "families"):
        clock.run(f"turn to {mode}", lambda mode=mode: panel.set_mode(mode), done, 0.1)
    for mode in ("flat", "tree", "families"):
        panel.filter_box.setFocus()
        for typed in range(1, 5):
            text = "experts.7.up"[: 3 * typed]
            clock.run(f"type {text}", lambda text=text: panel.filter_box.setText(text), done, 0.05)
            if typed == 1:
                clock.run(f"what passes, turned to {mode}", lambda mode=mode: panel.set_mode(mode), done, 0.05)
        clock.run("clear the filter", panel.clear_filter, done, 0.1)
    view = panel.view.tree
    family = next(node for node in view.lines() if not node.is_row and node.name == "down_proj.weight")
    clock.run("unfold a family", lambda: view.unfold_one(view.keys.index_of(family)), lambda: True, 0.2)
    first = family.children[0] if family.children else family
    clock.run("unfold its first layer", lambda: view.unfold_one(view.keys.index_of(first)), lambda: True, 0.2)
    panel.unfolding.unfold([family])
    clock.run("unfold all its layers", lambda: None, lambda: not panel.unfolding.running, 0.2)
    panel.set_mode("flat")
    for table in (panel.view.list, view):
        bar, steps = table.verticalScrollBar(), iter(range(1, 61))

        def scroll(bar: QScrollBar = bar, steps: Iterator[int] = steps) -> bool:
            step = next(steps, None)
            bar.setValue(bar.maximum() * step // 60 if step is not None else bar.maximum())
            return step is None

        clock.run("scroll the list" if table is panel.view.list else "scroll the tree", lambda: None, scroll)
        panel.set_mode("families")
    for mode in ("flat", "tree", "families"):
        clock.run(f"turn to {mode}", lambda mode=mode: panel.set_mode(mode), done, 0.1)
        clock.run(f"next difference, {mode}", lambda: panel.view.step(forward=True), lambda: True, 0.05)
    panel.set_mode("flat")
    clock.run("select everything", panel.view.list.selectAll, lambda: True, 0.2)
    clock.run("copy everything", panel.copying.copy_rows, lambda: not window.session.jobs.running(), 0.2)


def _filtered(window: MainWindow) -> Callable[[], bool]:
    return lambda: not window.tree_panel.search._pause.isActive() and not window.tree_panel.search.running


SCENES: dict[str, Callable[..., None]] = {
    "scan": scan,
    "compare": compare,
    "plots": plots,
    "export": export,
    "many": many,
    "keys": keys,
    "replaced": replaced,
}


def main() -> None:
    """Drive a window through the scene that the command line names; print what was measured as JSON."""
    words = [word for word in sys.argv[1:] if word != "--blame"]
    tune()
    app = application()
    window = MainWindow(Settings(keeps=False), Theme(app, "light"))
    window.show()
    clock = Clock(blame="--blame" in sys.argv)
    clock.run("nothing open", lambda: None, lambda: True, 1.0)
    try:
        SCENES[words[0]](clock, window, *words[1:])
    finally:
        window.ask_to_close = lambda _window, _titles: True
        window.close()
    print(json.dumps([asdict(phase) for phase in clock.phases]))


if __name__ == "__main__":
    main()
