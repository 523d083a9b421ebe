"""Kernels bound to a sparse tensor: what a call needs is found once and kept with the tensor.

    Request --plan--> Computation --scan--> LoopNest --> code        once for all tensors alike
    code + tensor + extents --> Executor                              once for each tensor

The inspector looks at index arrays when a tensor is first used: that every number lies inside its
range, and between which rows the diagonals of a matrix need no test. Numbers of index arrays must
not be changed afterwards; values may.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.loops import LoopNest
from loopwright.kernels import nest_kernel, stage_text, thread_pool
from loopwright.runtime.arguments import Array
from loopwright.runtime.kernel import Bound, CompiledKernel
from loopwright.sparse.format import SIZES, Format
from loopwright.sparse.inside import require_inside
from loopwright.sparse.kernels.compose import (
    OUT,
    SPARSE,
    Request,
    dense_name,
    extent_name,
    rounded_up,
)
from loopwright.sparse.kernels.rows import with_carried_pointers
from loopwright.sparse.kernels.schedule import HIGH, LOW, Plan, plan
from loopwright.sparse.spf.computation import computation_text
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.uf import Call, Linear, Sym, Var, evaluate

__all__ = [
    "Code",
    "Executor",
    "bits_of",
    "code_of",
    "exact_of",
    "fixed_of",
    "indices_of",
    "usual_of",
]

_MOST_FIXED = 16  # the largest count that code is written for
_MOST_ROWS = 0.75  # of all rows must have a length that code is written for
_NO_TABLE = np.zeros(0, dtype=np.int64)
_WORTH_A_TEAM = 1 << 14  # products; below, one thread is done before others have begun
empty = np.empty
_safe: weakref.WeakSet[SparseTensor] = weakref.WeakSet()  # tensors whose indices were looked at


class Code:
    """The loops and the machine code of a request."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.plan: Plan = plan(request)
        self.zero = request.ring.zero(request.dtype)
        self._key = f"sparse kernel {request.usual} {computation_text(self.plan.computation)}"
        self._kernel: CompiledKernel | None = None

    @property
    def kernel(self) -> CompiledKernel:
        """The loaded code; compiled when it is neither in memory nor on disk."""
        if self._kernel is None:
            self._kernel = nest_kernel(self._key, self.nest, f"sparse {self.request.format.name}")
        return self._kernel

    def nest(self) -> LoopNest:
        return with_carried_pointers(scan(self.plan.computation), self.request.usual)

    def inspect(self, stage: str) -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return stage_text(self.nest(), stage)


@lru_cache(maxsize=512)
def code_of(request: Request) -> Code:
    """The code of a request; nothing is compiled before it is used."""
    return Code(request)


class Executor:
    """A kernel for one tensor and dense operands of one layout: called with arrays, no questions.

    Safe to call from several threads at once.
    """

    __slots__ = (
        "_bare",
        "_bound",
        "_code",
        "_dense",
        "_filler",
        "_identities",
        "_kept",
        "_out",
        "_shape",
        "_values",
        "dtype",
        "is_team",
        "threads",
    )

    def __init__(
        self,
        code: Code,
        tensor: SparseTensor,
        extents: Mapping[str, int],
        shape: tuple[int, ...],
        fill: Any,
        threads: int,
    ) -> None:
        require_safe(tensor)
        kernel = code.kernel
        request = code.request
        self._code = code
        self._shape = shape
        self.dtype = request.dtype.numpy
        self._filler = fill if code.plan.is_filled else None
        values = _scalars(code, tensor, extents, shape)
        others = [extents[c] for c in extents if c not in request.subscripts.operands[request.at]]
        work = len(tensor.values) * int(np.prod(others, dtype=np.int64))
        self.threads = threads
        self.is_team = work >= _WORTH_A_TEAM and kernel.is_parallel
        self._bound: Bound = kernel.bind(
            values, _NO_TABLE, threads if self.is_team else 1, thread_pool
        )
        self._bare = self._bound.bare()
        arrays = {SPARSE + name: np.ascontiguousarray(a) for name, a in tensor.arrays.items()}
        self._kept = [arrays.get(name) for name in kernel.buffers]  # None: comes with a call
        self._identities = [id(array) for array in self._kept]
        place = {name: at for at, name in enumerate(kernel.buffers)}
        self._values, self._out = place[SPARSE + "values"], place[OUT]
        numbers = (n for n in range(len(request.subscripts.operands)) if n != request.at)
        self._dense = [place[dense_name(n)] for n in numbers]

    def __call__(self, values: Array, *dense: Array) -> Array:
        """The result for values and dense operands like those it was made for."""
        if self._filler is None:
            out = empty(self._shape, self.dtype)
        elif self._filler == 0:
            out = np.zeros(self._shape, self.dtype)
        else:
            out = np.full(self._shape, self._filler, self.dtype)
        bare = self._bare
        if bare is not None:
            numbers = self._identities.copy()
            numbers[self._out] = id(out)
            numbers[self._values] = id(values)
            for at, place in enumerate(self._dense):
                numbers[place] = id(dense[at])
            bare(*numbers)
            return out
        arrays: list[Any] = self._kept.copy()
        arrays[self._out] = out
        arrays[self._values] = values
        for at, place in enumerate(self._dense):
            arrays[place] = dense[at]
        self._bound(*arrays)
        return out

    def inspect(self, stage: str) -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return self._code.inspect(stage)


