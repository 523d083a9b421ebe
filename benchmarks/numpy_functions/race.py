"""Every program of a source by `jit`, NumPy and numba: right or not, and how long a call takes.

Each contestant has a process per program. The result of its first call is compared with NumPy's:
every value returned and every argument changed, in number, type, shape and bits; numbers in
floating point may be off by what `SLACK` of contestant.py allows. Those that are right then take
turns, A, B, A, B, ...; a ratio is the median over turns, with the least and the greatest beside it.
Of numba's variants the fastest right one counts, fastmath or not; one may leave out the return of
an argument that it has changed.

With several jobs, programs are compiled and checked side by side on some processors, and take turns
on others, which nobody else uses then.
"""

from __future__ import annotations

import json
import os
import queue
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Bar, Outcome, Setting, Table, geometric_mean
from benchmarks.numpy_functions.sources import NUMBA, OURS, PLAIN, Source, source

__all__ = [
    "Child",
    "Least",
    "Row",
    "Stopped",
    "bars",
    "chosen",
    "measured",
    "run_source",
    "summary_lines",
]

ROOT = Path(__file__).parent.parent.parent
SECONDS, CHECK_SECONDS = 600.0, 60.0  # that a contestant has for an answer; with --check
RACE_SECONDS = 120.0  # after which a program gets no further round
SLOW_SECONDS = 2.0  # of a call of NumPy that is not repeated
MOST_RACES = 4  # at a time
COLUMNS = (
    ("program", "26s"),
    ("preset", "6s"),
    ("state", "8s"),
    ("ulp", "9.2g"),
    ("first s", "7.2f"),
    ("ours ms", "10.3f"),
    ("x NumPy", "8.2f"),
    ("least - greatest", "17s"),
    ("x numba", "8.2f"),
    ("least - greatest", "17s"),
    ("numba's variant", "14s"),
)
CHECKED = 5  # columns that need no times
RIGHT = "right"
Row = dict[str, Any]


class Stopped(Exception):  # noqa: N818, what happened
    """A contestant gave no answer: it ended, or took too long."""


@dataclass(frozen=True, slots=True)
class Least:
    """How many times as fast as others we want to be."""

    numpy_mean: float = 4.0
    numpy: float = 0.9  # of any program
    numba_mean: float = 1.0
    numba: float = 0.6


