"""What an affine schedule costs: a closed form over its tree of loops, its marks and the machine.

A loop runs through the values of one iterator of each statement, one by one or in tiles of a size.
Of every statement and depth the iterations that are left are known, and so is what loops from there
on touch (analysis/size_estimates):

    innermost loop   trips * max(arithmetic, loads and stores, steps of a sum one after the other),
                     divided by lanes where the loop is marked for vectors
    other loops      trips * (what is inside + counters)
    lines            each once where an iteration of the loop fits into the cache, else once per
                     iteration; in between, a mixture
    parallel loop    the share of the thread with most iterations, and opening the region

Contractions inside run at the speed of their kernels. Schedules without such a tree (blocked
closures, overlapped tiles of time) have no prediction: NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopwright.analysis.size_estimates import Reference, average_trips, bytes_of, references
from loopwright.ir.expr import Binary, Call, Expr, Load, Unary
from loopwright.ir.islkit import functions_in, isl, pieces_in
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    nodes_of,
    statements_in,
)
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.cache_misses import lost_share, read_rate

__all__ = ["loop_steps", "schedule_seconds"]

Points = Mapping[str, Mapping[str, float]]  # statement -> iterator -> iterations that are left

_LOOP = 2.0  # cycles of one more iteration of a loop
_START = 12.0  # cycles to start an innermost loop
_NEAR, _FAR = 0.3, 2.5  # shares of a line's cycles that are waited for, in rows and across them
_WRITTEN = 1.5  # times a line that is written
_SLOW = {"div": 7.0, "mod": 20.0, "floordiv": 20.0, "pow": 40.0}
_CALL = 40.0  # cycles of a function of the mathematical library
_ROOT = 9.0
_MOST_COPIES = 32  # of an unrolled loop that is no loop any more
_KERNEL = 1.15  # cycles of a contraction's kernel over those of its arithmetic
_UNKNOWN_HZ = 1e9  # see tree_cost


def schedule_seconds(
    schedule: Schedule, machine: Machine, sizes: Mapping[str, int], threads: int = 1
) -> float:
    """Seconds of one run with parameters of the given values; NaN where nothing is known."""
    if schedule.closure is not None or schedule.time_tiles is not None or schedule.is_for_device:
        return math.nan
    if schedule.whole_contraction is not None:
        return math.nan
    model = _ScheduleModel(schedule, machine, sizes, threads)
    found = model.estimate(nodes_of(schedule), model.trips)
    # What all arrays take stays from run to run.
    between = [lost_share(model.total / cache.size) for cache in machine.caches]
    traffic = sum(a * b for a, b in zip(found.traffic, between, strict=True))
    return (found.cycles + traffic) / (machine.frequency_hz or _UNKNOWN_HZ)


def loop_steps(band: Band) -> dict[str, tuple[tuple[int, ...], int]]:
    """What a loop runs through: statement -> positions of iterators, and points of an iteration.

    A loop over tiles is a function of floor(i / T); T points are then covered at a time.
    """
    found: dict[str, tuple[tuple[int, ...], int]] = {}
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        count = function.dim(isl.dim_type.in_)
        used = tuple(k for k in range(count) if function.involves_dims(isl.dim_type.in_, k, 1))
        size = 1
        for _, piece in pieces_in(function):
            for k in range(piece.dim(isl.dim_type.div)):
                divisor = piece.get_div(k).get_denominator_val()
                if divisor.is_int():
                    size = max(size, divisor.to_python())
        found[function.get_tuple_id(isl.dim_type.in_).get_name()] = used, size
    return found


@dataclass(frozen=True, slots=True)
class _Estimate:
    cycles: float
    traffic: tuple[float, ...]  # cycles of lines that enter each cache
    size: float  # bytes of all lines that are touched


@dataclass(frozen=True, slots=True)
class _StatementWork:
    references: tuple[Reference, ...]
    arithmetic: float  # cycles of its operations on whole vectors
    slow: float  # cycles of what vectors do no faster, one element
    bits: int
    chain: float  # cycles between two steps of a sum; 0: it is none


class _ScheduleModel:
    def __init__(
        self, schedule: Schedule, machine: Machine, sizes: Mapping[str, int], threads: int
    ) -> None:
        self.schedule, self.machine, self.threads = schedule, machine, threads
        program = schedule.program
        self.marks = dict(schedule.marks)
        self.factors = dict(schedule.factors)
        self.trips: Points = average_trips(program, sizes)
        self.work = {s.name: _work(s, machine) for s in program.statements}
        self.iterators = {s.name: s.iterators for s in program.statements}
        kept = {a.name for a in program.arrays if a.role is Role.LOCAL and not a.rank}
        self.in_registers = kept
        self.rows: dict[tuple[str, int], float] = {}  # bytes that an innermost loop reads in a row
        self.kernels = {loop for made in schedule.contractions for loop in made.loops}
        self.total = float(sum(bytes_of(a, dict(sizes)) for a in program.arrays))
        caches = machine.caches
        self.line_cycles = [c.line / read_rate(machine, k + 1) for k, c in enumerate(caches)]

    def estimate(self, node: Node, points: Points) -> _Estimate:
        """The cost of one run of a tree over the statements of `points`."""
        match node:
            case Leaf():
                cycles = sum(self._instance(name) for name in points)
                return _Estimate(cycles, (0.0,) * len(self.machine.caches), 0.0)
            case Band():
                return self._band(node, points)
            case _:
                return self._sequence(
                    [
                        self.estimate(branch.child, _among(points, statements_in(branch.instances)))
                        for branch in node.filters
                    ],
                    points,
                )

    def _band(self, band: Band, points: Points) -> _Estimate:
        steps = loop_steps(band)
        inside, trips, moving = self._inside(steps, points)
        if band.loop in self.kernels:
            return self._kernel(points)
        child = self.estimate(band.child, inside)
        mark = self.marks.get(band.loop, Mark.SERIAL)
        copies = self._copies(band.child, inside)
        if copies is None:
            cycles = trips * (child.cycles + _LOOP)
        else:
            cycles = _START + trips * self._body(moving, copies, mark)
            self._note_rows(points)
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
            traffic = [part * share for part in traffic]
        return _Estimate(cycles, tuple(traffic), size)

    def _inside(
        self, steps: Mapping[str, tuple[tuple[int, ...], int]], points: Points
    ) -> tuple[Points, float, dict[str, str]]:
        """Iterations left inside a loop, its own, and the iterator that each statement follows."""
        inside: dict[str, Mapping[str, float]] = {}
        moving: dict[str, str] = {}
        most = 1.0
        for name, left in points.items():
            used, size = steps.get(name, ((), 1))
            names = [self.iterators[name][k] for k in used]
            # Of a skewed loop, the iterator that no loop around has fixed.
            free = [x for x in names if left.get(x, 1.0) > size] or names
            if not free:
                inside[name] = left
                continue
            iterator = free[-1]
            count = left.get(iterator, 1.0)
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
            inside, trips, moving = self._inside(loop_steps(band), points)
            if self.marks.get(band.loop) is not Mark.UNROLL or trips > _MOST_COPIES:
                return None
            for name, iterator in moving.items():
                found[name][iterator] = points[name].get(iterator, 1.0)
            points = inside
        return found

    def _kernel(self, points: Points) -> _Estimate:
        """A contraction in the place of its loops."""
        cycles = 0.0
        for name, left in points.items():
            lanes = self.machine.lanes(self.work[name].bits)
            cycles += math.prod(left.values()) * self.work[name].arithmetic / lanes * _KERNEL
        lines, size = self._lines(points)
        return _Estimate(cycles, tuple(lines * c for c in self.line_cycles), size)

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

    def _instance(self, name: str) -> float:
        work = self.work[name]
        return work.arithmetic + work.slow + 0.5 * len(work.references)

    def _body(self, moving: Mapping[str, str], copies: Points, mark: Mark) -> float:
        """Cycles of one iteration of an innermost loop, all copies of it."""
        machine = self.machine
        bits = max((self.work[name].bits for name in copies), default=64)
        is_vector = mark in (Mark.VECTOR, Mark.SIMD)
        lanes = machine.lanes(bits) if is_vector else 1
        arithmetic = slow = near = far = chain = 0.0
        for name, own in copies.items():
            work, iterator = self.work[name], moving.get(name, "")
            count = math.prod(own.values())
            arithmetic += work.arithmetic * count
            slow += work.slow * count
            for reference in work.references:
                if reference.array in self.in_registers:
                    continue
                stride = reference.stride(iterator)
                uses = float(reference.reads + int(reference.is_written))
                # What copies do not move is read once for all of them.
                uses *= math.prod(n for x, n in own.items() if reference.stride(x))
                if stride == 0:
                    if reference.is_written and not is_vector:
                        chain = max(chain, work.chain)
                elif abs(stride) == 1:
                    near += uses
                else:
                    far += uses
        accesses = (near / lanes + far) / machine.loads_per_cycle
        return max(arithmetic / lanes + slow, accesses, chain) + _LOOP / lanes / 2

    # -- data -------------------------------------------------------------------------------------

    def _note_rows(self, points: Points) -> None:
        """Remember how long the rows are that an innermost loop runs through."""
        for name, left in points.items():
            for number, reference in enumerate(self.work[name].references):
                self.rows[name, number] = reference.elements(left)[1] * reference.element

    def _lines(self, points: Points) -> tuple[float, float]:
        """Lines that loops touch, by what is waited for; and bytes of them.

        Accesses of one array that run through the same elements count once. Lines that follow each
        other in an innermost loop are fetched before they are asked for; the first of a row is not.
        """
        line = self.machine.caches[0].line
        most: dict[tuple[object, ...], tuple[float, float]] = {}
        for name, left in points.items():
            for number, reference in enumerate(self.work[name].references):
                if reference.array in self.in_registers:
                    continue
                count = reference.lines(left, line)
                row = self.rows.get((name, number), float(line))
                weight = _NEAR + (_FAR - _NEAR) * min(1.0, line / row)
                weight *= _WRITTEN if reference.is_written else 1.0
                rows, elements = reference.elements(left)
                key = (reference.array, round(rows), round(elements))
                old = most.get(key, (0.0, 0.0))
                most[key] = max(old[0], count * weight), max(old[1], count)
        weighted = sum(x for x, _ in most.values())
        return weighted, line * sum(x for _, x in most.values())


def _among(points: Points, names: frozenset[str]) -> Points:
    return {name: left for name, left in points.items() if name in names}


def _work(statement: Statement, machine: Machine) -> _StatementWork:
    arithmetic = slow = 0.0
    sums = 0
    each = 1 / machine.cost("add", statement.write.dtype.name).per_cycle
    for node in _on_data(statement.value):
        match node:
            case Call(function=function):
                slow += _ROOT if function == "sqrt" else _CALL
            case Binary(op=op) if op in _SLOW:
                slow += _SLOW[op]
            case Binary(op="add" | "sub", x=x, y=y):
                # A product that is added at once takes one instruction with the sum.
                fused = any(isinstance(z, Binary) and z.op == "mul" for z in (x, y))
                arithmetic += 0.0 if fused else each
                sums += 1
            case Binary() | Unary():
                arithmetic += each
    types = [x.dtype for x in (statement.write, *statement.reads)]
    found = references(statement)
    is_sum = any(r.is_written and r.reads for r in found)
    step = machine.cost("add", statement.write.dtype.name).latency
    chain = float(max(1, sums) * step) if is_sum else 0.0
    bits = max((t.bits for t in types), default=64)
    return _StatementWork(found, arithmetic, slow, bits, chain)


def _on_data(value: Expr) -> list[Expr]:
    """The operations of a value, subscripts left out."""
    inside = {id(part) for load in walk(value) if isinstance(load, Load) for part in _parts(load)}
    return [node for node in walk(value) if id(node) not in inside]


def _parts(load: Load) -> list[Expr]:
    return [part for entry in load.index for part in walk(entry)]
