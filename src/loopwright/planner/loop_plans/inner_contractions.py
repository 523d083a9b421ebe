"""Contractions inside larger programs: which loops run by kernels.

For every statement that adds products of two array elements:

    1. accumulators that all iterations share get a copy for each (ExpandArray)
    2. the statement gets loops of its own (DistributeStatements), or where it and others depend
       on each other, permutable loops together with them (Reschedule): factorisations
    3. a nest that is rectangular but for its guards becomes a contraction (Contract); of any other
       one the loop over rows, or over the reduction, is cut into strips, and the boxes inside
       the strips are contracted, of the rest those inside narrower strips, and so on
       (StripMine, SeparateBox)

Every step is tried and kept only when it is legal. What is left is planned as any other loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.analysis.product_nest import is_banded, sum_of_products
from loopwright.analysis.size_estimates import likely_trips
from loopwright.analysis.update_statements import elements, is_reorderable
from loopwright.ir.contraction import LOOPS, AffineSubscripts, InnerContraction, InnerProduct
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.islkit import bounded
from loopwright.ir.kernel_variant import KernelVariant
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    bands,
    directions,
    nodes_of,
    perfect_nest,
)
from loopwright.ir.visit import names, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.contraction_plans.gemm_model import gemm_blocks
from loopwright.planner.contraction_plans.gemm_plan import plan_inner_product
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.split_panels import split_panel
from loopwright.transform.contract import Contract
from loopwright.transform.index_set_splitting import SeparateBox
from loopwright.transform.interchange import Interchange
from loopwright.transform.isl_scheduler import permutable_nest
from loopwright.transform.loop_fusion import isolate
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.privatize import ExpandArray
from loopwright.transform.scalar_expansion import ExpandScalar, SplitLiveRanges, expandable_loops
from loopwright.transform.schedule_legality import accessors
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = [
    "Roles",
    "contract_step",
    "plan_contractions",
    "plan_text_contractions",
    "roles_of",
    "strip_widths",
]

_QUOTA = 2_000_000  # isl operations for the contractions of one statement
_PANEL_QUOTA = 1_500_000  # and for what is left of strips of its reduction
_BATCHES = 2  # products of a loop around a contraction that each thread must get


def plan_contractions(
    schedule: Schedule, machine: Machine, *, parallel: bool, integers: bool = True
) -> tuple[Step, ...]:
    """Steps that contract the loops of `schedule` for which that is worth it.

    `integers`: products of integers too.
    """
    draft = Draft(schedule)
    for name in [statement.name for statement in schedule.program.statements]:
        program = draft.schedule.program
        statement = program.statement(name)
        found = roles_of(program, statement) if integers or _is_floating(statement) else None
        taken = {x for made in draft.schedule.contractions for x in made.statements}
        if found is not None and name not in taken:
            _Planner(draft, machine, parallel, name).attempt(found)
    return tuple(draft.steps)


def plan_text_contractions(
    schedule: Schedule, machine: Machine, *, parallel: bool
) -> tuple[Step, ...]:
    """As `plan_contractions`, for C: its compilers keep tiles of floating types in registers only.

    Plain loops over integers beat those tiles (500 x 500 on Neoverse N1 by gcc: bytes 5 times,
    16 bits twice, 32 and 64 bits hardly). Tiles leave registers for what gcc loads ahead on x86-64:
    14 x 2 sums of 32 registers go to memory and back. Of NumPy's equal products on a Sapphire
    Rapids, with 14, 12, 11 and 10 rows: attention 0.70, 0.75, 0.74, 0.75, batches of 100 x 100
    0.68, 0.72, 0.71, 0.78.
    """
    if machine.isa == "x86_64" and machine.vector_registers >= _MANY_REGISTERS:
        machine = replace(machine, vector_registers=machine.vector_registers - _AHEAD)
    return plan_contractions(schedule, machine, parallel=parallel, integers=False)


def _is_floating(statement: Statement) -> bool:
    return statement.value.dtype.is_float or statement.value.dtype.is_complex


def _is_like(one: Statement, other: Statement) -> bool:
    """Whether two statements are built alike, whatever elements of their arrays they use."""

    def shape(expr: Expr) -> Expr:
        return rewrite(expr, lambda x: Load(x.array, (), x.dtype) if isinstance(x, Load) else x)

    return one.write.array == other.write.array and shape(one.value) == shape(other.value)


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a nest that are to be contracted."""

    i: str
    j: str
    p: str

    @property
    def names(self) -> tuple[str, str, str]:
        return self.i, self.j, self.p


