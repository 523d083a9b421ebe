"""One process that makes many different calls: every result checked, memory told at marks.

    python -m benchmarks long_lived --count 20000

The program is tests/outside/long_lived_child.py. It runs twice: as it is, and where memory that is
freed is overwritten at once (MALLOC_PERTURB_, PYTHONMALLOC=debug).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Bar, Outcome, Setting, Table

__all__ = ["run"]

CHILD = Path(__file__).parent.parent / "tests" / "outside" / "long_lived_child.py"
CALLS, QUICK_CALLS = 20_000, 500
DEBUG = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "debug"}
MOST_GROWTH = 1.1  # of memory in the second half of the calls


def run(setting: Setting) -> Outcome:
    """Print the memory of the process at one twentieth, at half and at the end of its calls."""
    calls = setting.count or (QUICK_CALLS if setting.quick else CALLS)
    marks = [max(1, calls // 20), calls // 2, calls]
    table = Table((("memory", "8s"), ("calls", "8d"), ("MiB", "8.0f")))
    print(table.head())
    rows, bars = [], []
    for name, extra in (("plain", {}), ("debug", DEBUG)):
        told = _told(calls, marks, setting.seed, extra)
        for mark in told:
            print(table.row(name, mark["calls"], mark["resident"] / 2**20), flush=True)
            rows.append({"memory": name, **mark})
        growth = told[-1]["resident"] / told[-2]["resident"]
        bars.append(Bar(f"memory at the end over half-way, {name}", growth, MOST_GROWTH, True))
    return Outcome(tuple(rows), tuple(bars))


def _told(calls: int, marks: list[int], seed: int, extra: dict[str, str]) -> list[dict[str, Any]]:
    command = [sys.executable, str(CHILD), "--calls", str(calls), "--seed", str(seed)]
    command += ["--marks", ",".join(map(str, marks))]
    done = subprocess.run(command, env={**os.environ, **extra}, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