def require_safe(tensor: SparseTensor) -> None:
    """Raise UsageError that names the place unless code may run on a tensor; looks once."""
    if tensor not in _safe:
        require_inside(tensor)
        _safe.add(tensor)


def _scalars(
    code: Code, tensor: SparseTensor, extents: Mapping[str, int], shape: tuple[int, ...]
) -> dict[str, int]:
    """The values of all symbols of a computation."""
    found = {SPARSE + name: int(value) for name, value in tensor.symbols.items()}
    found |= dict(zip(SIZES, tensor.shape, strict=False))
    found |= {extent_name(c): extent for c, extent in extents.items()}
    if code.plan.edges:
        low, high = 0, shape[0]
        for edge in code.plan.edges:
            array = tensor.arrays[edge.array.removeprefix(SPARSE)]
            if not array.size:
                continue
            ends = edge.factor * int(array.min()), edge.factor * int(array.max())
            rest = evaluate(edge.rest, found, {})
            if edge.is_low:
                low = max(low, -rest - min(ends))
            else:
                high = min(high, rest + min(ends) + 1)
        low = min(low, shape[0])
        found |= {LOW: low, HIGH: max(low, high)}
    return found


# -- what a request says of a tensor -------------------------------------------------------------


def indices_of(tensor: SparseTensor) -> tuple[tuple[str, DType], ...]:
    """The types of the index arrays."""
    return tuple((i.name, dtype_of(tensor.arrays[i.name].dtype)) for i in tensor.format.indices)


def bits_of(tensor: SparseTensor) -> tuple[int, ...]:
    """Bits of the largest coordinates, where the map of the format takes numbers apart by them."""
    is_packed = any(call.name.startswith("ALTO") for call in tensor.format.map.calls)
    return tuple(max(size - 1, 0).bit_length() if is_packed else 0 for size in tensor.shape)


def fixed_of(tensor: SparseTensor) -> tuple[tuple[str, int], ...]:
    """Small counts that alone bound an inner loop: the number of diagonals."""
    found = {name: int(tensor.symbols[name]) for name in _inner_counts(tensor.format)}
    return tuple((name, value) for name, value in found.items() if 0 < value <= _MOST_FIXED)


@lru_cache(maxsize=256)
def _inner_counts(format: Format) -> tuple[str, ...]:
    if len(format.map.conjs) != 1:
        return ()
    constraints = format.map.conjs[0].constraints
    found = []
    for variable in format.variables[1:]:
        upper = [
            c.term.without(Var(variable)) + 1
            for c in constraints
            if not c.is_equality and c.term.coefficient(Var(variable)) < 0
        ]
        symbol = upper[0].atom if len(upper) == 1 else None
        if isinstance(symbol, Sym) and symbol.name in format.counts:
            found.append(symbol.name)
    return tuple(dict.fromkeys(found))


def exact_of(tensor: SparseTensor) -> tuple[str, ...]:
    """Numbers of blocks that cover a size without a rest."""
    found = []
    for name, term in tensor.format.defined:
        rounded = rounded_up(Linear.of(term))
        if rounded is not None and tensor.symbols[rounded[0]] % rounded[1] == 0:
            found.append(name)
    return tuple(found)


def usual_of(tensor: SparseTensor) -> int:
    """How many entries most rows have, where these are few; 0 where lengths differ.

    Stencils give nearly all rows of a matrix one length, and a row without a loop is quicker.
    """
    name = _pointer(tensor.format)
    lengths = np.diff(tensor.arrays[name]) if name else _NO_TABLE
    if not len(lengths) or lengths.min() < 0:
        return 0  # nothing is known of indices before they are looked at
    counts = np.bincount(np.minimum(lengths, _MOST_FIXED + 1), minlength=_MOST_FIXED + 2)
    usual = int(np.argmax(counts))
    is_worth = counts[usual] >= _MOST_ROWS * len(lengths)
    return usual if is_worth and 1 < usual <= _MOST_FIXED else 0


@lru_cache(maxsize=256)
def _pointer(format: Format) -> str:
    """The array f with f(v) <= k < f(v+1) for the first variable v and another one k."""
    first = Linear.of(Var(format.variables[0]))
    starts = {
        Linear.of(Call(index.name, (first,))): index.name
        for index in format.indices
        if index.rank == 1 and "increasing" in index.monotone
    }
    for conj in format.map.conjs:
        for constraint in conj.constraints:
            for variable in format.variables[1:]:
                start = -constraint.term.without(Var(variable))
                is_lower = constraint.term.coefficient(Var(variable)) == 1
                if is_lower and not constraint.is_equality and start in starts:
                    return starts[start]
    return ""