_MANY_REGISTERS = 32
_AHEAD = 8  # of them, for what compilers of C load ahead

# Statements that make a box, and whether it runs before (0) or after (1) what is left of the nest.
_Way: TypeAlias = tuple[tuple[str, ...], int]
_State: TypeAlias = tuple[Schedule, tuple[Step, ...]]


class _Planner:
    """Contracts the loops of one statement."""

    def __init__(self, draft: Draft, machine: Machine, parallel: bool, statement: str) -> None:
        self.draft = draft
        self.machine = machine
        self.shares = machine.cores if parallel else 1
        self.statement = statement
        dtype = draft.schedule.program.statement(statement).write.dtype
        self.widths = strip_widths(machine, dtype.name)
        self.reached = self._state()  # what is kept when isl's quota ends the search
        self.panel: tuple[list[str], int] | None = None  # loops of what is left, and their strips

    def attempt(self, roles: Roles) -> None:
        """As `plan`, but no more than isl gets done within the quota."""
        self.reached, self.panel = self._state(), None
        bounded(lambda: self.plan(roles), lambda _: self._back(self.reached), _QUOTA)
        self._part_panel()

    def _part_panel(self) -> None:
        if self.panel is not None:
            before = self._state()
            part = partial(split_panel, self.draft, *self.panel, self.shares)
            bounded(part, lambda _: self._back(before), _PANEL_QUOTA)

    def plan(self, roles: Roles) -> None:
        """Contractions of the loops of the given roles; nothing changes where there can be none."""
        before = self._state()
        if self._expanded(roles):
            expanded = self._state()
            self._batches_first(roles)
            if self._isolated(roles) and self._contracted(roles, (roles.i, roles.j)):
                return
            self._back(expanded)
            if self._permutable(roles) and self._contracted(roles, (roles.p,)):
                return
        self._back(before)

    def _state(self) -> _State:
        return self.draft.schedule, tuple(self.draft.steps)

    def _back(self, state: _State) -> None:
        """Forget the steps since a state."""
        self.draft.schedule, self.draft.steps = state[0], list(state[1])

    # -- ways to a nest of its own ----------------------------------------------------------------

    def _expanded(self, roles: Roles) -> bool:
        if not roles.missing:
            return True
        loops = self._loops()
        if not set(roles.missing) <= loops.keys():
            return False
        self.draft.take(SplitLiveRanges(self._out()))
        return self.draft.take(
            ExpandArray(self._out(), tuple(loops[name] for name in roles.missing))
        )

    def _out(self) -> str:
        return self.draft.schedule.program.statement(self.statement).write.array

    def _batches_first(self, roles: Roles) -> None:
        """Bring the loops that no role has around those of the roles, as far as others share them.

        Initial values and epilogues then stay with each product, whose results are in the caches.
        """
        wanted = {roles.i, roles.j, roles.p}
        iterators = {loop: name for name, loop in self._loops().items()}
        shared = [b.loop for b in perfect_nest(self._path()[0]) if b.statements != {self.statement}]
        outer = [loop for loop in shared if iterators.get(loop) not in wanted]
        self._ordered(shared, outer + [loop for loop in shared if loop not in outer])

    def _isolated(self, roles: Roles) -> bool:
        """Whether the statement has all loops of its roles for itself, by a step if need be.

        As far in as that is possible: what stands before and after it stays in the loops around.
        """
        wanted = {roles.i, roles.j, roles.p}
        iterators = {loop: name for name, loop in self._loops().items()}
        around: list[str] = []
        for band in self._path():
            if band.statements == {self.statement}:
                return True
            around.append(band.loop)
            if iterators.get(band.loop) in wanted:
                break
        steps = (isolate(self.draft.schedule, loop, self.statement) for loop in reversed(around))
        return any(step is not None and self.draft.take(step) for step in steps)

    def _permutable(self, roles: Roles) -> bool:
        """Whether the statement and all that depend on it can share one nest of its loops."""
        path = self._path()
        if len(self._loops()) != 3:
            return False
        # A scalar that every iteration uses keeps all of them in order.
        analyses = self.draft.schedule.analyses
        for array in analyses.program.arrays:
            users = accessors(analyses, array.name)
            if array.role is Role.LOCAL and not array.rank and users & path[0].statements:
                over = expandable_loops(analyses, array.name)
                if not over or not self.draft.take(ExpandScalar(array.name, over)):
                    return False
        step = permutable_nest(self.draft.schedule, path[0].loop, self.statement)
        if step is None or not self.draft.take(step):
            return False
        loops = self._loops()
        order = [loops[name] for name in (roles.p, roles.i, roles.j)]
        return self._ordered([band.loop for band in self._path()], order)

    def _path(self, statement: str = "") -> list[Band]:
        """The loops around the statement, or another one, outermost first."""
        found = bands(nodes_of(self.draft.schedule))
        return [band for band in found if (statement or self.statement) in band.statements]

    def _loops(self, statement: str = "") -> dict[str, str]:
        """Iterator of the statement, or of another one -> the loop that runs over it."""
        name = statement or self.statement
        iterators = self.draft.schedule.program.statement(name).iterators
        found: dict[str, str] = {}
        for band in self._path(name):
            place, direction = directions(band).get(name, (0, 0))
            if direction:
                found[iterators[place]] = band.loop
        return found

    # -- contractions -----------------------------------------------------------------------------

    def _contracted(self, roles: Roles, strips: tuple[str, ...]) -> bool:
        """Contract the innermost nest of the statement: as one, or by strips of some loop."""
        loops = self._loops()
        wanted = [loops.get(name, "") for name in (roles.i, roles.j, roles.p)]
        nest = [perfect_nest(band) for band in self._path()]
        own = next((run for run in nest if isinstance(run[-1].child, Leaf)), ())
        names = [band.loop for band in own]
        if not set(wanted) <= set(names):
            return False
        outer = [name for name in names if name not in wanted]
        inner = [name for name in names if name in wanted]
        if not self._ordered(names, outer + inner):
            return False
        triple = _Loops(*wanted)
        if self._contract(triple, {}):
            return True
        for loop in (loops[name] for name in strips):
            ways = self._ways(triple, is_reduction=loop == triple.p)
            first = [loop, *(name for name in inner if name != loop)]
            before = self._state()
            if self._ordered(inner, first) and self._strips(triple, first, loop, 0, ways):
                return True
            self._back(before)
        return False

    def _ordered(self, names: list[str], order: list[str]) -> bool:
        """Bring nested loops into an order."""
        same = 0
        while same < len(names) and names[same] == order[same]:
            same += 1
        return same == len(names) or self.draft.take(Interchange(tuple(order[same:])))

    def _contract(self, nest: _Loops, most: dict[str, int]) -> bool:
        schedule = self.draft.schedule
        found = inner_contraction(schedule.program, schedule.tree, nest.names)
        if isinstance(found, str):
            return False
        step = contract_step(found, nest.names, self.machine, most, self.shares)
        if step is None:
            return False
        if self.shares > 1 and self._has_batches(nest, replace(step, shares=1)):
            step = replace(step, shares=1)
        if not self.draft.take(step):
            return False
        self.reached = self._state()
        return True

    def _has_batches(self, nest: _Loops, serial: Step) -> bool:
        """Whether threads get whole products: those of a long free loop around the contraction.

        They then meet once, not for every product. Strips of its own loops do not count:
        what is done in them grows from one to the next.
        """
        trips = self.draft.schedule.analyses.get(likely_trips)
        own = {iterator for iterator, loop in self._loops().items() if loop in nest.names}
        batches = {
            loop: trips.get(self.statement, {}).get(iterator, 0.0)
            for iterator, loop in self._loops().items()
            if iterator not in own
        }
        # The planner of threads looks for a parallel loop no further in than this.
        for band in self._path()[:2]:
            is_long = batches.get(band.loop, 0.0) >= _BATCHES * self.shares
            shared = (*self.draft.copies(band), Parallel(band.loop))
            if is_long and self.draft.reach(serial, *shared) is not None:
                return True
        return False

    def _program(self) -> Program:
        return self.draft.schedule.program

    def _strips(
        self, nest: _Loops, order: list[str], strip: str, level: int, ways: list[list[_Way]]
    ) -> bool:
        """Contractions in the boxes of strips of a loop, and narrower ones in what is left of it.

        Boxes are looked for by each list of ways; what goes one way goes the same way further in.
        """
        before = self._state()
        width = self.widths[level]
        found = False
        if self.draft.take(StripMine(strip, width)):
            for number, choices in enumerate(ways):
                while rest := self._box(nest, order, (strip, width), choices):
                    found = True
                    nest, order, strip, way = rest
                    choices = ways[number] = [way]
        if not found:
            self._back(before)
        elif level + 1 == len(self.widths) or not self._strips(nest, order, strip, level + 1, ways):
            # What is left of strips of the reduction is parted last, with a quota of its own.
            self.panel = (order, width) if strip == nest.p else None
        return found

    def _box(
        self, nest: _Loops, order: list[str], strip: tuple[str, int], ways: Sequence[_Way]
    ) -> tuple[_Loops, list[str], str, _Way] | None:
        """Contract the largest box of a nest; the loops of what is left, None without a box."""
        loop, width = strip
        for way in ways:
            before = self._state()
            known = set(self._names())
            if not self.draft.take(SeparateBox(tuple(order), (loop,), *way)):
                continue
            rest = [name for name in self._names() if name not in known]
            if self._contract(nest, {loop: width}):
                turned = dict(zip(order, rest, strict=True))
                inner = _Loops(*(turned[name] for name in nest.names))
                return inner, rest, turned[loop], way
            self._back(before)
        return None

    def _ways(self, nest: _Loops, *, is_reduction: bool) -> list[list[_Way]]:
        """How boxes may be split off a nest, for each group of its statements that do the same."""
        program = self.draft.schedule.program
        inside = next(b for b in self._path() if b.loop == nest.p).statements
        others = [s for s in program.statements if s.name in inside and s.name != self.statement]
        own = program.statement(self.statement)
        alike = [own.name, *(s.name for s in others if _is_like(s, own))]
        groups = [[tuple(alike), (own.name,)] if len(alike) > 1 else [(own.name,)]]
        groups += [
            [(other.name,)]
            for other in others
            if other.name not in alike and self._has_loops(other, nest)
        ]
        # What is left of a strip of the reduction makes the factors that the box needs.
        order = (1, 0) if is_reduction else (0, 1)
        return [[(chosen, last) for chosen in group for last in order] for group in groups]

    def _has_loops(self, statement: Statement, nest: _Loops) -> bool:
        """Whether another statement would be contracted by the same loops."""
        roles = roles_of(self.draft.schedule.program, statement)
        if roles is None or roles.missing:
            return False
        loops = self._loops(statement.name)
        return [loops.get(name) for name in (roles.i, roles.j, roles.p)] == [*nest.names]

    def _names(self) -> list[str]:
        return [band.loop for band in bands(nodes_of(self.draft.schedule))]