class Lanes:
    """Processors for preparing programs, and sets of them for races, each free or taken."""

    def __init__(self, setting: Setting) -> None:
        self._races: queue.Queue[set[int]] = queue.Queue()
        if setting.jobs <= 1:
            self._prepare: set[int] = set()
            self._races.put(set())
            return
        known = sorted(os.sched_getaffinity(0))
        count = max(1, min(MOST_RACES, len(known) // 2 // setting.threads))
        for number in range(count):
            first = number * setting.threads
            self._races.put(set(known[first : first + setting.threads]))
        self._prepare = set(known[count * setting.threads :]) or set(known)

    def prepare(self, child: Child) -> None:
        """Run a process that has just begun where programs are prepared."""
        if self._prepare:
            os.sched_setaffinity(child.process.pid, self._prepare)

    @contextmanager
    def race(self, children: Collection[Child]) -> Iterator[None]:
        """Run processes with all their threads on processors of their own."""
        own = self._races.get()
        try:
            for child in children if own else ():
                for thread in os.listdir(f"/proc/{child.process.pid}/task"):
                    os.sched_setaffinity(int(thread), own)
            yield
        finally:
            self._races.put(own)


@dataclass(frozen=True)
class Child:
    """A contestant's process."""

    process: subprocess.Popen[str]
    seconds: float  # it has for an answer

    def ask(self, *request: Any) -> Row:
        """The answer to a request; of none, what the process says when it starts."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            if request:
                self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
        except BrokenPipeError:
            raise Stopped(self._ending()) from None
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        if not ready:
            self.process.kill()
            raise Stopped(f"no answer in {self.seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Stopped(self._ending())
        answer: Row = json.loads(line)
        return answer

    def _ending(self) -> str:
        return f"its process ended with {self.process.wait()}"


@contextmanager
def started(command: Sequence[str], seconds: float) -> Iterator[Child]:
    """A contestant that is ended behind the block."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True,
        env=os.environ,
    )  # fmt: skip
    try:
        yield Child(process, seconds)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue  # what it was asked last it never read


def run_source(
    folder: str, setting: Setting, *, complete: int, least: Least | None = None
) -> Outcome:
    """Check or race the programs asked for; `complete` is how many must be right."""
    known = source(folder)
    columns = COLUMNS[:CHECKED] if setting.check else COLUMNS
    table = Table(columns)
    print(table.head(), flush=True)
    rows: list[Row] = []
    lanes = Lanes(setting)
    end = time.monotonic() + 60 * setting.minutes if setting.minutes else float("inf")

    def one(task: tuple[str, str]) -> Row | None:
        if time.monotonic() > end:
            return None
        row = measured(known, folder, *task, setting, lanes)
        cells = [table.row(*_cells(row)[: len(columns)])]
        print("\n".join([*cells, *(f"  {remark}" for remark in row["remarks"])]), flush=True)
        return row

    with ThreadPoolExecutor(max(1, setting.jobs)) as pool:
        rows += [row for row in pool.map(one, chosen(known, setting)) if row is not None]
    if not setting.check:
        print("\n".join(["", "worst first", table.head()]))
        print("\n".join(table.row(*_cells(row)) for row in sorted(rows, key=_standing)))
    print("\n".join(summary_lines(rows)), flush=True)
    return Outcome(tuple(rows), bars(rows, complete, least or Least(), timed=not setting.check))


def _standing(row: Row) -> tuple[float, float]:
    """By what a row is sorted: times numba, then times NumPy."""
    first, second = (row[f"{name}_times"] for name in (NUMBA, PLAIN))
    infinite = float("inf")
    return (first[0] if first else infinite, second[0] if second else infinite)


def chosen(known: Source, setting: Setting) -> list[tuple[str, str]]:
    """The programs and presets asked for."""
    names = known.names()
    unknown = [name for name in setting.kernels if name not in names]
    if unknown:
        sys.exit(f"no program is named {', '.join(unknown)}; known: {', '.join(names)}")
    found = []
    for preset in setting.presets or ("S", "M"):
        for name in setting.kernels or names:
            if preset not in known.presets(name):
                accepted = ", ".join(known.presets(name))
                sys.exit(f"{name} has no preset {preset}; known: {accepted}")
            found.append((name, preset))
    return found


def measured(
    known: Source,
    folder: str,
    name: str,
    preset: str,
    setting: Setting,
    lanes: Lanes | None = None,
) -> Row:
    """What became of one program."""
    lanes = lanes or Lanes(Setting())
    row: Row = {
        "program": name, "preset": preset, "state": RIGHT, "reason": "", "line": None,
        "places": [], "ulp": None, "first_seconds": None, "seconds": {}, "numba": None,
        "remarks": [], "numpy_times": None, "numba_times": None,
    }  # fmt: skip
    limit = CHECK_SECONDS if setting.check else SECONDS
    with ExitStack() as stack:
        file = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "right")
        racing: dict[str, Child] = {}

        def enter(contestant: str) -> Child:
            command = [
                sys.executable, "-m", "benchmarks.numpy_functions.contestant", "--dir", folder,
                "--program", name, "--preset", preset, "--contestant", contestant,
            ]  # fmt: skip
            child = stack.enter_context(started(command, limit))
            lanes.prepare(child)
            return child

        try:
            ours = enter(OURS)
            row |= _first_call(ours)
            if row["state"] == RIGHT:
                racing[PLAIN] = enter(PLAIN)
                plain_seconds = _reference(racing[PLAIN], file)
                racing[OURS] = ours
                row |= _verdict(ours, file)
                if row["state"] == RIGHT:
                    row |= _second_call(ours)
        except Stopped as reason:
            row |= {"state": "stopped", "reason": str(reason)}
        if row["reason"]:
            row["remarks"].append(_place(row) + row["reason"])
        if setting.check or row["state"] != RIGHT:
            return row
        fastest = None
        for variant in known.contestants(name):
            if variant.startswith(NUMBA):
                fastest = _faster(row, fastest, (variant, enter(variant)), file)
        if fastest is not None:
            row["numba"], racing[NUMBA] = fastest[0], fastest[1]
        if plain_seconds > SLOW_SECONDS:
            racing.pop(PLAIN).process.kill()
        with lanes.race(racing.values()):
            row["seconds"] = _raced(row, racing, setting)
        if plain_seconds > SLOW_SECONDS:
            row["seconds"][PLAIN] = [plain_seconds] * len(row["seconds"].get(OURS, ()))
    return row | _ratios(row["seconds"])


