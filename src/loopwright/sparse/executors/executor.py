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
from loopwright.sparse.executors.compose import (
    OUT,
    REFUSED,
    SPARSE,
    KernelRequest,
    dense_name,
    extent_name,
    rounded_up,
)
from loopwright.sparse.executors.interior_rows import (
    RowBound,
    common_range,
    cut_name,
    find_interior_ranges,
)
from loopwright.sparse.executors.kernel_code import SparseCode, code_of
from loopwright.sparse.format import SIZES, Format
from loopwright.sparse.formats.canonical_formats import is_verified
from loopwright.sparse.frozen import are_frozen
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.uf import Sym, Term, TupleVar
from loopwright.sparse.unverified_formats import require_valid_source
from loopwright.sparse.validate_arrays import ends_check, require_valid_arrays
from loopwright.sparse.validate_tensor import validate_tensor
from loopwright.sparse.validated_levels import levels_of

__all__ = [
    "Executor",
    "bits_of",
    "exact_of",
    "fixed_of",
    "has_frozen_indices",
    "indices_of",
    "require_valid",
    "specialised_code",
    "validating_code",
]

_MOST_FIXED = 16  # the largest count that code is written for
_NO_TABLE = np.zeros(0, dtype=np.int64)
_WORTH_A_TEAM = 1 << 14  # products; below, one thread is done before others have begun
empty = np.empty
_valid: weakref.WeakSet[SparseTensor] = weakref.WeakSet()  # frozen ones, validated
_checked: weakref.WeakSet[SparseTensor] = weakref.WeakSet()  # frozen, satisfy all invariants


