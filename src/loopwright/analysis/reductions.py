"""Reductions: statements that gather values into an element with an associative operator.

A statement `x[f(i)] = x[f(i)] op e(i)` depends on itself only through x. Where the operator may be
reassociated, its instances may run in any order as long as every other access of the element keeps
its place among them:

    relaxed = dependences without { R[i] -> R[j] }, but with every pair { R[i] -> T[j] } and
              { T[i] -> R[j] } that touches one element, not just the nearest ones
"""

from __future__ import annotations

import islpy as isl

from loopwright.analysis.dependences import (
    Dependences,
    access_map,
    dependences,
    memory_dependences,
)
from loopwright.analysis.relations import ends, maps_of, moved_dimensions, union
from loopwright.analysis.update_statements import is_reorderable, update_of
from loopwright.ir.expr import Expr
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.visit import loads
from loopwright.lazy_dataclass import dataclass

__all__ = ["Reduction", "reads_what_it_writes", "reductions", "relaxed_dependences"]


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


def relaxed_dependences(program: Program, exact: Dependences | None = None) -> Dependences:
    """The dependences that remain when reductions may be reordered.

    A loop that carries none of them is parallel if partial results of the reductions are combined
    or their updates are atomic. `exact` are the program's dependences where they are known already.
    """
    exact = exact or dependences(program)
    free = [r for r in reductions(program) if r.is_reorderable]
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
