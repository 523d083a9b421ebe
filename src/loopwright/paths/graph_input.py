"""Graphs as users give them: square arrays with a value for "no edge", and scipy's sparse matrices.

In an array every element is an edge but those that hold the absent value of the semiring (inf for
shortest paths, the largest number of an integer type) or the value given as `absent`. In a sparse
matrix every stored entry is an edge, zeros too, and of several entries at one place the best
counts. Memory is stated before it is used: see `require_room`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, RoomError, UsageError, WrongTypeError
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = [
    "UFUNCS",
    "DenseGraph",
    "SparseGraph",
    "absent_value",
    "available_bytes",
    "check_out",
    "read_graph",
    "require_room",
    "to_dense",
]

# Operators of named semirings as NumPy's; what integers do on overflow is the kernels' matter.
UFUNCS: dict[object, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "or": np.bitwise_or,  # of integers too, which MPI ranks take as bits
    "and": np.bitwise_and,
}
_TAKEN = frozenset({"bool", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True, slots=True)
class DenseGraph:
    """A square matrix; elements without an edge hold the absent value of the semiring."""

    matrix: Array
    is_users: bool  # the very array that was given, not to be written

    @property
    def size(self) -> int:
        return len(self.matrix)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype


@dataclass(frozen=True, slots=True)
class SparseGraph:
    """The edges of a graph, in the order of their places, each place once."""

    size: int
    rows: Array  # where edges begin
    columns: Array  # where they end
    weights: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.weights.dtype


def read_graph(graph: Any, ring: Semiring, absent: Any = None) -> DenseGraph | SparseGraph:
    """What was given, with the absent value of the semiring wherever there is no edge."""
    if hasattr(graph, "tocoo"):
        entries = graph.tocoo()
        _check_square(entries.shape)
        weights = _checked(np.ascontiguousarray(entries.data), ring)
        rows, columns = (np.asarray(x, dtype=np.int64) for x in (entries.row, entries.col))
        if absent is not None:
            kept = ~_equal(entries.data, absent)
            rows, columns, weights = rows[kept], columns[kept], weights[kept]
        return _combined(entries.shape[0], rows, columns, weights, ring)
    given = np.asarray(graph)
    _check_square(given.shape)
    if absent is None:
        matrix = _checked(given, ring)
        return DenseGraph(matrix, is_users=matrix is graph)
    missing = _equal(given, absent)
    if ring.plus == "or" and given.dtype.kind in "iuf":
        return DenseGraph(~missing, is_users=False)
    matrix = _checked(given, ring).copy()
    matrix[missing] = absent_value(ring, matrix.dtype)
    return DenseGraph(matrix, is_users=False)


def absent_value(ring: Semiring, dtype: np.dtype[Any]) -> Any:
    """The element that stands for "no edge"."""
    return dtype.type(ring.absent(DTYPES[dtype.name]))


def to_dense(graph: DenseGraph | SparseGraph, ring: Semiring, out: Array | None = None) -> Array:
    """The matrix of a graph in memory that may be written: in `out`, or new."""
    if out is None:
        out = np.empty((graph.size, graph.size), graph.dtype)
    if isinstance(graph, DenseGraph):
        if out is not graph.matrix:
            np.copyto(out, graph.matrix)
        return out
    out[...] = absent_value(ring, graph.dtype)
    out[graph.rows, graph.columns] = graph.weights
    return out


def _combined(
    size: int, rows: Array, columns: Array, weights: Array, ring: Semiring
) -> SparseGraph:
    """Edges in the order of their places, several at one place combined by plus."""
    order = np.lexsort((columns, rows))
    rows, columns, weights = rows[order], columns[order], weights[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    if is_new.all():
        return SparseGraph(size, rows, columns, weights)
    plus = UFUNCS.get(ring.plus)
    if plus is None:
        place = int(np.argmin(is_new))
        raise UsageError(
            "entries of a sparse matrix are repeated, and plus is a user's function",
            found=f"entry ({rows[place]}, {columns[place]})",
            hint="combine them first",
        )
    first = np.flatnonzero(is_new)
    return SparseGraph(size, rows[first], columns[first], plus.reduceat(weights, first))


def _equal(data: Any, absent: Any) -> Array:
    same = np.isnan(data) if absent != absent else data == absent
    return np.asarray(same)


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise UsageError(
            "a graph is a square matrix of weights",
            found=f"shape {shape}",
            hint="element (i, j) is the weight of the edge from i to j",
        )


def _checked(array: Array, ring: Semiring) -> Array:
    """The weights in a type that the semiring takes, in native byte order."""
    dtype = array.dtype
    if ring.plus == "or" and dtype.kind in "iu":
        return np.not_equal(array, 0)
    if dtype.newbyteorder("=").name not in _TAKEN:
        what = "weights are numbers of 8 to 64 bits"
        raise DtypeError(what, found=f"dtype {dtype}", hint="float32, float64 or an integer type")
    if ring.plus == "or" and dtype.kind == "f":
        raise DtypeError(
            "which numbers are edges is not known",
            found=f"dtype {dtype}",
            hint="absent=, the value that means no edge, or an array of booleans such as W < inf",
        )
    ring.check_dtype(_dtype(dtype))
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _dtype(dtype: np.dtype[Any]) -> DType:
    return DTYPES[dtype.newbyteorder("=").name]


# -- memory ---------------------------------------------------------------------------------------


_UNASKED = 1 << 24  # bytes below which asking the system takes longer than it is worth (75 us)


def require_room(needed: int, what: str) -> None:
    """Refuse what does not fit into the memory that is free, before any of it is allocated."""
    if needed < _UNASKED:
        return
    free = available_bytes()
    if free is not None and needed > free:
        raise RoomError(
            f"{what} takes {needed:,} bytes",
            found=f"{free:,} bytes of free memory",
            hint="sources=, a smaller element type, or out= with the matrix itself",
        )


def available_bytes() -> int | None:
    """Bytes that can be allocated without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The array that results are to be written to, or a refusal."""
    if not isinstance(out, np.ndarray):
        raise WrongTypeError("out is an array of NumPy", found=type(out).__name__)
    if out.shape != shape or out.dtype != dtype:
        raise UsageError(
            f"out has to have shape {shape} and dtype {dtype}",
            found=f"shape {out.shape} and dtype {out.dtype}",
        )
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise UsageError("out has to be C-contiguous and writable")
    return out
