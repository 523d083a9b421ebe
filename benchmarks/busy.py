"""Matrix products of a team on a quiet machine, on a busy one, and in turns with NumPy's.

Busy: one other process per processor that never pauses. In turns: a product of NumPy and one of
ours, and so on, while the workers of BLAS still spin as they do by default.

The median shows what a call usually takes, the mean what a program gets done: where other processes
take the processor from a thread for milliseconds, a few calls hold most of the time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.environment import processors
from benchmarks.measure import Bar, Outcome, Setting, Table, check_close

__all__ = ["run"]

SIZES = (256, 512, 1024)
SECONDS = 1.5  # per competitor
QUICK_SECONDS = 0.3
FEWEST_CALLS = 5
COLUMNS = (
    ("condition", "10s"),
    ("n", "5d"),
    ("GFlop/s", "8.2f"),
    ("numpy", "8.2f"),
    ("times numpy", "11.3f"),
    ("mean", "8.2f"),
    ("numpy mean", "10.2f"),
)
LEAST_BUSY = 0.8  # of NumPy's mean; its teams wait for all their threads, too
LEAST_IN_TURNS = 0.7  # a worker shares its processor with one of BLAS that spins

Call = Callable[[], object]


def run(setting: Setting) -> Outcome:
    """Time both libraries under each condition."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for condition in ("quiet", "busy", "in turns"):
        with _others(processors() if condition == "busy" else 0):
            for n in SIZES:
                rows.append(_row(condition, n, setting))
                print(table.row(*rows[-1].values()), flush=True)
    return Outcome(
        tuple(rows), (*_bars(rows, "busy", LEAST_BUSY), *_bars(rows, "in turns", LEAST_IN_TURNS))
    )


def _bars(rows: list[dict[str, Any]], condition: str, least: float) -> Iterator[Bar]:
    found = [row["mean"] / row["numpy_mean"] for row in rows if row["condition"] == condition]
    yield Bar(f"{condition}: mean rate over NumPy's at the worst size", min(found), least)


def _row(condition: str, n: int, setting: Setting) -> dict[str, Any]:
    rng = np.random.default_rng(setting.seed)
    a, b = rng.random((2, n, n)).astype(np.float32)
    ours, theirs = np.empty((2, n, n), np.float32)

    def product() -> object:
        return lw.einsum("ij,jk->ik", a, b, out=ours, threads=setting.threads)

    def numpy_product() -> object:
        return np.matmul(a, b, out=theirs)

    product(), numpy_product()
    check_close(ours, theirs, n)
    seconds = QUICK_SECONDS if setting.quick else SECONDS
    if condition == "in turns":
        own, other = _timed((product, numpy_product), 2 * seconds)
    else:
        (other,) = _timed((numpy_product,), seconds)
        time.sleep(setting.pause)
        (own,) = _timed((product,), seconds)
    work = 2e-9 * n**3
    rate, numpy_rate = (work / sorted(x)[len(x) // 2] for x in (own, other))
    mean, numpy_mean = (work * len(x) / sum(x) for x in (own, other))
    return {
        "condition": condition,
        "n": n,
        "gflops": rate,
        "numpy": numpy_rate,
        "times_numpy": rate / numpy_rate,
        "mean": mean,
        "numpy_mean": numpy_mean,
    }


def _timed(calls: tuple[Call, ...], seconds: float) -> list[list[float]]:
    """The duration of every call, made in turns for some seconds."""
    found: list[list[float]] = [[] for _ in calls]
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(found[0]) < FEWEST_CALLS:
        for call, durations in zip(calls, found, strict=True):
            start = time.perf_counter()
            call()
            durations.append(time.perf_counter() - start)
    return found


@contextmanager
def _others(count: int) -> Iterator[None]:
    """That many processes beside this one that never pause."""
    command = [sys.executable, "-S", "-c", "while True: pass"]
    spinning = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