# -- which loops of a statement would be the rows, columns and steps of a matrix product ----------


@dataclass(frozen=True, slots=True)
class Roles:
    """Iterators of a statement `out plus= left times right`."""

    i: str  # of one factor and out
    j: str  # of the other factor and out; along out's last dimension where that is possible
    p: str  # of both factors, not of out
    missing: tuple[str, ...]  # among i and j: out has one element for all their iterations


def roles_of(program: Program, statement: Statement) -> Roles | None:
    """The loops to contract; None when the statement has no such loops."""
    if statement.write.dtype.is_complex or statement.write.dtype.kind == "b":
        return None
    total = sum_of_products(program, statement, statement.iterators)
    if isinstance(total, str):
        return None
    order = statement.iterators
    written = {name for entry in statement.write.index for name in names(entry)}
    pairs = []
    for product in total.products:
        assert product.right is not None
        sides = [
            {n for load in elements(value, order) for n in names(load)} & set(order)
            for value in (product.left, product.right)
        ]
        pairs.append((sides[0], sides[1]))
    summed = set.intersection(*(x & y for x, y in pairs)) - written
    steps = _steps(program, statement, total.plus, summed)
    first, second = pairs[0]
    one, other = (_loop(order, side, written) for side in (first - second, second - first))
    if steps is None or one is None or other is None:
        return None
    i, j = (one, other) if _is_column(statement, order, written, other, one) else (other, one)
    if not all({i in x, i in y} == {j in x, j in y} == {True, False} for x, y in pairs):
        return None
    if is_banded(statement, (i, j, steps)):
        return None
    missing = tuple(name for name in order if name in (i, j) and name not in written)
    return Roles(i, j, steps, missing)


