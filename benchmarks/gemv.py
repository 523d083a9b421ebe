"""Matrix times vector in both forms beside NumPy, and beside the read bandwidth of the moment.

The bandwidth is the better of two readers of the same memory in the same run: our own sum,
lw.einsum("i->", ...), and a loop that only loads, so that a slow sum cannot flatter the product.
"""

from __future__ import annotations

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
from benchmarks.peak import reader

__all__ = ["run"]

SIZES = (1024, 4096, 8192)
QUICK_SIZES = (512, 1024)
FORMS = (("A x", "ij,j->i"), ("A^T x", "ij,i->j"))
COLUMNS = (
    ("form", "6s"),
    ("dtype", "8s"),
    ("n", "5d"),
    ("GB/s", "8.2f"),
    ("numpy", "8.2f"),
    ("sum", "8.2f"),
    ("loads", "8.2f"),
    ("times numpy", "8.3f"),
    ("of bandwidth", "8.1%"),
)


def run(setting: Setting) -> Outcome:
    """Race both forms in both precisions."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for dtype in ("float64", "float32"):
        for n in QUICK_SIZES if setting.quick else SIZES:
            rng = np.random.default_rng(setting.seed)
            a, x = rng.random((n, n), dtype), rng.random(n, dtype)
            for form, subscripts in FORMS:
                row = _row(form, subscripts, a, x, setting)
                rows.append(row)
                rates = (row["gbytes"][k] for k in ("loopwright", "numpy", "sum", "loads"))
                shown = (*rates, row["times_numpy"], row["share"])
                print(table.row(form, dtype, n, *shown), flush=True)
    speeds, shares = ([row[key] for row in rows] for key in ("times_numpy", "share"))
    for words, pick in (("mean", geometric_mean), ("worst", min)):
        print(table.row(words, *[None] * 6, pick(speeds), pick(shares)))
    bars = (
        Bar("speed of NumPy, geometric mean", geometric_mean(speeds), 1.10),
        Bar("speed of NumPy, worst", min(speeds), 0.95),
        Bar("share of the read bandwidth, worst", min(shares), 0.90),
    )
    return Outcome(tuple(rows), bars)


def _row(form: str, subscripts: str, a: Any, x: Any, setting: Setting) -> dict[str, Any]:
    matrix = a if form == "A x" else a.T
    check_close(lw.einsum(subscripts, a, x), np.dot(matrix, x), len(x))
    flat = a.reshape(-1)
    check_close(lw.einsum("i->", flat), flat.sum(dtype=np.float64), a.size)
    loads = reader(flat)
    runs = {
        "loopwright": lambda: lw.einsum(subscripts, a, x),
        "numpy": lambda: np.dot(matrix, x),
        "sum": lambda: lw.einsum("i->", flat),
        "loads": loads.run,
    }
    times = race(runs, setting)
    rates = {name: 1e-9 * a.nbytes / t.best for name, t in times.items()}
    return {
        "form": form,
        "dtype": str(a.dtype),
        "n": len(x),
        "seconds": seconds_by_name(times),
        "gbytes": rates,
        "times_numpy": ratios(times)["numpy"],
        "share": rates["loopwright"] / max(rates["sum"], rates["loads"]),
    }
