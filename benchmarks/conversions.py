"""Conversions of sparse formats against scipy, the byte limit and comparison sorts.

Inputs are plain arrays, symmetric files expanded; whatever looks at them, sorts or sums them is
timed. scipy gets a new object for every call, so that no flag is remembered from the one before.
Bytes are those that any converter must move; what copies more shows a smaller rate.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison_sort import KINDS, missing_compiler, morton_sorter
from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    check_equal,
    geometric_mean,
    race,
    ratios,
    seconds_by_name,
)
from benchmarks.sparse_data import TWINS, load, matrices_directory, twin
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor

__all__ = ["run"]

ROOT = Path(__file__).parent.parent
FILES = ("denormal", "dixmaanl", "jnlbrng1", "obstclae", "shyy161")
GENERATED = ("ecology1", "Lin", "atmosmodd", "Baumann")
QUICK = ("jnlbrng1", "Baumann")
MANY = 1_000_000  # entries from which on two threads are to pay
POINTS, QUICK_POINTS = 4_000_000, 200_000
SIDE = 1 << 16  # of the tensor of random points
REPEATS = 5  # of processes that compile
COPY = 1 << 27  # bytes of the copy that tells the bandwidth: more than caches hold

COLUMNS = (
    ("conversion", "16s"),
    ("matrix", "10s"),
    ("entries", "9d"),
    ("ns/entry", "8.2f"),
    ("scipy", "8.2f"),
    ("GB/s", "7.2f"),
    ("memcpy", "7.2f"),
    ("times scipy", "8.2f"),
    ("times limit", "8.2f"),
)


@dataclass(frozen=True)
class Task:
    """One conversion of one matrix: both competitors, and the bytes that must move."""

    name: str
    ours: Callable[[int], SparseTensor]  # called with a number of threads
    scipy: Callable[[], Any]
    moved: int
    parts: Callable[[SparseTensor, Any], list[tuple[Any, Any]]]  # what must be equal
    copied: int = 0  # bytes of a converter that copies columns and values instead of sharing them


def run(setting: Setting) -> Outcome:
    """One thread: the races and limits. Two: how much faster they are than one."""
    return _one_thread(setting) if setting.threads == 1 else _two_threads(setting)


# -- matrices and tasks ---------------------------------------------------------------------------


def _matrices(setting: Setting) -> Iterator[tuple[str, SparseTensor]]:
    """Coordinates in order, by name; a missing file is replaced by its twin where there is one."""
    folder = matrices_directory()
    for name in QUICK if setting.quick else (*FILES, *GENERATED):
        if name in FILES and folder is not None:
            yield name, _in_order(load(folder, name))
        elif name in TWINS:
            yield name, twin(name, setting.seed)
        else:
            print(f"{name}: no file, and no twin is known")


def _in_order(tensor: SparseTensor) -> SparseTensor:
    order = np.lexsort((tensor.arrays["col"], tensor.arrays["row"]))
    arrays = {name: array[order] for name, array in tensor.arrays.items()}
    return sparse_tensor("scoo", tensor.shape, arrays, tensor.values[order])


def _tasks(tensor: SparseTensor, seed: int) -> Iterator[Task]:
    import scipy.sparse as sparse  # lazy: the peer of this benchmark alone

    shape, count = tensor.shape, len(tensor.values)
    row, col, values = tensor.arrays["row"], tensor.arrays["col"], tensor.values
    drawn = np.random.default_rng(seed).permutation(count)
    pointers = 4 * (shape[0] + 1)

    def listed(order: Any, target: str) -> Callable[[int], SparseTensor]:
        r, c, v = (row, col, values) if order is None else (row[order], col[order], values[order])
        return lambda threads: convert_tensor(
            sparse_tensor("coo", shape, {"row": r, "col": c}, v), find(target), threads=threads
        )

    def by_scipy(order: Any, method: str) -> Callable[[], Any]:
        r, c, v = (row, col, values) if order is None else (row[order], col[order], values[order])
        return lambda: getattr(sparse.coo_array((v, (r, c)), shape=shape), method)()

    yield Task(
        "coo->csr sorted",
        listed(None, "csr"),
        by_scipy(None, "tocsr"),
        4 * count + pointers,
        _rows,
        28 * count + pointers,
    )
    yield Task(
        "coo->csr",
        listed(drawn, "csr"),
        by_scipy(drawn, "tocsr"),
        32 * count + pointers,
        _rows,
    )
    rows = by_scipy(None, "tocsr")()
    arrays = {"rowptr": rows.indptr, "col": rows.indices}
    yield Task(
        "csr->csc",
        lambda threads: convert_tensor(
            sparse_tensor("csr", shape, arrays, rows.data), find("csc"), threads=threads
        ),
        lambda: sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=shape).tocsc(),
        28 * count + 2 * pointers,
        _columns,
    )
    diagonals = len(np.unique(col.astype(np.int64) - row))
    yield Task(
        "coo->dia",
        listed(drawn, "dia"),
        by_scipy(drawn, "todia"),
        24 * count + 8 * diagonals * shape[0],
        _diagonals,
    )


def _rows(ours: SparseTensor, scipy: Any) -> list[tuple[Any, Any]]:
    arrays = ours.arrays
    return [
        (arrays["rowptr"], scipy.indptr),
        (arrays["col"], scipy.indices),
        (ours.values, scipy.data),
    ]


def _columns(ours: SparseTensor, scipy: Any) -> list[tuple[Any, Any]]:
    arrays = ours.arrays
    return [
        (arrays["colptr"], scipy.indptr),
        (arrays["row"], scipy.indices),
        (ours.values, scipy.data),
    ]


def _diagonals(ours: SparseTensor, scipy: Any) -> list[tuple[Any, Any]]:
    """Values by rows; scipy keeps them by columns, each diagonal moved by its offset."""
    rows, columns = ours.shape
    offsets = ours.arrays["off"]
    own = ours.values.reshape(rows, len(offsets))
    pairs: list[tuple[Any, Any]] = [(offsets, scipy.offsets)]
    for d, offset in enumerate(offsets.tolist()):
        first, stop = max(0, -offset), min(rows, columns - offset)
        pairs.append((own[first:stop, d], scipy.data[d, first + offset : stop + offset]))
    return pairs


# -- one thread -----------------------------------------------------------------------------------


def _one_thread(setting: Setting) -> Outcome:
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for name, tensor in _matrices(setting):
        for task in _tasks(tensor, setting.seed):
            row = _raced(name, task, len(tensor.values), setting)
            rows.append(row)
            ns = {who: 1e9 * min(s) / row["entries"] for who, s in row["seconds"].items()}
            rates = (row["gbytes"], row["memcpy_gbytes"])
            shown = (ns["loopwright"], ns["scipy"], *rates, row["times_scipy"], row["times_limit"])
            print(table.row(row["conversion"], name, row["entries"], *shown), flush=True)
    bars = []
    for conversion in dict.fromkeys(row["conversion"] for row in rows):
        speeds = [row["times_scipy"] for row in rows if row["conversion"] == conversion]
        bars.append(Bar(f"{conversion}: speed of scipy, mean", geometric_mean(speeds), 2.0))
        bars.append(Bar(f"{conversion}: speed of scipy, worst", min(speeds), 1.0))
    bars += _limit_bars(rows)
    for part in (_morton, _first_calls):
        more_rows, more_bars = part(setting)
        rows += more_rows
        bars += more_bars
    return Outcome(tuple(rows), tuple(bars))


def _raced(name: str, task: Task, entries: int, setting: Setting) -> dict[str, Any]:
    for found, right in task.parts(task.ours(1), task.scipy()):
        check_equal(found, right)
    copied = 2 * COPY  # bytes: each is read and written
    source, target = np.zeros(COPY, np.uint8), np.empty(COPY, np.uint8)
    runs = {
        "loopwright": lambda: task.ours(1),
        "scipy": task.scipy,
        "memcpy": lambda: np.copyto(target, source),
    }
    times = race(runs, setting)
    per_byte = times["memcpy"].best / copied
    best = times["loopwright"].best
    return {
        "conversion": task.name,
        "matrix": name,
        "entries": entries,
        "seconds": seconds_by_name(times),
        "gbytes": 1e-9 * task.moved / best,
        "times_scipy": ratios(times)["scipy"],
        "memcpy_gbytes": 1e-9 * copied / times["memcpy"].best,
        "times_limit": best / (task.moved * per_byte),
        "times_copying": best / (task.copied * per_byte) if task.copied else None,
    }


def _limit_bars(rows: list[dict[str, Any]]) -> list[Bar]:
    """Sorted coordinates to CSR against bytes moved at the speed of memcpy, two ways of counting.

    The limit of what must move: 4 bytes of rows read for each entry, and pointers written; columns
    and values are shared. Ours reads 4 bytes of columns as well, since it trusts no index. The
    limit of a converter that copies: 28 bytes for each entry, rows read, columns and values read
    and written, and pointers written.
    """
    chosen = [row for row in rows if row["conversion"] == "coo->csr sorted"]
    large = [row for row in chosen if row["entries"] > MANY] or chosen
    limits = {
        "times the limit of rows read and pointers written, mean": "times_limit",
        "times the limit of a converter that copies (28 B), mean": "times_copying",
    }
    return [
        Bar(f"coo->csr sorted: {what}", geometric_mean([row[key] for row in large]), 2.0, True)
        for what, key in limits.items()
    ]


def _morton(setting: Setting) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Random points of three dimensions along Morton's curve."""
    what = "coo3d->mcoo3: speed of a comparison sort"
    if reason := missing_compiler():
        print(f"{what}: {reason}")
        return [], [Bar(what, math.nan, 10.0)]
    rng = np.random.default_rng(setting.seed)
    count = QUICK_POINTS if setting.quick else POINTS
    points = np.unique(rng.integers(0, SIDE, (count, 3), np.int32), axis=0)
    points = points[rng.permutation(len(points))]
    columns = [np.ascontiguousarray(points[:, m]) for m in range(3)]
    values = rng.random(len(points))
    arrays = dict(zip(("row", "col", "tube"), columns, strict=True))
    mcoo3 = find("mcoo3", 3)
    runs: dict[str, Callable[[], Any]] = {
        "loopwright": lambda: convert_tensor(
            sparse_tensor("coo", (SIDE,) * 3, arrays, values), mcoo3, threads=1
        )
    }
    for kind in KINDS:
        sorter = morton_sorter(kind, columns, values)
        assert sorter is not None, "the compiler was there before"
        runs[kind] = sorter
        made, data = sorter()
        ours = runs["loopwright"]()
        for found, right in zip((*ours.arrays.values(), ours.values), (*made, data), strict=True):
            check_equal(found, right)
    times = race(runs, setting, rounds=2)
    ns = {name: 1e9 * t.best / len(points) for name, t in times.items()}
    told = ", ".join(f"{name} {value:.1f}" for name, value in ns.items())
    print(f"coo3d->mcoo3, {len(points)} points, ns per entry: {told}", flush=True)
    row = {"conversion": "coo3d->mcoo3", "entries": len(points), "seconds": seconds_by_name(times)}
    speed = ratios(times)
    print(f"coo3d->mcoo3: speed of std::sort on ready keys, compared inline: {speed['keys']:.2f}")
    return [row], [Bar(what, speed["function"], 10.0)]