def _steps(
    program: Program, statement: Statement, plus: str | Expr, summed: set[str]
) -> str | None:
    """The loop of the reduction that kernels run: the innermost keeps the order of the sum.

    Where sums may be reordered it is the longest: windows of convolutions are short.
    """
    if len(summed) < 2 or not is_reorderable(plus, statement.write.dtype, program):
        return _innermost(statement.iterators, summed)
    trips = likely_trips(program).get(statement.name, {})
    return max(summed, key=lambda x: (trips.get(x, 0.0), statement.iterators.index(x)))


def _loop(order: tuple[str, ...], side: set[str], written: set[str]) -> str | None:
    """The loop of one factor that serves best: one of out where there is any."""
    return _innermost(order, side & written) or _innermost(order, side)


def _innermost(order: tuple[str, ...], names: Iterable[str]) -> str | None:
    return max(names, key=order.index, default=None)


def _is_column(
    statement: Statement, order: tuple[str, ...], written: set[str], name: str, other: str
) -> bool:
    """Whether vectors should rather run along `name` than along `other`."""
    last = names(statement.write.index[-1]) if statement.write.index else set()
    if (name in last) != (other in last):
        return name in last
    if (name in written) != (other in written):
        # The one out does not have yet becomes one of its first dimensions.
        return name in written
    return order.index(name) > order.index(other)


