"""Reductions: statements that gather values into an element with an associative operator.

A statement `x[f(i)] = x[f(i)] op e(i)` depends on itself only through x. Where the operator may be
reassociated, its instances may run in any order as long as every other access of the element keeps
its place among them:

    relaxed = dependences without { R[i] -> R[j] }, but with every pair { R[i] -> T[j] } and
              { T[i] -> R[j] } that touches one element, not just the nearest ones
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopwright.analysis.dependences import (
    Dependences,
    access_map,
    dependences,
    memory_dependences,
)
from loopwright.analysis.loop_ranges import box_set
from loopwright.analysis.relations import ends, function_exprs, maps_of, moved_dimensions, union
from loopwright.analysis.update_statements import is_reorderable, update_of
from loopwright.ir.contraction import LoopRange
from loopwright.ir.expr import Expr, Var
from loopwright.ir.islkit import affine_map, context, isl, pieces_in
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.visit import loads
from loopwright.ir.visit import names as names_in
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ChainLink",
    "Reduction",
    "ReductionChain",
    "chain_consumer",
    "chain_start",
    "loop_order",
    "reads_what_it_writes",
    "reduction_chain",
    "reductions",
    "relaxed_dependences",
]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A statement that accumulates: `element = element op value` for all points of some loops."""

    statement: str
    op: str  # associative operator of ir/expr
    element: Access
    value: Expr
    loops: tuple[str, ...]  # iterators of the statement that carry the accumulation
    is_reorderable: bool  # the order of the accumulation may change


def reductions(program: Program) -> tuple[Reduction, ...]:
    """The reductions of a program, in the order of its statements."""
    found = (_reduction(program, statement) for statement in program.statements)
    return tuple(reduction for reduction in found if reduction is not None)


def relaxed_dependences(
    program: Program,
    exact: Dependences | None = None,
    known: tuple[Reduction, ...] | None = None,
) -> Dependences:
    """The dependences that remain when reductions may be reordered.

    A loop that carries none of them is parallel if partial results of the reductions are combined
    or their updates are atomic. `exact` are the program's dependences and `known` its reductions
    where they are known already.
    """
    exact = exact or dependences(program)
    found = reductions(program) if known is None else known
    free = [r for r in found if r.is_reorderable]
    if not free:
        return exact
    names = {reduction.statement for reduction in free}
    pairs = memory_dependences(program, {reduction.element.array for reduction in free})

    def kept(nearest: isl.UnionMap, every: isl.UnionMap) -> isl.UnionMap:
        near = [m for m in maps_of(nearest) if ends(m)[0] != ends(m)[1] or ends(m)[0] not in names]
        around = [m for m in maps_of(every) if ends(m)[0] != ends(m)[1] and names & set(ends(m))]
        return union(nearest.get_space(), near + around).coalesce()

    return Dependences(
        program,
        flow=kept(exact.flow, pairs.flow),
        anti=kept(exact.anti, pairs.anti),
        output=kept(exact.output, pairs.output),
    )


def reads_what_it_writes(program: Program, statement: Statement, value: Expr) -> str | None:
    """An array from which `value` reads elements that the statement also writes; or None."""
    written = access_map(program, statement, statement.write).range()
    for load in loads(value):
        if load.array == statement.write.array:
            read = access_map(program, statement, Access(load.array, load.index, load.dtype))
            if not read.range().is_disjoint(written):
                return load.array
    return None


def _reduction(program: Program, statement: Statement) -> Reduction | None:
    update = update_of(program, statement)
    if update is None or reads_what_it_writes(program, statement, update.value):
        return None
    element = access_map(program, statement, statement.write)
    moved = moved_dimensions(element.apply_range(element.reverse()))
    if not moved:
        return None
    loops = tuple(name for k, name in enumerate(statement.iterators) if k in moved)
    can_reorder = is_reorderable(update.op, statement.write.dtype, program)
    return Reduction(statement.name, update.op, statement.write, update.value, loops, can_reorder)


# -------------------------------------------------------------------------------------------------
# Reduction chains: how the value of an accumulated element flows from statement to statement.
# The instances of an updating statement R that hand a value to one another form a chain. Its loops
# split into those that tell chains apart (outer) and those a chain runs over (inner):
#
#     flow { R[o, p] -> R[o, p'] },     one first and one last instance for every o
#
# Flow is value-based, so a scalar that is set anew for every `(i, j)` makes one chain for each of
# them, just as an array element `C[i, j]` does. Statements that set the value a chain starts from,
# or take the value it ends with, are tied to it by a function of o.


