"""Reductions of free order that are no work for one thread each: blocks and threads share terms.

A reduction into fewer elements than fill a GPU, over many terms, is cut twice. The threads of a
block share the terms of a chunk, neighbours taking neighbours, and join their sums in shared memory
(MapReduction). Where elements are fewer than blocks should be, chunks of the outermost loop get
partial results of their own (PartialSums), which a second launch joins:

    for i: for k: y[i] += e(i, k)
    ->  block for c, i: t[c, i] = 0; threads for k in chunk c: t[c, i] += e(i, k)
        block for i:                 threads for c:             y[i] += t[c, i]

Where neighbours in memory belong to different elements, columns of a matrix say, lanes run along
the elements: then only chunks are cut. All joins have a fixed order.

Where atomics are asked for, the blocks of an element update it themselves, in one launch and in any
order, if GPUs have such an update of its type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from loopwright.analysis.dependences import access_map
from loopwright.analysis.reductions import Reduction, reductions
from loopwright.analysis.size_estimates import (
    at_middle,
    at_sizes,
    average_trips_of,
    band_trips,
    likely_sizes,
    likely_trips,
    references,
)
from loopwright.ir.atomics import has_atomic
from loopwright.ir.expr import Var
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import isl, isl_integer
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    directions,
    nodes_of,
    perfect_nest,
    sequence,
    statements_in,
    universe_of,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.draft import Draft
from loopwright.transform.grid_mapping import AXES, MapToBlocks
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.reschedule import Reschedule, named_tree, tree_text
from loopwright.transform.step import Step

__all__ = ["plan_grid_reductions"]

_LATENCY = 3e-8  # seconds from one term of a thread to the next, loads from memory included
_GAIN = 2.0  # by which a plan must be faster
_MOST_THREADS = 256  # of a block that joins
_LEAST_THREADS = 32
_BLOCKS = 4  # to a multiprocessor, at least
_LEAST_TERMS = 8  # of a thread, before it joins
_LANES = 32  # elements beside each other that are worth lanes of their own


def plan_grid_reductions(
    schedule: Schedule, machine: GpuMachine, *, atomics: bool = False
) -> tuple[Step, ...]:
    """Steps that share out the reductions that would leave most of a GPU idle.

    With `atomics`, blocks update elements together where they can.
    """
    draft = Draft(schedule)
    pending: list[_Shared] = []
    trips = schedule.analyses.get(likely_trips)
    for found in reductions(schedule.program):
        if found.is_reorderable:
            nest = _nest(draft, found)
            if nest is not None:
                made = _Planned(draft, machine, nest, schedule.program, trips, atomics)
                pending += made.cut()
    # All chunks are cut by now: threads that join fix the order of their loops.
    for shared in pending:
        draft.take(*shared.steps(draft.schedule))
    return tuple(draft.steps)


@dataclass(frozen=True, slots=True)
class _Shared:
    """A reduction in loops of its own, whose terms threads are to share."""

    statement: str
    blocks: int  # loops directly around those of the terms that become blocks
    lanes: str  # iterator
    threads: int
    together: int = 1  # blocks that update an element

    def steps(self, schedule: Schedule) -> list[Step]:
        program = schedule.program
        path = _path(nodes_of(schedule), self.statement)
        own = program.statement(self.statement)
        moved = [own.iterators[directions(b).get(own.name, (0, 0))[0]] for b in path]
        found = next(r for r in reductions(program) if r.statement == own.name)
        # Chunks are functions of a term's iterator, too, but no plain ones.
        at = next(
            k for k, (b, name) in enumerate(zip(path, moved, strict=True))
            if name in found.loops and b.statements == {own.name}
        )  # fmt: skip
        blocks, terms = path[at - self.blocks : at], path[at:]
        along = next(b for b, name in zip(terms, moved[at:], strict=True) if name == self.lanes)
        maps = [
            MapToBlocks(band.loop, axis) for band, axis in zip(reversed(blocks), AXES, strict=False)
        ]
        return [*maps, MapReduction(terms[0].loop, along.loop, self.threads, self.together)]


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops of a reduction that hold nothing else."""

    found: Reduction
    elements: tuple[tuple[Band, str, int], ...]  # loop, iterator and dimension of the element
    terms: tuple[tuple[Band, str], ...]  # loop and iterator, outermost first