# -- tile, packing and blocks for an inner contraction: the model of products on expected sizes ---


_STEPS = 2  # that a pass over out is worth; those of three, rows of windows, beat loops (N1)
_FEWEST = 1 << 14  # products that packing and the like are worth
_LARGE = 2048  # what is expected of extents that only a call tells
_STRIPS = (32, 8, 2)  # widths of strips in register tiles
_APART = 1 << 13  # elements from row to row of an array whose last extent only a call tells


def contract_step(
    found: InnerContraction,
    loops: tuple[str, str, str],
    machine: Machine,
    most: Mapping[str, int],
    shares: int,
) -> Contract | None:
    """The step that contracts the loops; None when they are too few to be worth it.

    `most` says of some loops how many iterations they have at most.
    """
    extents = tuple(_extent(found, k, most.get(loop)) for k, loop in enumerate(loops))
    planned = [_planned(found, product, extents, machine) for product in found.products]
    variant, blocks = planned[0]
    if extents[0] < variant.rows // 2 or extents[1] < variant.lanes or extents[2] < _STEPS:
        return None
    if math.prod(extents) < _FEWEST:
        return None
    variants = tuple(
        replace(variant, left_packing=own.left_packing, right_packing=own.right_packing)
        for own, _ in planned
    )
    return Contract(loops, variants, blocks, shares)


def strip_widths(machine: Machine, dtype: str) -> tuple[int, ...]:
    """Iterations of the strips that a loop is cut into, from the widest to the last.

    Each is a fourth of the one before: little work is left outside of kernels, and most of it is in
    wide ones (measured on Neoverse N1: 192, 48, 12 beat 96, 24, 6 and 256, 64, 16).
    """
    rows = gemm_blocks(machine, "add", "mul", dtype).m_r
    return tuple(rows * tiles for tiles in _STRIPS)


def _extent(found: InnerContraction, k: int, most: int | None) -> int:
    bounds = found.ranges[k]
    extent = bounds.stop - bounds.start
    known = extent.value if isinstance(extent, Const) and isinstance(extent.value, int) else _LARGE
    return max(1, known if most is None else min(known, most))


def _planned(
    found: InnerContraction, product: InnerProduct, extents: tuple[int, ...], machine: Machine
) -> tuple[KernelVariant, tuple[int, int, int]]:
    algebra, dtype = found.algebra(product), found.out.dtype
    places = (product.left.subscripts, product.right.subscripts, found.subscripts)
    i, j, p = (
        Dim(extent, *(_stride(place, loop) for place in places))
        for loop, extent in zip(LOOPS, extents, strict=True)
    )
    shape = ContractionShape((), (i,), (j,), (p,))
    return plan_inner_product(shape, algebra, machine, machine.lanes(dtype.bits))


def _stride(place: AffineSubscripts, loop: str) -> int:
    """Elements from one iteration to the next, in an array stored row by row."""
    total = 0
    for step in place.steps[loop]:
        total = total * _APART + step
    return total
