"""What the lanes of a warp access at the same time: broadcast, stride, sectors, banks, padding.

Threads of a block are numbered along x, then y, then z; 32 consecutive ones are a warp and run in
step. Instances of one statement in threads of a block run at the same time where their sequential
coordinates agree. With row-major strides s of the array and the step F e_x of its subscripts from
one lane to the next, the lane stride is s F e_x elements: 0 is a broadcast, 1 is coalesced. Exact
numbers come from the addresses of the 32 lanes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from loopwright.analysis.relations import translation
from loopwright.analysis.sharing_conditions import BlockAccess
from loopwright.analysis.thread_mapping import ThreadMapping
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.islkit import affine, affine_map, context, isl, isl_integer, maps_in, points_in
from loopwright.ir.program import Program
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "SECTOR_BYTES",
    "WARP_LANES",
    "WarpAccess",
    "bank_passes",
    "bank_phases",
    "is_broadcast",
    "lane_step",
    "lane_stride",
    "row_padding",
    "sectors",
    "warp_access",
]

WARP_LANES = 32
SECTOR_BYTES = 32  # what global memory is read and written in
BANKS = 32  # of shared memory
BANK_BYTES = 4  # width of a bank
_MOST_PLACES = 8 * WARP_LANES  # that the search for a full warp looks at

_IN, _OUT, _PARAM, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param, isl.dim_type.set


# -- addresses ------------------------------------------------------------------------------------


def sectors(addresses: Sequence[int], size: int) -> int:
    """Sectors that accesses of `size` bytes at some byte addresses touch."""
    touched = {
        sector
        for first in addresses
        for sector in range(first // SECTOR_BYTES, (first + size - 1) // SECTOR_BYTES + 1)
    }
    return len(touched)


def bank_phases(size: int) -> int:
    """Parts of a warp that access shared memory one after the other: 1, for 8-byte elements 2."""
    return max(1, size // BANK_BYTES)


def bank_passes(addresses: Sequence[int | None], size: int) -> int:
    """Passes in which shared memory serves lanes at some byte addresses; None: the lane is idle.

    In each phase, the largest number of different words in one bank: lanes that access the same
    word are served together. Without conflicts there are `bank_phases(size)` passes.
    """
    lanes = WARP_LANES // bank_phases(size)
    parts = [addresses[k : k + lanes] for k in range(0, len(addresses), lanes)]
    return sum(_most_words_in_a_bank([x for x in p if x is not None], size) for p in parts)


def _most_words_in_a_bank(addresses: Sequence[int], size: int) -> int:
    words = {
        word
        for first in addresses
        for word in range(first // BANK_BYTES, (first + size - 1) // BANK_BYTES + 1)
    }
    banks = [word % BANKS for word in words]
    return max(map(banks.count, set(banks)), default=0)


def row_padding(
    patterns: Sequence[Sequence[Sequence[int]]], shape: Sequence[int], size: int
) -> int:
    """Elements to add to each row of a shared tile so that warps meet the fewest bank conflicts.

    A pattern has the subscripts of each lane of a warp in a tile of the given extents. The padding
    minimises the passes of the worst pattern, then of all of them, then itself.
    """
    extents = tuple(shape)

    def cost(padding: int) -> tuple[int, int, int]:
        padded = (*extents[:-1], extents[-1] + padding)
        passes = [bank_passes([size * _offset(i, padded) for i in p], size) for p in patterns]
        return max(passes, default=0), sum(passes), padding

    period = max(1, BANKS * BANK_BYTES // size)  # rows of so many elements fill all banks
    return min(range(period), key=cost)


def _offset(index: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major position of an element."""
    return reduce(lambda total, pair: total * pair[1] + pair[0], zip(index, shape, strict=True), 0)


# -- lanes of a mapping ---------------------------------------------------------------------------


def is_broadcast(mapping: ThreadMapping, access: BlockAccess) -> bool | None:
    """Whether all lanes of a warp that access at the same time access the same element.

    `{ [time, warp] -> A[e] }` has one value in each block. None where the extents of a block are
    not known numbers.
    """
    strides = _lane_strides(mapping)
    if strides is None:
        return None
    return all(_is_uniform(found, strides) for found in _reached(mapping, access))


def _is_uniform(reached: _Reached, strides: Sequence[int]) -> bool:
    """Whether lanes of a warp reach one element at a time.

    That isl can be slow to see where warps end inside rows of threads. Most accesses are decided by
    two lanes beside each other along an axis, or by all threads along the axes that a warp spans.
    """
    rank = len(strides)
    if not all(_same_beside(reached, at, strides) for at in range(rank)):
        return False
    spanned = [at for at in range(rank) if strides[at] < WARP_LANES]
    merged = reached.elements
    for at in reversed(spanned):
        merged = merged.project_out(_IN, reached.times + at, 1)
    return merged.is_single_valued() or bool(_by_warp(reached, strides).is_single_valued())


