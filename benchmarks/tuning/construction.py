"""The construction on LoopTune's 440 held-out products: share of the peak, plan time, NumPy.

The peak is measured beforehand. Kernel time is that of native code that repeats the call; what a
call from Python adds is shown apart.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.measure import Bar, Outcome, Setting, Table, check_close, fastest, geometric_mean
from benchmarks.peak import clock, model_operations, pair_peak
from benchmarks.tuning.native_time import native_seconds
from benchmarks.tuning.shapes import SPLIT, Shape, held_out_shapes, split_hash
from loopwright.calls.einsum import einsum_task
from loopwright.kernels import contraction_kernel, thread_pool
from loopwright.lower.contraction_nests.launch import launch
from loopwright.pipeline import compile_einsum
from loopwright.planner.contraction_plans.analytical import choose

__all__ = ["constructed_kernel", "peak_rate", "run"]

QUICK = 24
COLUMNS = (
    ("shape", "14s"),
    ("kernel us", "9.1f"),
    ("of peak", "8.3f"),
    ("plan ms", "8.2f"),
    ("call us", "8.1f"),
    ("numpy us", "8.1f"),
    ("times numpy", "11.3f"),
)


def run(setting: Setting) -> Outcome:
    """Measure the bars of the construction."""
    assert split_hash() == SPLIT, "the split is not the one that was committed"
    shapes = held_out_shapes()[: setting.count or (QUICK if setting.quick else None)]
    peak = peak_rate("float32")
    print(f"peak {peak / 1e9:.2f} GFLOPS")
    table = Table(COLUMNS)
    print(table.head())
    _row(held_out_shapes()[-1], peak, setting)  # first use of libraries is not the shape's
    rows = []
    for shape in shapes:
        row = _row(shape, peak, setting)
        rows.append(row)
        cells = [row[x] for x in ("kernel_us", "of_peak", "plan_ms", "call_us", "numpy_us")]
        print(table.row(shape.name, *cells, row["times_numpy"]), flush=True)
    shares = [row["of_peak"] for row in rows]
    speeds = [row["times_numpy"] for row in rows]
    extra = statistics.median(row["call_us"] - row["kernel_us"] for row in rows)
    print(f"a call adds {extra:.2f} us (median); times NumPy {geometric_mean(speeds):.3f}")
    worst = sorted(rows, key=lambda row: row["of_peak"])[:8]
    print("least of the peak:", ", ".join(f"{x['shape']} {x['of_peak']:.3f}" for x in worst))
    bars = (
        Bar("share of the peak, mean", statistics.mean(shares), 0.92),
        Bar("share of the peak, least", min(shares), 0.85),
        Bar("plan, median", statistics.median(row["plan_ms"] for row in rows), 1.0, True, " ms"),
        Bar("calls not slower than NumPy", sum(x >= 1 for x in speeds) / len(speeds), 0.95),
    )
    return Outcome(tuple(rows), bars)


def peak_rate(dtype: str) -> float:
    """Operations a second of multiply-adds: by the units at the measured clock, or a loop's.

    There is no such loop for float16: not every machine has its arithmetic.
    """
    ticks = clock()
    ticks.run()
    hertz = ticks.amount / min(fastest(ticks.run) for _ in range(5))
    by_units = hertz * model_operations("add", "mul", dtype)
    if dtype == "float16":
        return by_units
    pairs = pair_peak("add", "mul", dtype)
    pairs.run()
    return max(pairs.amount / min(fastest(pairs.run) for _ in range(5)), by_units)


def constructed_kernel(
    shape: Shape, operands: tuple[Any, Any] | None = None
) -> tuple[Any, tuple[Any, ...], float]:
    """The construction's kernel with its arrays (out, left, right), and the seconds of the plan."""
    sizes = dict(shape.sizes)
    random = np.random.default_rng(0)
    terms = shape.subscripts.partition("->")[0].split(",")
    if operands is None:
        left, right = (
            random.random([sizes[x] for x in term]).astype(shape.dtype) for term in terms
        )
        operands = left, right
    a, b = operands
    threads = shape.threads
    task = einsum_task(shape.subscripts, a, b, threads=threads)
    start = time.perf_counter()
    choice = choose(task.shape, task.algebra, task.machine, threads, reassoc=task.reassoc)
    seconds = time.perf_counter() - start
    names = task.names
    kernel = contraction_kernel(choice.kernel, lambda: compile_einsum(names, choice, is_given=True))
    given = launch(choice.variant, choice.blocks, choice.shape)
    bound = kernel.bind(given.values, given.table, threads, thread_pool)
    out = lw.einsum(shape.subscripts, a, b, threads=threads)
    arrays = (out, b, a) if choice.variant.swapped else (out, a, b)
    return bound, arrays, seconds


def _row(shape: Shape, peak: float, setting: Setting) -> dict[str, Any]:
    kernel, arrays, plan = constructed_kernel(shape)
    out = arrays[0]
    a, b = sorted(arrays[1:], key=lambda x: x.shape != tuple(dict(shape.sizes)[d] for d in "mk"))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    out[...] = -1
    seconds = native_seconds(kernel, arrays)
    check_close(out, wanted, a.shape[1])
    runs = {"ours": lambda: lw.einsum("mk,kn->mn", a, b), "numpy": lambda: np.matmul(a, b)}
    best = dict.fromkeys(runs, float("inf"))
    for call in runs.values():
        call()
    for _ in range(setting.rounds):
        for name, call in runs.items():
            best[name] = min(best[name], fastest(call, 0.004))
    return {
        "shape": shape.name,
        "kernel_us": 1e6 * seconds,
        "of_peak": shape.operations / seconds / peak,
        "plan_ms": 1e3 * plan,
        "call_us": 1e6 * best["ours"],
        "numpy_us": 1e6 * best["numpy"],
        "times_numpy": best["numpy"] / best["ours"],
    }
