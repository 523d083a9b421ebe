"""What callers hand to a sparse kernel: one sparse operand, found again, and dense ones."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.recent import Recent
from loopwright.runtime.array_arguments import Array, as_operand
from loopwright.sparse.bridge import from_scipy, is_scipy, parts_of
from loopwright.sparse.frozen import are_frozen
from loopwright.sparse.inside import ends_check, quick_check
from loopwright.sparse.kernels.executor import Executor
from loopwright.sparse.tensor import SparseTensor

__all__ = [
    "Home",
    "dense_operands",
    "home_of",
    "is_sparse",
    "tensor_of",
    "the_sparse_one",
]

_MOST_READY = 64  # layouts of calls remembered with a tensor


class Home:
    """What is known of a sparse operand, as long as it lives."""

    __slots__ = ("_check", "_ends", "_parts", "_ref", "is_kept", "ready", "tensor")

    def __init__(self, operand: Any, tensor: SparseTensor, parts: tuple[Any, ...]) -> None:
        number = id(operand)
        self._ref = weakref.ref(operand, lambda _: homes.pop(number, None))
        # The tensor itself is not kept alive by what is known of it.
        self.tensor: SparseTensor | None = None if operand is tensor else tensor
        self._parts = parts
        self.is_kept = are_frozen(tensor.arrays.values())  # validated once and for all
        self._check: Callable[[SparseTensor, int], bool] | None = None
        self._ends: Callable[[SparseTensor], bool] | None = None
        self.ready: Recent[tuple[Any, ...], Any] = Recent(_MOST_READY)  # by layout of the call

    def is_of(self, operand: Any) -> bool:
        """Whether this is still true of an operand: one of scipy may have got other arrays."""
        held = self._ref()
        tensor = self.tensor
        if tensor is None or held is None or held is not operand:
            return held is operand
        parts = parts_of(operand)
        same = len(parts) == len(self._parts) and all(map(operator.is_, parts, self._parts))
        return same and bool(tensor.shape == operand.shape)

    def may_run(self, operand: Any, executor: Executor) -> bool:
        """Whether code may still run on an operand whose index arrays others can write.

        Code that validates is asked afterwards what it has found. What was known of an operand that
        has changed is forgotten.
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
        """The general call reads an operand anew, and refuses what is wrong with it in words."""
        homes.pop(id(operand), None)


homes: dict[int, Home] = {}  # by identity of the operand


def home_of(operand: Any) -> Home | None:
    """What is known of an operand; None where nothing is, or no longer."""
    home = homes.get(id(operand))
    return home if home is not None and home.is_of(operand) else None


def is_sparse(operand: object) -> bool:
    return isinstance(operand, SparseTensor) or is_scipy(operand)


def the_sparse_one(operands: Sequence[Any], what: str) -> int:
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
    home = home_of(operand)
    if home is not None:
        return operand if home.tensor is None else home.tensor
    if isinstance(operand, SparseTensor):
        homes[id(operand)] = Home(operand, operand, ())
        return operand
    tensor = from_scipy(operand)
    parts = parts_of(operand)
    # A copy would not see numbers that are written to the original later.
    if parts and np.may_share_memory(tensor.values, operand.data):
        homes[id(operand)] = Home(operand, tensor, parts)
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
