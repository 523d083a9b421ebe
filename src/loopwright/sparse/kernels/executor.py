"""Kernels bound to a sparse tensor: what a call needs is found once and kept with the tensor.

    code + tensor + extents --> Executor

The inspector validates index arrays: that every number lies inside its range, and between which
rows the diagonals of a matrix need no test. Frozen arrays are validated once; those that others can
write, in every call: by the code itself where it goes through them in blocks, else before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from loopwright.ir.dtypes import DType, dtype_of
from loopwright.kernels import thread_pool
from loopwright.runtime.address import object_address
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.kernel import BoundKernel
from loopwright.sparse.check import check
from loopwright.sparse.format import SIZES, Format
from loopwright.sparse.formats.twins import is_verified
from loopwright.sparse.frozen import are_frozen
from loopwright.sparse.inside import ends_check, require_inside
from loopwright.sparse.kernels.code import Code, code_of
from loopwright.sparse.kernels.compose import (
    OUT,
    REFUSED,
    SPARSE,
    Request,
    dense_name,
    extent_name,
    rounded_up,
)
from loopwright.sparse.kernels.stretches import Edge, cut_name, find_stretches, whole_stretch
from loopwright.sparse.levels import levels_of
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.trust import require_promised
from loopwright.sparse.uf import Linear, Sym, Var

__all__ = [
    "Executor",
    "bits_of",
    "exact_of",
    "fitted",
    "fixed_of",
    "indices_of",
    "is_kept",
    "require_safe",
    "validating",
]

_MOST_FIXED = 16  # the largest count that code is written for
_NO_TABLE = np.zeros(0, dtype=np.int64)
_WORTH_A_TEAM = 1 << 14  # products; below, one thread is done before others have begun
empty = np.empty
_safe: weakref.WeakSet[SparseTensor] = weakref.WeakSet()  # frozen ones, validated
_ruled: weakref.WeakSet[SparseTensor] = weakref.WeakSet()  # frozen ones of which all rules hold


class Executor:
    """A kernel for one tensor and dense operands of one layout: called with arrays, no questions.

    Safe to call from several threads at once.
    """

    __slots__ = ("_code", "dtype", "is_lasting", "is_team", "refused", "run", "threads")

    def __init__(
        self,
        code: Code,
        tensor: SparseTensor,
        extents: Mapping[str, int],
        shape: tuple[int, ...],
        fill: Any,
        threads: int,
    ) -> None:
        kernel = code.kernel
        request = code.request
        self._code = code
        self.dtype = request.dtype.numpy
        values = _scalars(code, tensor, extents, shape)
        others = [extents[c] for c in extents if c not in request.subscripts.operands[request.at]]
        work = len(tensor.values) * int(np.prod(others, dtype=np.int64))
        self.threads = threads
        self.is_team = work >= _WORTH_A_TEAM and kernel.is_parallel
        bound = kernel.bind(values, _NO_TABLE, threads if self.is_team else 1, thread_pool)
        arrays = {SPARSE + name: np.ascontiguousarray(a) for name, a in tensor.arrays.items()}
        # One number, which code that validates sets for good once it finds something wrong: what
        # the call returns must not be used then. None: the tensor is validated before a call.
        self.refused: Array | None = np.zeros(1, np.int64) if code.needs.is_validated else None
        if self.refused is not None:
            arrays[REFUSED] = self.refused
        # Whether it may be run again after the tensor was validated again: nothing that it keeps is
        # computed from numbers of index arrays, or nobody can write these.
        is_direct = all(array.flags.c_contiguous for array in tensor.arrays.values())
        self.is_lasting = is_kept(tensor) or (is_direct and not code.needs.edges)
        kept = [arrays.get(name) for name in kernel.buffers]  # None: comes with a call
        place = {name: at for at, name in enumerate(kernel.buffers)}
        numbers = (n for n in range(len(request.subscripts.operands)) if n != request.at)
        places = [place[SPARSE + "values"], *(place[dense_name(n)] for n in numbers), place[OUT]]
        made = partial(_made, shape, self.dtype, fill if code.needs.is_filled else None)
        # The result for values and dense operands like those it was made for.
        self.run: Callable[..., Any] = _runner(bound, kept, places, made)

    def inspect(self, stage: str) -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return self._code.inspect(stage)


def _made(shape: tuple[int, ...], dtype: Any, fill: Any) -> Array:
    """The memory of a result."""
    if fill is None:
        return empty(shape, dtype)
    return np.zeros(shape, dtype) if fill == 0 else np.full(shape, fill, dtype)


def _runner(
    bound: BoundKernel, kept: list[Any], places: list[int], made: Callable[[], Array]
) -> Callable[..., Any]:
    """The call of code on arrays: `kept` has those of the tensor, `places` says where others go."""
    bare = bound.bare()
    count = len(kept) - len(places)
    is_last = places == [*range(count, len(kept))]
    if bare is None or not is_last:

        def run(*given: Array) -> Any:
            out = made()
            arrays = kept.copy()
            for at, array in zip(places, (*given, out), strict=True):
                arrays[at] = array
            bound(*arrays)
            return out if out.shape else out[()]

        return run
    # Index arrays come first and the result last: what stays is bound once and for all.
    call = partial(bare, *map(object_address, kept[:count]))

    def run_bare(values: Array, *dense: Array) -> Any:
        out = made()
        call(id(values), *map(id, dense), id(out))
        return out if out.shape else out[()]

    def run_one(values: Array, x: Array) -> Any:
        out = made()
        call(id(values), id(x), id(out))
        return out

    return run_one if len(places) == 3 and made().shape else run_bare


def is_kept(tensor: SparseTensor) -> bool:
    """Whether nobody can write to the index arrays of a tensor."""
    return are_frozen(tensor.arrays.values())


def require_safe(tensor: SparseTensor) -> None:
    """Raise UsageError that names the place unless code may run on a tensor.

    Frozen arrays are looked at once.
    """
    if tensor in _safe:
        return
    require_inside(tensor)
    require_promised(tensor)
    for index in tensor.format.indices:
        # Threads share out rows by permutations: no two of them may meet in one.
        if index.inverse and not _is_permutation(tensor.arrays[index.name]):
            check(tensor)
    if is_kept(tensor):
        _safe.add(tensor)


def _is_permutation(array: Array) -> bool:
    """Whether numbers from 0 to the length of an array, which lie in that range, differ."""
    is_there = np.zeros(array.size, np.bool_)
    is_there[array.reshape(-1)] = True
    return bool(is_there.all())


def _require_rules(tensor: SparseTensor) -> None:
    """Raise UsageError that names the place unless the rules of the format hold.

    Of verified formats they were looked at before; of others they are where loops would leave
    arrays without them, which is another question.
    """
    if tensor not in _ruled and not is_verified(tensor.format):
        check(tensor)
        if is_kept(tensor):
            _ruled.add(tensor)


def _scalars(
    code: Code, tensor: SparseTensor, extents: Mapping[str, int], shape: tuple[int, ...]
) -> dict[str, int]:
    """The values of all symbols of a computation."""
    found = {SPARSE + name: int(value) for name, value in tensor.symbols.items()}
    found |= dict(zip(SIZES, tensor.shape, strict=False))
    found |= {extent_name(c): extent for c, extent in extents.items()}
    if code.needs.edges:
        given = _edges(code, tensor)
        is_cut = bool(code.request.stretches)
        rows = shape[0]
        stretches = find_stretches(*given, rows) if is_cut else [whole_stretch(*given, rows)]
        cuts = [stretches[0].start, *(stretch.stop for stretch in stretches)]
        found |= {cut_name(number): cut for number, cut in enumerate(cuts)}
    return found


def _edges(
    code: Code, tensor: SparseTensor
) -> tuple[tuple[Edge, ...], dict[str, Array], dict[str, int]]:
    """The edges that code asks for, with the arrays and symbols that they speak of."""
    symbols = {SPARSE + name: int(value) for name, value in tensor.symbols.items()}
    symbols |= dict(zip(SIZES, tensor.shape, strict=False))
    return code.needs.edges, {SPARSE + n: a for n, a in tensor.arrays.items()}, symbols


def fitted(request: Request, tensor: SparseTensor, shape: tuple[int, ...]) -> Code:
    """The code of a request for one tensor: written for the stretches of its rows."""
    require_safe(tensor)
    code = code_of(request)
    if code.needs.relies_on_rules:
        _require_rules(tensor)
    if not code.needs.edges or not request.fixed:
        return code
    stretches = find_stretches(*_edges(code, tensor), shape[0])
    if len(stretches) == 1 and stretches[0] == whole_stretch(*_edges(code, tensor), shape[0]):
        return code
    return code_of(replace(request, stretches=tuple((s.first, s.last) for s in stretches)))


def validating(code: Code, tensor: SparseTensor) -> Code:
    """Code for calls again and again: such as validates arrays that others can write, if it can."""
    if is_kept(tensor) or not levels_of(tensor.format) or ends_check(tensor) is None:
        return code
    found = code_of(replace(code.request, is_validated=True))
    return found if found.needs.is_validated else code


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
