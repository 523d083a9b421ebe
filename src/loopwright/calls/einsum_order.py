"""In which order three and more operands meet: pairs, and what each pair leaves.

    out = plus over all indices that are not out's  of  x0 times x1 times x2 ...

Where times distributes over plus, an index is summed over as soon as no other operand has it: the
order that needs the fewest operations is NumPy's greedy one. Where it does not, only the last step
may reduce. The operands are then parted in two groups, each is multiplied out, and the last step
contracts the two; the parting that needs the fewest elements is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

# Bound here: a program that puts another einsum in the place of NumPy's may put ours there.
from numpy import einsum_path as numpy_path

from loopwright.calls.einsum_call import extents_of
from loopwright.calls.einsum_options import GREEDY, Groups, Path
from loopwright.diagnostics import PathError
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.dtypes import DType
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array
from loopwright.semirings import Semiring
from loopwright.semirings.distributive import (
    Law,
    ValueRange,
    absorbing,
    holds_within,
    law_of,
    times_in_any_order,
)

__all__ = ["Order", "PairwiseContraction", "order_of"]

_MOST_PARTINGS = 10  # operands up to which all partings are tried; beyond, those in a row


@dataclass(frozen=True, slots=True)
class PairwiseContraction:
    """Two of the operands left are taken out; what they make is put in at `place`."""

    pair: tuple[int, int]
    names: EinsumSubscripts  # of the pair and of what is kept
    place: int


@dataclass(frozen=True, slots=True)
class Order:
    """The steps from all operands to out; the last one writes out."""

    steps: tuple[PairwiseContraction, ...]
    reason: str  # why only the last step reduces; empty where each one may
    limit: int | None = None  # elements of an intermediate result that was asked for

    def largest(self, extents: Mapping[str, int]) -> str:
        """The indices of the largest intermediate result; "" when there is none."""
        kept = (step.names.out for step in self.steps[:-1])
        return max(kept, key=lambda term: elements(term, extents), default="")


def elements(term: str, extents: Mapping[str, int]) -> int:
    """How many elements an array of distinct indices has."""
    return math.prod(extents[c] for c in term)


def order_of(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    ring: Semiring,
    accumulator: DType,
    path: Path = GREEDY,
) -> Order:
    """The order for these operands, at least two and none empty; their values may decide it.

    `path` is followed where times distributes over plus and commutes; elsewhere the laws decide.
    """
    groups = _groups(names, tuple(a.shape for a in arrays), path)
    reason = _why_late(arrays, ring, accumulator) if len(arrays) > 2 else ""
    if not reason:
        pairs = _paired(groups, len(arrays)) if ring.commutative else _in_a_row(len(arrays))
        return Order(_steps(names, pairs, ring.commutative, early=True), "", path.limit)
    if not times_in_any_order(ring, accumulator, _ranges(arrays, ring, accumulator)):
        pairs = _in_a_row(len(arrays))
        return Order(_steps(names, pairs, False, early=False), reason)
    pairs = _parted(names.operands, tuple(extents_of(names, arrays).items()))
    return Order(_steps(names, pairs, True, early=False), reason)


# -- the law ----------------------------------------------------------------------------------


def _why_late(arrays: tuple[Array, ...], ring: Semiring, accumulator: DType) -> str:
    """Why nothing may be reduced before all factors are there; "" when it may."""
    match law_of(ring, accumulator):
        case Law.ALL:
            return ""
        case Law.UNKNOWN:
            return f"times of semiring '{ring.name}' is not known to distribute over plus"
        case Law.RANGE:
            if holds_within(ring, accumulator, _ranges(arrays, ring, accumulator)):
                return ""
            sums = absorbing(ring, accumulator) is not None
            law = "is not associative" if sums else "does not distribute over plus"
            return f"times of semiring '{ring.name}' {law} for these numbers of {accumulator}"


def _ranges(arrays: tuple[Array, ...], ring: Semiring, accumulator: DType) -> Iterator[ValueRange]:
    infinite = absorbing(ring, accumulator)
    return (_range(array, accumulator, infinite) for array in arrays)


def _range(array: Array, accumulator: DType, infinite: int | None) -> ValueRange:
    """The range of an operand's finite elements, in the type in which they are multiplied."""
    if not np.can_cast(array.dtype, accumulator.numpy, "safe"):
        with np.errstate(all="ignore"):
            array = array.astype(accumulator.numpy)
    if infinite is not None and (is_infinite := array == infinite).any():
        array = array[~is_infinite]
        if not array.size:
            return ValueRange(0, 0)
    if array.dtype.kind != "f":
        return ValueRange(int(array.min()), int(array.max()))
    low, high = (float(x.reduce(array, axis=None)) for x in (np.fmin, np.fmax))
    if low == 0 and np.signbit(array).any():
        low = -0.0
    return ValueRange(low, high)


# -- pairs ------------------------------------------------------------------------------------

Pair = tuple[int, int]  # by number: operands first, then results in the order they are made


