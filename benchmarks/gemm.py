"""Matrix products of small to large size: lw.einsum beside NumPy's BLAS, torch and numba loops.

Bars: as fast as BLAS over all sizes, and not far behind at any single one.
"""

from __future__ import annotations

from collections.abc import Callable
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
    ratios,
    seconds_by_name,
)
from benchmarks.peers import numba_product, torch_module

__all__ = ["run"]

SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
QUICK_SIZES = (64, 128, 256, 512)
MOST_FOR_NUMBA = 512  # beyond, plain loops only cost time
COLUMNS = (
    ("dtype", "8s"),
    ("n", "5d"),
    ("GFlop/s", "8.2f"),
    ("numpy", "8.2f"),
    ("torch", "8.2f"),
    ("numba", "8.2f"),
    ("times numpy", "11.3f"),
)


def run(setting: Setting) -> Outcome:
    """Race all sizes in both precisions."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for dtype in ("float64", "float32"):
        for n in QUICK_SIZES if setting.quick else SIZES:
            rows.append(_row(dtype, n, setting))
            rate = rows[-1]["gflops"]
            shown = [rate.get(x) for x in ("loopwright", "numpy", "torch", "numba")]
            print(table.row(dtype, n, *shown, rows[-1]["times_numpy"]), flush=True)
    speeds = [row["times_numpy"] for row in rows]
    for words, value in (("mean", geometric_mean(speeds)), ("worst", min(speeds))):
        print(table.row(words, None, None, None, None, None, value))
    return Outcome(tuple(rows), _bars(speeds, setting.threads))


def _bars(speeds: list[float], threads: int) -> tuple[Bar, ...]:
    mean = geometric_mean(speeds)
    if threads > 1:
        return (Bar("speed of NumPy, geometric mean", mean, 0.97),)
    return (
        Bar("speed of NumPy, geometric mean", mean, 1.02),
        Bar("speed of NumPy, worst size", min(speeds), 0.92),
    )


def _row(dtype: str, n: int, setting: Setting) -> dict[str, Any]:
    rng = np.random.default_rng(setting.seed)
    a, b = (rng.random((n, n)).astype(dtype) for _ in range(2))
    reference = np.dot(a, b)
    runs: dict[str, Callable[[], Any]] = {
        "loopwright": lambda: lw.einsum("ik,kj->ij", a, b),
        "numpy": lambda: np.dot(a, b),
    }
    torch = torch_module()
    if torch is not None:
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        runs["torch"] = lambda: torch.mm(x, y)
    if n <= MOST_FOR_NUMBA:
        loops = numba_product("add", "mul", a, b, 0, dtype)
        if loops is not None:
            runs["numba"] = loops
    for call in runs.values():
        check_close(call(), reference, n)
    times = race(runs, setting)
    return {
        "dtype": dtype,
        "n": n,
        "seconds": seconds_by_name(times),
        "gflops": {name: 2e-9 * n**3 / t.best for name, t in times.items()},
        "times_numpy": ratios(times)["numpy"],
    }