def _first_call(child: Child) -> Row:
    """The state of a contestant after its first call: right as far as is known, or why not."""
    start = child.ask()
    found = start if "failed" in start else child.ask("call")
    if "failed" in found:
        keys = ("reason", "line", "text", "places")
        return {"state": found["failed"], **{key: found[key] for key in keys}}
    return {"state": RIGHT, "first_seconds": found["seconds"]}


def _reference(plain: Child, file: str) -> float:
    """Write NumPy's result to a file; the seconds of its call."""
    found = _first_call(plain)
    if found["state"] != RIGHT:
        raise Stopped(f"NumPy itself: {found['reason']}")
    plain.ask("keep", file)
    seconds: float = found["first_seconds"]
    return seconds


def _verdict(child: Child, file: str, *, lenient: bool = False) -> Row:
    """Whether the first call was right."""
    judged = child.ask("judge", file, lenient)
    state = "wrong" if judged["wrong"] else RIGHT
    return {"state": state, "ulp": judged["error"], "reason": judged["wrong"]}


def _second_call(child: Child) -> Row:
    """The state after a second call: whether it was compiled code that gave the same bits."""
    again = child.ask("again")
    if "failed" in again:
        return {"state": "failed", "reason": f"second call: {again['reason']}"}
    if again["in_python"]:
        return {"state": "python", "reason": "the call was left to Python"}
    if not again["repeats"]:
        return {"state": "wrong", "reason": "a second call gives other bits"}
    return {}


def _place(row: Row) -> str:
    if row["line"] is None:
        return ""
    more = len(row["places"]) - 1
    others = f" and {more} more" if more > 0 else ""
    return f"line {row['line']}{others}: {row['text']}: "


Timed = tuple[str, Child, float]


def _faster(row: Row, best: Timed | None, entered: tuple[str, Child], file: str) -> Timed | None:
    """The faster of two of numba's variants, by one turn after a first one, if it is right."""
    name, child = entered
    try:
        verdict = _first_call(child)
        if verdict["state"] == RIGHT:
            verdict = _verdict(child, file, lenient=True)
        if verdict["state"] == RIGHT:
            child.ask("turn")
            seconds = child.ask("turn")["seconds"]
            if best is None or seconds < best[2]:
                best, entered = (name, child, seconds), best[:2] if best else entered
        elif verdict["state"] != "absent":
            row["remarks"].append(f"{name} is {verdict['state']}: {verdict['reason']}")
    except Stopped as reason:
        row["remarks"].append(f"{name} stopped: {reason}")
    if best is None or entered[1] is not best[1]:
        entered[1].process.kill()  # its memory is needed
    return best


