"""Sparse matrix times vector beside scipy: compressed rows, diagonals, blocks.

Entries are counted after symmetric files are expanded. Bytes are those that must be read or written
once: values and indices of the format, the vector and the result. Compressed rows are raced twice:
as a tensor of our own, whose index arrays nobody can write, and in the arrays of scipy ("csr,
scipy"), which are validated in every call. With one thread the competitor is
scipy's product in compressed rows, and for diagonals and blocks scipy's best format; with more
threads it is our own kernel on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import sparse_data
from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    check_close,
    fastest,
    geometric_mean,
    race,
    seconds_by_name,
)
from loopwright.sparse.bridge import from_scipy
from loopwright.sparse.convert_tensor import convert, convert_tensor
from loopwright.sparse.executors.sparse_einsum import spmv
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, from_dense

__all__ = ["run"]

TWINS = ("ecology1", "Lin", "atmosmodd", "Baumann")
QUICK = ("jnlbrng1", "west0479", "bcsstk16", "Baumann")
MOST_DIAGONALS = 16
BLOCKS = {"bcsstk16": (3, 3)}  # matrices made of dense blocks, and their sides
SHARED = "csr, scipy"  # compressed rows in the arrays of scipy
MANY = 1_000_000  # entries from which on threads must pay
COLUMNS = (
    ("matrix", "20s"),
    ("format", "10s"),
    ("entries", "9d"),
    ("a row", "5.1f"),
    ("ns/entry", "8.3f"),
    ("rival", "8.3f"),
    ("of", "8s"),
    ("GB/s", "6.2f"),
    ("speed", "6.2f"),
)


def run(setting: Setting) -> Outcome:
    """Race all matrices that are there."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for name, matrix in _matrices(setting):
        for row in _rows(name, matrix, setting):
            rows.append(row)
            shown = (row[key] for key in ("entries", "a_row", "ns", "rival_ns", "rival"))
            print(table.row(name, row["format"], *shown, row["gbytes"], row["speed"]), flush=True)
    return Outcome(tuple(rows), _threads_bars(rows) if setting.threads > 1 else _bars(rows))


def _bars(rows: list[dict[str, Any]]) -> tuple[Bar, ...]:
    speeds = {
        kind: [row["speed"] for row in rows if row["format"].split("(")[0] == kind]
        for kind in ("csr", "dia", "bcsr")
    }
    tiny = from_dense(np.eye(4))
    csr, x = convert_tensor(tiny, find("csr")), np.ones(4)
    spmv(csr, x)
    return (
        Bar("csr, speed of scipy, geometric mean", geometric_mean(speeds["csr"]), 1.2),
        Bar("dia, speed of scipy's best format, worst", min(speeds["dia"], default=np.nan), 1.5),
        Bar("bcsr, speed of scipy's best format, worst", min(speeds["bcsr"], default=np.nan), 1.5),
        Bar("repeated call on 4 entries", 1e6 * fastest(lambda: spmv(csr, x)), 20, True, " us"),
    )


def _threads_bars(rows: list[dict[str, Any]]) -> tuple[Bar, ...]:
    large = [row["speed"] for row in rows if row["entries"] >= MANY]
    return (Bar("speed of one thread, from 1 M entries on, mean", geometric_mean(large), 1.6),)


def _matrices(setting: Setting) -> Iterator[tuple[str, Any]]:
    """Matrices of files and twins, as compressed rows of scipy."""
    directory = sparse_data.matrices_directory()
    files = () if directory is None else sparse_data.file_names(directory)
    for name in (*files, *TWINS):
        if setting.quick and name not in QUICK:
            continue
        if name in TWINS:
            tensor = sparse_data.twin(name, setting.seed)
        else:
            assert directory is not None
            tensor = sparse_data.load(directory, name)
        if tensor.ndim == 2:
            yield name, _compressed(tensor)


def _compressed(tensor: SparseTensor) -> Any:
    import scipy.sparse  # lazy: an extra that only these benchmarks need

    arrays = tensor.arrays["row"], tensor.arrays["col"]
    values = tensor.values.astype(np.float64)
    return scipy.sparse.coo_array((values, arrays), shape=tensor.shape).tocsr()


def _rows(name: str, matrix: Any, setting: Setting) -> Iterator[dict[str, Any]]:
    """A measurement for each format that fits the matrix."""
    x = np.random.default_rng(setting.seed).random(matrix.shape[1])
    shared = from_scipy(matrix)
    csr = convert(shared, "csr")
    rivals: dict[str, Callable[[], Any]] = {"csr": lambda: matrix @ x}
    yield _row(name, csr, x, matrix, rivals, setting)
    yield {**_row(name, shared, x, matrix, rivals, setting), "format": SHARED}
    offsets = np.unique(matrix.tocoo().col - matrix.tocoo().row)
    if len(offsets) <= MOST_DIAGONALS:
        by_diagonals = matrix.todia()
        both = {**rivals, "dia": lambda: by_diagonals @ x}
        yield _row(name, convert_tensor(csr, find("dia")), x, matrix, both, setting)
    if name in BLOCKS:
        sides = BLOCKS[name]
        by_blocks = matrix.tobsr(sides)
        both = {**rivals, "bsr": lambda: by_blocks @ x}
        format = find(f"bcsr({sides[0]},{sides[1]})")
        yield _row(name, convert_tensor(csr, format), x, matrix, both, setting)


def _row(
    name: str,
    tensor: SparseTensor,
    x: Any,
    matrix: Any,
    rivals: dict[str, Callable[[], Any]],
    setting: Setting,
) -> dict[str, Any]:
    scale = np.abs(matrix) @ x  # sums of absolute values bound what rounding may change
    check_close(spmv(tensor, x) / (scale + 1), (matrix @ x) / (scale + 1), 1000)
    if setting.threads > 1:
        rivals = {"1 thread": lambda: spmv(tensor, x, threads=1)}
    runs = {"loopwright": lambda: spmv(tensor, x, threads=setting.threads), **rivals}
    times = race(runs, setting)
    rival = min(rivals, key=lambda key: times[key].best)
    moved = tensor.nbytes + 8 * sum(matrix.shape)
    best = times["loopwright"].best
    return {
        "matrix": name,
        "format": tensor.format.name,
        "entries": int(matrix.nnz),
        "a_row": matrix.nnz / max(matrix.shape[0], 1),
        "seconds": seconds_by_name(times),
        "ns": 1e9 * best / matrix.nnz,
        "rival_ns": 1e9 * times[rival].best / matrix.nnz,
        "rival": rival,
        "gbytes": 1e-9 * moved / best,
        "speed": times[rival].best / best,
    }
