"""What a schedule costs: a closed form over its tree of loops, its marks and the machine.

A loop runs through the values of one iterator of each statement, one by one or in tiles of a size.
Of every statement and depth the iterations that are left are known, and so is what loops from there
on touch (analysis/size_estimates):

    innermost loop   trips * max(arithmetic, divisions, loads and stores, chain) + starting it; as
                     many vectors as it has whole ones where it is marked for them, the rest singly
    chain            cycles around a circle of statements that one iteration hands to the next
                     (planner/cost/carried_values)
    outer vectors    a chain serves all lanes; elements that are no neighbours come one by one
    other loops      trips * (what is inside + counters)
    lines            each once where an iteration of the loop fits into the cache, else once per
                     iteration; in between, a mixture
    parallel loop    the share of the thread with most iterations, and opening the region
    contraction      its kernel (contraction_cost), with the iterations that its loops have

The source order, marks, tiles, skewed passes and contractions inside are all such trees. Blocked
closures, tiles of time on devices and waves that threads share have no prediction: NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from loopwright.analysis.size_estimates import (
    Reference,
    average_trips_of,
    bytes_of,
    references,
    trips_at,
)
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Statement
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    bands,
    nodes_of,
    statements_in,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.cost.cache_misses import lost_share, read_rate
from loopwright.planner.cost.carried_values import carried_cycles, may_meet, sums_in_order
from loopwright.planner.cost.kernel_cycles import kernel_cycles
from loopwright.planner.cost.local_arrays import arrays_in_registers
from loopwright.planner.cost.loop_steps import loop_steps
from loopwright.planner.cost.moved_lines import LINE_CYCLES, moved_lines, shares_of
from loopwright.planner.cost.statement_work import Operations, operations, shared_parts
from loopwright.planner.cost.streams import crowding
from loopwright.planner.loop_plans.short_loops import repeated

__all__ = ["schedule_seconds"]

Points = Mapping[str, Mapping[str, float]]  # statement -> iterator -> iterations that are left

_LANE_IN_C = 0.8  # cycles of a sum in order, in C: gcc adds the lanes of products one by one
_LOOP = 2.0  # cycles of one more iteration of a loop
_START = 12.0  # cycles to start an innermost loop
_WRITTEN_OUT = 8  # iterations of loops that compilers write out
_NEAR, _FAR = 0.3, 2.5  # shares of a line's cycles that are waited for, in rows and across them
_WRITTEN = 1.5  # times a line that is written
_INSERT = 1.0  # cycles to bring one element into its lane
_CHECKS = 6.0  # cycles to find out that a loop without a mark may have vectors
_GUARD = 4.0  # cycles of a copy that has to ask whether it is one
_SHORT = 16  # iterations of loops that compilers write out where they are constant
_MOST_COPIES = 128  # of unrolled loops that are no loops any more
_MOST_WRITTEN = 256  # instructions of loops that compilers write out, about
_STREAMS = 0.75  # memory on T threads takes T**-0.75 of the time (two: measured, N1, Cascade Lake)
_UNKNOWN_HZ = 1e9  # see tree_cost


def schedule_seconds(
    schedule: Schedule,
    machine: Machine,
    sizes: Mapping[str, int],
    threads: int = 1,
    *,
    text: bool = False,
) -> float:
    """Seconds of one run with parameters of the given values; NaN where nothing is known.

    `text`: a compiler of C makes the code.
    """
    if schedule.closure is not None or schedule.time_tiles is not None or schedule.is_for_device:
        return math.nan
    if schedule.whole_contraction is not None or schedule.diagonals:
        return math.nan
    model = _ScheduleModel(schedule, machine, sizes, threads)
    model.is_text = text
    if threads > 1 and model.has_waves():
        return math.nan
    found = model.estimate(nodes_of(schedule), model.trips)
    # What all arrays take stays from run to run.
    between = [lost_share(model.total / cache.size) for cache in machine.caches]
    traffic = sum(a * b for a, b in zip(found.traffic, between, strict=True))
    return (found.cycles + traffic) / (machine.frequency_hz or _UNKNOWN_HZ)


@dataclass(frozen=True, slots=True)
class _Estimate:
    cycles: float
    traffic: tuple[float, ...]  # cycles of lines that enter each cache
    size: float  # bytes of all lines that are touched


@dataclass(frozen=True, slots=True)
class _StatementWork:
    references: tuple[Reference, ...]
    operations: Operations
    has_gaps: bool  # its instances are no convex set: copies of it are guarded


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Vectors along a loop further out."""

    width: int  # iterations of it at once
    moving: Mapping[str, str]  # the iterator of each statement that the lanes are values of


