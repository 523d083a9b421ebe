"""Chunked computations as data, and how to run them: how many chunks, where each begins."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.computation import Computation, DataSpace
from loopwright.sparse.uf import IntegerSet, Term, evaluate

__all__ = [
    "ChunkContext",
    "ChunkedComputation",
    "ChunkedRange",
    "Histogram",
    "allocate_rows",
    "chunk_bounds",
    "chunk_count",
    "is_worth_chunking",
    "iteration_count",
    "may_be_chunked",
]


@dataclass(frozen=True)
class ChunkedRange:
    """The range that is cut, and the arrays that tell the work in it: g(f(v)) before v."""

    low: Term
    high: Term
    pointers: tuple[str, ...] = ()
    atomic_group: tuple[str, ...] = ()  # where all these are equal at v-1 and v, nothing is cut


@dataclass(frozen=True)
class Histogram:
    """A histogram per chunk: row[t, index] entries of a domain lie in the chunks before t."""

    array: str
    row: str
    dtype: DType
    extent: Term
    domain: IntegerSet
    guard: Expr | None
    index: Term


@dataclass(frozen=True)
class ChunkContext:
    """What is known of the arrays outside of a computation."""

    dead: frozenset[str] = frozenset()  # not read afterwards
    disjoint_writes: frozenset[str] = frozenset()  # iterations touch different elements of these
    atomic_group: tuple[str, ...] = ()  # except those that agree in the elements of these
    # Arrays that serve one iteration: what it stores there, no other reads.
    iteration_private: frozenset[str] = frozenset()
    histograms: tuple[Histogram, ...] = ()  # available, one count per chunk
    scanned: Mapping[str, Histogram] = field(default_factory=dict)  # arrays of their prefix sums
    counted: frozenset[str] = frozenset()  # zero before; a histogram of them is wanted


@dataclass(frozen=True)
class ChunkedComputation:
    """A computation whose outermost loop runs in chunks."""

    computation: Computation
    range_: ChunkedRange  # what is cut
    entries: ChunkedRange  # the loop, which tells the work
    chunks: str  # the symbol that says how many there are
    cut: str  # the array that says where they begin
    rows: tuple[DataSpace, ...]  # to be allocated per run, undefined
    used: tuple[Histogram, ...]  # counts of before, used up
    made: tuple[Histogram, ...]
    longest: Term  # elements in the private rows of one chunk
    is_light: bool  # nothing is moved: running sums, and numbers that are counted or compared
    notes: tuple[str, ...]  # how conflicts between chunks are resolved

    def __str__(self) -> str:
        return "; ".join(self.notes) or "iterations touch different elements"


Array = NDArray[Any]

# Minimum iterations of a chunk: waking a worker and waiting for all costs some 100 us, as long as
# moving tens of thousands of entries takes, or reading many more.
LEAST, LEAST_LIGHT = 1 << 16, 1 << 18
# Elements of rows for each entry at most. Rows are cleared, counted in and joined, each element
# about as fast as an entry is read; an entry that is moved takes several times that.
ROWS = 2


def chunk_count(
    chunked: ChunkedComputation, arrays: Mapping[str, Array], known: Mapping[str, int], threads: int
) -> int:
    """How many chunks to use: at most one per thread, and few enough for the entries to pay."""
    work = iteration_count(chunked.entries, arrays, known)
    rows = max(evaluate(chunked.longest, known, {}), 1)
    least = LEAST_LIGHT if chunked.is_light else LEAST
    return max(1, min(threads, work // least, ROWS * work // rows))


def is_worth_chunking(arrays: Iterable[Array]) -> bool:
    """Whether some array is long enough for two chunks of a loop over it."""
    return max((array.size for array in arrays), default=0) >= 2 * LEAST_LIGHT


def may_be_chunked(count: int) -> bool:
    """Whether a loop of so many iterations may have two chunks at all."""
    return count >= 2 * min(LEAST, LEAST_LIGHT)


def iteration_count(
    range_: ChunkedRange, arrays: Mapping[str, Array], known: Mapping[str, int]
) -> int:
    """How many instances there are, as far as pointers tell."""
    low, high = (evaluate(end, known, {}) for end in (range_.low, range_.high))
    return _before(range_, arrays, max(low, high)) - _before(range_, arrays, low)


def allocate_rows(chunked: ChunkedComputation, values: Mapping[str, int]) -> dict[str, Array]:
    """Private rows for all chunks; their elements are undefined."""
    return {
        space.name: np.empty([evaluate(e, values, {}) for e in space.shape], space.dtype.numpy)
        for space in chunked.rows
    }


def chunk_bounds(
    chunked: ChunkedComputation, arrays: Mapping[str, Array], known: Mapping[str, int], chunks: int
) -> Array:
    """Where chunks of about equal work begin, and where the last one ends."""
    range_ = chunked.range_
    low, high = (evaluate(end, known, {}) for end in (range_.low, range_.high))
    high = max(low, high)
    first, last = (_before(range_, arrays, end) for end in (low, high))
    inner = [
        _reached(range_, arrays, range(low, high), first + (last - first) * t // chunks)
        for t in range(1, chunks)
    ]
    found = [low, *(_group_end(range_, arrays, at, low, high) for at in inner), high]
    return np.array(found, np.int64)


def _reached(range_: ChunkedRange, arrays: Mapping[str, Array], within: range, work: int) -> int:
    """The first place of a range before which there is so much work."""
    if not range_.pointers:
        return work
    if len(range_.pointers) == 1:
        pointer = arrays[range_.pointers[0]][within.start : within.stop]
        # For a number of another type the whole pointer would be converted.
        return within.start + int(pointer.searchsorted(pointer.dtype.type(work)))
    return within.start + bisect_left(within, work, key=lambda v: _before(range_, arrays, v))


def _group_end(
    range_: ChunkedRange, arrays: Mapping[str, Array], at: int, low: int, high: int
) -> int:
    """The first place from `at` on where an atomic group of iterations ends."""
    if not range_.atomic_group or at <= low:
        return at
    before = [arrays[name][at - 1] for name in range_.atomic_group]
    step = 64
    while at < high:
        end = min(at + step, high)
        pairs = zip(range_.atomic_group, before, strict=True)
        differs = np.logical_or.reduce([arrays[name][at:end] != x for name, x in pairs])
        if differs.any():
            return at + int(differs.argmax())
        at, step = end, 2 * step
    return high


def _before(range_: ChunkedRange, arrays: Mapping[str, Array], v: int) -> int:
    for name in range_.pointers:
        v = int(arrays[name][v])
    return v