def _in_a_row(count: int) -> tuple[Pair, ...]:
    """((x0 times x1) times x2) times ..."""
    return ((0, 1), *((count + number - 2, number) for number in range(2, count)))


@lru_cache(maxsize=1024)
def _groups(names: EinsumSubscripts, shapes: tuple[tuple[int, ...], ...], path: Path) -> Groups:
    """The positions that meet, group by group; searched for by NumPy where a search is named."""
    if path.groups is not None:
        _check_groups(path.groups, len(shapes))
        return path.groups
    search = path.search if path.limit is None else (path.search, path.limit)
    # Only shapes matter: a broadcast element costs no memory.
    arrays = (np.broadcast_to(0.0, shape) for shape in shapes)
    return tuple(map(tuple, numpy_path(names.text, *arrays, optimize=search)[0][1:]))


def _check_groups(groups: Groups, count: int) -> None:
    """Refuse a path that does not lead from `count` operands to one result."""
    left = count
    for group in groups:
        if max(group) >= left:
            raise PathError(
                f"the path takes position {max(group)} where {left} operands are left",
                found=repr(["einsum_path", *groups])[:120],
                hint="positions count from 0; the result of a group goes to the end",
            )
        left -= len(group) - 1
    if left != 1:
        raise PathError(
            f"the path leaves {left} operands",
            found=repr(["einsum_path", *groups])[:120],
            hint="a path ends with one result",
        )


def _paired(groups: Groups, count: int) -> tuple[Pair, ...]:
    """The groups pair by pair; a group of one only changes its place."""
    left = list(range(count))
    made = itertools.count(count)
    pairs: list[Pair] = []
    for group in groups:
        first, *others = [left[place] for place in sorted(group)]
        left = [number for number in left if number not in (first, *others)]
        for other in others:
            pairs.append((first, other))
            first = next(made)
        left.append(first)
    return tuple(pairs)


@lru_cache(maxsize=1024)
def _parted(terms: tuple[str, ...], sizes: tuple[tuple[str, int], ...]) -> tuple[Pair, ...]:
    """Two groups, each multiplied out, then their product: with the fewest elements between."""
    extents = dict(sizes)

    def cost(group: tuple[int, ...]) -> int:
        other = tuple(k for k in range(len(terms)) if k not in group)
        return sum(_made(terms, side, extents) for side in (group, other))

    best = min(_partings(len(terms)), key=cost)
    made = itertools.count(len(terms))
    pairs: list[Pair] = []
    heads = []
    for side in (best, tuple(k for k in range(len(terms)) if k not in best)):
        head, *others = _by_size(terms, side, extents)
        for other in others:
            pairs.append((head, other))
            head = next(made)
        heads.append(head)
    return (*pairs, (heads[0], heads[1]))


def _partings(count: int) -> Iterator[tuple[int, ...]]:
    """The groups that have operand 0; the others form the second group."""
    if count > _MOST_PARTINGS:
        yield from (tuple(range(size)) for size in range(1, count))
        return
    for size in range(count - 1):
        for more in itertools.combinations(range(1, count), size):
            yield (0, *more)


def _by_size(
    terms: tuple[str, ...], side: tuple[int, ...], extents: Mapping[str, int]
) -> list[int]:
    """Small operands first: what they make stays small longest."""
    return sorted(side, key=lambda k: elements(_union(terms, (k,)), extents))


def _made(terms: tuple[str, ...], side: tuple[int, ...], extents: Mapping[str, int]) -> int:
    """Elements of all results that multiplying out a group makes."""
    order = _by_size(terms, side, extents)
    return sum(elements(_union(terms, order[:n]), extents) for n in range(2, len(order) + 1))


def _union(terms: tuple[str, ...], numbers: tuple[int, ...] | list[int]) -> str:
    return "".join(dict.fromkeys("".join(terms[k] for k in numbers)))


# -- steps ------------------------------------------------------------------------------------


def _steps(
    names: EinsumSubscripts, pairs: tuple[Pair, ...], commutes: bool, *, early: bool
) -> tuple[PairwiseContraction, ...]:
    """Pairs by number to pairs by place; with `early` each drops the indices nobody else needs.

    Where times commutes, results go to the end, as in NumPy's paths; else to the place of the pair.
    """
    terms = dict(enumerate(names.operands))
    left = list(terms)
    steps: list[PairwiseContraction] = []
    for first, second in pairs:
        both = terms[first] + terms[second]
        places = left.index(first), left.index(second)
        left = [number for number in left if number not in (first, second)]
        needed = set(names.out).union(*(terms[k] for k in left)) if early else set(both)
        kept = "".join(dict.fromkeys(c for c in both if c in needed)) if left else names.out
        place = len(left) if commutes else min(places)
        made = len(terms)
        pair = EinsumSubscripts((terms[first], terms[second]), kept)
        terms[made] = kept
        left.insert(place, made)
        steps.append(PairwiseContraction(places, pair, place))
    return tuple(steps)
