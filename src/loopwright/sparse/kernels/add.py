"""Sums of sparse tensors of any two formats."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import Load, Var
from loopwright.ir.program import Role
from loopwright.runtime.arguments import Array
from loopwright.sparse.bridge import has_scipy, is_scipy, to_scipy
from loopwright.sparse.convert import as_tensor, convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.formats.coordinates import names
from loopwright.sparse.inside import ascent
from loopwright.sparse.spf.compile import CompiledComputation, compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.tensor import SparseTensor, index_dtype, sparse_tensor

__all__ = ["add"]


def add(
    one: Any,
    other: Any,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """The entries of two tensors in the format of the first; common ones are combined by plus.

    Sums that happen to be zero stay entries, but in formats whose padding is mapped.
    """
    ring = semirings.semiring(semiring)
    tensors = as_tensor(one), as_tensor(other)
    if tensors[0].shape != tensors[1].shape:
        raise UsageError(
            "sparse tensors of different shapes cannot be added",
            found=f"{tensors[0].shape} and {tensors[1].shape}",
        )
    dtype = dtype_of(np.result_type(tensors[0].dtype, tensors[1].dtype))
    ring.check_dtype(dtype)
    joined = _joined(tensors, dtype, threads)
    summed = _summed(joined, ring, dtype)
    target = tensors[0].format
    _require_entries(summed, target, ring)
    result = convert_tensor(summed, target, threads=threads)
    if is_scipy(one) and has_scipy(target):
        return to_scipy(result, matrix=type(one).__name__.endswith("matrix"))
    return result


def _joined(
    tensors: tuple[SparseTensor, SparseTensor], dtype: DType, threads: int | None
) -> SparseTensor:
    """The entries of both, sorted by coordinates, those of the first before equal ones."""
    rank = tensors[0].ndim
    lists = [convert_tensor(tensor, find("coo", rank), threads=threads) for tensor in tensors]
    count = sum(len(tensor.values) for tensor in lists)
    index = index_dtype(max((*tensors[0].shape, count)))
    arrays = {
        name: np.concatenate([tensor.arrays[name] for tensor in lists]).astype(index, copy=False)
        for name in names(rank)
    }
    values = np.concatenate([tensor.values.astype(dtype.numpy, copy=False) for tensor in lists])
    order = np.lexsort(tuple(reversed(list(arrays.values()))))
    ordered = {name: array[order] for name, array in arrays.items()}
    return sparse_tensor(find("scoo", rank), tensors[0].shape, ordered, values[order])


def _summed(joined: SparseTensor, ring: semirings.Semiring, dtype: DType) -> SparseTensor:
    """A sorted list of coordinates with one entry for each, its values combined in their order."""
    columns = [joined.arrays[name] for name in names(joined.ndim)]
    if ascent(columns)[1] == 0:
        return joined
    starts = np.ones(len(joined.values), np.bool_)
    starts[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    group = np.cumsum(starts, dtype=np.int64) - 1
    out: Array = np.full(int(group[-1]) + 1, ring.zero(dtype), dtype.numpy)
    arrays = {"group": group, "value": joined.values, "out": out}
    _code(ring, dtype)(arrays, {"N": len(group), "M": len(out)})
    kept = {name: joined.arrays[name][starts] for name in names(joined.ndim)}
    return sparse_tensor(joined.format, joined.shape, kept, out)


@lru_cache(maxsize=64)
def _code(ring: semirings.Semiring, dtype: DType) -> CompiledComputation:
    """out[group[e]] = out[group[e]] plus value[e] for every e."""
    spaces = (
        DataSpace.of("group", dtype_of("int64"), ("N",), Role.IN),
        DataSpace.of("value", dtype, ("N",), Role.IN),
        DataSpace.of("out", dtype, ("M",), Role.INOUT),
    )
    e = Var("e")
    own = Load("out", (Load("group", (e,), dtype_of("int64")),), dtype)
    value = ring.plus_expr(dtype, own, Load("value", (e,), dtype))
    stmt = Stmt.of("sum", "{[e] : 0 <= e < N}", ("e",), "out(group(e))", value)
    return compile_computation(Computation("add", spaces, (stmt,), ("N", "M")))


def _require_entries(summed: SparseTensor, target: Any, ring: semirings.Semiring) -> None:
    """Refuse sums that a format with mapped padding would take for padding."""
    padding = target.padding
    if padding is None or not padding.is_mapped or ring.name == "plus_times":
        return
    lost = summed.values == padding.fill
    if lost.any():
        at = int(np.argmax(lost))
        place = tuple(int(summed.arrays[name][at]) for name in names(summed.ndim))
        raise UsageError(
            f"{target.name} cannot hold the value {padding.fill} as an entry: it is padding",
            found=f"the sum at {place}",
            hint="convert the first tensor to a format without padding, such as csr",
        )
