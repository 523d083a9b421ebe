"""To and from scipy.sparse, sharing index and value arrays wherever both lay them out alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

from .format import Format
from .formats import is_built_in
from .formats.coordinates import names
from .tensor import SparseTensor, index_dtype, sparse_tensor

__all__ = [
    "as_given",
    "from_scipy",
    "goes_to_scipy",
    "has_scipy",
    "is_scipy",
    "load_scipy",
    "shared_arrays",
    "to_scipy",
]


def is_scipy(value: object) -> bool:
    """Whether a value is a sparse array or matrix of scipy; does not import scipy."""
    homes = (kind.__module__.split(".")[0] for kind in type(value).__mro__)
    return "scipy" in homes and hasattr(value, "tocoo")


def as_given(result: SparseTensor, given: object) -> Any:
    """The result as scipy has it, where `given` came from scipy and it has the format; else itself.

    An array of scipy gives arrays, a matrix matrices. The arrays of the result are shared.
    """
    if not goes_to_scipy(result, given):
        return result
    is_matrix = any(kind.__name__ == "spmatrix" for kind in type(given).__mro__)
    return to_scipy(result, matrix=is_matrix and result.ndim == 2, copy=False)


def goes_to_scipy(result: SparseTensor, given: object) -> bool:
    """Whether a result is handed out as one of scipy: what was given is, and it has the format."""
    return is_scipy(given) and has_scipy(result.format, result.shape)


def _scipy_sparse() -> ModuleType:
    try:
        import scipy.sparse  # lazy: scipy is an extra, and slow to load
    except ImportError as error:
        raise UsageError("scipy is not installed", hint="install loopwright[sparse]") from error
    found: ModuleType = scipy.sparse
    return found


def has_scipy(format: Format, shape: tuple[int, ...]) -> bool:
    """Whether scipy has a format, for tensors of a shape; formats of one's own it never has."""
    if _family(format) not in _WRITERS or not is_built_in(format):
        return False
    return _family(format) != "bcsr" or _is_whole(_block(format), shape)


def load_scipy(file: BinaryIO) -> Any:
    """The sparse array in a file of scipy's save_npz."""
    return _scipy_sparse().load_npz(file)


def from_scipy(matrix: Any) -> SparseTensor:
    """The tensor of a sparse array or matrix of scipy, in the format of the same name.

    A csr whose rows are not sorted, or hold a column twice, gives csr_unsorted; csc and bsr are
    sorted in a copy, and like lil given as coo if they repeat a coordinate. Whatever scipy stores
    in a way of its own (dia, lil, dok) is copied, all else is shared: the tensor is a view of the
    matrix. A vector is coo, whatever scipy calls it.
    """
    if not is_scipy(matrix):
        raise UsageError("expected a sparse array or matrix of scipy", type(matrix).__name__)
    reader = _READERS.get(matrix.format) if len(matrix.shape) == 2 else None
    return (reader or _from_coo)(matrix if reader else matrix.tocoo())


def shared_arrays(given: Any) -> tuple[Any, ...]:
    """The arrays of a matrix of scipy that a tensor may share; none of anything else."""
    match getattr(given, "format", None):
        case "csr" | "csc" | "bsr":
            return given.indptr, given.indices, given.data
        case "coo":
            return (*given.coords, given.data)
    return ()


def _from_coo(matrix: Any) -> SparseTensor:
    coordinates = matrix.coords
    arrays = dict(zip(names(len(coordinates)), coordinates, strict=True))
    return sparse_tensor("coo", matrix.shape, arrays, matrix.data)