def _raced(row: Row, racing: dict[str, Child], setting: Setting) -> dict[str, list[float]]:
    """Seconds of the turns that all have taken, after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in racing}
    end = time.monotonic() + RACE_SECONDS
    for number in range(setting.rounds + 1):
        try:
            seconds = {name: child.ask("turn")["seconds"] for name, child in racing.items()}
        except Stopped as reason:
            row["remarks"].append(f"the race ended: {reason}")
            break
        for name, one in seconds.items():
            if number:
                found[name].append(one)
        if time.monotonic() > end:
            break
    return {name: every for name, every in found.items() if every}


def _ratios(seconds: dict[str, list[float]]) -> Row:
    """How many times as fast ours is as the others: median, least, greatest."""
    found: Row = {}
    for name in (PLAIN, NUMBA):
        if OURS in seconds and name in seconds:
            each = [x / y for x, y in zip(seconds[name], seconds[OURS], strict=True)]
            found[f"{name}_times"] = [statistics.median(each), min(each), max(each)]
    return found


def _cells(row: Row) -> list[Any]:
    ours = row["seconds"].get(OURS)
    cells = [row["program"], row["preset"], row["state"], row["ulp"], row["first_seconds"]]
    cells.append(None if not ours else 1e3 * statistics.median(ours))
    for name in (PLAIN, NUMBA):
        ratio = row[f"{name}_times"]
        cells += [None, None] if ratio is None else [ratio[0], f"{ratio[1]:.2f} - {ratio[2]:.2f}"]
    return [*cells, row["numba"]]


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """How many programs are in which state, why, and the ratios in the mean and at worst."""
    lines = []
    for preset in dict.fromkeys(row["preset"] for row in rows):
        among = [row for row in rows if row["preset"] == preset]
        states = Counter(row["state"] for row in among)
        told = ", ".join(f"{count} {state}" for state, count in states.most_common())
        lines.append(f"{preset}: {len(among)} programs: {told}")
        for name in (PLAIN, NUMBA):
            found = {row["program"]: row[f"{name}_times"] for row in among}
            ratios = {program: times[0] for program, times in found.items() if times}
            if ratios:
                mean, worst = geometric_mean(ratios.values()), min(ratios, key=ratios.__getitem__)
                lines.append(f"{preset}, times {name}: geometric mean {mean:.3g} "
                             f"of {len(ratios)}, worst {ratios[worst]:.3g} ({worst})")  # fmt: skip
    reasons = Counter(row["reason"] for row in rows if row["state"] == "refused")
    return lines + [
        f"{count:4d} refused first: {reason}" for reason, count in reasons.most_common()
    ]


def bars(rows: Sequence[Row], complete: int, least: Least, *, timed: bool) -> tuple[Bar, ...]:
    """What we hold ourselves to, for each preset."""
    found = []
    for preset in dict.fromkeys(row["preset"] for row in rows):
        among = [row for row in rows if row["preset"] == preset]
        wrong = sum(row["state"] in ("wrong", "failed", "stopped") for row in among)
        right = sum(row["state"] == RIGHT for row in among)
        found.append(Bar(f"{preset}: wrong or failed", wrong, 0, at_most=True))
        if len(among) >= complete:
            found.append(Bar(f"{preset}: programs right", right, complete))
        if not timed:
            continue
        limits = (
            (PLAIN, least.numpy_mean, least.numpy),
            (NUMBA, least.numba_mean, least.numba),
        )
        for name, mean, worst in limits:
            every = [row[f"{name}_times"][0] for row in among if row[f"{name}_times"] is not None]
            if every:
                found.append(Bar(f"{preset}: times {name}, mean", geometric_mean(every), mean))
                found.append(Bar(f"{preset}: times {name}, worst", min(every), worst))
        first = [row["first_seconds"] for row in among if row.get("first_seconds")]
        if first:
            mean = statistics.mean(first)
            found.append(Bar(f"{preset}: first call, mean", mean, 0.5, at_most=True, unit=" s"))
            found.append(Bar(f"{preset}: first call", max(first), 1.5, at_most=True, unit=" s"))
    return tuple(found)
