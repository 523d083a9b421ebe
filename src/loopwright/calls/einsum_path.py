"""The path of an einsum: in which order three and more operands meet, and what each pair leaves.

    out = plus over all indices that are not out's  of  x0 times x1 times x2 ...

Where times distributes over plus, an index is summed over as soon as no other operand has it: the
order that needs the fewest operations is NumPy's greedy one. Where it does not, only the last step
may reduce. The operands are then parted in two groups, each is multiplied out, and the last step
contracts the two; the parting that needs the fewest elements is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

# Bound here: a program that puts another einsum in the place of NumPy's may put ours there.
from numpy import einsum_path as numpy_path

from loopwright import semirings
from loopwright.calls.einsum_call import (
    GREEDY,
    EinsumCall,
    Groups,
    Path,
    Scaling,
    WithShape,
    checked_groups,
    checked_path,
    extents_of,
)
from loopwright.calls.einsum_contraction import choice_of, contract
from loopwright.diagnostics import PathError, UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.ir.kernel_variant import Initial
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.array_arguments import Array, as_operand
from loopwright.semirings import Semiring
from loopwright.semirings.distributive import (
    Law,
    ValueRange,
    absorbing,
    holds_within,
    law_of,
    times_in_any_order,
)

__all__ = [
    "MOST_ELEMENTS",
    "Order",
    "PairwiseContraction",
    "block_of",
    "contract_several",
    "einsum_path",
    "order_of",
    "order_unread",
    "pairs_unread",
]

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
    reason = _why_late(arrays, ring, accumulator) if len(arrays) > 2 else ""
    ranges = _ranges(arrays, ring, accumulator)
    return _order(names, arrays, ring, accumulator, path, reason, ranges)


def order_unread(
    names: EinsumSubscripts,
    arrays: Sequence[WithShape],
    ring: Semiring,
    accumulator: DType,
    path: Path = GREEDY,
) -> Order:
    """As `order_of`, for operands whose values are not read: any number may be among them."""
    law = law_of(ring, accumulator) if len(arrays) > 2 else Law.ALL
    reason = ""
    if law is not Law.ALL:
        reason = f"times of semiring '{ring.name}' may not distribute over plus for all numbers"
    anything = ValueRange(0, 0)
    if accumulator.is_integer:
        anything = ValueRange(accumulator.least, accumulator.greatest)
    ranges = (anything for _ in arrays)
    return _order(names, arrays, ring, accumulator, path, reason, ranges)


def _order(
    names: EinsumSubscripts,
    arrays: Sequence[WithShape],
    ring: Semiring,
    accumulator: DType,
    path: Path,
    reason: str,
    ranges: Iterator[ValueRange],
) -> Order:
    groups = _groups(names, tuple(a.shape for a in arrays), path)
    if not reason:
        pairs = _paired(groups, len(arrays)) if ring.commutative else _in_a_row(len(arrays))
        return Order(_steps(names, pairs, ring.commutative, early=True), "", path.limit)
    if not times_in_any_order(ring, accumulator, ranges):
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
    if path.finder is not None:
        sizes = extents_of(names, [np.broadcast_to(0.0, shape) for shape in shapes])
        given = list(map(frozenset, names.operands)), frozenset(names.out), sizes, None
        found = checked_groups(path.finder(*given))
        _check_groups(found, len(shapes))
        return found
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


# -- three and more operands into one result: pair by pair, in that order --------------------------
# Without distributivity the intermediate results hold every index of their factors and may be much
# larger than the operands. They are then made and used block by block: along an index of out blocks
# are independent, along any other they are joined by plus, which is associative and commutative.


MOST_ELEMENTS = 1 << 20  # of an intermediate result that holds every index: some caches' worth


def contract_several(call: EinsumCall, path: Path) -> None:
    """`out = beta * out plus alpha * products` of two or more operands, none of them empty."""
    names, out = call.names, call.out
    order = order_of(names, call.arrays, call.ring, call.accumulator, path)
    log("plan", lambda: _text(names, order))
    if block_of(order, extents_of(names, call.arrays), names.out) is None:
        _whole(call, order)
        return
    if out.dtype == call.accumulator.numpy:
        _in_blocks(call, order)
        return
    # Blocks join their sums in the type of sums; rounding comes last.
    sums = np.empty(out.shape, call.accumulator.numpy)
    if call.scaling.initial is not Initial.ZERO:
        sums[...] = out
    _in_blocks(replace(call, out=sums), order)
    with np.errstate(all="ignore"):
        out[...] = sums


def _whole(call: EinsumCall, order: Order) -> None:
    """Every step once."""
    for step in _pairs(call, order):
        contract(step)


def _pairs(call: EinsumCall, order: Order) -> Iterator[EinsumCall]:
    """The calls of two operands, one after another; partial results are new arrays."""
    *steps, last = order.steps
    left = list(call.arrays)
    for step in steps:
        pair = left[step.pair[0]], left[step.pair[1]]
        extents = extents_of(step.names, pair)
        shape = tuple(extents[c] for c in step.names.out)
        partial = np.empty(shape, call.accumulator.numpy)
        yield replace(call, names=step.names, arrays=pair, out=partial, scaling=Scaling())
        left = [x for place, x in enumerate(left) if place not in step.pair]
        left.insert(step.place, partial)
    yield replace(call, names=last.names, arrays=(left[last.pair[0]], left[last.pair[1]]))


def pairs_unread(call: EinsumCall, path: Path) -> list[EinsumCall] | None:
    """What `contract_several` does, call by call; None where numbers decide it, or blocks."""
    if law_of(call.ring, call.accumulator) is not Law.ALL:
        return None
    order = order_of(call.names, call.arrays, call.ring, call.accumulator, path)
    if block_of(order, extents_of(call.names, call.arrays), call.names.out) is not None:
        return None
    return list(_pairs(call, order))


def _in_blocks(call: EinsumCall, order: Order) -> None:
    """Every step once per block, so that intermediate results stay small."""
    names = call.names
    extents = extents_of(names, call.arrays)
    found = block_of(order, extents, names.out)
    if found is None:
        _whole(call, order)
        return
    letter, size = found
    extent = extents[letter]
    for start in range(0, extent, size):
        here = slice(start, min(start + size, extent))
        parts = tuple(
            _part(term, array, letter, here, extent)
            for term, array in zip(names.operands, call.arrays, strict=True)
        )
        if letter in names.out:
            out = _part(names.out, call.out, letter, here, extent)
            _in_blocks(replace(call, arrays=parts, out=out), order)
        else:
            scaling = call.scaling if start == 0 else replace(call.scaling, beta=1)
            _in_blocks(replace(call, arrays=parts, scaling=scaling), order)


def block_of(
    order: Order, extents: dict[str, int], out: str, least: int = MOST_ELEMENTS
) -> tuple[str, int] | None:
    """The index to cut and the size of its blocks; None when intermediate results are small.

    Where every step may reduce they are as large as they are, unless a limit was asked for. A limit
    of less than `least` counts as that: tiny blocks would save nothing worth their calls.
    An index that is reduced is cut by preference, the longest of its kind: the last step keeps all
    of out, and with it the reuse of both its operands.
    """
    term = order.largest(extents)
    size = elements(term, extents)
    most = max(least, order.limit or 0)
    if size <= most or (not order.reason and order.limit is None):
        return None
    letter = max(term, key=lambda c: (c not in out and extents[c] > 1, extents[c]))
    return letter, max(1, extents[letter] * most // size)


def _text(names: EinsumSubscripts, order: Order) -> str:
    steps = "; ".join(step.names.text for step in order.steps)
    return f"einsum '{names.text}': {steps}{order.reason and f' ({order.reason})'}"


def _part(term: str, array: Array, letter: str, here: slice, extent: int) -> Array:
    """The elements of one block; a dimension of size 1 serves all blocks."""
    # The ellipsis keeps an array of rank 0 an array.
    cuts: list[Any] = [
        here if c == letter and size == extent else slice(None)
        for c, size in zip(term, array.shape, strict=True)
    ]
    return array[(*cuts, ...)]


# -- the report of an einsum's path: which pairs are contracted, at what predicted cost -----------


@dataclass(frozen=True, slots=True)
class _Row:
    """One contraction of the path."""

    scaling: int  # number of indices
    text: str  # the contraction
    operations: int  # operations of plus and times
    elements: int  # of the result
    seconds: float | None  # predicted; None where the machine's clock rate is not known


def einsum_path(
    subscripts: str,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    optimize: Any = "greedy",
    threads: int = 1,
) -> tuple[list[Any], str]:
    """The order in which `einsum` contracts its operands, and a printable report.

    Where times distributes over plus, for the type and the numbers given, the path is the one that
    `optimize` names, as for numpy.einsum_path (left to right where times does not commute). Where
    it does not, no step but the last reduces, and the report says why. It adds the time that the
    processor model predicts and the bytes of every intermediate.
    """
    wanted = checked_path(optimize)
    arrays = tuple(as_operand(x, f"operand {k}") for k, x in enumerate(operands, 1))
    if not arrays:
        raise UsageError("einsum_path needs at least one operand")
    names = parse_subscripts(subscripts, tuple(a.ndim for a in arrays))
    extents = extents_of(names, arrays)
    ring = semirings.semiring(semiring)
    promoted = dtype_of(np.result_type(*arrays))
    accumulator = DTYPES["float32"] if promoted.name == "float16" else promoted
    ring.check_dtype(accumulator)
    if len(arrays) == 1:
        rows = [_row(names, arrays, ring, accumulator, threads)]
        return ["einsum_path", (0,)], _report(names, rows, promoted.bytes)
    if not all(a.size for a in arrays):
        pairs = [(0, 1)] * (len(arrays) - 1)
        return ["einsum_path", *pairs], _report(names, [], promoted.bytes)
    order = order_of(names, arrays, ring, accumulator, wanted)
    rows = _rows(order, arrays, ring, accumulator, threads)
    path = ["einsum_path", *(tuple(sorted(step.pair)) for step in order.steps)]
    notes = _notes(order, extents, names)
    return path, "\n".join([_report(names, rows, promoted.bytes), *notes])


def _rows(
    order: Order,
    arrays: tuple[Array, ...],
    ring: semirings.Semiring,
    accumulator: DType,
    threads: int,
) -> list[_Row]:
    left = list(arrays)
    rows = []
    for step in order.steps:
        pair = left[step.pair[0]], left[step.pair[1]]
        rows.append(_row(step.names, pair, ring, accumulator, threads))
        extents = extents_of(step.names, pair)
        left = [x for place, x in enumerate(left) if place not in step.pair]
        # Only shape and dtype matter from here on: a broadcast element costs no memory.
        one = np.zeros((), accumulator.numpy)
        left.insert(step.place, np.broadcast_to(one, tuple(extents[c] for c in step.names.out)))
    return rows


def _row(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    ring: semirings.Semiring,
    accumulator: DType,
    threads: int,
) -> _Row:
    extents = extents_of(names, arrays)
    shape = tuple(extents[c] for c in names.out)
    points = math.prod(extents.values())
    seconds = None
    machine = target_machine()
    clock = machine.frequency_hz
    if points and clock:
        # Untouched memory is not allocated by the system: only the strides of `out` are read.
        out = np.empty(shape, accumulator.numpy)
        call = EinsumCall(names, arrays, out, ring, accumulator, Scaling(), threads, machine)
        choice = choice_of(call)
        seconds = choice.cycles / clock
    return _Row(len(extents), names.text, 2 * points, math.prod(shape), seconds)


def _notes(order: Order, extents: dict[str, int], names: EinsumSubscripts) -> list[str]:
    """Why nothing is reduced early, and what is done about large intermediate results."""
    if not order.reason:
        return []
    notes = [f"note: only the last step reduces: {order.reason}"]
    cut = block_of(order, extents, names.out)
    if cut is not None:
        size = elements(order.largest(extents), extents)
        notes.append(
            f"note: in blocks of index '{cut[0]}', so that the {size:,} elements of a result "
            f"between are never there at once, but {MOST_ELEMENTS:,} at most"
        )
    return notes


def _report(names: EinsumSubscripts, rows: list[_Row], size: int) -> str:
    head = f"{'scaling':>8}  {'operations':>12}  {'bytes':>12}  {'predicted':>10}  contraction"
    lines = [f"  complete contraction: {names.text}", head, "-" * 78]
    for row in rows:
        time = "" if row.seconds is None else f"{row.seconds * 1e3:.3g} ms"
        lines.append(
            f"{row.scaling:>8}  {row.operations:>12.3e}  {row.elements * size:>12,}  "
            f"{time:>10}  {row.text}"
        )
    total = sum(row.operations for row in rows)
    largest = max((row.elements for row in rows), default=0)
    lines.append(f"total: {total:.3e} operations; largest result: {largest:,} elements")
    return "\n".join(lines)
