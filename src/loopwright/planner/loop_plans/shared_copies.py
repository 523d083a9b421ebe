"""What copies of a loop share when it is unrolled into the loops inside of it.

    for i: for j: a[i, j] = b[i, j] * x[j]            every copy reads the same x
    for i: for j: a[i, j] = b[i - 1, j] + b[i, j]     a copy reads what the one before it has read
    for i: for k: s[i] += a[i, k] * a[i, k]           copies wait beside each other
    for i: for j: a[i, j] = b[i, j] + b[i, j + 1]     nothing

Copies that share nothing save the counting of an innermost loop, which compilers save as well when
they unroll it along its rows; and each brings rows of its own into the nearest cache.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.analysis.size_estimates import coefficients, references
from loopwright.ir.expr import Expr, Var
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, bands, moved_by
from loopwright.ir.visit import substitute
from loopwright.planner.cost.carried_values import carried_cycles

__all__ = ["do_copies_share", "shares_rows"]


def do_copies_share(program: Program, outer: Band, machine: Machine) -> bool:
    """Whether iterations of a loop have something in common that makes up for their own rows."""
    inner = [band for band in bands(outer.child) if not any(True for _ in bands(band.child))]
    return (
        _has_neighbours(program, outer)
        or any(shares_rows(program, outer, band) for band in inner)
        or any(_hands_on(program, band, machine) for band in inner)
    )


def shares_rows(program: Program, outer: Band, inner: Band) -> bool:
    """Whether iterations of a loop use the same rows, along which a loop inside moves."""
    around, moving = moved_by(outer, program), moved_by(inner, program)
    return any(
        reference.stride(moving.get(name, "")) and not reference.stride(around.get(name, ""))
        for name in inner.statements
        for reference in references(program.statement(name))
    )


def _has_neighbours(program: Program, outer: Band) -> bool:
    """Whether an array is used at several distances from where a loop stands."""
    places: dict[str, set[tuple[tuple[int, Expr], ...]]] = {}
    for name, iterator in moved_by(outer, program).items():
        statement = program.statement(name)
        for access in (statement.write, *statement.reads):
            place = _place(access.index, iterator)
            if place:
                places.setdefault(access.array, set()).add(place)
    return any(len(found) > 1 for found in places.values())


def _place(index: tuple[Expr, ...], iterator: str) -> tuple[tuple[int, Expr], ...]:
    """The subscripts that a loop moves, by dimension, its iterator under a common name."""
    common: Mapping[str, Expr] = {iterator: Var("")}
    return tuple(
        (dimension, substitute(entry, common))
        for dimension, entry in enumerate(index)
        if iterator in dict(coefficients(entry))
    )


def _hands_on(program: Program, inner: Band, machine: Machine) -> bool:
    """Whether an iteration of an innermost loop waits for the one before it."""
    statements = [s for s in program.statements if s.name in inner.statements]
    return carried_cycles(statements, moved_by(inner, program), machine) > 0.0
