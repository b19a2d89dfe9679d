"""Fixtures of the core: the compiled kernels, and Hypothesis without a clock and without luck.

A slow machine is no failure, and each run tries the same. `--hypothesis-profile=thorough` tries others, and more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ckpt_gui.core.native import Compiled, choose
from scripts import native_build

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("ckpt_gui", deadline=None, derandomize=True, suppress_health_check=SLOW, max_examples=60)
settings.register_profile("thorough", deadline=None, suppress_health_check=SLOW, max_examples=3000)
settings.load_profile("ckpt_gui")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compile the kernels from their source as it is now, with all warnings as errors."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", f"{os.environ.get('CFLAGS', '')} -Werror")
        target = tmp_path_factory.mktemp("native") / native_build.NAME
        assert native_build.build(target) is None
    return Compiled(target)


@pytest.fixture
def use_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Compiled | None], None]]:
    """Return a function that lets the program use a compiled library, or none."""

    def use(library: Compiled | None) -> None:
        monkeypatch.setattr(choose, "LIBRARY", Path("/nowhere") if library is None else library.path)
        choose.kernels.cache_clear()

    yield use
    choose.kernels.cache_clear()
