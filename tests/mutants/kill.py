"""Which test kills each mutant: tests that reach its line run until one fails."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Queue
from threading import Lock

from .mutant import Finding, Mutant
from .processes import CHOSEN, JOB, LOG, end_group, environment
from .reached import ROOT, SOURCE, Reached, TestRun

__all__ = ["Results", "Run", "add_arguments", "batches", "kill", "ordered", "run_of"]

FILE_SECONDS = 0.12  # processor seconds to import a file of tests
BATCHES = (5.0, 25.0)  # seconds of the first processes, of which most mutants need no more
NOT_COPIED = (".git", ".venv", ".mutants", ".device", "__pycache__", "*_cache", ".hypothesis")
# Tests that know of the faults, or of the text of the source.
NOT_ORDINARY = ("tests/mutants/", "tests/architecture/")


class OutOfTime(Exception):  # noqa: N818 - no error
    """The run has to end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time")
    parser.add_argument("--minutes", type=float, help="after which the rest is left to a later run")
    parser.add_argument("--seconds", type=float, default=120, help="of processors, for each mutant")
    parser.add_argument("--results", type=Path, default=ROOT / ".mutants" / "results.jsonl")
    parser.add_argument("--count", type=int, help="mutants; 0: only take over the results")


class Results:
    """Findings of earlier runs and of this one, one line each in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self.findings: dict[str, Finding] = {}
        self.steady: set[str] = set()  # tests that pass on the source as it is, in the same way
        self.unsteady: set[str] = set()  # tests that fail there: they kill nothing
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._take(json.loads(line))

    def _take(self, row: dict[str, object]) -> None:
        match row:
            case {"steady": str(test)}:
                self.steady.add(test)
            case {"unsteady": str(test)}:
                self.unsteady.add(test)
                wrong = [key for key, f in self.findings.items() if f.killed_by == test]
                for key in wrong:
                    del self.findings[key]
            case {"mutant": str(key), "finding": dict(finding)}:
                self.findings[key] = Finding(**finding)

    def add(self, row: dict[str, object]) -> None:
        """Write a row at once and take it over."""
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
            self._take(row)


def ordered(mutant: Mutant, line: range, table: Reached, barred: set[str]) -> list[TestRun]:
    """Return the tests that reach a mutant: of files with its name, of its package, cheap first."""
    if mutant.within:
        found = {test for each in line for test in table.tests_of(mutant.file, each)}
    else:
        found = set(table.tests_of_file(mutant.file))
    stem, folder = Path(mutant.file).stem, Path(mutant.file).parts[1]

    def key(test: TestRun) -> tuple[int, float, str]:
        file = Path(test.file)
        rank = 2 - (folder in file.parts)
        return 0 if file.stem.startswith(f"test_{stem}") else rank, test.seconds, test.name

    kept = (test for test in found if test.outcome == "passed" and test.name not in barred)
    return sorted((t for t in kept if not t.name.startswith(NOT_ORDINARY)), key=key)


def batches(tests: Iterable[TestRun], limit: float) -> Iterator[list[TestRun]]:
    """Yield tests for one process each, in order, all together of at most `limit` seconds."""
    batch: list[TestRun] = []
    files: set[str] = set()
    spent = whole = 0.0
    sizes = iter(BATCHES)
    size = next(sizes)
    for test in tests:
        cost = test.seconds + FILE_SECONDS * (test.file not in files)
        if whole + cost > limit:
            continue
        if batch and spent + cost > size:
            yield _by_file(batch)
            batch, files, spent, size = [], set(), 0.0, next(sizes, limit)
            cost = test.seconds + FILE_SECONDS
        batch.append(test)
        files.add(test.file)
        spent, whole = spent + cost, whole + cost
    if batch:
        yield _by_file(batch)


def _by_file(tests: list[TestRun]) -> list[TestRun]:
    """Keep the tests of a file together, for the fixtures that they share."""
    files = list(dict.fromkeys(test.file for test in tests))
    return sorted(tests, key=lambda test: files.index(test.file))


@dataclass(frozen=True)
class Run:
    """What one process did."""

    test: str | None  # that failed
    how: str
    tests: int  # that ran to their end
    seconds: float


class _Copy:
    """A copy of the repository in which a fault can stand."""

    def __init__(self, number: int, ends: float | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"mutants-{number}-"))
        self.root = self.folder / "copy"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*NOT_COPIED))
        self._number, self._ends = number, ends

    def write(self, file: str, text: str) -> None:
        """Write a source file; what was compiled from the text before is not used again."""
        path = self.root / "src" / file
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, tests: list[TestRun]) -> Run:
        """Run tests until one fails."""
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        chosen, log = scratch / "chosen.json", scratch / "log"
        chosen.write_text(json.dumps({t.name: t.seconds for t in tests}), encoding="utf-8")
        log.touch()
        (scratch / "tmp").mkdir()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x"]
        command += ["--assert=plain", "--tb=no", "-p", "tests.mutants.chosen"]
        command += [f"--basetemp={scratch / 'base'}", *dict.fromkeys(t.file for t in tests)]
        others = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        paths = [str(self.root / "src")]
        paths += [path for path in others if Path(path).resolve() != SOURCE.resolve()]
        given = {
            CHOSEN: str(chosen),
            LOG: str(log),
            JOB: str(self._number),
            "PYTHONPATH": os.pathsep.join(paths),
            "TMPDIR": str(scratch / "tmp"),
            "XDG_CACHE_HOME": str(scratch / "caches"),
        }
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=environment() | given,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            code, seconds = self._end(process)
        finally:
            end_group(process)
        lines = log.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if line.endswith("]")]  # none cut off
        shutil.rmtree(scratch, ignore_errors=True)
        return run_of(events, code, seconds)

    def _end(self, process: subprocess.Popen[bytes]) -> tuple[int, float]:
        """Wait for the end of a process; return its status and its processor seconds."""
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, usage.ru_utime + usage.ru_stime
            if self._ends is not None and time.monotonic() > self._ends:
                raise OutOfTime
            time.sleep(0.05)


def run_of(events: list[list[str]], code: int, seconds: float) -> Run:
    """Return what the log of a process says."""
    done = sum(event == "ended" for event, _ in events)
    for event, name in events:
        if event in ("failed", "not collected"):
            return Run(name, event, done, seconds)
    if events and events[-1][0] == "begun":
        how = "timed out" if code == 1 else "crashed"
        return Run(events[-1][1], how, done, seconds)
    if not events and code != 0:
        return Run("collection", "not collected", 0, seconds)
    return Run(None, "survived", done, seconds)


def _find(
    mutant: Mutant, table: Reached, copy: _Copy, results: Results, limit: float
) -> Finding | None:
    """Return what the tests say of a mutant; None where the source has changed."""
    text = (SOURCE / mutant.file).read_text(encoding="utf-8")
    lines = mutant.lines(text)
    if lines is None:
        return None
    tests = ordered(mutant, lines, table, results.unsteady)
    done, seconds = 0, 0.0
    copy.write(mutant.file, mutant.applied(text))
    try:
        for batch in batches(tests, limit):
            if seconds > limit:
                break
            run = copy.run(batch)
            done, seconds = done + run.tests, seconds + run.seconds
            if run.test is not None:
                return Finding(run.test, run.how, done, len(tests), round(seconds, 1))
    finally:
        copy.write(mutant.file, text)
    return Finding(None, "survived", done, len(tests), round(seconds, 1))


def kill(mutants: list[Mutant], table: Reached, args: argparse.Namespace) -> Results:
    """Run the tests against each mutant that has no finding yet, and write findings at once."""
    if table.changed:
        files = ", ".join(sorted(table.changed)[:5])
        raise SystemExit(f"run `coverage` again, the source has changed since: {files}")
    ends = time.monotonic() + args.minutes * 60 if args.minutes else None
    results = Results(args.results)
    if args.count == 0:
        return results
    with ThreadPoolExecutor(args.jobs) as pool:
        idle: Queue[_Copy] = Queue()
        for copy in pool.map(lambda number: _Copy(number, ends), range(args.jobs)):
            idle.put(copy)
        try:
            _require_sound(table, idle)
            for _ in range(3):  # a killer that fails without the mutant sends mutants back
                left = [mutant for mutant in mutants if mutant.key not in results.findings]
                left = left[: args.count]
                list(pool.map(lambda each: _settle(each, table, idle, results, args.seconds), left))
                if _is_over(ends) or not _check_killers(table, idle, results, pool):
                    break
        finally:
            while not idle.empty():
                shutil.rmtree(idle.get().folder, ignore_errors=True)
    return results


def _require_sound(table: Reached, idle: Queue[_Copy]) -> None:
    """Stop where a test does not even pass on the source as it is."""
    copy = idle.get()
    run = copy.run([min((t for t in table.tests if t.outcome == "passed"), key=lambda t: t.name)])
    idle.put(copy)
    if run.test is not None or run.tests != 1:
        raise SystemExit("tests do not run in a copy of the repository: is PYTHONPATH complete?")


def _is_over(ends: float | None) -> bool:
    return ends is not None and time.monotonic() > ends


def _settle(
    mutant: Mutant, table: Reached, idle: Queue[_Copy], results: Results, limit: float
) -> None:
    copy = idle.get()
    try:
        finding = _find(mutant, table, copy, results, limit)
    except OutOfTime:
        return
    finally:
        idle.put(copy)
    if finding is not None:
        results.add({"mutant": mutant.key, "finding": asdict(finding)})
        print(f"{mutant.file}:{mutant.line} {mutant.kind} {mutant.name}: {finding}", flush=True)


def _check_killers(
    table: Reached, idle: Queue[_Copy], results: Results, pool: ThreadPoolExecutor
) -> bool:
    """Run what killed mutants on the source as it is; return whether one of them fails there."""
    killers = {finding.killed_by for finding in results.findings.values()} - results.steady
    tests = [test for test in table.tests if test.name in killers]

    def check(test: TestRun) -> bool:
        copy = idle.get()
        try:
            run = copy.run([test])
        except OutOfTime:
            return True
        finally:
            idle.put(copy)
        is_steady = run.test is None and run.tests == 1
        results.add({"steady" if is_steady else "unsteady": test.name})
        return is_steady

    return not all(list(pool.map(check, tests)))


def with_findings(mutants: list[Mutant], results: Results) -> list[Mutant]:
    """Return the mutants with what is known of them now."""
    return [replace(m, finding=results.findings.get(m.key, m.finding)) for m in mutants]