def lane_step(mapping: ThreadMapping, access: BlockAccess) -> tuple[int, ...] | None:
    """F e_x: how the subscripts change from one lane to the next, at the same time.

    Along x, or along the first axis that has several threads. None where the subscripts do not
    always change by the same numbers, or where there is one thread only.
    """
    at = next((k for k, extent in enumerate(mapping.shape) if extent != 1), None)
    if at is None:
        return None
    found: set[tuple[int, ...]] = set()
    for reached in _reached(mapping, access):
        pairs = _beside(reached, at)
        if pairs.is_empty():
            continue
        step = _difference(pairs)
        if not pairs.is_subset(translation(pairs.domain().get_space(), step)):
            return None
        found.add(step)
    return found.pop() if len(found) == 1 else None


def _difference(pairs: isl.Map) -> tuple[int, ...]:
    """The distance of one pair."""
    point = pairs.sample().deltas().sample_point()
    rank = pairs.dim(_OUT)
    return tuple(point.get_coordinate_val(_SET, k).to_python() for k in range(rank))


def lane_stride(program: Program, access: BlockAccess, step: Sequence[int]) -> Expr:
    """s F e_x: elements from one lane to the next in a row-major array, over the parameters."""
    shape = program.array(access.array).shape
    terms: list[Expr] = []
    for at, count in enumerate(step):
        inner = shape[at + 1 :]
        if count and not inner:
            terms.append(Const(count))
        elif count:
            row = reduce(lambda x, y: x * y, inner)
            terms.append(row if count == 1 else Const(count) * row)
    return reduce(lambda x, y: x + y, terms) if terms else Const(0)


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """The addresses that the lanes of one warp access at one time."""

    addresses: tuple[tuple[int, int], ...]  # (lane, bytes from the first element), by lane
    size: int  # bytes of an element

    @property
    def sectors(self) -> int:
        return sectors([address for _, address in self.addresses], self.size)

    @property
    def elements(self) -> int:
        """Different elements; with one the access is a broadcast."""
        return len({address for _, address in self.addresses})

    @property
    def bank_passes(self) -> int:
        """Passes of the same access to a copy of the array in shared memory."""
        by_lane = dict(self.addresses)
        return bank_passes([by_lane.get(lane) for lane in range(WARP_LANES)], self.size)


def warp_access(
    program: Program, mapping: ThreadMapping, access: BlockAccess, sizes: Mapping[str, int]
) -> WarpAccess | None:
    """What the lanes of a warp access, for parameters of the given sizes; arrays are row-major.

    Of the first warp that has a block and a time at which all 32 lanes run, at the first of them;
    where there is none, of the first warp that runs at all. None where the access has no instances,
    or a block no known extents.
    """
    strides = _lane_strides(mapping)
    if strides is None:
        return None
    found = [_at_sizes(mapping, reached, sizes) for reached in _reached(mapping, access)]
    for all_lanes in (True, False):
        for reached in found:
            for warp in range(_warp_count(mapping, reached, strides)):
                lanes = _lanes_of(mapping, reached, warp)
                chosen = _first_place(lanes, all_lanes=all_lanes)
                if chosen is not None:
                    parts = [part.intersect_domain(chosen) for part in lanes]
                    return _addresses(program, access, parts, sizes)
    return None


@dataclass(frozen=True, slots=True)
class _Reached:
    """The elements of an access by time and thread, for one place of its statement in the tree."""

    times: int  # number of coordinates before those of the thread
    elements: isl.Map  # { [time, thread] -> A[e] }, in one block


def _reached(mapping: ThreadMapping, access: BlockAccess) -> list[_Reached]:
    """The elements that an access reaches in a block, by time and thread."""
    inside = access.elements.domain()
    found: list[_Reached] = []
    for part in maps_in(mapping.times):
        if part.get_tuple_name(_IN) == access.statement.name:
            place = part.intersect_domain(inside).flat_range_product(access.threads)
            elements = place.reverse().apply_range(access.elements)
            found.append(_Reached(part.dim(_OUT), elements))
    return found


def _lane_strides(mapping: ThreadMapping) -> tuple[int, ...] | None:
    """Lanes between two threads beside each other, by axis; None where extents are not known."""
    strides = [1]
    for extent in mapping.shape[:-1]:
        if extent is None:
            return None
        strides.append(strides[-1] * extent)
    return tuple(strides[: len(mapping.axes)])


def _beside(reached: _Reached, at: int, strides: Sequence[int] = ()) -> isl.Map:
    """`{ A[e] -> A[e'] }`: reached at one time by two threads beside each other along an axis.

    With `strides`, of lanes of one warp only.
    """
    space = reached.elements.domain().get_space()
    distance = [0] * space.dim(_SET)
    distance[reached.times + at] = 1
    beside = translation(space, distance)
    if strides:
        number = _number(strides)
        last = WARP_LANES - 1 - strides[at]
        fits = affine(number % WARP_LANES, _named(len(strides)))
        inside = fits.le_set(affine(Const(last), _named(len(strides))))
        beside = beside.intersect_domain(inside.insert_dims(_SET, 0, reached.times))
    return beside.apply_domain(reached.elements).apply_range(reached.elements)