Flows = Mapping[str, isl.UnionMap]  # array -> { S[i] -> T[j] }, the flow through its elements


@dataclass(frozen=True, slots=True)
class ReductionChain:
    """The reduction chains of an update statement R."""

    program: Program
    statement: Statement
    outer: tuple[LoopRange, ...]  # loops o
    inner: tuple[LoopRange, ...]  # loops p, in the order of the statement's iterators
    box: isl.Set  # { [o] }, all chains, also where the loops p are empty
    first: isl.Set  # { R[o, p] }, instances that do not read a value of R
    last: isl.Set  # { R[o, p] }, instances whose value R does not read
    filled: isl.Set  # { : some p exists }, parameters

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(loop.name for loop in self.outer)


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A statement with one instance for every chain, at `point` of the loops o."""

    statement: Statement
    point: tuple[Expr, ...]  # values of the statement's iterators

    @property
    def values(self) -> dict[str, Expr]:
        """The statement's iterators in terms of the loops o."""
        return dict(zip(self.statement.iterators, self.point, strict=True))


def reduction_chain(
    program: Program, statement: Statement, ranges: Sequence[LoopRange], flow: isl.UnionMap
) -> ReductionChain | str:
    """The chains of an update, or the reason why its values do not flow in chains."""
    domain = statement.domain.intersect_params(program.context)
    own = [m for m in maps_of(flow) if ends(m) == (statement.name, statement.name)]
    moved = moved_dimensions(own[0]) if own else frozenset()
    outer = tuple(loop for k, loop in enumerate(ranges) if k not in moved)
    inner = tuple(loop for k, loop in enumerate(ranges) if k in moved)
    varying = {loop.name for loop in inner} & names_in(statement.write.load())
    if varying:
        return f"the element written varies with the reduction loop '{min(varying)}'"
    first = domain.subtract(own[0].range()) if own else domain
    last = domain.subtract(own[0].domain()) if own else domain
    which = tuple(Var(loop.name) for loop in outer)
    if inner and not affine_map(first, "", which).is_injective():
        names = ", ".join(loop.name for loop in inner)
        return f"the value is set anew inside the reduction over ({names})"
    for reader in (m for m in maps_of(flow) if ends(m)[0] == statement.name):
        if ends(reader)[1] != statement.name and not reader.domain().is_subset(last):
            return f"{ends(reader)[1]} reads the value before the reduction is complete"
    space = _space(program, [loop.name for loop in outer])
    box = box_set(outer, space, [loop.name for loop in outer]).intersect_params(program.context)
    reduced = _space(program, [loop.name for loop in inner])
    filled = box_set(inner, reduced, [loop.name for loop in inner]).params()
    return ReductionChain(program, statement, outer, inner, box, first, last, filled)


def chain_start(chain: ReductionChain, flow: isl.UnionMap) -> ChainLink | None:
    """The statement that initialises every chain and does nothing else."""
    into = [m for m in maps_of(flow) if ends(m)[1] == chain.statement.name]
    sources = [m for m in into if ends(m)[0] != chain.statement.name]
    if len(sources) != 1 or not chain.first.is_subset(sources[0].range()):
        return None
    name = ends(sources[0])[0]
    readers = [m for m in maps_of(flow) if ends(m)[0] == name]
    others = [m for m in readers if ends(m)[1] != chain.statement.name]
    if not all(m.intersect_params(chain.filled).is_empty() for m in others):
        return None
    return _link(chain, name, sources[0].reverse())


def chain_consumer(
    chain: ReductionChain, flows: Flows, start: ChainLink | None, before: ChainLink | None
) -> ChainLink | None:
    """The only statement that reads the value of every chain's end, or of the statement `before`.

    Where the loops p are empty it reads what the chain would have started from.
    """
    giver = before.statement if before else chain.statement
    flow = flows[giver.write.array]
    readers = [m for m in maps_of(flow) if ends(m)[0] == giver.name]
    takers = [m for m in readers if ends(m)[1] != giver.name]
    if len(takers) != 1 or (before and len(readers) > 1):
        return None
    ending = takers[0]
    if before is None and not ending.domain().is_subset(chain.last):
        return None
    if before is not None:
        given = affine_map(chain.box, giver.name, before.point)
        link = _link(chain, ends(ending)[1], given.apply_range(ending))
    else:
        link = _link(chain, ends(ending)[1], ending)
    if link is None or not _reads_only(chain, flow, giver, link):
        return None
    if before is None and not _is_right_without_reduction(chain, flow, start, link):
        return None
    return link


