"""What a nest costs in the order of the source, and with vectors along one of its outer loops.

For one iteration of a loop, all statements of its innermost loops,

    cycles = trips * max(arithmetic, divisions, loads and stores, chain) + what a loop costs

where a chain is a circle of statements in which every iteration waits for the one before. In the
order of the source an innermost loop that carries no value has vectors of its own. With vectors
along an outer loop a chain serves all lanes: the order of every sum is kept, and W sums run beside
each other. Elements that are no neighbours along that loop are loaded one by one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from loopwright.analysis.dependences import strongly_connected_components
from loopwright.analysis.reductions import reductions
from loopwright.analysis.size_estimates import band_trips, references, trips_at
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Unary
from loopwright.ir.machine import Machine
from loopwright.ir.program import Array, Role, Statement
from loopwright.ir.schedule_tree import Band, Leaf, Node, bands, moved_by, statements_in
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import children, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.vectorize_outer import has_room
from loopwright.planner.cost.carried_values import carried_cycles
from loopwright.planner.cost.extreme_loops import are_extremes
from loopwright.planner.cost.lane_ranges import has_windows
from loopwright.planner.cost.statement_work import whole_operations
from loopwright.transform.band_dependences import KnownDependences, edges

__all__ = ["OuterCost", "Shape"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }

_LOOP = 1.0  # cycles of one more iteration of a loop
_START = 12.0  # to start a loop whose length compilers do not know: remainder, mispredicted end
_WRITTEN_OUT = 8  # iterations of loops that compilers write out
_SCALAR_DIVISION = 4.0  # cycles that processors take at least for one division
_ROOT = 1.4  # times as long as a division
_INSERT = 1.0  # cycles to bring one element into its lane
_TURN = 2.0  # operations that put the lanes of a vector into the other order
_COMPUTED_EACH = 10  # operations for an element from far apart, at least
_MOST_ELEMENTS = 8  # of a local array that stays in registers
_FREE = 4  # vector registers for what is the same in all lanes
_ALL_TEMPORARIES = 4  # scalars that are alive at a time beside those that live through the loop


@dataclass(frozen=True, slots=True)
class Shape:
    """Vectors along a loop."""

    loop: str  # of the tree
    lanes: int
    copies: int


class OuterCost:
    """Costs of trees over the statements of one program."""

    def __init__(
        self,
        analyses: AnalysisManager,
        machine: Machine,
        sizes: Mapping[str, int],
    ) -> None:
        program = self.program = analyses.program
        self.machine = machine
        self.sizes = dict(sizes)
        self.trips = trips_at(analyses, sizes)
        self.scalars = {a.name for a in program.arrays if a.role is Role.LOCAL and not a.rank}
        self.small: dict[str, int] = {
            a.name: int(_elements(a))
            for a in program.arrays
            if a.role is Role.LOCAL and a.rank and _elements(a) <= _MOST_ELEMENTS
        }
        self.references = {s.name: references(s) for s in program.statements}
        self.fixed = {
            r.statement: frozenset(r.loops)
            for r in analyses.get(reductions)
            if not r.is_reorderable
        }
        self.known = KnownDependences()

    def cycles(self, band: Band, pairs: Pairs, shape: Shape | None = None) -> float:
        """Cycles of all iterations of a loop; with vectors along it or along one inside.

        `pairs` stay in order inside of an iteration of the loops around it.
        """
        own = self.known.among(pairs, band.statements)
        return self._node(band, band.statements, own, None, shape)

    def count(self, band: Band) -> float:
        """Iterations of a loop in one run of it."""
        return band_trips(band, self.program, self.trips)

    def has_far(self, band: Band) -> bool:
        """Whether an inner loop would gather the lanes along a loop from far apart, every time.

        Each lane then walks through lines of its own, which this model does not count. That is no
        matter where much is computed for each such element.
        """
        outer = moved_by(band, self.program)
        gathered = computed = 0.0

        def visit(node: Node, names: frozenset[str], times: float, inner: Sequence[Band]) -> None:
            nonlocal gathered, computed
            match node:
                case Band(child=child):
                    visit(child, names, times * self.count(node), (*inner, node))
                case InOrder(filters=filters):
                    for branch in filters:
                        own = names & statements_in(branch.instances)
                        visit(branch.child, own, times, inner)
                case _:
                    moving = [moved_by(b, self.program) for b in inner]
                    for name in names:
                        every = walk(self.program.statement(name).value)
                        computed += times * sum(map(_is_computed, every))
                        gathered += times * sum(
                            reference.stride(outer.get(name, "")) not in (0, 1)
                            and any(reference.stride(found.get(name, "")) for found in moving)
                            for reference in self.references[name]
                            if reference.array not in self.scalars
                        )

        visit(band.child, band.statements, 1.0, ())
        return gathered * _COMPUTED_EACH > computed

    def least_bits(self, band: Band) -> int:
        """Bits of the narrowest elements that lanes along a loop access."""
        outer = moved_by(band, self.program)
        used = [(name, r) for name in band.statements for r in self.references[name]]
        moving = [r.element for name, r in used if r.stride(outer.get(name, ""))]
        return 8 * min(moving, default=1)

    def registers(self, band: Band) -> int:
        """Vectors that one copy of the body of a loop keeps in registers, at most."""
        most = 0
        for inner in bands(band.child):
            if any(True for _ in bands(inner.child)):
                continue
            outer, moving = moved_by(band, self.program), moved_by(inner, self.program)
            kept, own = set[object](), set[str]()
            for name in inner.statements:
                for reference in self.references[name]:
                    if reference.array in self.small:
                        count = self.small[reference.array]
                        kept.update((reference.array, at) for at in range(count))
                    elif reference.array in self.scalars:
                        own.add(reference.array)
                        if not self._users(reference.array) <= inner.statements:
                            kept.add(reference.array)
                    elif not reference.stride(moving.get(name, "")) and reference.stride(
                        outer.get(name, "")
                    ):
                        kept.add((reference.array, reference.subscripts))
            most = max(most, len(kept) + min(_ALL_TEMPORARIES, len(own - kept)))
        return most

    def fits(self, band: Band, copies: int) -> bool:
        """Whether so many copies of the body of a loop find room in registers."""
        return copies * self.registers(band) + _FREE <= self.machine.vector_registers

    def has_windows(self, band: Band) -> bool:
        """Whether ranges of loops inside of one differ at the borders of arrays only."""
        return has_windows(self.program, band, self.sizes, self.trips)

    def has_room(self, band: Band, width: int) -> bool:
        """Whether local arrays of an iteration of a loop have room for so many iterations."""
        return all(
            has_room(array.shape, array.dtype, width)
            for array in self.program.arrays
            if array.role is Role.LOCAL and self._users(array.name) <= band.statements
        )

    # -- trees ------------------------------------------------------------------------------------

    def _node(
        self,
        node: Node,
        names: Collection[str],
        pairs: Pairs,
        lanes: Mapping[str, str] | None,
        shape: Shape | None,
    ) -> float:
        """Cycles of one run; `lanes` has the iterators of the loop that vectors lie along."""
        match node:
            case Leaf():
                return self._body(names, {}, lanes, shape, 0.0, is_free=False)
            case Band():
                return self._band(node, names, pairs, lanes, shape)
            case _:
                return sum(
                    self._node(
                        branch.child,
                        (own := statements_in(branch.instances) & set(names)),
                        self.known.among(pairs, own),
                        lanes,
                        shape,
                    )
                    for branch in node.filters
                )

    def _band(
        self,
        band: Band,
        names: Collection[str],
        pairs: Pairs,
        lanes: Mapping[str, str] | None,
        shape: Shape | None,
    ) -> float:
        moving = moved_by(band, self.program)
        trips = self.count(band)
        inside = self.known.unordered(pairs, band)
        if shape is not None and band.loop == shape.loop:
            width = shape.lanes * shape.copies
            whole = self._node(band.child, names, inside, moving, shape)
            alone = self._node(band.child, names, inside, None, None)
            full = trips // width
            return full * (whole + _LOOP) + (trips - full * width) * (alone + _LOOP)
        start = 0.0 if trips <= _WRITTEN_OUT else _START
        around = 0.0 if trips <= _WRITTEN_OUT else _LOOP
        if any(True for _ in bands(band.child)):
            return trips * (self._node(band.child, names, inside, lanes, shape) + around) + start
        is_free = self._is_any_order(names, moving) or not self.known.carries(pairs, band)
        is_free = is_free and all(moving.get(n) not in self.fixed.get(n, ()) for n in names)
        chain = 0.0 if is_free else self._chain(names, pairs)
        body = self._body(names, moving, lanes, shape, chain, is_free=is_free)
        if lanes is None and is_free:
            own = self.machine.lanes(self._bits(names))
            trips = -(-trips // own) if trips > _WRITTEN_OUT else trips
        return trips * (body + around / 2) + start

    # -- instructions -----------------------------------------------------------------------------

    def _body(
        self,
        names: Collection[str],
        moving: Mapping[str, str],
        lanes: Mapping[str, str] | None,
        shape: Shape | None,
        chain: float,
        *,
        is_free: bool,
    ) -> float:
        """Cycles of one iteration: of an element, of a vector along it, or of all lanes."""
        count = self.machine.lanes(self._bits(names))
        is_outer = lanes is not None and shape is not None
        width = count if is_free else 1
        if is_outer and shape is not None:
            width = shape.lanes * shape.copies
        copies = max(1.0, width / count)
        along = lanes if is_outer and lanes is not None else moving
        fast = slow = 0.0
        for name in names:
            statement = self.program.statement(name)
            if statement.write.dtype.is_integer:
                fast += whole_operations(statement.value, width, self._vectors) / 2
                continue
            operations, divisions = _operations(statement)
            cost = self.machine.cost("div", str(statement.write.dtype))
            vector = 1 / cost.per_cycle
            each = vector if width > 1 else max(_SCALAR_DIVISION, vector / count)
            fast += operations * copies / 2
            slow += divisions * each * copies
        near, far, turned = self._accesses(names, moving, along, width)
        loads = near / self.machine.loads_per_cycle + far * _INSERT
        return max(fast + turned * _TURN / 2, slow, loads, chain)

    def _vectors(self, width: int, bits: int) -> float:
        """Registers that so many elements take; one for an element alone."""
        return max(1.0, width * bits / (8 * self.machine.vector_bytes))

    def _is_any_order(self, names: Collection[str], moving: Mapping[str, str]) -> bool:
        """Whether a loop gathers integers or takes extremes only, in vectors in any order."""
        statements = [s for s in self.program.statements if s.name in names]
        if are_extremes(statements, moving):
            return True
        is_whole = all(statement.write.dtype.is_integer for statement in statements)
        return is_whole and not carried_cycles(statements, moving, self.machine)

    def _accesses(
        self,
        names: Collection[str],
        moving: Mapping[str, str],
        along: Mapping[str, str],
        width: int,
    ) -> tuple[float, float, float]:
        """Accesses of whole vectors or of one element for all lanes, and of single elements.

        And vectors whose lanes lie in memory in the other direction.
        """
        near = far = turned = 0.0
        seen: set[object] = set()
        for name in names:
            for reference in self.references[name]:
                key = reference.array, reference.subscripts
                if reference.array in self.scalars or (key in seen and not reference.is_written):
                    continue
                if moving and not reference.stride(moving.get(name, "")):
                    continue  # kept in a register
                seen.add(key)
                uses = reference.reads + int(reference.is_written)
                stride = reference.stride(along.get(name, ""))
                if abs(stride) > 1 and width > 1:
                    far += uses * width
                else:
                    vectors = uses * (self._vectors(width, 8 * reference.element) if stride else 1)
                    near += vectors
                    turned += vectors if stride < 0 and width > 1 else 0.0
        return near, far, turned

    def _chain(self, names: Collection[str], pairs: Pairs) -> float:
        """Cycles of the longest circle of statements that an iteration hands to the next one."""
        own = edges(pairs)
        longest = 0.0
        for group in strongly_connected_components(sorted(names), own):
            if len(group) == 1 and (group[0], group[0]) not in own:
                continue
            written = {self.program.statement(name).write.array for name in group}
            each = (self._latency(self.program.statement(name), written) for name in group)
            longest = max(longest, sum(each))
        return longest

    def _latency(self, statement: Statement, arrays: Collection[str]) -> float:
        """Cycles from elements of some arrays to the value of a statement."""
        dtype = str(statement.write.dtype)

        def depth(expr: Expr) -> float | None:
            if isinstance(expr, Load) and expr.array in arrays:
                return 0.0
            inner = [found for part in children(expr) if (found := depth(part)) is not None]
            return max(inner) + self._cost(expr, dtype) if inner else None

        return depth(statement.value) or 0.0

    def _cost(self, expr: Expr, dtype: str) -> float:
        match expr:
            case Binary(op="div"):
                return self.machine.cost("div", dtype).latency
            case Call(function="sqrt"):
                return _ROOT * self.machine.cost("div", dtype).latency
            case Binary(op="add" | "sub", x=x, y=y):
                is_fused = any(isinstance(part, Binary) and part.op == "mul" for part in (x, y))
                fused = self.machine.fused("fma", dtype) if is_fused else None
                return self.machine.cost("add", dtype).latency if fused is None else fused.latency
            case Binary(op="mul"):
                return self.machine.cost("mul", dtype).latency
            case Binary() | Unary() | Call() | Select():
                return 2.0
        return 0.0

    def _bits(self, names: Collection[str]) -> int:
        statements = (self.program.statement(name) for name in names)
        return max((s.write.dtype.bits for s in statements), default=64)

    def _users(self, array: str) -> frozenset[str]:
        return frozenset(
            name for name, found in self.references.items() if array in {r.array for r in found}
        )


def _is_computed(node: Expr) -> bool:
    """Whether a node is an operation on numbers, none of a subscript."""
    return isinstance(node, Binary | Unary | Call | Select) and not node.dtype.is_integer


def _elements(array: Array) -> float:
    """The elements of an array of constant extents; infinitely many of others."""
    extents = [extent.value for extent in array.shape if isinstance(extent, Const)]
    numbers = [extent for extent in extents if isinstance(extent, int)]
    return math.prod(numbers) if len(numbers) == array.rank else math.inf


def _operations(statement: Statement) -> tuple[int, float]:
    """Operations that a processor starts in one go, a product and its sum as one; divisions."""
    fast, slow = 0, 0.0
    for node in walk(statement.value):
        match node:
            case Binary(op="add" | "sub", x=x, y=y):
                fast += not any(isinstance(part, Binary) and part.op == "mul" for part in (x, y))
            case Binary(op="div"):
                slow += 1.0
            case Call(function="sqrt"):
                slow += _ROOT
            case Binary() | Unary() | Call() | Select():
                fast += 1
    return fast, slow
