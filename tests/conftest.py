"""Fixtures for every test: no unexpected log line, no file outside tmp_path, and no need for Qt.

This file must load where PySide6 and pytest-qt are not installed: the core and the command line are tested there too.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import random
import re
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

HAS_PYTEST_QT = importlib.util.find_spec("pytestqt") is not None and importlib.util.find_spec("PySide6") is not None

# Where a program keeps settings, caches and state on the systems that we support.
USER_DIRECTORIES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "APPDATA", "LOCALAPPDATA")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of pytest-qt where it is absent, so that --strict-config accepts pyproject.toml."""
    if importlib.util.find_spec("pytestqt") is None:
        for name in ("qt_api", "qt_log_level_fail"):
            parser.addini(name, "of pytest-qt, unused here")
        parser.addini("qt_log_ignore", "of pytest-qt, unused here", type="linelist")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything under tests/gui with `gui`."""
    for item in items:
        if item.nodeid.startswith("tests/gui/"):
            item.add_marker("gui")


def pytest_ignore_collect(collection_path: object) -> bool | None:
    """Leave tests/gui out where Qt is not installed; `make test` sees to it that it is."""
    is_gui = os.path.basename(os.fspath(collection_path)) == "gui"  # type: ignore[call-overload]
    return True if is_gui and not HAS_PYTEST_QT else None


@pytest.fixture(autouse=True)
def _user_directories_in_tmp(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    """Give each test settings and caches of its own; the directories are made by whoever writes to them first."""
    home = tmp_path_factory.getbasetemp() / "user" / re.sub(r"\W+", "-", request.node.nodeid)[-120:]
    for name in USER_DIRECTORIES:
        monkeypatch.setenv(name, str(home / name.lower()))
    for name in [name for name in os.environ if name.startswith("CKPT_GUI_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Let each test draw what it draws alone, whatever ran before it."""
    random.seed(0)
    if "torch" in sys.modules:  # else it begins with the seed it always begins with
        sys.modules["torch"].manual_seed(0)


class _WarningCollector(logging.Handler):
    """Keeps what was logged at WARNING or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def _no_unexpected_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail on a warning of the logger `ckpt_gui` that no `@pytest.mark.allow_log(pattern)` expects."""
    patterns = [pattern for mark in request.node.iter_markers("allow_log") for pattern in mark.args]
    collector = _WarningCollector()
    logger = logging.getLogger("ckpt_gui")
    logger.addHandler(collector)
    yield
    logger.removeHandler(collector)
    unexpected = [
        f"{record.levelname} {record.name}: {record.getMessage()}"
        for record in collector.records
        if not any(re.search(pattern, record.getMessage()) for pattern in patterns)
    ]
    if unexpected:
        pytest.fail("unexpected log lines (allow them with @pytest.mark.allow_log):\n" + "\n".join(unexpected))