def _used(matrix: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Indices and values without the spare capacity that scipy allows at their end."""
    count = int(matrix.indptr[-1]) if len(matrix.indptr) else 0
    return matrix.indices[:count], matrix.data[:count]


def _is_canonical(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Whether indices ascend strictly between pointers; scipy's own flag may be out of date."""
    if len(indices) < 2:
        return True
    ascends = indices[:-1] < indices[1:]
    starts = indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    return bool(ascends.all())


def _from_csr(matrix: Any) -> SparseTensor:
    indices, values = _used(matrix)
    format = "csr" if _is_canonical(matrix.indptr, indices) else "csr_unsorted"
    return sparse_tensor(format, matrix.shape, {"rowptr": matrix.indptr, "col": indices}, values)


def _is_inside(matrix: Any) -> bool:
    """Whether pointers ascend from 0 within the indices, and indices lie in their range."""
    pointers, (indices, _) = matrix.indptr, _used(matrix)
    if not len(pointers) or pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        return False
    end = matrix.shape[0] if matrix.format == "csc" else matrix.shape[1] // matrix.blocksize[1]
    return len(indices) == pointers[-1] and not ((indices < 0) | (indices >= end)).any()


def _sorted(matrix: Any) -> Any:
    """The matrix with ascending indices, itself if it has them; None if some are repeated.

    One with faulty arrays is returned as it is, for the check of its format to name the place:
    scipy's code would leave them.
    """
    if _is_canonical(matrix.indptr, _used(matrix)[0]) or not _is_inside(matrix):
        return matrix
    ordered = matrix.copy()
    ordered.has_sorted_indices = False
    ordered.sort_indices()
    return ordered if _is_canonical(ordered.indptr, _used(ordered)[0]) else None


def _from_csc(given: Any) -> SparseTensor:
    matrix = _sorted(given)
    if matrix is None:
        return _from_coo(given.tocoo())
    indices, values = _used(matrix)
    arrays = {"colptr": matrix.indptr, "row": indices}
    return sparse_tensor("csc", matrix.shape, arrays, values)


def _from_bsr(given: Any) -> SparseTensor:
    matrix = _sorted(given)
    if matrix is None:
        return _from_coo(given.tocoo())
    rows, columns = matrix.blocksize
    indices, blocks = _used(matrix)
    arrays = {"browptr": matrix.indptr, "bcol": indices}
    return sparse_tensor(f"bcsr({rows},{columns})", matrix.shape, arrays, blocks.reshape(-1))


def _from_dia(matrix: Any) -> SparseTensor:
    """scipy keeps A[j - offset, j] in column j of a diagonal, we keep A[i, i + offset] in row i."""
    rows, columns = matrix.shape
    inside = (matrix.offsets > -rows) & (matrix.offsets < columns)
    order = np.flatnonzero(inside)[np.argsort(matrix.offsets[inside], kind="stable")]
    offsets = matrix.offsets[order]
    values = np.zeros((rows, len(offsets)), matrix.dtype)
    width = matrix.data.shape[1]
    for d, (offset, source) in enumerate(zip(offsets.tolist(), order.tolist(), strict=True)):
        first, stop = max(0, -offset), min(rows, min(columns, width) - offset)
        if first < stop:
            values[first:stop, d] = matrix.data[source, first + offset : stop + offset]
    return sparse_tensor("dia", matrix.shape, {"off": offsets}, values.reshape(-1))


def _from_lil(matrix: Any) -> SparseTensor:
    lengths = np.fromiter(map(len, matrix.rows), np.int64, len(matrix.rows))
    others = np.fromiter(map(len, matrix.data), np.int64, len(matrix.data))
    if not np.array_equal(lengths, others):
        row = int(np.argmax(lengths != others))
        raise UsageError(
            f"lil: row {row} has {lengths[row]} columns and {others[row]} values",
            hint="as many of one as of the other",
        )
    start = np.concatenate(([0], np.cumsum(lengths)))
    count = int(start[-1])
    columns = np.fromiter((j for row in matrix.rows for j in row), np.int64, count)
    values = np.fromiter((v for row in matrix.data for v in row), matrix.dtype, count)
    dtype = index_dtype(max(count, *matrix.shape, int(np.abs(columns).max(initial=0))))
    if not _is_canonical(start, columns):
        rows = np.repeat(np.arange(len(lengths), dtype=dtype), lengths)
        arrays = {"row": rows, "col": columns.astype(dtype)}
        return sparse_tensor("coo", matrix.shape, arrays, values)
    arrays = {"start": start.astype(dtype), "len": lengths.astype(dtype)}
    return sparse_tensor("lil", matrix.shape, arrays | {"lcol": columns.astype(dtype)}, values)


_READERS: Mapping[str, Callable[[Any], SparseTensor]] = {
    "coo": _from_coo,
    "csr": _from_csr,
    "csc": _from_csc,
    "bsr": _from_bsr,
    "dia": _from_dia,
    "lil": _from_lil,
}


def to_scipy(tensor: SparseTensor, *, matrix: bool = False, copy: bool = True) -> Any:
    """The sparse array of scipy in the format of the same name; `matrix` gives its older classes.

    With `copy=False` arrays are shared for coo, csr, csc and bcsr, so that writing to one writes to
    both; index arrays that are read-only in the tensor are read-only there.
    """
    name = _family(tensor.format)
    if name not in _WRITERS or not is_built_in(tensor.format):
        raise UsageError(
            f"scipy has no format {tensor.format.name}",
            hint=f"convert the tensor to one of {', '.join(_WRITERS)} first",
        )
    if copy:
        arrays = {key: array.copy() for key, array in tensor.arrays.items()}
        tensor = replace(tensor, arrays=arrays, values=tensor.values.copy())
    return _WRITERS[name](tensor, _scipy_sparse(), "matrix" if matrix else "array")


def _family(format: Format) -> str:
    return format.name.split("(")[0]


def _block(format: Format) -> tuple[int, int]:
    """The sides of the blocks of bcsr(rows,columns)."""
    rows, columns = map(int, format.name[len("bcsr(") : -1].split(","))
    return rows, columns


def _is_whole(block: tuple[int, int], shape: tuple[int, ...]) -> bool:
    """Whether blocks divide a shape; those of scipy must."""
    return shape[0] % block[0] == 0 and shape[1] % block[1] == 0


def _to_coo(tensor: SparseTensor, scipy: ModuleType, kind: str) -> Any:
    if kind == "matrix" and tensor.ndim != 2:
        raise UsageError("a matrix of scipy has two dimensions", f"{tensor.ndim}")
    coordinates = tuple(tensor.arrays[name] for name in names(tensor.ndim))
    return getattr(scipy, f"coo_{kind}")((tensor.values, coordinates), shape=tensor.shape)


def _to_compressed(index: str, pointer: str, target: str) -> Callable[..., Any]:
    def write(tensor: SparseTensor, scipy: ModuleType, kind: str) -> Any:
        parts = (tensor.values, tensor.arrays[index], tensor.arrays[pointer])
        result = getattr(scipy, f"{target}_{kind}")(parts, shape=tensor.shape)
        if tensor.format.is_unique:
            # scipy would otherwise check all indices before it relies on their order.
            result.has_canonical_format = True
        return result

    return write


def _to_bsr(tensor: SparseTensor, scipy: ModuleType, kind: str) -> Any:
    rows, columns = _block(tensor.format)
    if not _is_whole((rows, columns), tensor.shape):
        spelled = " x ".join(map(str, tensor.shape))
        raise UsageError(
            f"scipy's blocks of {rows} x {columns} cannot reach over the edge of {spelled}",
            hint="convert to csr, or to blocks that divide the shape",
        )
    blocks = tensor.values.reshape(-1, rows, columns)
    parts = (blocks, tensor.arrays["bcol"], tensor.arrays["browptr"])
    return getattr(scipy, f"bsr_{kind}")(parts, shape=tensor.shape)


def _to_dia(tensor: SparseTensor, scipy: ModuleType, kind: str) -> Any:
    rows, columns = tensor.shape
    offsets = tensor.arrays["off"]
    values = tensor.values.reshape(rows, len(offsets))
    data = np.zeros((len(offsets), columns), tensor.dtype)
    for d, offset in enumerate(offsets.tolist()):
        first, stop = max(0, -offset), min(rows, columns - offset)
        if first < stop:
            data[d, first + offset : stop + offset] = values[first:stop, d]
    return getattr(scipy, f"dia_{kind}")((data, offsets), shape=tensor.shape)


def _to_lil(tensor: SparseTensor, scipy: ModuleType, kind: str) -> Any:
    result = getattr(scipy, f"lil_{kind}")(tensor.shape, dtype=tensor.dtype)
    start, columns = tensor.arrays["start"], tensor.arrays["lcol"]
    for row in range(tensor.shape[0]):
        part = slice(int(start[row]), int(start[row + 1]))
        result.rows[row] = columns[part].tolist()
        result.data[row] = tensor.values[part].tolist()
    return result


_WRITERS: Mapping[str, Callable[[SparseTensor, ModuleType, str], Any]] = {
    "coo": _to_coo,
    "scoo": _to_coo,
    "csr": _to_compressed("col", "rowptr", "csr"),
    "csr_unsorted": _to_compressed("col", "rowptr", "csr"),
    "csc": _to_compressed("row", "colptr", "csc"),
    "bcsr": _to_bsr,
    "dia": _to_dia,
    "lil": _to_lil,
}
