"""The operands of a sparse kernel: a sparse one, with what is cached of it, and dense ones."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.memo import BoundedCache
from loopwright.runtime.array_arguments import Array, as_operand
from loopwright.sparse.bridge import from_scipy, is_scipy, shared_arrays
from loopwright.sparse.executors.executor import Executor
from loopwright.sparse.frozen import are_frozen
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.validate_arrays import ends_check, quick_check

__all__ = [
    "OperandCache",
    "cache_of",
    "dense_operands",
    "is_sparse",
    "sparse_position",
    "tensor_of",
]

_MOST_READY = 64  # layouts of calls remembered with a tensor


class OperandCache:
    """What is cached of a sparse operand, as long as it lives."""

    __slots__ = ("_check", "_ends", "_parts", "_ref", "is_frozen", "ready", "tensor")

    def __init__(self, operand: Any, tensor: SparseTensor, parts: tuple[Any, ...]) -> None:
        number = id(operand)
        self._ref = weakref.ref(operand, lambda _: operand_caches.pop(number, None))
        # The cache does not keep the tensor itself alive.
        self.tensor: SparseTensor | None = None if operand is tensor else tensor
        self._parts = parts
        self.is_frozen = are_frozen(tensor.arrays.values())  # validated once and for all
        self._check: Callable[[SparseTensor, int], bool] | None = None
        self._ends: Callable[[SparseTensor], bool] | None = None
        self.ready: BoundedCache[tuple[Any, ...], Any] = BoundedCache(
            _MOST_READY
        )  # by layout of the call

    def is_of(self, operand: Any) -> bool:
        """Whether this is still true of an operand: one of scipy may have got other arrays."""
        held = self._ref()
        tensor = self.tensor
        if tensor is None or held is None or held is not operand:
            return held is operand
        parts = shared_arrays(operand)
        same = len(parts) == len(self._parts) and all(map(operator.is_, parts, self._parts))
        return same and bool(tensor.shape == operand.shape)

    def may_run(self, operand: Any, executor: Executor) -> bool:
        """Whether code may still run on an operand whose index arrays others can write.

        Code that validates reports afterwards. The cache of an operand that has changed is dropped.
        """
        tensor = self.tensor or operand
        if executor.refused is None:
            if self._check is None:
                self._check = quick_check(tensor)
            is_fine = self._check(tensor, executor.threads if executor.is_team else 1)
        else:
            if self._ends is None:
                self._ends = ends_check(tensor)
            is_fine = self._ends is not None and self._ends(tensor)
        if not is_fine:
            self.forget(operand)
        return is_fine

    def forget(self, operand: Any) -> None:
        """Drop the cache: the general call reads the operand again and reports its faults."""
        operand_caches.pop(id(operand), None)


operand_caches: dict[int, OperandCache] = {}  # by identity of the operand


def cache_of(operand: Any) -> OperandCache | None:
    """The cache of an operand; None where there is none that is still valid."""
    cache = operand_caches.get(id(operand))
    return cache if cache is not None and cache.is_of(operand) else None


def is_sparse(operand: object) -> bool:
    return isinstance(operand, SparseTensor) or is_scipy(operand)


def sparse_position(operands: Sequence[Any], what: str) -> int:
    """The place of the one sparse operand."""
    found = [at for at, operand in enumerate(operands) if is_sparse(operand)]
    if len(found) != 1:
        raise UsageError(
            f"{what} takes exactly one sparse operand",
            found=f"{len(found)} among {len(operands)}",
            hint="to_dense() of the smaller ones" if found else "loopwright.einsum for dense ones",
        )
    return found[0]


def tensor_of(operand: Any) -> SparseTensor:
    """The operand as a SparseTensor; what shares the arrays of scipy is found again."""
    cache = cache_of(operand)
    if cache is not None:
        return operand if cache.tensor is None else cache.tensor
    if isinstance(operand, SparseTensor):
        operand_caches[id(operand)] = OperandCache(operand, operand, ())
        return operand
    tensor = from_scipy(operand)
    parts = shared_arrays(operand)
    # A copy would not see numbers that are written to the original later.
    if parts and np.may_share_memory(tensor.values, operand.data):
        operand_caches[id(operand)] = OperandCache(operand, tensor, parts)
    return tensor


def dense_operands(
    names: EinsumSubscripts, operands: Sequence[Any], at: int, shape: tuple[int, ...]
) -> tuple[EinsumSubscripts, list[Array], dict[str, int]]:
    """Dense operands row by row, the letters as they are stored then, and the extents of letters.

    An array stored by columns is taken as its transpose; other strides are copied.
    """
    extents: dict[str, int] = {}
    for c, extent in zip(names.operands[at], shape, strict=True):
        if extents.setdefault(c, extent) != extent:
            raise _disagreement(names, c, extents[c], extent)
    arrays = [(n, as_operand(x, f"operand {n + 1}")) for n, x in enumerate(operands) if n != at]
    for n, array in arrays:
        for c, extent in zip(names.operands[n], array.shape, strict=True):
            known = extents.get(c, 1)
            if extent not in (1, known) and (known != 1 or c in names.operands[at]):
                raise _disagreement(names, c, known, extent)
            extents[c] = extent if c not in extents or known == 1 else known
    terms = list(names.operands)
    found: list[Array] = []
    for n, array in arrays:
        wanted = tuple(extents[c] for c in terms[n])
        whole = array if array.shape == wanted else np.broadcast_to(array, wanted)
        if not whole.flags.c_contiguous and whole.T.flags.c_contiguous:
            whole, terms[n] = whole.T, terms[n][::-1]
        found.append(whole if _is_plain(whole) else np.array(whole, order="C"))
    return EinsumSubscripts(tuple(terms), names.out), found, extents


def _is_plain(array: Array) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def _disagreement(names: EinsumSubscripts, letter: str, one: int, other: int) -> UsageError:
    return UsageError(
        f"einsum '{names.text}': index '{letter}' has two sizes",
        found=f"{one} and {other}",
        hint="operands that agree; only dense ones broadcast, from a size of 1",
    )
