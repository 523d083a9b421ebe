"""The run of the suite that records which lines each test executes."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .at_start.line_events import FILES, index_of
from .processes import DONE, RECORDS, end_group, environment
from .reached import ROOT, SOURCE, TABLE, Reached, read_records

__all__ = ["add_arguments", "print_coverage", "record"]

AT_START = Path(__file__).parent / "at_start"
MERGING = 45  # seconds kept for putting the records together


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("tests", nargs="*", help="arguments of pytest; all tests by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--minutes", type=float, help="after which the rest is left to a later run")
    parser.add_argument("--anew", action="store_true", help="forget earlier runs")


def record(args: argparse.Namespace) -> Reached:
    """Run the suite, or what is left of it, and write the table."""
    ends = time.monotonic() + args.minutes * 60 - MERGING if args.minutes else None
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    before = Reached.load() if TABLE.exists() and not args.anew else None
    done = [test.name for test in before.tests] if before else []
    (folder / "done.json").write_text(json.dumps(done), encoding="utf-8")
    (folder / "files.json").write_text(json.dumps(index_of(SOURCE)), encoding="utf-8")
    paths = [str(AT_START), str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--assert=plain"]
    command += [
        "-p",
        "tests.mutants.recorder",
        "--continue-on-collection-errors",
        "-rfE",
        "--tb=line",
    ]
    command += [f"--basetemp={folder / 'tmp'}"]
    command += ["-n", str(args.jobs), "--dist", "worksteal"] if args.jobs > 1 else []
    given = {
        RECORDS: str(folder),
        DONE: str(folder / "done.json"),
        FILES: str(folder / "files.json"),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    process = subprocess.Popen(
        [*command, *args.tests], cwd=ROOT, env=environment() | given, start_new_session=True
    )
    try:
        process.wait(None if ends is None else max(1.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        print("the time is over: the next run takes the tests that are left", flush=True)
    finally:
        end_group(process)
    table = read_records(folder, before)
    table.save(TABLE)
    shutil.rmtree(folder, ignore_errors=True)
    return table


def print_coverage(table: Reached) -> None:
    """Print what the table holds."""
    tests = [test for test in table.tests if test.name]
    passed = sum(test.outcome == "passed" for test in tests)
    print(f"{len(tests):,} tests, {passed:,} passed, {sum(t.seconds for t in tests):,.0f} seconds")
    every = table.coverage()
    for package, (ran, lines) in every.items():
        print(f"{package:14} {ran:7,} of {lines:7,} lines  {100 * ran / max(1, lines):5.1f} %")
    ran, lines = (sum(counts) for counts in zip(*every.values(), strict=True))
    print(f"{'all':14} {ran:7,} of {lines:7,} lines  {100 * ran / lines:5.1f} %")
