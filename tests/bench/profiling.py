"""A look at where the time of our jobs goes, by py-spy, for https://www.speedscope.app or py-spy's own viewers."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.process import Failed
from tests.bench.race import Race


def profile(bench: Bench, race: Race, folder: Path) -> str:
    """Run our task of a race once more under a profiler; say where the profile is, or why there is none."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    tool = shutil.which("py-spy", path=places)
    if tool is None:
        return "no profile: py-spy is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.absolute() / f"{race.name}.speedscope.json"
    ours = next(task for task in race.tasks if task.name == "ours")
    bench.processes.before = (tool, "record", "--format", "speedscope", "--nonblocking", "--output", str(path), "--")
    try:
        race.prepare()
        ours.run()
    except Failed as error:
        return f"no profile: {error}"
    finally:
        bench.processes.before = ()
        race.finish()
    return f"profile in {path}"