def _nest(draft: Draft, found: Reduction) -> _Nest | None:
    """The nest of a reduction; None where others stand in it or loops around it are parallel."""
    schedule = draft.schedule
    path = _path(nodes_of(schedule), found.statement)
    own = [band for band in path if band.statements == {found.statement}]
    if not own or perfect_nest(own[0])[-1] != own[-1]:
        return None
    inside = {loop for made in schedule.contractions for loop in made.loops}
    if any(band.loop in inside for band in path):
        return None
    for band in path[: len(path) - len(own)]:
        if draft.reach(*draft.copies(band), MapToBlocks(band.loop, "x")) is not None:
            return None
    iterators = schedule.program.statement(found.statement).iterators
    elements: list[tuple[Band, str, int]] = []
    terms: list[tuple[Band, str]] = []
    for band in own:
        at = directions(band).get(found.statement)
        if at is None:
            return None
        name = iterators[at[0]]
        if name in found.loops:
            terms.append((band, name))
            continue
        places = [d for d, entry in enumerate(found.element.index) if entry == Var(name)]
        if not places:
            return None
        elements.append((band, name, places[0]))
    return _Nest(found, tuple(elements), tuple(terms)) if terms else None


def _path(node: Node, statement: str) -> list[Band]:
    """The loops around a statement, outermost first; none where several nests hold it."""
    match node:
        case Band(child=child):
            return [node, *_path(child, statement)]
        case InOrder(filters=filters):
            holding = [f.child for f in filters if statement in statements_in(f.instances)]
            return _path(holding[0], statement) if len(holding) == 1 else []
        case _:
            return []


@dataclass(slots=True)
class _Planned:
    """The search for one nest."""

    draft: Draft
    machine: GpuMachine
    nest: _Nest
    program: Program  # before any reduction was cut
    trips: Mapping[str, Mapping[str, float]]  # of its loops, at likely sizes
    atomics: bool

    def _count(self, band: Band) -> float:
        return band_trips(band, self.program, self.trips)

    def cut(self) -> list[_Shared]:
        """Cut the nest into chunks where that makes it faster; what threads are to share."""
        nest = self.nest
        elements = math.prod(self._count(band) for band, _, _ in nest.elements)
        each = self._terms_of_element()
        terms = math.prod(each)
        wanted = self.machine.multiprocessors * self.machine.warp * _LANES
        if elements >= wanted or len(nest.elements) >= len(AXES):
            return []
        lanes = max(reversed(nest.terms), key=lambda term: self._neighbours(term[1]))
        across = max((self._neighbours(name) for _, name, _ in nest.elements), default=0.0)
        columns = max((self._count(band) for band, _, _ in nest.elements), default=1.0)
        is_across = across > self._neighbours(lanes[1]) and columns >= _LANES
        threads = 1 if is_across else self._threads(lanes[0])
        blocks = elements / (_LANES if is_across else 1)
        parts = math.ceil(self.machine.multiprocessors * _BLOCKS / max(1.0, blocks))
        size = self._chunk(parts, threads, lanes[0])
        trips = each[0]
        is_cut = size < trips
        chain, joins = terms / threads, math.log2(threads)
        launch = seconds = self.machine.launch_seconds
        if is_cut:
            chain *= size / trips
            joins += math.log2(_MOST_THREADS) + trips / size / _MOST_THREADS
            seconds += launch
        seconds += (chain + joins) * _LATENCY
        if terms * _LATENCY + launch < _GAIN * seconds:
            return []
        count, name = len(nest.elements), nest.found.statement
        if not is_cut:
            return [_Shared(name, count, lanes[1], threads)] if threads > 1 else []
        dtype = self.program.statement(name).write.dtype
        if self.atomics and threads > 1 and has_atomic(nest.found.op, dtype):
            return [_Shared(name, count, lanes[1], threads, math.ceil(trips / size))]
        total = self._chunks(size)
        if total is None or threads == 1:
            return []
        return [
            _Shared(name, 1 + count, lanes[1], threads),
            _Shared(total.name, count, total.iterators[0], _MOST_THREADS),
        ]

    def _terms_of_element(self) -> list[float]:
        """Iterations of the loops of terms that gather into one element.

        Less than the loops have where an iterator counts terms and elements at once: four for
        `h[i / 4]`. Chunks of as many or more would share no element, and leave no sums to join.
        """
        counts = [self._count(band) for band, _ in self.nest.terms]
        found = self.nest.found
        moving = {name for entry in found.element.index for name in names(entry)}
        if moving.isdisjoint(name for _, name in self.nest.terms):
            return counts
        statement = self.program.statement(found.statement)
        written = access_map(self.program, statement, found.element)
        sizes = likely_sizes(self.program)
        middle = at_sizes(written.domain(), sizes)
        for at in range(len(statement.iterators)):
            middle = at_middle(middle, at)
        own = written.intersect_range(middle.apply(written)).domain()
        trips = average_trips_of(own, statement.iterators, sizes)
        return [min(n, trips[name]) for n, (_, name) in zip(counts, self.nest.terms, strict=True)]

    def _neighbours(self, iterator: str) -> float:
        """Accesses for which neighbouring iterations read neighbouring elements, or the same."""
        total = 0.0
        for reference in references(self.program.statement(self.nest.found.statement)):
            stride = abs(reference.stride(iterator))
            total += reference.reads * (2.0 if stride == 1 else 1.0 if stride == 0 else 0.0)
        return total

    def _threads(self, band: Band) -> int:
        size = _LEAST_THREADS
        while size < _MOST_THREADS and size * 2 * _LEAST_TERMS <= self._count(band):
            size *= 2
        return size

    def _chunk(self, parts: int, threads: int, lanes: Band) -> int:
        """Iterations of the outermost loop of terms that a block takes."""
        outer = self.nest.terms[0][0]
        least = threads * _LEAST_TERMS if outer is lanes else 1 if threads > 1 else _LEAST_TERMS
        each = max(least, math.ceil(self._count(outer) / parts))
        return 1 << (each - 1).bit_length()

    def _chunks(self, size: int) -> Statement | None:
        """Cut into chunks with partial results; the statement that sums these."""
        cut = PartialSums(self.nest.found.statement, self.nest.terms[0][1], size)
        after = self.draft.reach(cut)
        if after is None:
            return None
        start, total = after.program.statements[-2:]
        made = _with_chunks(after, self.nest, size, start, total)
        if made is None:
            return None
        named = named_tree(made, after.program)
        order = Reschedule(tree_text(after.tree.get_domain(), named))
        return total if self.draft.take(cut, order) else None