def _same_beside(reached: _Reached, at: int, strides: Sequence[int]) -> bool:
    """Whether lanes of a warp that are beside each other along an axis reach one element."""
    if strides[at] >= WARP_LANES:
        return True
    pairs = _beside(reached, at, strides)
    return bool(pairs.is_subset(isl.Map.identity(pairs.get_space())))


def _number(strides: Sequence[int]) -> Expr:
    """The number of a thread in its block, over the variables t0, t1, ..."""
    total: Expr = Const(0)
    for k, stride in enumerate(strides):
        total = total + Const(stride) * Var(f"t{k}")
    return total


def _named(rank: int) -> isl.Space:
    """The space `[t0, t1, ...]` of threads."""
    space = isl.Space.set_alloc(context(), 0, rank)
    for k in range(rank):
        space = space.set_dim_name(_SET, k, f"t{k}")
    return space


def _by_warp(reached: _Reached, strides: Sequence[int]) -> isl.Map:
    """`{ [time, warp] -> A[e] }`."""
    names = [f"s{k}" for k in range(reached.times)]
    space = _named(len(strides)).insert_dims(_SET, 0, reached.times)
    for k, name in enumerate(names):
        space = space.set_dim_name(_SET, k, name)
    outputs = [*map(Var, names), _number(strides) // WARP_LANES]
    places = affine_map(isl.Set.universe(space), "_", outputs).reset_tuple_id(_OUT)
    return reached.elements.apply_domain(places)


def _at_sizes(mapping: ThreadMapping, reached: _Reached, sizes: Mapping[str, int]) -> _Reached:
    """The same with the given parameters, and the block coordinates before the time."""
    elements = _fixed(reached.elements, sizes)
    for name in reversed(mapping.coordinates):
        at = elements.find_dim_by_name(_PARAM, name)
        if at < 0:
            elements = elements.insert_dims(_IN, 0, 1)
        else:
            elements = elements.move_dims(_IN, 0, _PARAM, at, 1)
    return _Reached(len(mapping.coordinates) + reached.times, elements)


def _warp_count(mapping: ThreadMapping, reached: _Reached, strides: Sequence[int]) -> int:
    """Warps of a block; where it has no constant extent, up to the last thread that runs."""
    last = mapping.shape[-1] if mapping.shape else 1
    if last is None:
        places = reached.elements.domain()
        most = places.dim_max_val(reached.times + len(strides) - 1)
        last = most.to_python() + 1 if most.is_int() else 0
    return -(-last * (strides[-1] if strides else 1) // WARP_LANES)


def _lanes_of(mapping: ThreadMapping, reached: _Reached, warp: int) -> list[isl.Map]:
    """`{ [block, time] -> A[e] }` for each lane of a warp."""
    found: list[isl.Map] = []
    for lane in range(WARP_LANES):
        number, elements = warp * WARP_LANES + lane, reached.elements
        for at, extent in enumerate(mapping.shape):
            is_last = at + 1 == len(mapping.shape)
            coordinate = number if is_last or extent is None else number % extent
            number = 0 if extent is None else number // extent
            value = isl_integer(coordinate)
            elements = elements.fix_val(_IN, reached.times + at, value)
        found.append(elements.project_out(_IN, reached.times, len(mapping.shape)))
    return found


def _first_place(lanes: Sequence[isl.Map], *, all_lanes: bool) -> isl.Set | None:
    """The first [block, time] at which all lanes run, or at which any does."""
    domains = [part.domain() for part in lanes]
    if not all_lanes:
        firsts = [places.lexmin() for places in domains if not places.is_empty()]
        return reduce(isl.Set.union, firsts).lexmin() if firsts else None
    # Intersections of 32 lanes have too many pieces: from the first place of one lane to the first
    # place of the next that is not before it, until all agree.
    later = isl.Map.lex_ge(domains[0].get_space())
    place, agreed = domains[0].lexmin(), 0
    for at in range(_MOST_PLACES):
        if place.is_empty():
            return None
        if agreed == len(domains):
            return place
        places = domains[at % len(domains)]
        if place.is_subset(places):
            agreed += 1
        else:
            rest = later.intersect_range(place).domain()
            place, agreed = places.intersect(rest).lexmin(), 1
    return None


def _addresses(
    program: Program, access: BlockAccess, lanes: Sequence[isl.Map], sizes: Mapping[str, int]
) -> WarpAccess:
    array = program.array(access.array)
    shape = [int(evaluate(extent, sizes, {})) for extent in array.shape]
    found: list[tuple[int, int]] = []
    for lane, elements in enumerate(lanes):
        for point in points_in(elements.range()):
            index = [point.get_coordinate_val(_SET, k).to_python() for k in range(len(shape))]
            found.append((lane, array.dtype.bytes * _offset(index, shape)))
    return WarpAccess(tuple(found), array.dtype.bytes)


def _fixed(relation: isl.Map, sizes: Mapping[str, int]) -> isl.Map:
    """A relation with some parameters replaced by numbers."""
    for name, value in sizes.items():
        at = relation.find_dim_by_name(_PARAM, name)
        if at >= 0:
            number = isl_integer(value)
            relation = relation.fix_val(_PARAM, at, number).project_out(_PARAM, at, 1)
    return relation