def _reads_only(
    chain: ReductionChain, flow: isl.UnionMap, giver: Statement, link: ChainLink
) -> bool:
    """Whether all values that `link` reads from the giver's array were written by the giver.

    After the update statement itself this is required only where the reduction is not empty.
    """
    array = giver.write.array
    if len({access for access in link.statement.reads if access.array == array}) != 1:
        return False
    pairs = [m for m in maps_of(flow) if ends(m)[1] == link.statement.name]
    given = next(m.range() for m in pairs if ends(m)[0] == giver.name)
    wanted = link.statement.domain.intersect_params(chain.program.context)
    if giver is chain.statement:
        wanted = wanted.intersect_params(chain.filled)
    return bool(wanted.is_subset(given))


def _is_right_without_reduction(
    chain: ReductionChain, flow: isl.UnionMap, start: ChainLink | None, link: ChainLink
) -> bool:
    """Whether `link` reads the start of its own chain where the loops p are empty."""
    empty = chain.program.context.subtract(chain.filled)
    box = chain.box.intersect_params(empty)
    if box.is_empty():
        return True
    if start is None:
        read = next(a for a in link.statement.reads if a.array == chain.statement.write.array)
        here = affine_map(chain.box, link.statement.name, link.point)
        there = affine_map(link.statement.domain, read.array, read.index)
        written = affine_map(chain.box, read.array, chain.statement.write.index)
        return bool(here.apply_range(there).is_equal(written))
    started = affine_map(box, start.statement.name, start.point)
    wanted = started.reverse().apply_range(affine_map(box, link.statement.name, link.point))
    found = flow.intersect_params(empty)
    readers = [m for m in maps_of(found) if ends(m)[0] == start.statement.name]
    return len(readers) == 1 and bool(readers[0].is_equal(wanted))


def _link(chain: ReductionChain, name: str, relation: isl.Map) -> ChainLink | None:
    """The link `{ R[o, p] -> T[y] }` or `{ [o] -> T[y] }` of a statement T, if it is one.

    That is, y is one affine function of o that takes every point of T's domain exactly once.
    """
    statement = chain.program.statement(name)
    inner = {loop.name for loop in chain.inner}
    if relation.dim(isl.dim_type.in_) > len(chain.outer):
        positions = [k for k, x in enumerate(chain.statement.iterators) if x in inner]
        for position in reversed(positions):
            relation = relation.project_out(isl.dim_type.in_, position, 1)
    point = function_exprs(relation, chain.names)
    if point is None:
        return None
    every = affine_map(chain.box, name, point)
    domain = statement.domain.intersect_params(chain.program.context)
    if not every.is_injective() or not every.range().is_equal(domain):
        return None
    return ChainLink(statement, point)


def _space(program: Program, names: Sequence[str]) -> isl.Space:
    """The space `[params] -> { [names] }`."""
    space = isl.Space.set_alloc(context(), 0, len(names)).align_params(program.context.get_space())
    for position, name in enumerate(names):
        space = space.set_dim_name(isl.dim_type.set, position, name)
    return space


def loop_order(program: Program, statement: Statement) -> dict[str, int] | None:
    """The iterators of a statement, outermost loop first, with their direction: 1 up, -1 down.

    Read off the schedule `{ S[i, j] -> [t0, t1, ...] }`. None when some t is another function than
    plus or minus one iterator, shifted by parameters and constants.
    """
    time = program.schedule.get_map().intersect_domain(isl.UnionSet.from_set(statement.domain))
    (map_,) = (m for m in maps_of(time) if ends(m)[0] == statement.name)
    pieces = [piece for _, piece in pieces_in(isl.PwMultiAff.from_map(map_))]
    if len(pieces) != 1 or pieces[0].involves_locals():
        return None
    order: dict[str, int] = {}
    for position in range(pieces[0].dim(isl.dim_type.out)):
        function = pieces[0].get_at(position)
        factors = {
            name: function.get_coefficient_val(isl.dim_type.in_, k).to_python()
            for k, name in enumerate(statement.iterators)
        }
        used = {name: factor for name, factor in factors.items() if factor}
        if not used:
            continue
        if len(used) > 1 or not set(used.values()) <= {1, -1}:
            return None
        for name, factor in used.items():
            order.setdefault(name, factor)
    return order if set(order) == set(statement.iterators) else None
