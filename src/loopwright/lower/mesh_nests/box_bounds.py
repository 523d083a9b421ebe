"""First elements and extents of boxes as expressions: functions of isl with minima and maxima."""

from __future__ import annotations

from loopwright.ir.expr import Binary, Expr, Select
from loopwright.ir.islkit import isl
from loopwright.ir.visit import rewrite
from loopwright.lower.ast_expressions import parameter_expr
from loopwright.lower.linear_forms import linear, nonnegative_form, normal

__all__ = ["bound_of", "distance"]


def bound_of(function: isl.PwAff, known: isl.Set) -> Expr:
    """A function of parameters, with minima and maxima for the selections that are some."""
    return normal(rewrite(parameter_expr(function.gist(known), known), _as_extremum))


def _as_extremum(node: Expr) -> Expr:
    """`x if d >= 0 else y` as min(x, y) where y - x is d or d + 1, as max(x, y) where x - y is."""
    if not isinstance(node, Select):
        return node
    form = nonnegative_form(normal(node.cond))
    if form is None:
        return node
    gap = linear(node.y) - linear(node.x)
    for op, apart in (("min", gap), ("max", gap * -1)):
        rest = apart - form
        if not rest.terms and rest.constant in (0, 1):
            return Binary(op, node.x, node.y)
    return node


def distance(low: Expr, high: Expr) -> Expr:
    """high - low + 1, inside of a minimum where `high` is one."""
    match high:
        case Binary(op="min", x=x, y=y):
            return normal(distance(low, x).min(distance(low, y)))
    return normal(high - low + 1)
