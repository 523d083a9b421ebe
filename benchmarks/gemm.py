"""Matrix products of small to large size: lw.einsum beside NumPy's BLAS, torch and numba loops.

Real and complex numbers in both precisions; numba's loops on real ones only.

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
COMPLEX_SIZES = (64, 96, 128, 256, 512, 768, 1024, 2048)
QUICK_SIZES = (64, 128, 256, 512)
REAL, COMPLEX = ("float64", "float32"), ("complex128", "complex64")
MOST_FOR_NUMBA = 512  # beyond, plain loops only cost time
COLUMNS = (
    ("dtype", "10s"),
    ("n", "5d"),
    ("GFlop/s", "8.2f"),
    ("numpy", "8.2f"),
    ("torch", "8.2f"),
    ("numba", "8.2f"),
    ("times numpy", "11.3f"),
)


def run(setting: Setting) -> Outcome:
    """Race all sizes of all types."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for dtype in REAL + COMPLEX:
        sizes = SIZES if dtype in REAL else COMPLEX_SIZES
        for n in QUICK_SIZES if setting.quick else sizes:
            rows.append(_row(dtype, n, setting))
            rate = rows[-1]["gflops"]
            shown = [rate.get(x) for x in ("loopwright", "numpy", "torch", "numba")]
            print(table.row(dtype, n, *shown, rows[-1]["times_numpy"]), flush=True)
    bars: list[Bar] = []
    for kind, dtypes in (("real", REAL), ("complex", COMPLEX)):
        speeds = [row["times_numpy"] for row in rows if row["dtype"] in dtypes]
        mean, worst = geometric_mean(speeds), min(speeds)
        print(table.row(f"{kind}, mean", None, None, None, None, None, mean))
        print(table.row("worst", None, None, None, None, None, worst))
        if kind == "real" or setting.threads == 1:
            bars += _bars(kind, mean, worst, setting.threads)
    return Outcome(tuple(rows), tuple(bars))


def _bars(kind: str, mean: float, worst: float, threads: int) -> tuple[Bar, ...]:
    what = "speed of NumPy" if kind == "real" else "speed of NumPy, complex numbers"
    if threads > 1:
        return (Bar(f"{what}, geometric mean", mean, 0.97),)
    wanted = (1.02, 0.92) if kind == "real" else (1.0, 0.9)
    return (
        Bar(f"{what}, geometric mean", mean, wanted[0]),
        Bar(f"{what}, worst size", worst, wanted[1]),
    )


def _row(dtype: str, n: int, setting: Setting) -> dict[str, Any]:
    rng = np.random.default_rng(setting.seed)
    is_complex = dtype in COMPLEX
    a, b = (rng.random((n, n)).astype(dtype) for _ in range(2))
    if is_complex:
        a, b = (x + (1j * rng.random((n, n))).astype(dtype) for x in (a, b))
    reference = np.dot(a, b)
    runs: dict[str, Callable[[], Any]] = {
        "loopwright": lambda: lw.einsum("ik,kj->ij", a, b),
        "numpy": lambda: np.dot(a, b),
    }
    torch = torch_module()
    if torch is not None:
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        runs["torch"] = lambda: torch.mm(x, y)
    if n <= MOST_FOR_NUMBA and not is_complex:
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
        "gflops": {
            name: (8e-9 if is_complex else 2e-9) * n**3 / t.best for name, t in times.items()
        },
        "times_numpy": ratios(times)["numpy"],
    }
