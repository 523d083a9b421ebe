"""What an order of loops costs: cycles of arithmetic and of moving data, by a simple model.

For one run of a loop nest

    cycles = sum over innermost loops of trips * max(arithmetic, accesses, chain of dependences)
           + sum over caches of lines that enter it * cycles per line

A loop brings the lines of all it touches into a cache once, if one of its iterations fits there:
what the iterations share stays. If not, every iteration brings its own. Vectors divide arithmetic
and accesses to neighbours by their lanes. Numbers serve to compare orders with each other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType
from typing import Any

from loopwright.analysis.reductions import reductions
from loopwright.analysis.size_estimates import Reference, bytes_of, references, trips_at
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Binary, Call, Unary
from loopwright.ir.machine import Cache, Machine
from loopwright.ir.program import Role, Statement
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    Sequence,
    bands,
    directions,
    statements_in,
)
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap
from loopwright.planner.cost.extreme_loops import are_extremes
from loopwright.planner.cost.statement_work import function_cycles
from loopwright.planner.cost.streams import extra_write_cycles
from loopwright.planner.loop_plans.short_loops import repeated
from loopwright.transform.band_dependences import KnownDependences, unmoved
from loopwright.transform.schedule_legality import accessors

__all__ = ["CostModel", "Estimate"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }
Copies = Mapping[str, Mapping[str, int]]  # statement -> iterator -> copies of an unrolled loop

_FREE = 6  # registers that addresses of broadcasts and sums in progress take
_LOOP = 2.0  # cycles of one more iteration of a loop
_START = 12.0  # cycles to start an innermost loop: prologue, remainder, mispredicted end
_SCALAR_CALL = 40.0  # cycles of a function of the mathematical library
_STRIDED = 3.0  # how much longer a line takes that no prefetcher foresees
_GATHERED = 2.0  # instructions of an element of a vector that is gathered or scattered
_UNKNOWN = 64.0  # iterations of a loop whose order is no single iterator
_SLOW = frozenset({"div", "mod", "floordiv", "pow"})


@dataclass(frozen=True, slots=True)
class _Touch:
    """A reference as some loops see it."""

    statement: str  # that makes it
    reference: Reference
    trips: tuple[tuple[str, float], ...]  # iterations of the loops inside, by iterator
    inner: str | None  # the iterator that moves fastest

    def inside(self, iterator: str | None, count: float) -> _Touch:
        """The same seen from one loop further out."""
        if iterator is None or count <= 1:
            return self
        trips = (*self.trips, (iterator, count))
        return _Touch(self.statement, self.reference, trips, self.inner or iterator)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one run of a part of a tree costs."""

    cycles: float  # of instructions
    traffic: tuple[float, ...]  # cycles of lines that enter each cache
    touched: tuple[_Touch, ...]
    lines: float  # that are touched, those written or far apart counted more than once
    size: float  # bytes of those lines

    @property
    def total(self) -> float:
        # Data arrive beside instructions on good days; the sum predicts what pays better (mvt).
        return self.cycles + sum(self.traffic)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the model knows of a statement."""

    references: tuple[Reference, ...]
    arithmetic: float  # cycles of its operations, one element at a time
    slow: float  # cycles of what vectors do no faster
    chain: float  # cycles until its result can be used by its next instance
    trips: Mapping[str, float]
    bits: int  # widest type
    gathers: frozenset[str]  # iterators along which it is a reduction of fixed order


class CostModel:
    """Costs of trees over the statements of one program."""

    def __init__(
        self,
        analyses: AnalysisManager,
        machine: Machine,
        sizes: Mapping[str, int],
        spread: Collection[str] = (),
    ) -> None:
        """`spread` are scalars that have an element for every iteration until an order is found.

        They keep as few copies as the order needs: registers where one innermost loop has all their
        users, else rows of neighbours.
        """
        self._analyses = analyses
        program = self.program = analyses.program
        self.machine = machine
        self._sizes = dict(sizes)
        trips = trips_at(analyses, sizes)
        fixed = {
            r.statement: frozenset(r.loops)
            for r in analyses.get(reductions)
            if not r.is_reorderable
        }
        self._registers = {a.name for a in program.arrays if a.role is Role.LOCAL and not a.rank}
        self._spread = {name: accessors(analyses, name) for name in spread}
        self._facts = {
            s.name: self._statement(s, trips[s.name], fixed.get(s.name, frozenset()))
            for s in program.statements
        }
        self._caches = machine.caches
        # By the function of a loop, which isl cannot hash.
        self._followed: IdentityMap[Any, dict[str, str]] = IdentityMap()
        self.known = KnownDependences()
        self._estimates: IdentityMap[Node, IdentityMap[Pairs, dict[Hashable, Estimate]]]
        self._estimates = IdentityMap()
        self._measured: dict[Hashable, tuple[tuple[Any, ...], float, float]] = {}

    def total(
        self,
        node: Node,
        names: Collection[str],
        pairs: Pairs,
        around: Mapping[str, frozenset[str]] | None = None,
        jam: Mapping[str, int] = MappingProxyType({}),
    ) -> float:
        """Cycles of one run of a tree over some statements; see estimate."""
        return self.estimate(node, names, pairs, around, jam).total

    def estimate(
        self,
        node: Node,
        names: Collection[str],
        pairs: Pairs,
        around: Mapping[str, frozenset[str]] | None = None,
        jam: Mapping[str, int] = MappingProxyType({}),
        copies: Copies = MappingProxyType({}),
    ) -> Estimate:
        """The cost of a tree.

        `around` are the iterators of each statement that loops around it fix. Loops in `jam` are
        unrolled into the innermost loops; `copies` are those around, by statement and iterator.
        """
        around = around or {}
        if isinstance(node, Leaf):
            return self._leaf(names, copies)
        known = self._estimates.get(node)
        if known is None:
            known = self._estimates[node] = IdentityMap()
        by_rest = known.get(pairs)
        if by_rest is None:
            by_rest = known[pairs] = {}
        key = self._key(node, names, around, jam, copies)
        if key not in by_rest:
            by_rest[key] = self._estimated(node, names, pairs, around, jam, copies)
        return by_rest[key]

    def _key(
        self,
        node: Node,
        names: Collection[str],
        around: Mapping[str, frozenset[str]],
        jam: Mapping[str, int],
        copies: Copies,
    ) -> Hashable:
        """What the cost of a tree depends on beside the tree and the dependences."""
        fixed = frozenset((name, around.get(name, frozenset())) for name in names)
        if not jam:
            return fixed
        inside = {band.loop for band in bands(node)}
        jams = frozenset((loop, factor) for loop, factor in jam.items() if loop in inside)
        copied = frozenset((name, tuple(copies[name].items())) for name in names if name in copies)
        return (fixed, jams, copied) if jams or copied else fixed

    def _estimated(
        self,
        node: Band | Sequence,
        names: Collection[str],
        pairs: Pairs,
        around: Mapping[str, frozenset[str]],
        jam: Mapping[str, int],
        copies: Copies,
    ) -> Estimate:
        match node:
            case Band():
                return self._band(node, names, pairs, around, jam, copies)
            case _:
                groups = [statements_in(branch.instances) & set(names) for branch in node.filters]
                here = self.known.split_among(pairs, groups)
                parts = [
                    self.estimate(branch.child, group, own, around, jam, copies)
                    for branch, group, own in zip(node.filters, groups, here, strict=True)
                ]
                return self._sum(parts)

    def has_far(self, node: Node, names: Collection[str]) -> bool:
        """Whether some innermost loop walks through memory in other steps than to neighbours."""
        found = False
        for band in bands(node):
            if any(True for _ in bands(band.child)):
                continue
            followed = self.followed(band)
            for name in band.statements & set(names):
                moving = followed.get(name, "")
                strides = (self._stride(r, moving) for r in self._facts[name].references)
                found = found or any(abs(stride) > 1 for stride in strides)
        return found

    def has_buffers(self, node: Node) -> bool:
        """Whether a tree hands spread scalars from one innermost loop to another."""
        innermost = [b.statements for b in bands(node) if not any(True for _ in bands(b.child))]
        inside = frozenset().union(*innermost)
        return any(
            users & inside and not any(users <= names for names in innermost)
            for users in self._spread.values()
        )

    # -- parts ------------------------------------------------------------------------------------

    def _leaf(self, names: Collection[str], copies: Copies) -> Estimate:
        cycles = 0.0
        touched: list[_Touch] = []
        for name in sorted(names):
            facts = self._facts[name]
            own = copies.get(name, {})
            count = math.prod(own.values())
            cycles += count * (facts.arithmetic + facts.slow + 0.5 * len(facts.references))
            trips = tuple((x, float(count)) for x, count in own.items())
            found = (r for r in facts.references if self._in_memory(r))
            touched += (_Touch(name, r, trips, None) for r in found)
        return Estimate(cycles, (0.0,) * len(self._caches), tuple(touched), *self._lines(touched))

    def _band(
        self,
        band: Band,
        names: Collection[str],
        pairs: Pairs,
        around: Mapping[str, frozenset[str]],
        jam: Mapping[str, int],
        copies: Copies,
    ) -> Estimate:
        followed = self.followed(band)
        trips = {name: self._trip(name, followed.get(name), around) for name in names}
        factor = jam.get(band.loop, 1)
        count = max(trips.values()) / factor
        if factor > 1:
            copies = {
                n: {**copies.get(n, {}), followed.get(n, ""): factor if trips[n] > 1 else 1}
                for n in names
            }
        inside = {name: around.get(name, frozenset()) | {followed.get(name, "")} for name in names}
        unordered = self.known.unordered(pairs, band)
        child = self.estimate(band.child, names, unordered, inside, jam, copies)
        is_innermost = not any(True for _ in bands(band.child))
        if is_innermost:
            are_found = self._are_extremes(names, followed)
            is_free = are_found or not self.known.carries(pairs, band)
            body = self._body(names, followed, copies, is_free=is_free, in_lanes=are_found)
            cycles = _START + count * body
        else:
            cycles = count * (child.cycles + _LOOP)
            short = self._short_inside(band, names, copies)
            if short and not self.known.carries(pairs, band):
                cycles = min(cycles, _START + count * self._unrolled(followed, short))
        touched = tuple(
            t.inside(followed.get(t.statement), trips[t.statement])
            for t in child.touched
            if not (is_innermost and not copies and self._is_passed_on(t.reference, names))
        )
        lines, size = self._lines(touched)
        traffic = []
        for level, cache in enumerate(self._caches):
            once = lines * self._line_cycles(level)
            fits = child.size <= _usable(cache)
            traffic.append(once if fits else max(once, count * child.traffic[level]))
        if factor > 1:
            traffic[-1] += self._written_beside(touched, followed, factor)
        return Estimate(cycles, tuple(traffic), touched, lines, size)

    def _written_beside(
        self, touched: Collection[_Touch], followed: Mapping[str, str], factor: int
    ) -> float:
        """Cycles that lines take longer because copies of a loop write rows side by side."""
        found: dict[str, float] = {}
        for touch in touched:
            reference, iterator = touch.reference, followed.get(touch.statement, "")
            is_row = reference.is_written and abs(reference.stride(iterator)) > 1
            if not is_row or reference.array in self._spread:
                continue
            size = bytes_of(self.program.array(reference.array), self._sizes)
            extra = extra_write_cycles(self.machine, size, factor)
            lines = self._measure(touch)[2]
            found[reference.array] = max(found.get(reference.array, 0.0), lines * extra)
        return sum(found.values())

    def _sum(self, parts: list[Estimate]) -> Estimate:
        touched = tuple(t for part in parts for t in part.touched)
        lines, size = self._lines(touched)
        traffic = []
        for level, cache in enumerate(self._caches):
            apart = sum(part.traffic[level] for part in parts)
            together = lines * self._line_cycles(level)
            traffic.append(min(apart, together) if size <= _usable(cache) else apart)
        cycles = sum(part.cycles for part in parts)
        return Estimate(cycles, tuple(traffic), touched, lines, size)

    # -- instructions -----------------------------------------------------------------------------

    def _body(
        self,
        names: Collection[str],
        followed: Mapping[str, str],
        copies: Copies,
        *,
        is_free: bool,
        in_lanes: bool,
    ) -> float:
        """Cycles of one iteration of an innermost loop, all copies of it.

        `in_lanes`: what it gathers is found in vectors.
        """
        facts = {name: self._facts[name] for name in names}
        bits = max(f.bits for f in facts.values())
        moving = {name: followed.get(name, "") for name in names}
        is_vector = is_free and (
            in_lanes or all(not f.gathers & {moving[n]} for n, f in facts.items())
        )
        lanes = self.machine.lanes(bits) if is_vector else 1
        arithmetic = slow = near = far = chain = registers = 0.0
        seen: set[tuple[Any, ...]] = set()
        for name, f in facts.items():
            own = copies.get(name, {})
            count = math.prod(own.values())
            arithmetic += f.arithmetic * count
            slow += f.slow * count
            if not is_vector:
                # Copies are chains beside each other; statements of a loop may be one chain.
                chain = max(chain, f.chain) if is_free else chain + f.chain
            for reference in f.references:
                if not self._in_memory(reference):
                    continue
                if count == 1 and self._is_passed_on(reference, names):
                    continue  # copies have elements of their own, in memory
                stride = self._stride(reference, moving[name])
                uses = math.prod(n for x, n in own.items() if reference.stride(x))
                registers += uses * max(1, reference.reads)
                key = (reference.array, reference.subscripts, moving[name])
                if stride == 0 or (key in seen and not reference.is_written):
                    continue
                seen.add(key)
                uses *= reference.reads + int(reference.is_written)
                if abs(stride) == 1:
                    near += uses
                else:
                    far += uses
        # Lanes far from each other are loaded one by one, then put together.
        apart = far if lanes == 1 else _GATHERED * far
        accesses = near / lanes / self.machine.loads_per_cycle + apart
        spilled = max(0.0, registers - self.machine.vector_registers + _FREE)
        return max(arithmetic / lanes + slow, accesses + spilled, chain) + _LOOP / lanes / 2

    def _are_extremes(self, names: Collection[str], followed: Mapping[str, str]) -> bool:
        return are_extremes([s for s in self.program.statements if s.name in names], followed)

    def _short_inside(self, band: Band, names: Collection[str], copies: Copies) -> Copies | None:
        """How often each statement is repeated in a loop whose inner loops are unrolled whole.

        `copies` are those of loops around. None where inner loops are long (short_loops).
        """
        inner = list(bands(band.child))
        counts = repeated(self._analyses, inner)
        if counts is None:
            return None
        found: dict[str, dict[str, int]] = {name: dict(copies.get(name, {})) for name in names}
        for one, count in zip(inner, counts, strict=True):
            for name, iterator in self.followed(one).items():
                if name in found:
                    found[name][iterator] = count
        return found

    def _unrolled(self, followed: Mapping[str, str], copies: Copies) -> float:
        """Cycles of one iteration of a loop whose inner loops are unrolled whole, in vectors."""
        facts = {name: self._facts[name] for name in copies}
        lanes = self.machine.lanes(max(f.bits for f in facts.values()))
        arithmetic = slow = near = far = 0.0
        for name, own in copies.items():
            count = math.prod(own.values())
            arithmetic += facts[name].arithmetic * count
            slow += facts[name].slow * count
            for reference in facts[name].references:
                stride = abs(reference.stride(followed.get(name, "")))
                if stride and self._in_memory(reference):
                    uses = math.prod(n for x, n in own.items() if reference.stride(x))
                    uses *= reference.reads + int(reference.is_written)
                    near, far = (near + uses, far) if stride == 1 else (near, far + uses)
        accesses = near / lanes / self.machine.loads_per_cycle + far
        return max(arithmetic / lanes + slow, accesses) + _LOOP / lanes / 2

    def _statement(
        self, statement: Statement, trips: Mapping[str, float], gathers: frozenset[str]
    ) -> _Facts:
        fast = slow = chain = 0.0
        fused = 0
        is_own = any(read.array == statement.write.array for read in statement.reads)
        for node in walk(statement.value):
            match node:
                case Binary(op="add" | "sub", x=x, y=y):
                    fast += 0.5
                    fused += any(isinstance(z, Binary) and z.op == "mul" for z in (x, y))
                case Binary(op=op) if op in _SLOW:
                    cost = 7.0 if op == "div" else 20.0
                    slow += cost
                    chain += 2 * cost
                case Call(function="sqrt"):
                    slow += 9.0
                    chain += 18.0
                case Call(function="fma" | "min_number" | "max_number"):
                    fast += 0.5
                case Call():
                    cycles = function_cycles(node, statement.value, self.machine)
                    slow += cycles
                    chain += _SCALAR_CALL if is_own else cycles
                case Binary() | Unary():
                    fast += 0.5
        types = [x.dtype for x in (statement.write, *statement.reads)]
        return _Facts(
            references(statement),
            fast - 0.5 * fused,
            slow,
            max(chain, 3.0),
            trips,
            max((t.bits for t in types), default=64),
            gathers,
        )

    def _trip(self, name: str, iterator: str | None, around: Mapping[str, frozenset[str]]) -> float:
        if iterator is None:
            return _UNKNOWN if self._facts[name].trips else 1.0
        if not iterator or iterator in around.get(name, ()):
            return 1.0
        return self._facts[name].trips[iterator]

    def followed(self, band: Band) -> dict[str, str]:
        """The iterator of each statement whose values a loop runs through; "" for a constant."""
        known = self._followed.get(band.partial)
        if known is None:
            known = {
                name: self.program.statement(name).iterators[at]
                for name, (at, _) in directions(band).items()
            }
            for name in unmoved(band):
                known.setdefault(name, "")
            self._followed[band.partial] = known
        return known

    # -- data -------------------------------------------------------------------------------------

    def _in_memory(self, reference: Reference) -> bool:
        return reference.array not in self._registers

    def _is_passed_on(self, reference: Reference, names: Collection[str]) -> bool:
        """Whether a register hands on what one of the statements of an innermost loop sets."""
        users = self._spread.get(reference.array)
        return users is not None and users <= set(names)

    def _stride(self, reference: Reference, iterator: str) -> int:
        stride = reference.stride(iterator)
        return min(1, abs(stride)) if reference.array in self._spread else stride

    def _lines(self, touched: Collection[_Touch]) -> tuple[float, float]:
        """Lines that the touches bring in, weighted by what they cost; and bytes they take."""
        most: dict[tuple[Any, ...], tuple[float, float]] = {}
        line = self._caches[0].line
        for touch in touched:
            key, weight, lines = self._measure(touch)
            old = most.get(key, (0.0, 0.0))
            most[key] = max(old[0], lines * weight), max(old[1], lines)
        total = sum(weighted for weighted, _ in most.values())
        return total, line * sum(lines for _, lines in most.values())

    def _measure(self, touch: _Touch) -> tuple[tuple[Any, ...], float, float]:
        """What a touch shares with others of its kind, the weight of a line, and its lines."""
        reference = touch.reference
        # By identity: each reference of a statement is one object, and its hash takes long.
        key = id(reference), touch.trips, touch.inner
        known = self._measured.get(key)
        if known is None:
            lines = self._lines_of(reference, dict(touch.trips))
            weight = 1.0 + 0.5 * reference.is_written
            if touch.inner is not None and abs(self._stride(reference, touch.inner)) > 1:
                weight *= _STRIDED
            known = self._measured[key] = (reference.array, _shape(touch)), weight, lines
        return known

    def _lines_of(self, reference: Reference, trips: Mapping[str, float]) -> float:
        line = self._caches[0].line
        if reference.array not in self._spread:
            return reference.lines(trips, line)
        moving = {x for subscript in reference.subscripts for x, _ in subscript}
        elements = math.prod(count for x, count in trips.items() if x in moving)
        return max(1.0, elements * reference.element / line)

    def _line_cycles(self, level: int) -> float:
        """Cycles to bring a line into the cache of a level from what lies behind it."""
        line = self._caches[level].line
        if level + 1 < len(self._caches):
            rate = self._caches[level + 1].bytes_per_cycle or 16.0 / (level + 1)
        else:
            rate = self.machine.memory_bytes_per_cycle or 4.0
        return line / rate


def _usable(cache: Cache) -> float:
    """Bytes of a cache that a nest can count on."""
    return 0.75 * cache.size / max(1, cache.shared_by if cache.level > 2 else 1)


def _shape(touch: _Touch) -> tuple[Any, ...]:
    """Touches of one array that run through the same elements have the same shape."""
    trips = dict(touch.trips)
    return tuple(
        tuple(sorted((c, round(trips.get(x, 1.0))) for x, c in subscript))
        for subscript in touch.reference.subscripts
    )