class Executor:
    """A kernel for one tensor and dense operands of one layout: called with arrays, no questions.

    Safe to call from several threads at once.
    """

    __slots__ = ("_code", "dtype", "is_lasting", "is_team", "refused", "run", "threads")

    def __init__(
        self,
        code: SparseCode,
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
        self.is_lasting = has_frozen_indices(tensor) or (is_direct and not code.needs.row_bounds)
        kept = [arrays.get(name) for name in kernel.buffers]  # None: comes with a call
        place = {name: at for at, name in enumerate(kernel.buffers)}
        numbers = (n for n in range(len(request.subscripts.operands)) if n != request.at)
        places = [place[SPARSE + "values"], *(place[dense_name(n)] for n in numbers), place[OUT]]
        made = partial(_allocated, shape, self.dtype, fill if code.needs.is_filled else None)
        # The result for values and dense operands like those it was made for.
        self.run: Callable[..., Any] = _runner(bound, kept, places, made)

    def inspect(self, stage: str) -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return self._code.inspect(stage)


def _allocated(shape: tuple[int, ...], dtype: Any, fill: Any) -> Array:
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


def has_frozen_indices(tensor: SparseTensor) -> bool:
    """Whether nobody can write to the index arrays of a tensor."""
    return are_frozen(tensor.arrays.values())


def require_valid(tensor: SparseTensor) -> None:
    """Raise UsageError that names the place unless code may run on a tensor.

    Frozen arrays are validated once.
    """
    if tensor in _valid:
        return
    require_valid_arrays(tensor)
    require_valid_source(tensor)
    for index in tensor.format.indices:
        # Threads divide rows by permutations: no two of them may write one row.
        if index.inverse and not _is_permutation(tensor.arrays[index.name]):
            validate_tensor(tensor)
    if has_frozen_indices(tensor):
        _valid.add(tensor)


def _is_permutation(array: Array) -> bool:
    """Whether numbers from 0 to the length of an array, which lie in that range, differ."""
    is_there = np.zeros(array.size, np.bool_)
    is_there[array.reshape(-1)] = True
    return bool(is_there.all())


def _require_invariants(tensor: SparseTensor) -> None:
    """Raise UsageError that names the place unless the invariants of the format hold.

    For verified formats they were validated before; for others only where loops would leave their
    arrays without them.
    """
    if tensor not in _checked and not is_verified(tensor.format):
        validate_tensor(tensor)
        if has_frozen_indices(tensor):
            _checked.add(tensor)


def _scalars(
    code: SparseCode, tensor: SparseTensor, extents: Mapping[str, int], shape: tuple[int, ...]
) -> dict[str, int]:
    """The values of all symbols of a computation."""
    found = {SPARSE + name: int(value) for name, value in tensor.symbols.items()}
    found |= dict(zip(SIZES, tensor.shape, strict=False))
    found |= {extent_name(c): extent for c, extent in extents.items()}
    if code.needs.row_bounds:
        given = _row_bounds(code, tensor)
        is_cut = bool(code.request.interior_ranges)
        rows = shape[0]
        interior_ranges = (
            find_interior_ranges(*given, rows) if is_cut else [common_range(*given, rows)]
        )
        cuts = [interior_ranges[0].start, *(rows.stop for rows in interior_ranges)]
        found |= {cut_name(number): cut for number, cut in enumerate(cuts)}
    return found


def _row_bounds(
    code: SparseCode, tensor: SparseTensor
) -> tuple[tuple[RowBound, ...], dict[str, Array], dict[str, int]]:
    """The row bounds that code needs, with the arrays and symbols in them."""
    symbols = {SPARSE + name: int(value) for name, value in tensor.symbols.items()}
    symbols |= dict(zip(SIZES, tensor.shape, strict=False))
    return code.needs.row_bounds, {SPARSE + n: a for n, a in tensor.arrays.items()}, symbols


def specialised_code(
    request: KernelRequest, tensor: SparseTensor, shape: tuple[int, ...]
) -> SparseCode:
    """The code of a request for one tensor: specialised for its interior row ranges."""
    require_valid(tensor)
    code = code_of(request)
    if code.needs.relies_on_invariants:
        _require_invariants(tensor)
    if not code.needs.row_bounds or not request.fixed:
        return code
    interior_ranges = find_interior_ranges(*_row_bounds(code, tensor), shape[0])
    if len(interior_ranges) == 1 and interior_ranges[0] == common_range(
        *_row_bounds(code, tensor), shape[0]
    ):
        return code
    return code_of(
        replace(request, interior_ranges=tuple((s.first, s.last) for s in interior_ranges))
    )


def validating_code(code: SparseCode, tensor: SparseTensor) -> SparseCode:
    """Code for repeated calls, which validates index arrays that others can write if it can."""
    if has_frozen_indices(tensor) or not levels_of(tensor.format) or ends_check(tensor) is None:
        return code
    found = code_of(replace(code.request, is_validated=True))
    return found if found.needs.is_validated else code


# -- what a request says of a tensor -------------------------------------------------------------


def indices_of(tensor: SparseTensor) -> tuple[tuple[str, DType], ...]:
    """The types of the index arrays."""
    return tuple((i.name, dtype_of(tensor.arrays[i.name].dtype)) for i in tensor.format.indices)


def bits_of(tensor: SparseTensor) -> tuple[int, ...]:
    """Bits of the largest coordinates, where the map of the format unpacks numbers by them."""
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
            c.term.without(TupleVar(variable)) + 1
            for c in constraints
            if not c.is_equality and c.term.coefficient(TupleVar(variable)) < 0
        ]
        symbol = upper[0].atom if len(upper) == 1 else None
        if isinstance(symbol, Sym) and symbol.name in format.counts:
            found.append(symbol.name)
    return tuple(dict.fromkeys(found))


def exact_of(tensor: SparseTensor) -> tuple[str, ...]:
    """Numbers of blocks that cover a size without a rest."""
    found = []
    for name, term in tensor.format.defined:
        rounded = rounded_up(Term.of(term))
        if rounded is not None and tensor.symbols[rounded[0]] % rounded[1] == 0:
            found.append(name)
    return tuple(found)
