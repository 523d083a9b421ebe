"""The naive triple loop under @lw.jit, in all six orders of its loops, beside lw.einsum.

What is written must not decide how fast it runs: each order is to be within 5% of the einsum that
does the same work, adding the product to an array. The einsum that makes a new array reads none;
its speed is shown too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    check_close,
    geometric_mean,
    race,
    seconds_by_name,
)
from benchmarks.naive import ORDERS

__all__ = ["run"]

SIZES = (128, 256, 512, 1024)
QUICK_SIZES = (128, 256)


def run(setting: Setting) -> Outcome:
    """Race the six orders and the einsum, each adding the product to an array."""
    compiled = {order: lw.jit(function) for order, function in ORDERS.items()}
    columns = (
        ("n", "5s"),
        ("new array GFlop/s", "8.2f"),
        ("adding GFlop/s", "8.2f"),
        *((f"{x}, times", "8.3f") for x in ORDERS),
    )
    table = Table(columns)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for n in QUICK_SIZES if setting.quick else SIZES:
        rows.append(_row(n, compiled, setting))
        rates = rows[-1]["new_gflops"], rows[-1]["einsum_gflops"]
        print(table.row(str(n), *rates, *rows[-1]["speed"].values()), flush=True)
    for words, pick in (("mean", geometric_mean), ("worst", min)):
        print(table.row(words, None, None, *(pick([r["speed"][x] for r in rows]) for x in ORDERS)))
    speeds = [speed for row in rows for speed in row["speed"].values()]
    bars = (
        Bar("speed of lw.einsum, worst order and size", min(speeds), 0.95),
        Bar("speed of lw.einsum, geometric mean", geometric_mean(speeds), 0.95),
    )
    return Outcome(tuple(rows), bars)


def _row(n: int, compiled: dict[str, Any], setting: Setting) -> dict[str, Any]:
    rng = np.random.default_rng(setting.seed)
    a, b = rng.random((n, n)), rng.random((n, n))
    for kernel in compiled.values():
        out = np.zeros((n, n))
        kernel(a, b, out)
        check_close(out, a @ b, n)
    c = np.zeros((n, n))
    runs = {
        "einsum": lambda: lw.einsum("ik,kj->ij", a, b),
        "einsum, adding": lambda: lw.einsum("ik,kj->ij", a, b, out=c, accumulate=True),
    }
    runs |= {order: partial(kernel, a, b, c) for order, kernel in compiled.items()}
    times = race(runs, setting)
    best = times["einsum, adding"].best
    return {
        "n": n,
        "seconds": seconds_by_name(times),
        "einsum_gflops": 2e-9 * n**3 / best,
        "new_gflops": 2e-9 * n**3 / times["einsum"].best,
        "speed": {order: best / times[order].best for order in compiled},
    }