def _first_calls(setting: Setting) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Synthesis and compilation of each conversion in processes of their own, the best of some."""
    table = Table((("first call", "12s"), ("synthesis ms", "8.1f"), ("compile ms", "8.1f")))
    print(table.head())
    rows = []
    for source, target in (("scoo", "csr"), ("coo", "csr"), ("csr", "csc"), ("coo", "dia")):
        found = [_child(source, target) for _ in range(2 if setting.quick else REPEATS)]
        best = {key: min(told[key] for told in found) for key in ("synthesis", "compile")}
        rows.append({"conversion": f"{source}->{target}", "milliseconds": best})
        print(table.row(f"{source}->{target}", best["synthesis"], best["compile"]), flush=True)
    times = [row["milliseconds"] for row in rows]
    bars = [
        Bar("synthesis, worst", max(t["synthesis"] for t in times), 150, True, " ms"),
        Bar("first compilation, worst", max(t["compile"] for t in times), 500, True, " ms"),
    ]
    return rows, bars


def _child(source: str, target: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.conversion_child", source, target],
            cwd=ROOT,
            env={**os.environ, "LOOPWRIGHT_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    told: dict[str, float] = json.loads(done.stdout)
    return told


# -- two threads ----------------------------------------------------------------------------------


def _two_threads(setting: Setting) -> Outcome:
    """Each conversion of the large matrices by one thread and by all, in turns."""
    count = setting.threads
    table = Table((*COLUMNS[:3], ("ns/entry", "8.2f"), ("one", "8.2f"), ("times one", "8.2f")))
    print(table.head())
    rows: list[dict[str, Any]] = []
    for name, tensor in _matrices(setting):
        entries = len(tensor.values)
        if entries <= MANY and not setting.quick:
            continue
        for task in _tasks(tensor, setting.seed):
            for mine, other in task.parts(task.ours(count), task.scipy()):
                check_equal(mine, other)
            ours = task.ours
            times = race({"all": lambda f=ours: f(count), "one": lambda f=ours: f(1)}, setting)
            ns = {who: 1e9 * t.best / entries for who, t in times.items()}
            gain = ns["one"] / ns["all"]
            rows.append(
                {
                    "conversion": task.name,
                    "matrix": name,
                    "entries": entries,
                    "seconds": seconds_by_name(times),
                    "times_one": gain,
                }
            )
            print(table.row(task.name, name, entries, ns["all"], ns["one"], gain), flush=True)
    what = f"{count} threads: speed of one"
    bars = [
        Bar(f"{what}, {conversion}, worst", min(gains), 1.6)
        for conversion in dict.fromkeys(row["conversion"] for row in rows)
        if (gains := [row["times_one"] for row in rows if row["conversion"] == conversion])
    ]
    return Outcome(tuple(rows), tuple(bars))
