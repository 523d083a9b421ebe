"""Tuned plans against the construction, set by set: each measured again in a fresh process.

    python -m benchmarks tuning.gains [--quick] [--count N]
    python -m benchmarks.tuning.gains [--sets odd,stencils] [--seconds S] [--budget B] [--fresh]

A subject (`gain_sets`) is tuned for a budget of seconds, with records in a folder of its own that
is thrown away. Then construction and tuned plan run in turn in a new process, so that a plan which
won by luck is not counted; the ratio is the median over the pairs. Where the construction stays the
ratio is 1: both are the same code.

Every result is a line of JSON (`--results`, build/gains.jsonl by default): what was measured with
the same budget against the same construction is passed over, so the sets can be taken in parts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.environment import processors
from benchmarks.measure import Bar, Outcome, Setting, Table, geometric_mean
from benchmarks.tuning.gain_sets import SETS, Subject, subjects
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits, Lost, Worker
from loopwright.tuning.records import Log
from loopwright.tuning.search import Tuned, search
from loopwright.tuning.tasks import Task

__all__ = ["bars", "interval", "main", "run", "summary"]

SEED = 20_240
BUDGET, QUICK_BUDGET = 30.0, 5.0  # seconds of one search
ROUNDS = 25  # pairs of runs of the second measurement
RESULTS = Path(__file__).parents[2] / "build" / "gains.jsonl"
DRAWS = 2000  # of the bootstrap
COLUMNS = (
    ("set", "9s"),
    ("subject", "58s"),
    ("plans", "5d"),
    ("search", "6.3f"),
    ("again", "6.3f"),
    ("base ms", "9.3f"),
)
LIMITS = Limits(start=120.0, build=60.0, run=60.0, sample=3.0)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured in this run."""

    sets: tuple[str, ...] = SETS
    seed: int = SEED
    budget: float = BUDGET
    seconds: float = math.inf  # after which no subject is begun
    count: int = 0  # of subjects measured now; 0: all
    each: int = 0  # subjects of a set; 0: all
    results: Path = RESULTS
    is_cold: bool = False


def run(setting: Setting) -> Outcome:
    """Measure what is missing and give the bars; --quick takes two subjects of each set."""
    each, budget = (2, QUICK_BUDGET) if setting.quick else (0, BUDGET)
    rows = measure(Asked(seed=setting.seed, budget=budget, count=setting.count, each=each))
    return Outcome(tuple(rows), bars(rows))


