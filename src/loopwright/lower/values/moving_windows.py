"""Loops whose ranges move along with the iterations of a loop around them, seen from there.

    for i: for k in range(max(0, i - m), min(n, i + 1)): s += x[k] * h[i - k]
->  for i: for d in range(max(-i, -m), min(n - i, 1)): s += x[i + d] * h[-d]

The range of k has two ends that move by one with i, and two that stay. Where the moving ones are
nearer to each other they set the range nearly everywhere, and neighbouring iterations of i run
through the same d; where the others are, through the same k.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Expr, Load, Var
from loopwright.ir.loops import For, Store
from loopwright.ir.visit import expressions, names, operands, statements, walk
from loopwright.lower.build import substitute_statement
from loopwright.lower.linear_forms import LinearForm, linear, normal

__all__ = ["has_neighbours", "moved_along", "windows"]


def windows(loop: For, var: str) -> dict[int, Expr]:
    """How far the range of a loop is at most, by how far both of its ends move with a variable.

    Of several such ends the first ones count.
    """
    found: dict[int, Expr] = {}
    for low in operands("max", normal(loop.start)):
        for high in operands("min", normal(loop.stop)):
            one, other = _slope(low, var), _slope(high, var)
            if one is not None and one == other and one not in found:
                found[one] = normal(high - low)
    return found


def moved_along(loop: For, var: str, slope: int, name: str) -> For:
    """A loop over the distances, called `name`, of its variable from `slope * var`."""
    place = LinearForm(((Var(var), slope),), 0)
    body = substitute_statement(loop.body, {loop.var: Var(name) + place.expr})
    start, stop = _shifted(normal(loop.start), place), _shifted(normal(loop.stop), place)
    return replace(loop, var=name, start=start, stop=stop, body=body)


def has_neighbours(loop: For, var: str, own: Collection[str]) -> bool:
    """Whether iterations of a loop around access the same element, or one beside it, everywhere.

    Of the arrays that are its `own`, the same one.
    """
    for stmt in statements(loop.body):
        if isinstance(stmt, Store) and not _is_near(stmt.buffer, stmt.index, var, own):
            return False
        for expr in expressions(stmt):
            for load in walk(expr):
                if isinstance(load, Load) and not _is_near(load.array, load.index, var, own):
                    return False
    return True


def _is_near(array: str, index: tuple[Expr, ...], var: str, own: Collection[str]) -> bool:
    slopes = [_slope(normal(entry), var) for entry in index]
    if array in own:
        return not any(slope != 0 for slope in slopes)
    return not slopes or (slopes[-1] in (0, 1) and not any(slope != 0 for slope in slopes[:-1]))


def _slope(expr: Expr, var: str) -> int | None:
    """How far a sum moves with a variable; None where it is none."""
    form = linear(expr)
    if any(var in names(atom) for atom, _ in form.terms if atom != Var(var)):
        return None
    return dict(form.terms).get(Var(var), 0)


def _shifted(expr: Expr, place: LinearForm) -> Expr:
    """An end less the place that it is seen from."""
    match expr:
        case Binary(op="min" | "max" as op, x=x, y=y) if expr.dtype == INT64:
            return normal(Binary(op, _shifted(x, place), _shifted(y, place)))
    return (linear(expr) - place).expr
