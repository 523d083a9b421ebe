"""Find closures: `x = x plus (y times z)` over all triples of one range.

The exact dependences of such a program forbid almost every other order: step k rewrites row k and
column k, which it reads. But a[i, k] plus (a[i, k] times a[k, k]) = a[i, k] wherever a[k, k] cannot
improve anything, so that row k and column k stay as they are in step k. For (min, max), (max, min)
and (or, and) this always holds; for (min, +) it holds where a[k, k] >= 0, that is without cycles
of negative weight, and for (max, +) where a[k, k] <= 0. Code that relies on it tests it.
"""

from __future__ import annotations

from loopwright.analysis.loop_ranges import rectangular_ranges
from loopwright.analysis.update_statements import update_of
from loopwright.ir.closure import Closure
from loopwright.ir.expr import Binary, Expr, Load, Var
from loopwright.ir.islkit import isl
from loopwright.ir.program import Program, Role, Statement

__all__ = [
    "find_closure",
]


_PAIRS = {
    ("min", "add"),
    ("max", "add"),
    ("min", "max"),
    ("max", "min"),
    ("or", "and"),
}


def find_closure(program: Program) -> Closure | str:
    """The closure that a program computes, or the reason why it computes none."""
    if len(program.statements) != 1:
        return "the program has several statements"
    (statement,) = program.statements
    if len(statement.iterators) != 3:
        return "the statement does not stand in three loops"
    ranges = rectangular_ranges(statement.domain, statement.iterators, program.context)
    if isinstance(ranges, str):
        return ranges
    if len({(r.start, r.stop) for r in ranges}) != 1:
        return "the three loops have different ranges"
    update = update_of(program, statement)
    if update is None or not isinstance(update.value, Binary):
        return "the statement is no update by a product"
    dtype = statement.write.dtype
    pair = update.op, update.value.op
    if pair not in _PAIRS:
        return f"the pair ({pair[0]}, {pair[1]}) is no idempotent semiring"
    if pair[1] == "add" and not dtype.is_exact and not program.reassoc:
        return "sums of floating-point numbers may not be taken in another order"
    if program.array(statement.write.array).role is Role.LOCAL:
        return "the matrix is not an argument"
    found = _matches(statement, update.value.x, update.value.y) or _matches(
        statement, update.value.y, update.value.x
    )
    if not found:
        return "the factors are not a column and a row of the matrix"
    if _outermost(program) != _step(statement, update.value):
        return "the loop over the steps is not the outermost one"
    return Closure(
        statement.name, statement.write.array, dtype, *pair, ranges[0].start, ranges[0].stop
    )


def _matches(statement: Statement, left: Expr, right: Expr) -> bool:
    """Whether left is a[i, k] and right a[k, j] for the element a[i, j] that is written."""
    target = statement.write
    match target.index, left, right:
        case (
            (Var() as i, Var() as j),
            Load(array=x, index=(Var() as row, Var() as step)),
            Load(array=y, index=(Var() as step_2, Var() as column)),
        ):
            names = {i.name, j.name, step.name}
            same = x == y == target.array and (row, step_2, column) == (i, step, j)
            return same and names == set(statement.iterators)
    return False


def _step(statement: Statement, product: Binary) -> str:
    """The loop k over the steps: the one that does not occur in the element written."""
    placed = {entry.name for entry in statement.write.index if isinstance(entry, Var)}
    return next(name for name in statement.iterators if name not in placed)


def _outermost(program: Program) -> str:
    """The iterator that the outermost band runs over; empty when it is no single one."""
    node = program.schedule.get_root().child(0)
    if isl.schedule_node_type(node.get_type()) != isl.schedule_node_type.band:
        return ""
    (statement,) = program.statements
    time = node.band_get_partial_schedule().get_union_pw_aff(0)
    for k, name in enumerate(statement.iterators):
        space = statement.domain.get_space()
        wanted = isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), isl.dim_type.set, k)
        plain = isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(wanted))
        if time.plain_is_equal(plain.intersect_domain(time.domain())) or _equal(time, plain):
            return name
    return ""


def _equal(time: isl.UnionPwAff, wanted: isl.UnionPwAff) -> bool:
    difference = time.sub(wanted)
    return bool(difference.zero_union_set().is_equal(time.domain()))
