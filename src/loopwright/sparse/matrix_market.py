"""MatrixMarket files to tensors and back: `read` and `write`, plain or packed (.gz)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import DtypeError, UsageError

from .entry_text import check_finite, entry_lines, listed
from .files import BLOCK, Progress, replacing
from .market_text import SYMMETRIES, Header, read_header, read_triplets
from .tensor import SparseTensor, sparse_tensor

__all__ = ["Header", "read", "read_header", "write"]

_FIELDS = {"b": "integer", "i": "integer", "u": "integer", "f": "real", "c": "complex"}


def read(
    path: str | os.PathLike[str],
    *,
    expand: bool = True,
    finite: bool = True,
    dtype: Any = None,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> SparseTensor:
    """Read a matrix as coordinates (coo) in the order of the file.

    `expand` adds the other triangle of a symmetric file, `finite` refuses nan and inf, `dtype`
    converts the values, `progress` is told the bytes read of all. The values of a pattern are 1.
    Every entry of a file of layout array is stored. A faulty file raises a SourceError that names
    the line, before anything is returned.
    """
    found = read_triplets(
        path, expand=expand, finite=finite, dtype=dtype, block=block, progress=progress
    )
    arrays = {"row": found.rows, "col": found.columns}
    return sparse_tensor("coo", found.shape, arrays, found.values)


def write(
    path: str | os.PathLike[str],
    matrix: SparseTensor | NDArray[Any],
    *,
    symmetry: str = "general",
    pattern: bool = False,
    comments: Sequence[str] = (),
    finite: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write a tensor of two dimensions as coordinates, or a dense array as an array.

    With another symmetry than general only the lower triangle is written, after the matrix was
    found to have that symmetry; `pattern` leaves out values, which must all be 1. The file appears
    when it is complete; `progress` is told the entries written of all.
    """
    name = os.fspath(path)
    if symmetry not in SYMMETRIES:
        raise UsageError(f"unknown symmetry '{symmetry}'", hint=f"one of {', '.join(SYMMETRIES)}")
    is_dense = isinstance(matrix, np.ndarray)
    if matrix.ndim != 2:
        raise UsageError(
            f"{name}: MatrixMarket holds matrices, not {matrix.ndim} dimensions",
            hint="give the file a name that ends with .tns",
        )
    if is_dense and pattern:
        raise UsageError(f"{name}: an array has values, it cannot be a pattern")
    rows, columns, values = _places(matrix)
    field = "pattern" if pattern else _field(name, values)
    _check_values(name, field, values)
    check_finite(name, (rows, columns), values, finite)
    if symmetry != "general":
        rows, columns, values = _triangle(name, symmetry, matrix.shape, rows, columns, values)
    layout = "array" if is_dense else "coordinate"
    sizes = [*matrix.shape] if is_dense else [*matrix.shape, len(values)]
    head = [f"%%MatrixMarket matrix {layout} {field} {symmetry}"]
    head += [f"% {line}" for text in comments for line in text.splitlines()]
    head.append(" ".join(map(str, sizes)))
    kept = None if field == "pattern" else values
    with replacing(path) as file:
        file.write(("\n".join(head) + "\n").encode())
        for done, lines in entry_lines(() if is_dense else (rows, columns), kept):
            file.write(lines)
            if progress is not None:
                progress(done, len(values))


def _places(
    matrix: SparseTensor | NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Coordinates and values; those of a dense array by columns, as its files store them."""
    if isinstance(matrix, np.ndarray):
        columns, rows = np.indices(matrix.shape[::-1]).reshape(2, -1)
        return rows, columns, matrix.ravel(order="F")
    (rows, columns), values = listed(matrix)
    return rows, columns, values


def _field(name: str, values: NDArray[Any]) -> str:
    if values.dtype.kind not in _FIELDS:
        raise DtypeError(f"{name}: MatrixMarket has no field for {values.dtype}")
    return _FIELDS[values.dtype.kind]


def _check_values(name: str, field: str, values: NDArray[Any]) -> None:
    if field == "pattern" and (values != 1).any():
        raise UsageError(f"{name}: a pattern has no values, and some are not 1")
    if values.dtype == np.uint64 and (values >= 1 << 63).any():
        raise UsageError(f"{name}: an integer does not fit a signed 64-bit number")


def _triangle(
    name: str,
    symmetry: str,
    shape: tuple[int, ...],
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The entries on and below the diagonal of a matrix that equals its mirror image."""
    if shape[0] != shape[1]:
        raise UsageError(f"{name}: a {symmetry} matrix is square", f"{shape[0]} x {shape[1]}")
    if symmetry == "hermitian" and values.dtype.kind != "c":
        raise UsageError(f"{name}: only complex matrices are hermitian", hint="use symmetric")
    by_rows, by_columns = np.lexsort((columns, rows)), np.lexsort((rows, columns))
    mirrored = values[by_columns]
    if symmetry == "hermitian":
        mirrored = mirrored.conj()
    if symmetry == "skew-symmetric":
        mirrored = -mirrored
    wrong = (
        (rows[by_rows] != columns[by_columns])
        | (columns[by_rows] != rows[by_columns])
        | (values[by_rows] != mirrored)
    )
    if wrong.any():
        n = by_rows[int(np.argmax(wrong))]
        raise UsageError(
            f"{name}: the matrix is not {symmetry}",
            found=f"({rows[n]}, {columns[n]}) differs from its mirror image, or is repeated",
            hint="write it with symmetry='general'",
        )
    is_skew = symmetry == "skew-symmetric"
    kept = np.flatnonzero(rows > columns if is_skew else rows >= columns)
    return rows[kept], columns[kept], values[kept]
