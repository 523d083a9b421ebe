"""Products of sparse tensors by name: thin words for einsums that are often needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.diagnostics import UsageError
from loopwright.runtime.thread_pool import thread_count
from loopwright.sparse.frozen import freeze, is_frozen
from loopwright.sparse.handover import copied
from loopwright.sparse.kernels.einsum import einsum, multiplied
from loopwright.sparse.kernels.operands import is_sparse, tensor_of
from loopwright.sparse.tensor import SparseTensor

__all__ = ["mttkrp", "sddmm", "spmm", "spmv", "ttm"]

_LETTERS = "ijklmnop"  # of the dimensions of a sparse tensor
_RANK = "r"


def spmv(
    matrix: Any,
    vector: Any,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """y[i] = SUM over j of A[i, j] times x[j]."""
    return einsum("ij,j->i", matrix, vector, semiring=semiring, threads=threads)


def spmm(
    matrix: Any,
    dense: Any,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """Y[i, k] = SUM over j of A[i, j] times X[j, k]."""
    return einsum("ij,jk->ik", matrix, dense, semiring=semiring, threads=threads)


def ttm(
    tensor: Any,
    matrix: Any,
    mode: int,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """Y[.., r, ..] = SUM over m of A[.., m, ..] times U[r, m], in the place of dimension `mode`."""
    own = _dimensions(tensor, mode, "ttm")
    text = f"{own},{_RANK}{own[mode]}->{own[:mode]}{_RANK}{own[mode + 1 :]}"
    return einsum(text, tensor, matrix, semiring=semiring, threads=threads)


def mttkrp(
    tensor: Any,
    factors: Any,
    mode: int,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """M[m, r] = SUM of A[i, .., m, ..] times U0[i, r] times ..., over all dimensions but `mode`.

    `factors` has a matrix for each dimension; that of `mode` is not looked at and may be None.
    """
    own = _dimensions(tensor, mode, "mttkrp")
    given = list(factors)
    if len(given) != len(own):
        raise UsageError(
            "mttkrp takes a matrix for each dimension of the tensor",
            found=f"{len(given)} for {len(own)} dimensions",
            hint=f"None in the place of dimension {mode}",
        )
    others = [
        (c, factor) for m, (c, factor) in enumerate(zip(own, given, strict=True)) if m != mode
    ]
    text = ",".join([own, *(c + _RANK for c, _ in others)])
    dense = (factor for _, factor in others)
    return einsum(f"{text}->{own[mode]}{_RANK}", tensor, *dense, semiring=semiring, threads=threads)


def _dimensions(tensor: Any, mode: int, what: str) -> str:
    if not is_sparse(tensor):
        raise UsageError(f"{what} takes a sparse tensor first", found=type(tensor).__name__)
    rank = tensor.ndim
    if not isinstance(mode, int) or not 0 <= mode < rank:
        raise UsageError(
            f"{what}: the tensor has no dimension {mode!r}", hint=f"count them from 0 to {rank - 1}"
        )
    return _LETTERS[:rank]


def sddmm(
    matrix: Any,
    left: Any,
    right: Any,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> SparseTensor:
    """A[i, j] times the SUM over k of X[i, k] times Y[k, j], where A has an entry.

    The result has the format and the pattern of A; it shares index arrays that nobody can write.
    """
    if not is_sparse(matrix) or matrix.ndim != 2:
        raise UsageError("sddmm takes a sparse matrix first", found=type(matrix).__name__)
    tensor = tensor_of(matrix)
    # Both factors are read along k, so the right one is wanted column by column.
    columns = np.asarray(right)
    columns = columns.T if columns.ndim == 2 else columns
    operands = tensor, np.asarray(left), np.ascontiguousarray(columns)
    values = multiplied("ij,ik,jk->ij", operands, semiring, threads, is_sampled=True)
    require_no_new_padding(tensor, values, semirings.semiring(semiring))
    arrays = {
        name: array if is_frozen(array) else freeze(copied(array, thread_count(threads)))
        for name, array in tensor.arrays.items()
    }
    return SparseTensor(tensor.format, tensor.shape, arrays, tensor.symbols, values)


def require_no_new_padding(tensor: SparseTensor, values: Any, ring: semirings.Semiring) -> None:
    """Refuse results that a format with mapped padding would take for padding."""
    padding = tensor.format.padding
    if padding is None or not padding.is_mapped or ring.name == "plus_times":
        return
    lost = (values == padding.fill) & (tensor.values != padding.fill)
    if lost.any():
        raise UsageError(
            f"{tensor.format.name} cannot hold the value {padding.fill} as an entry: it is padding",
            found=f"place {int(np.argmax(lost))} of the values",
            hint="convert to a format without padding first, such as csr",
        )