def _with_chunks(
    schedule: Schedule, nest: _Nest, size: int, start: Statement, total: Statement
) -> Node | None:
    """The tree of a schedule after PartialSums, with one nest of chunks and one of their sum."""
    program = schedule.program
    own = program.statement(nest.found.statement)
    trio = [start.name, own.name, total.name]

    def along(statement: Statement, iterator: str, by: int = 1) -> isl.MultiUnionPwAff:
        return _function(statement, statement.iterators.index(iterator), by)

    # -- chunks: the partial result of each is set and gathered by one block
    gather: Node = Leaf()
    for band, name in reversed(nest.terms):
        gather = Band(band.loop, along(own, name), gather)
    chunks: Node = sequence(
        (
            Filter(universe_of(program, [start.name]), Leaf()),
            Filter(universe_of(program, [own.name]), gather),
        )
    )
    sums: Node = Band(total.iterators[0], along(total, total.iterators[0]), Leaf())
    for band, name, dimension in reversed(nest.elements):
        place = 1 + dimension
        both = along(own, name).union_add(_function(start, place, 1))
        chunks = Band(band.loop, both, chunks)
        sums = Band(band.loop, _function(total, place, 1), sums)
    outer = nest.terms[0][1]
    chunk = along(own, outer, size).union_add(_function(start, 0, 1))
    chunks = Band(start.iterators[0], chunk, chunks)

    def visit(node: Node) -> Node | None:
        match node:
            case Leaf():
                return None
            case Band(child=child):
                inner = visit(child)
                return None if inner is None else replace(node, child=inner)
            case InOrder(filters=filters):
                held = [sorted(statements_in(f.instances)) for f in filters]
                if all([name] in held for name in trio):
                    first = held.index([start.name])
                    if held[first : first + 3] != [[name] for name in trio]:
                        return None
                    parts = (
                        Filter(universe_of(program, trio[:2]), chunks),
                        Filter(universe_of(program, trio[2:]), sums),
                    )
                    return sequence((*filters[:first], *parts, *filters[first + 3 :]))
                for at, branch in enumerate(filters):
                    if own.name in held[at]:
                        inner = visit(branch.child)
                        if inner is None:
                            return None
                        changed = replace(branch, child=inner)
                        return sequence((*filters[:at], changed, *filters[at + 1 :]))
        return None

    return visit(nodes_of(schedule))


def _function(statement: Statement, at: int, by: int) -> isl.MultiUnionPwAff:
    """`{ S[i] -> [floor(i_at / by)] }`."""
    space = isl.LocalSpace.from_space(statement.domain.get_space())
    found = isl.Aff.var_on_domain(space, isl.dim_type.set, at)
    if by > 1:
        found = found.scale_down_val(isl_integer(by)).floor()
    return isl.MultiUnionPwAff.from_union_pw_aff(
        isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(found))
    )