def main() -> int:
    """The benchmark by itself, with a limit of time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning.gains")
    parser.add_argument("--sets", default=",".join(SETS), help=f"of {','.join(SETS)}")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for this part")
    parser.add_argument("--count", type=int, default=0, help="subjects for this part")
    parser.add_argument("--each", type=int, default=0, help="subjects of a set")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of one search")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--results", type=Path, default=RESULTS, help="lines of JSON")
    parser.add_argument("--cold", action="store_true", help="caches are flushed between runs")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    args = parser.parse_args()
    names = tuple(args.sets.split(","))
    if not set(names) <= set(SETS):
        parser.error(f"sets are {', '.join(SETS)}")
    if args.fresh:
        args.results.unlink(missing_ok=True)
    limits = args.seconds, args.count, args.each
    rows = measure(Asked(names, args.seed, args.budget, *limits, args.results, args.cold))
    print("\n".join(map(str, bars(rows))))
    return 0


def measure(asked: Asked) -> list[dict[str, Any]]:
    """The results of all subjects asked for: those of earlier runs, and what is measured now."""
    table = Table(COLUMNS)
    print(f"{asked.budget:g} s each, seed {asked.seed}, results in {asked.results}")
    print(table.head(), flush=True)
    known = {_name(row): row for row in _lines(asked.results)}
    end = time.monotonic() + asked.seconds
    rows: list[dict[str, Any]] = []
    measured = 0
    for subject in _members(asked):
        row = known.get((subject.group, subject.name, asked.budget, asked.is_cold))
        is_over = time.monotonic() > end or 0 < asked.count <= measured
        if row is None and is_over:
            continue
        if row is None or not is_over:
            task = subject.task()
            construction = task.construction()
            if row is None or row["construction"] != construction.to_json():
                row = _measured(subject, task, construction, asked)
                measured += 1
                _append(asked.results, row)
        rows.append(row)
        cells = (subject.group, subject.name[:58], row["tried"], row["found"], row["ratio"])
        print(table.row(*cells, 1e3 * row["base_seconds"]), flush=True)
    for line in summary(rows):
        print(line, flush=True)
    return rows


def _members(asked: Asked) -> Iterator[Subject]:
    for group in asked.sets:
        if group == "threads" and processors() < 2:
            print("threads: this process may use one processor only")
            continue
        members = subjects(group, asked.seed)
        yield from members[: asked.each or len(members)]


def _measured(subject: Subject, task: Task, construction: Plan, asked: Asked) -> dict[str, Any]:
    limits = Limits(is_cold=asked.is_cold)
    with tempfile.TemporaryDirectory() as folder:
        records = Log(Path(folder) / "tuning.jsonl")
        found = search(task, records, asked.budget, limits=limits)
    base, own = _again(task, found, asked)
    pairs = [x / y for x, y in zip(base, own, strict=True)]
    return {
        "set": subject.group,
        "subject": subject.name,
        "budget": asked.budget,
        "cold": asked.is_cold,
        "tried": found.tried,
        "states": dict(found.states),
        "found": found.gain,
        "ratio": statistics.median(pairs) if pairs else 1.0,
        "fastest_ratio": min(base) / min(own) if pairs else 1.0,
        "base_seconds": min(base) if pairs else math.nan,
        "pairs": pairs,
        "plan": found.plan.to_json(),
        "construction": construction.to_json(),
        "changed": changed(construction, found.plan),
        "load": os.getloadavg()[0],
    }


def _again(task: Task, found: Tuned, asked: Asked) -> tuple[list[float], list[float]]:
    """Times of construction and plan in turn, in a process that knows nothing of the search.

    Where the construction stays, a few runs tell its time.
    """
    limits = Limits(LIMITS.start, LIMITS.build, LIMITS.run, LIMITS.sample, asked.is_cold)
    is_same = found.plan == found.construction
    try:
        with Worker(task, found.construction) as worker:
            worker.start(limits)
            refused = worker.build(found.plan, limits)
            times = refused or worker.time(2 if is_same else ROUNDS, limits)
    except Lost as lost:
        times = f"the process {lost}"
    if isinstance(times, str):
        # A plan that worked in the search and does not now is a fault of the tuner.
        print(f"  {times}", file=sys.stderr, flush=True)
        return [math.nan], [math.nan]
    base, own = times
    return (base, base) if is_same else (base, own)


def changed(construction: Plan, plan: Plan) -> list[str]:
    """The decisions in which two plans differ, in words."""
    before, after = map(str, construction.steps), map(str, plan.steps)
    first, second = list(before), list(after)
    lost = [f"- {line}" for line in first if line not in second]
    return lost + [f"+ {line}" for line in second if line not in first]


# -- what the results say -------------------------------------------------------------------------


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each set: mean with its interval, worst, and how many kept the construction."""
    lines = []
    for group in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == group]
        ratios = [row["ratio"] for row in own]
        low, high = interval(ratios)
        kept = sum(row["plan"] == row["construction"] for row in own)
        lines.append(
            f"{group}: geometric mean {geometric_mean(ratios):.3f} (95%: {low:.3f} to {high:.3f}), "
            f"worst {min(ratios):.3f}, best {max(ratios):.3f}, {len(own)} subjects, "
            f"{kept} keep the construction"
        )
    return lines


def interval(ratios: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95% interval of the geometric mean, by drawing the sample again with replacement."""
    random = Random(seed)
    means = sorted(geometric_mean(random.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS)]


def bars(rows: Iterable[dict[str, Any]]) -> tuple[Bar, ...]:
    """Never more than 1% under the construction, and 10% above it on the second-best set."""
    rows = list(rows)
    if not rows:
        return ()
    groups = dict.fromkeys(row["set"] for row in rows)
    means = sorted(geometric_mean(r["ratio"] for r in rows if r["set"] == g) for g in groups)
    second = means[-2] if len(means) > 1 else math.nan
    return (
        Bar("tuned over the construction, worst", min(row["ratio"] for row in rows), 0.99),
        Bar("tuned over the construction, mean of the second-best set", second, 1.10),
    )


def _name(row: dict[str, Any]) -> tuple[str, str, float, bool]:
    return row["set"], row["subject"], row["budget"], row["cold"]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Earlier results; a line that is half written is none."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _append(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main())
