"""Measure this program against its peers, in turn and in fresh processes, and say whether it reaches its aims.

Files are made on the first run and kept in the folder. Every run is kept there too, under its version, and held
against the newest run of another version. `--kept` measures nothing, and prints what was kept of the newest version.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import platformdirs

from tests.bench import compile_package
from tests.bench.bench import Bench
from tests.bench.files import size_that_fits
from tests.bench.lines import Line, lines
from tests.bench.profiling import profile
from tests.bench.pythons import ORACLES
from tests.bench.race import Race, Result, run
from tests.bench.results import TOLERANCE, about, compared, keep, kept, records, sizes, this_version
from tests.bench.rows import fits, races
from tests.bench.shapes import SHAPES
from tests.bench.table import markdown, plain

SIZE, RUNS, PATIENCE = "1b", 5, 40.0  # all of it takes a quarter of an hour
QUICK_SIZE, QUICK_RUNS, QUICK_PATIENCE = "135m", 2, 5.0


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--rows", nargs="*", default=[], metavar="NAME", help="only these: names, beginnings, or open-*"
    )
    parser.add_argument("--list", action="store_true", help="print the names of all rows")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="smaller files (the aims are for large ones), fewer rounds",
    )
    parser.add_argument("--size", choices=SHAPES, help=f"of the model, {SIZE} unless the disk has no room for it")
    parser.add_argument("--runs", type=int, help=f"rounds of each race at most (default: {RUNS})")
    parser.add_argument("--patience", type=float, help=f"seconds after which no round begins (default: {PATIENCE:.0f})")
    parser.add_argument("--workers", default="2", help="threads of ours (default: 2)")
    parser.add_argument(
        "--oracles", type=Path, default=ORACLES, metavar="PYTHON", help="interpreter that has the peers"
    )
    parser.add_argument(
        "--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench",
        help="where files and results are kept (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        help="what is told as worse (%(default)s times)",
    )
    parser.add_argument("--kept", action="store_true", help="measure nothing, print what was kept (of --size)")
    parser.add_argument("--markdown", action="store_true", help="print the table for the README")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="and once more under py-spy, for speedscope")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Make the files, measure, print, keep."""
    args = arguments(words)
    size = args.size or size_that_fits(args.folder, QUICK_SIZE if args.quick else SIZE)
    bench = Bench(args.folder, size, args.workers, args.oracles, args.quick)
    if args.list:
        print("\n".join(race.name for race in races(bench)))
        return 0
    if not any(True for _ in races(bench, args.rows)):
        _say(f"No row is called {' or '.join(args.rows)}; --list names them.")
        return 2
    if not args.kept:
        keep(args.folder, size, _measured(bench, args), this_version())
    found = records(args.folder, size)
    if not found:
        others = f" There is {', '.join(sizes(args.folder))}: name it with --size." if sizes(args.folder) else ""
        _say(f"Nothing was kept in {args.folder} of the size {size}.{others}")
        return 1
    shown = found if args.kept else found[-1:]
    table = [line for line in kept(shown) if fits(line.name.partition("/")[0], args.rows)]
    print(_printed(table, args))
    _say(about(found[-1]))
    if size != SIZE:
        _say(f"The aims are meant for {SIZE}: with smaller files, what it takes to start weighs more.")
    for sentence in compared(found, table, args.tolerance):
        _say(sentence)
    return 0


def _measured(bench: Bench, args: argparse.Namespace) -> list[Line]:
    """Run every race that was asked for, and say how it goes."""
    compile_package()
    runs = args.runs or (QUICK_RUNS if args.quick else RUNS)
    patience = args.patience or (QUICK_PATIENCE if args.quick else PATIENCE)
    begun, table = time.monotonic(), list[Line]()
    try:
        for race in races(bench, args.rows):
            try:
                result = run(race, runs, patience)
            except Exception as error:  # noqa: BLE001 - what was measured in a quarter of an hour is not lost to one row
                _say(f"{race.name}: failed: {type(error).__name__}: {error}")
                continue
            table.extend(lines(race, result))
            _tell(race, result)
            if args.profile:
                _say("  " + profile(bench, race, args.profile))
    except KeyboardInterrupt:
        _say("Stopped; what was measured until now is kept.")
    finally:
        bench.files.clear()
    _say(f"All of it took {(time.monotonic() - begun) / 60:.1f} minutes.")
    return table


def _tell(race: Race, result: Result) -> None:
    """Say that a race is over, what was missing, and what its note says."""
    count = len(result.rounds)
    _say(f"{race.name}: {count} {'round' if count == 1 else 'rounds'}, {result.seconds:.0f} s")
    for task, reason in result.missing.items():
        _say(f"  no {task}: {reason}")
    whole = [each for each in result.rounds if len(each) == len(race.tasks)]
    if race.note and whole:
        _say(race.note(whole))


def _printed(table: Sequence[Line], args: argparse.Namespace) -> str:
    if args.json:
        return json.dumps([{**asdict(line), "met": line.met} for line in table], ensure_ascii=False, indent=1)
    return markdown(table) if args.markdown else plain(table)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