class _ScheduleModel:
    def __init__(
        self, schedule: Schedule, machine: Machine, sizes: Mapping[str, int], threads: int
    ) -> None:
        self.schedule, self.machine, self.threads = schedule, machine, threads
        program = self.program = schedule.program
        self.is_text = False
        self.marks = dict(schedule.marks)
        self.pieces = {
            loop: parts for loop, parts in schedule.factors if self.marks.get(loop) is Mark.PARALLEL
        }
        self.outer = {loop: lanes * copies for loop, lanes, copies in schedule.outer_vectors}
        self.sizes = sizes
        self.steps = {band.loop: loop_steps(band) for band in bands(nodes_of(schedule))}
        self.orders = {s.name: self._order(s) for s in program.statements}
        self.trips: Points = trips_at(schedule.analyses, sizes, self.orders)
        # Of skewed loops: statement -> iterator -> (what moves along with it, how far)
        self.shifts = {s.name: self._shifts(s) for s in program.statements}
        shared = shared_parts(program.statements)
        self.work = {
            s.name: _StatementWork(
                references(s), operations(s, machine, shared[s.name]), _has_gaps(s)
            )
            for s in program.statements
        }
        self.iterators = {s.name: s.iterators for s in program.statements}
        used = {x: {r.array for r in known.references} for x, known in self.work.items()}
        self.in_registers = arrays_in_registers(program, nodes_of(schedule), used)
        self.rows: dict[tuple[str, int], float] = {}  # bytes that an innermost loop reads in a row
        self.crowds: dict[str, float] = {}  # times as long lines take, of rows side by side
        self.kernels = {loop: made for made in schedule.contractions for loop in made.loops}
        self.array_bytes = {a.name: max(1, bytes_of(a, dict(sizes))) for a in program.arrays}
        self.total = float(sum(self.array_bytes.values()))
        caches = machine.caches
        self.line_cycles = [c.line / read_rate(machine, k + 1) for k, c in enumerate(caches)]

    def has_waves(self) -> bool:
        """Whether threads share the iterations inside of a skewed loop."""
        return any(
            self.marks.get(inner.loop) is Mark.PARALLEL
            for band in bands(nodes_of(self.schedule))
            if any(len(step.positions) > 1 for step in self.steps[band.loop].values())
            for inner in bands(band.child)
        )

    def _order(self, statement: Statement) -> list[str]:
        """The iterators of a statement as loops run through them, outermost first."""
        found: list[str] = []
        for steps in self.steps.values():
            if statement.name in steps:
                places = steps[statement.name].positions
                names = [statement.iterators[k] for k in places]
                # Of a skewed loop, the iterator that no loop around has.
                found += [x for x in names if x not in found][-1:]
        return found

    def _shifts(self, statement: Statement) -> dict[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        for steps in self.steps.values():
            step = steps.get(statement.name)
            if step is not None and len(step.positions) > 1:
                *others, last = zip(step.positions, step.factors, strict=True)
                for place, factor in others:
                    slope = max(1, abs(factor // last[1]))
                    found[statement.iterators[place]] = statement.iterators[last[0]], slope
        return found

    def estimate(self, node: Node, points: Points, lanes: _Lanes | None = None) -> _Estimate:
        """The cost of one run of a tree over the statements of `points`."""
        match node:
            case Leaf():
                cycles = sum(
                    self._body([name], {}, {}, lanes, 1, 0.0) - _LOOP / 2 for name in points
                )
                return _Estimate(cycles, (0.0,) * len(self.machine.caches), 0.0)
            case Band():
                return self._band(node, points, lanes)
            case _:
                parts = self._parts(node, points)
                return self._sequence(
                    [
                        self.estimate(branch.child, own, lanes)
                        for branch, own in zip(node.filters, parts, strict=True)
                    ],
                    points,
                )

    def _parts(self, node: Sequence, points: Points) -> list[dict[str, Mapping[str, float]]]:
        """The iterations of each part of a sequence.

        Parts may share the instances of a statement: each then has its share of the iterations.
        """
        names = [statements_in(branch.instances) & points.keys() for branch in node.filters]
        found: list[dict[str, Mapping[str, float]]] = [
            {name: points[name] for name in own} for own in names
        ]
        for name, left in points.items():
            places = [at for at, own in enumerate(names) if name in own]
            if len(places) < 2:
                continue
            trips = [self._trips_in(node.filters[at], name) for at in places]
            total = sum(math.prod(own.values()) for own in trips)
            for at, own in zip(places, trips, strict=True):
                share = math.prod(own.values()) / max(1.0, total)
                found[at][name] = _shrunk(left, own, share)
        return found

    def _trips_in(self, branch: Filter, name: str) -> Mapping[str, float]:
        statement = self.program.statement(name)
        domain = branch.instances.extract_set(statement.domain.get_space())
        return average_trips_of(
            domain.intersect(statement.domain), statement.iterators, self.sizes, self.orders[name]
        )

    def _band(self, band: Band, points: Points, lanes: _Lanes | None) -> _Estimate:
        if band.loop in self.kernels:
            return self._kernel(self.kernels[band.loop], band, points)
        inside, trips, moving = self._inside(band, points)
        mark = self.marks.get(band.loop, Mark.SERIAL)
        if band.loop in self.outer:
            cycles, child = self._in_lanes(band, inside, trips, moving)
        else:
            child = self.estimate(band.child, inside, lanes)
            copies = self._copies(band.child, inside)
            is_long = trips > _WRITTEN_OUT or self._is_in_tile(points, moving)
            if copies is None:
                cycles = trips * (child.cycles + _LOOP * is_long)
                if self._has_strips(band, inside, moving):
                    self._note_rows(points, {name: {} for name in points})
                written_out = self._written_out(band, inside) if is_long and not lanes else None
                if written_out is not None:
                    best = self._innermost(band, trips, moving, written_out, None, is_plain=True)
                    if _START + best < cycles:
                        cycles = _START + best
                        self._note_rows(points, written_out)
            else:
                best = self._innermost(band, trips, moving, copies, lanes, is_plain=False)
                cycles = _START * is_long + best
                self._note_rows(points, copies)
        if mark is not Mark.PARALLEL and self.threads > 1:
            cycles += trips * self._moved(band.child, inside)
        lines, size = self._lines(points)
        traffic = []
        for level, cache in enumerate(self.machine.caches):
            once = lines * self.line_cycles[level]
            lost = lost_share(child.size / cache.size)
            again = max(once, trips * child.traffic[level])
            traffic.append(once + lost * (again - once))
        if mark is Mark.PARALLEL and self.threads > 1 and trips > 1:
            share = math.ceil(trips / min(self.threads, trips)) / trips
            cycles = cycles * share + self.machine.parallel_cost.cycles(self.threads)
            traffic = [*(x * share for x in traffic[:-1]), traffic[-1] * share**_STREAMS]
        return _Estimate(cycles, tuple(traffic), size)

    def _is_in_tile(self, points: Points, moving: Mapping[str, str]) -> bool:
        """Whether a loop runs through a tile, whose ends compilers do not know."""
        return any(points[name][x] < self.trips[name][x] for name, x in moving.items())

    def _has_strips(self, band: Band, inside: Points, moving: Mapping[str, str]) -> bool:
        """Whether all that a loop holds runs through strips of its rows, one after the other."""
        is_whole = isinstance(band.child, Band) and isinstance(band.child.child, Leaf)
        return is_whole and all(self._inside(x, inside)[2] == moving for x in bands(band.child))

    def _in_lanes(
        self, band: Band, inside: Points, trips: float, moving: Mapping[str, str]
    ) -> tuple[float, _Estimate]:
        """Cycles of a loop whose iterations are lanes, and one run of what is inside of it."""
        width = self.outer[band.loop]
        wide = {
            name: {**left, moving[name]: float(width)} if name in moving else left
            for name, left in inside.items()
        }
        alone, full = self.estimate(band.child, inside), trips // width
        whole = self.estimate(band.child, wide, _Lanes(width, moving))
        return full * (whole.cycles + _LOOP) + (trips - full * width) * alone.cycles, alone

    def _inside(self, band: Band, points: Points) -> tuple[Points, float, dict[str, str]]:
        """Iterations left inside a loop, its own, and the iterator that each statement follows."""
        steps = self.steps[band.loop]
        inside: dict[str, Mapping[str, float]] = {}
        moving: dict[str, str] = {}
        most = 1.0
        for name, left in points.items():
            if name not in steps:
                inside[name] = left
                continue
            size: float = steps[name].size
            names = [self.iterators[name][k] for k in steps[name].positions]
            # Of a skewed loop, the iterator that no loop around has fixed.
            free = [x for x in names if left.get(x, 1.0) > size] or names
            if not free:
                inside[name] = left
                continue
            iterator = free[-1]
            count = left.get(iterator, 1.0)
            if band.loop in self.pieces:  # a thread's tiles are one after the other
                size = max(size, count / self.pieces[band.loop])
            most = max(most, count / size)
            moving[name] = iterator
            inside[name] = {**left, iterator: float(min(size, count))}
        return inside, most, moving

    def _copies(self, node: Node, points: Points) -> Points | None:
        """Of the innermost loop: how often unrolled loops inside repeat each statement.

        None where some loop inside is not unrolled.
        """
        found: dict[str, dict[str, float]] = {name: {} for name in points}
        for band in bands(node):
            inside, trips, moving = self._inside(band, points)
            if self.marks.get(band.loop) is not Mark.UNROLL or trips > _MOST_COPIES:
                return None
            for name, iterator in moving.items():
                found[name][iterator] = points[name].get(iterator, 1.0)
            points = inside
        return found

    def _written_out(self, band: Band, points: Points) -> Points | None:
        """As `_copies`, of short loops that compilers write out by themselves."""
        inner = tuple(bands(band.child))
        found: dict[str, dict[str, float]] = {name: {} for name in points}
        for one in inner:
            points, trips, moving = self._inside(one, points)
            if trips > _SHORT:
                return None
            for name, iterator in moving.items():
                found[name][iterator] = trips
        size = sum(math.prod(found[x].values()) * (len(self.work[x].references) + 1) for x in found)
        counts = repeated(self.schedule.analyses, inner, _MOST_COPIES)
        return found if size <= _MOST_WRITTEN and counts is not None else None

    def _kernel(self, made: ScheduledContraction, band: Band, points: Points) -> _Estimate:
        """A contraction in the place of its loops; operands and result are counted with it."""
        extents: dict[str, int] = {}
        left = points
        for one in bands(band):
            left, trips, _ = self._inside(one, left)
            extents[one.loop] = max(1, round(trips))
        cycles = kernel_cycles(made, extents, self.machine, self.threads)
        _, size = self._lines(points)
        return _Estimate(cycles, (0.0,) * len(self.machine.caches), size)

    def _sequence(self, parts: list[_Estimate], points: Points) -> _Estimate:
        lines, size = self._lines(points)
        traffic = []
        for level, cache in enumerate(self.machine.caches):
            apart = sum(part.traffic[level] for part in parts)
            together = min(apart, lines * self.line_cycles[level])
            lost = lost_share(size / cache.size)
            traffic.append(together + lost * (apart - together))
        return _Estimate(sum(part.cycles for part in parts), tuple(traffic), size)

    # -- instructions -----------------------------------------------------------------------------

    def _innermost(
        self,
        band: Band,
        trips: float,
        moving: Mapping[str, str],
        copies: Points,
        lanes: _Lanes | None,
        *,
        is_plain: bool,
    ) -> float:
        """Cycles of all iterations of a loop that holds no loops but unrolled ones.

        Compilers find vectors in loops that are not marked where they write out what is inside
        (`is_plain`), not in copies that a plan has made but those of integers, all of one range.
        """
        names = [s.name for s in self.program.statements if s.name in copies]
        mark = self.marks.get(band.loop, Mark.SERIAL)
        is_free = is_marked = mark in (Mark.VECTOR, Mark.SIMD)
        chain, in_part = 0.0, 0.0 if is_plain else self._in_part(names, moving, copies)
        if not is_free:
            statements = [self.program.statement(name) for name in names]
            chain = carried_cycles(statements, moving, self.machine)
            is_whole = not in_part and all(s.write.dtype.is_integer for s in statements)
            is_free = chain == 0.0 and (is_plain or is_whole or not any(copies.values()))
            is_free = is_free and not may_meet(self.program, statements, moving, text=self.is_text)
            if chain and not is_plain:
                chain *= self._copies_in_turn(statements, copies)
        guarded = [name for name in names if copies[name] and self.work[name].has_gaps]
        is_free = is_free and not guarded
        if lanes is not None:
            return trips * self._body(names, moving, copies, lanes, 1, chain)
        alone = self._body(names, moving, copies, None, 1, chain)
        if self.is_text and chain and not any(copies.values()):
            alone += _LANE_IN_C * (sums_in_order(statements) or len(names))
        alone += _GUARD * max((math.prod(copies[name].values()) for name in guarded), default=0.0)
        if in_part:
            trips = max(0.0, trips - in_part)
            in_part *= 2 * (alone + _GUARD * max(math.prod(copies[x].values()) for x in names))
        if not is_free:
            return in_part + trips * alone
        in_part += 0.0 if is_marked else _CHECKS
        return in_part + self._in_vectors(trips, names, moving, copies, alone)

    def _in_part(self, names: Collection[str], moving: Mapping[str, str], copies: Points) -> float:
        """Iterations at each end of a loop in which some copies of a statement have nothing to do.

        That is where the copied loop begins and ends elsewhere in every iteration.
        """
        most = 0.0
        for name in names:
            statement, iterator = self.program.statement(name), moving.get(name, "")
            own = [n for n in copies[name].values() if n > 1]
            if not own or iterator not in self.trips[name]:
                continue
            first = average_trips_of(statement.domain, statement.iterators, self.sizes, [iterator])
            if first[iterator] > self.trips[name][iterator] + 1:
                most = max(most, max(own) - 1)
        return most

    def _in_vectors(
        self,
        trips: float,
        names: Collection[str],
        moving: Mapping[str, str],
        copies: Points,
        alone: float,
    ) -> float:
        """Cycles of iterations in as many whole vectors as there are; `alone` is one of them."""
        count = self.machine.lanes(max(self.work[name].operations.bits for name in names))
        whole = trips // count
        if count == 1 or not whole:
            return trips * alone
        vector = self._body(names, moving, copies, None, count, 0.0)
        return whole * min(vector, count * alone) + (trips - whole * count) * alone

    def _copies_in_turn(self, statements: list[Statement], copies: Points) -> float:
        """How many copies of the statements of a loop wait for each other."""
        found = 1.0
        for iterator in {x for own in copies.values() for x in own}:
            moving = {name: iterator for name, own in copies.items() if iterator in own}
            if carried_cycles(statements, moving, self.machine):
                found *= max(own.get(iterator, 1.0) for own in copies.values())
        return found

    def _body(
        self,
        names: Collection[str],
        moving: Mapping[str, str],
        copies: Points,
        lanes: _Lanes | None,
        width: int,
        chain: float,
    ) -> float:
        """Cycles of one iteration of an innermost loop, all copies of it.

        Of `width` iterations in one vector; or for all lanes of vectors along a loop further out.
        """
        plain = divided = calls = loads = stores = singly = 0.0
        along = lanes.moving if lanes else moving
        count = lanes.width if lanes else width
        seen: set[object] = set()
        for name in names:
            work, own = self.work[name], copies.get(name, {})
            done = work.operations
            repeated = math.prod(own.values()) * self._registers(lanes, done.bits)
            plain += done.plain * repeated
            divided += repeated * (done.divisions if count == 1 else done.vector_divisions)
            calls += done.calls * math.prod(own.values()) * count
            for reference in work.references:
                if reference.array in self.in_registers:
                    continue
                if moving and not reference.stride(moving.get(name, "")) and not own:
                    continue  # it stays in a register
                stride = abs(reference.stride(along.get(name, "")))
                # What copies do not move is read once for all of them.
                uses = math.prod(n for x, n in own.items() if reference.stride(x))
                key = (reference.array, reference.subscripts)
                read = reference.reads if key not in seen else 0
                seen.add(key)
                if count > 1 and stride > 1:
                    singly += uses * count * (read + reference.is_written)
                else:
                    uses *= self._registers(lanes, 8 * reference.element) if stride else 1
                    loads += uses * read
                    stores += uses * reference.is_written
        machine = self.machine
        moved = max(loads / machine.loads_per_cycle, stores / machine.stores_per_cycle)
        issued = max(plain, divided, moved + singly * _INSERT) + calls + _LOOP / 2
        return max(issued, chain)

    def _registers(self, lanes: _Lanes | None, bits: int) -> float:
        """Vectors that the elements of all lanes take, each of so many bits."""
        return max(1.0, lanes.width / self.machine.lanes(bits)) if lanes else 1.0

    # -- data -------------------------------------------------------------------------------------

    def _moved(self, node: Node, points: Points) -> float:
        """Cycles of lines that threads fetch from each other, if their caches keep them."""

        def shared(band: Band) -> Mapping[str, str] | None:
            is_shared = self.marks.get(band.loop) is Mark.PARALLEL
            return self._inside(band, points)[2] if is_shared else None

        def lines(name: str, reference: Reference) -> float:
            return reference.lines(points[name], line)

        line = self.machine.caches[0].line
        known = {name: self.work[name].references for name in points}
        moved = moved_lines(shares_of(node, points, shared), known, lines, self.threads)
        return moved * (1.0 - lost_share(moved * line / self.machine.cache(2).size)) * LINE_CYCLES

    def _note_rows(self, points: Points, copies: Points) -> None:
        """Remember how long the rows are that an innermost loop runs through, and how crowded."""
        crowd = crowding(self.program, self.machine, points, copies)
        for name, left in points.items():
            self.crowds[name] = crowd
            for number, reference in enumerate(self.work[name].references):
                self.rows[name, number] = reference.elements(left)[1] * reference.element

    def _swept(self, name: str, left: Mapping[str, float]) -> Mapping[str, float]:
        """Iterations that loops run through, with those that a skewed loop moves on to."""
        found = dict(left)
        for iterator, (moved, slope) in self.shifts[name].items():
            if left.get(iterator, 1.0) > 1.0:
                far = found.get(moved, 1.0) + slope * (left[iterator] - 1.0)
                found[moved] = min(far, self.trips[name].get(moved, far))
        return found

    def _lines(self, points: Points) -> tuple[float, float]:
        """Lines that loops touch, by what is waited for; and bytes of them.

        Accesses of one array that run through the same elements count once. Lines that follow each
        other in an innermost loop are fetched before they are asked for; the first of a row is not.
        """
        line = self.machine.caches[0].line
        most: dict[tuple[str, int, int], tuple[float, float]] = {}
        for name, inside in points.items():
            left = self._swept(name, inside)
            for number, reference in enumerate(self.work[name].references):
                if reference.array in self.in_registers:
                    continue
                count = reference.lines(left, line)
                row = self.rows.get((name, number), float(line))
                weight = _NEAR + (_FAR - _NEAR) * min(1.0, line / row)
                weight *= self.crowds.get(name, 1.0) * (_WRITTEN if reference.is_written else 1.0)
                rows, elements = reference.elements(left)
                key = (reference.array, round(rows), round(elements))
                old = most.get(key, (0.0, 0.0))
                most[key] = max(old[0], count * weight), max(old[1], count)
        sums: dict[str, tuple[float, float]] = {}
        for (array, *_), (weighted, count) in most.items():
            old = sums.get(array, (0.0, 0.0))
            sums[array] = old[0] + weighted, old[1] + count
        total = size = 0.0
        for array, (weighted, count) in sums.items():
            # Several accesses together touch no more than there is.
            share = min(1.0, self.array_bytes[array] / line / count)
            total += weighted * share
            size += line * count * share
        return total, size


def _has_gaps(statement: Statement) -> bool:
    return bool(statement.iterators) and statement.domain.n_basic_set() > 1


def _shrunk(left: Mapping[str, float], most: Mapping[str, float], share: float) -> dict[str, float]:
    """Iterations that make up a share of those that are left, none more than its most."""
    found = {x: min(count, most.get(x, count)) for x, count in left.items()}
    wanted = share * math.prod(left.values())
    while found and (over := math.prod(found.values()) / max(1.0, wanted)) > 1.0:
        longest = max(found, key=lambda x: found[x])
        if found[longest] <= 1.0:
            break
        found[longest] = max(1.0, found[longest] / over)
    return found
