"""Loops drawn at random from what people write: ours beside gcc and clang alone.

    python -m benchmarks drawn --count 40 --seed 1

Programs have the seeds S, S + 1, ... of `benchmarks/drawn_loops.py`. Contestants are those of
`wide`; every program has a process of its own. The slowest are printed again at the end with their
texts, which is where to go on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks.drawn_loops import drawn_program
from benchmarks.measure import Bar, Outcome, Setting, geometric_mean, summary
from benchmarks.wide import Row, raced

__all__ = ["bars", "run"]

COUNT, QUICK_COUNT = 100, 20
SLOW = 0.8  # of gcc's speed: such programs are shown
SHOWN = 8


def run(setting: Setting) -> Outcome:
    """Race as many programs as asked for."""
    count = setting.count or (QUICK_COUNT if setting.quick else COUNT)
    print(f"seeds {setting.seed} to {setting.seed + count - 1}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        seeds = range(setting.seed, setting.seed + count)
        programs = [drawn_program(seed, Path(folder)) for seed in seeds]
        texts = {each.name: each.path.read_text(encoding="utf-8") for each in programs}
    rows = raced(programs, "LARGE", replace(setting, seed=0))  # of the data, the same for all
    for row in sorted(rows, key=_slowness)[:SHOWN]:
        if row["remarks"] or _slowness(row) < SLOW:
            print(f"\n{row['kernel']}: {_slowness(row):.2f} of gcc\n{texts[row['kernel']]}")
    return Outcome(tuple(rows), bars(rows))


def bars(rows: Iterable[Row]) -> tuple[Bar, ...]:
    """Mean and worst of both roads, and that none is refused or wrong."""
    every = list(rows)
    found = []
    for ours in ("cc", "jit"):
        key = f"{ours}_times_gcc"
        found.append(Bar(f"{ours}, speed of gcc, mean", summary(every, key, geometric_mean), 1.0))
        found.append(Bar(f"{ours}, speed of gcc, worst", summary(every, key, min), 0.95))
    failed = sum(bool(row["remarks"]) for row in every)
    return (*found, Bar("programs refused, failed or wrong", failed, 0, at_most=True))


def _slowness(row: Row) -> float:
    """The slower of both roads as a part of gcc's speed; nothing where one has no time."""
    both = [row["cc_times_gcc"], row["jit_times_gcc"]]
    return 0.0 if None in both else min(both)
