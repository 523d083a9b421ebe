"""Einsums with one sparse operand, over any format and semiring; spmv, spmm, ttm and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwright import options, semirings
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import num_threads, thread_count
from loopwright.sparse.executors.compose import KernelRequest
from loopwright.sparse.executors.executor import (
    Executor,
    bits_of,
    exact_of,
    fixed_of,
    indices_of,
    require_valid,
    specialised_code,
    validating_code,
)
from loopwright.sparse.executors.operands import (
    OperandCache,
    cache_of,
    dense_operands,
    is_sparse,
    operand_caches,
    sparse_position,
    tensor_of,
)
from loopwright.sparse.frozen import freeze, is_frozen
from loopwright.sparse.handover import copied
from loopwright.sparse.tensor import SparseTensor

__all__ = [
    "SparseKernel",
    "compile_kernel",
    "einsum",
    "mttkrp",
    "run_einsum",
    "sddmm",
    "spmm",
    "spmv",
    "ttm",
]

ndarray = np.ndarray
current = options.current


def einsum(
    subscripts: str,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """Einstein summation with one sparse operand, in NumPy's grammar; the result is dense.

    The sparse operand is a SparseTensor of any format or a sparse array of scipy. Entries that are
    not stored take no part, and repeated ones are combined by plus; an element of the result to
    which nothing contributes is the zero of the semiring. In formats whose padding is mapped (dia,
    bcsr) stored zeros are padding, which plus_times multiplies like any zero and other semirings
    leave out.

    Sums are formed in the order of the storage. Index arrays that others can write are validated
    in every call, those that are frozen when a tensor is first used.
    """
    if len(operands) == 2:  # fast path of the common case: a call must not cost more than its sums
        sparse, x = operands
        cache = operand_caches.get(id(sparse))
        if cache is not None and type(x) is ndarray and cache.is_of(sparse):
            try:
                found = cache.ready.get(
                    (subscripts, semiring, threads, x.dtype, x.shape, x.strides, x.flags.aligned)
                )
            except TypeError:  # arguments that the general call refuses
                found = None
            if (
                found is not None
                and (not found.is_team or found.threads == _team(threads))
                and (cache.is_frozen or cache.may_run(sparse, found))
            ):
                result = found.run((cache.tensor or sparse).values, x)
                if found.refused is None or not found.refused[0]:
                    return result
                cache.forget(sparse)
    elif (result := _recalled(subscripts, operands, semiring, threads)) is not None:
        return result
    return run_einsum(subscripts, operands, semiring, threads)


def run_einsum(
    subscripts: str,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    threads: int | None,
    *,
    is_sampled: bool = False,
) -> Any:
    """The general call: everything is checked; the result of a sampled one are values."""
    if not isinstance(subscripts, str):
        raise UsageError("sparse.einsum takes a string of subscripts", type(subscripts).__name__)
    if is_sampled:
        found = _recalled(subscripts, operands, ring, threads, is_sampled)
        if found is not None:
            return found
    may_repeat = not current().careful
    kernel = _kernel(subscripts, operands, ring, threads, is_sampled, is_repeated=may_repeat)
    if kernel.is_direct and kernel.executor.is_lasting and may_repeat:
        _remember(subscripts, operands, ring, threads, kernel, is_sampled)
    return kernel.run_once()


def _recalled(
    subscripts: str,
    operands: Sequence[Any],
    ring: Any,
    threads: int | None,
    is_sampled: bool = False,
) -> Any:
    """The result of a call laid out like an earlier one with the same sparse operand, or None."""
    cache, sparse, dense, layout = _split_operands(operands)
    if cache is None or not cache.is_of(sparse):
        return None
    try:
        found = cache.ready.get((subscripts, ring, threads, is_sampled, layout))
    except TypeError:  # arguments that the general call refuses
        return None
    if found is None or (found.is_team and found.threads != _team(threads)):
        return None
    if not cache.is_frozen and not cache.may_run(sparse, found):
        return None
    result = found.run((cache.tensor or sparse).values, *dense)
    if found.refused is None or not found.refused[0]:
        return result
    cache.forget(sparse)
    return None


def _split_operands(operands: Sequence[Any]) -> tuple[OperandCache | None, Any, Sequence[Any], Any]:
    """What is known of the sparse operand, the operand, the dense ones and how all are laid out."""
    cache, sparse = None, None
    dense: list[Any] = []
    layout: list[Any] = []
    for x in operands:
        if type(x) is ndarray:
            dense.append(x)
            layout.append((x.dtype, x.shape, x.strides, x.flags.aligned))
        elif cache is None:
            cache, sparse = operand_caches.get(id(x)), x
            layout.append(None)
        else:
            return None, None, (), None
    return cache, sparse, dense, tuple(layout)


def _team(threads: int | None) -> int:
    return num_threads() if threads is None else threads


def _remember(
    subscripts: str,
    operands: Sequence[Any],
    ring: Any,
    threads: int | None,
    kernel: SparseKernel,
    is_sampled: bool,
) -> None:
    """Keep the executor of a call whose operands are passed as they come."""
    _, sparse, _, layout = _split_operands(operands)
    cache = cache_of(sparse)
    if cache is None or layout is None or not kernel.tensor.values.flags.c_contiguous:
        return
    key: tuple[Any, ...] = (subscripts, ring, threads, is_sampled, layout)
    if len(operands) == 2 and operands[0] is sparse and not is_sampled:
        key = subscripts, ring, threads, *layout[1]
    cache.ready[key] = kernel.executor


class SparseKernel:
    """An einsum made ready for its operands; `inspect` shows what was made of it."""

    def __init__(
        self,
        executor: Executor,
        tensor: SparseTensor,
        dense: Sequence[Array],
        result: DType,
        is_direct: bool,
    ) -> None:
        self.executor = executor
        self.tensor = tensor
        self.is_direct = is_direct  # the operands are passed as they came
        self._dense = dense
        self._result = result

    def run(self) -> Any:
        """The result for the operands it was made from, which are validated again."""
        require_valid(self.tensor)
        return self.run_once()

    def run_once(self) -> Any:
        """The same right after it was made."""
        values = np.ascontiguousarray(self.tensor.values)
        out = self.executor.run(values, *self._dense)
        refused = self.executor.refused
        if refused is not None and refused[0]:
            raise UsageError(
                f"the index arrays of this {self.tensor.format.name} were written to during a call",
                hint="another thread writes them: let it wait, or multiply a copy",
            )
        if out.dtype != self._result.numpy:
            with np.errstate(all="ignore"):
                out = out.astype(self._result.numpy)
        return out

    def inspect(self, stage: str = "loops") -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return self.executor.inspect(stage)


def compile_kernel(
    subscripts: str,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
    is_sampled: bool = False,
) -> SparseKernel:
    """The kernel that `einsum` runs for these operands, once they have been validated."""
    return _kernel(subscripts, operands, semiring, threads, is_sampled, is_repeated=False)


def _kernel(
    subscripts: str,
    operands: Sequence[Any],
    semiring: str | semirings.Semiring,
    threads: int | None,
    is_sampled: bool,
    *,
    is_repeated: bool,
) -> SparseKernel:
    """The kernel of a call; a repeated one validates what others can write."""
    ring = semirings.semiring(semiring)
    at = sparse_position(operands, f"sparse.einsum '{subscripts}'")
    tensor = tensor_of(operands[at])
    ranks = tuple(tensor.ndim if n == at else np.ndim(x) for n, x in enumerate(operands))
    given = parse_subscripts(subscripts, ranks)
    names, dense, extents = dense_operands(given, operands, at, tensor.shape)
    types = (tensor.dtype, *(x.dtype for x in dense))
    result = dtype_of(np.result_type(*map(np.dtype, types)))
    dtype = DTYPES["float32"] if result.name == "float16" else result
    ring.check_dtype(dtype)
    request = KernelRequest(
        tensor.format,
        dtype_of(tensor.dtype),
        indices_of(tensor),
        bits_of(tensor),
        fixed_of(tensor),
        exact_of(tensor),
        _plain(names),
        at,
        tuple(dtype_of(x.dtype) for x in dense),
        ring,
        dtype,
        is_sampled=is_sampled,
    )
    shape = (len(tensor.values),) if is_sampled else tuple(extents[c] for c in names.out)
    code = specialised_code(request, tensor, shape)
    code = validating_code(code, tensor) if is_repeated else code
    padding = tensor.format.padding
    fill = (padding.fill if padding else 0) if is_sampled else code.zero
    plain = dict(zip(_letters(names), _letters(_plain(names)), strict=True))
    renamed = {plain[c]: extent for c, extent in extents.items()}
    executor = Executor(code, tensor, renamed, shape, fill, thread_count(threads))
    arrays = (x for n, x in enumerate(operands) if n != at)
    is_same = all(x is array for x, array in zip(arrays, dense, strict=True))
    is_direct = dtype is result and is_same
    return SparseKernel(executor, tensor, dense, result, is_direct)


def _letters(names: EinsumSubscripts) -> list[str]:
    return list(dict.fromkeys("".join(names.operands)))


def _plain(names: EinsumSubscripts) -> EinsumSubscripts:
    """The same under letters in alphabetical order: code does not depend on their names."""
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    plain = str.maketrans(dict(zip(_letters(names), alphabet, strict=False)))
    return EinsumSubscripts(
        tuple(t.translate(plain) for t in names.operands), names.out.translate(plain)
    )


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

    `factors` has a matrix for each dimension; that of `mode` is ignored and may be None.
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
    values = run_einsum("ij,ik,jk->ij", operands, semiring, threads, is_sampled=True)
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
