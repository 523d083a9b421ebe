"""Rectangular iteration domains: loops whose ranges depend on parameters only.

A domain `{ S[i, j] : l_i <= i < u_i and l_j <= j < u_j }` is rectangular when no constraint relates
two of its dimensions; the ranges are then read off its constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from loopwright.analysis.relations import affine_sum
from loopwright.ir.contraction import LoopRange
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import affine, isl

__all__ = [
    "box_set",
    "rectangular_ranges",
]


def rectangular_ranges(
    domain: isl.Set, iterators: Sequence[str], context: isl.Set
) -> tuple[LoopRange, ...] | str:
    """The ranges of a statement's loops, or the reason why its domain is not a box."""
    parts = domain.coalesce().get_basic_sets()
    if len(parts) != 1:
        return "the domain is a union of several parts"
    part = parts[0].remove_redundancies()
    if part.dim(isl.dim_type.div):
        return "a loop has a step other than 1"
    lower: dict[str, list[Expr]] = {name: [] for name in iterators}
    upper: dict[str, list[Expr]] = {name: [] for name in iterators}
    has_guard = False
    for constraint in part.get_constraints():
        involved = [k for k in range(len(iterators)) if _coefficient(constraint, k)]
        if len(involved) > 1:
            inner, outer = iterators[involved[-1]], iterators[involved[0]]
            return f"the range of loop '{inner}' depends on loop '{outer}'"
        if not involved:
            has_guard = True
            continue
        name, factor = iterators[involved[0]], _coefficient(constraint, involved[0])
        is_equality = constraint.is_equality()
        if is_equality or factor > 0:
            lower[name].append(_bound(constraint, factor, is_lower=True))
        if is_equality or factor < 0:
            upper[name].append(_bound(constraint, factor, is_lower=False))
    for name in iterators:
        if not lower[name] or not upper[name]:
            return f"loop '{name}' is not bounded"
    ranges = tuple(
        LoopRange(name, reduce(_max, lower[name]), reduce(_min, upper[name])) for name in iterators
    )
    if has_guard:
        whole = box_set(ranges, domain.get_space(), iterators).intersect_params(context)
        if not whole.is_subset(domain):
            return "the statement runs only where a condition on the parameters holds"
    return ranges


def box_set(ranges: Sequence[LoopRange], space: isl.Space, iterators: Sequence[str]) -> isl.Set:
    """`{ S[iterators] : start <= name < stop for each range }` in the space of a statement."""
    total = isl.Set.universe(space)
    local = isl.LocalSpace.from_space(space)
    for bounds in ranges:
        at = list(iterators).index(bounds.name)
        variable = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, at))
        start, stop = affine(bounds.start, space), affine(bounds.stop, space)
        total = total.intersect(start.le_set(variable)).intersect(variable.lt_set(stop))
    return total


def _coefficient(constraint: isl.Constraint, position: int) -> int:
    value: int = constraint.get_coefficient_val(isl.dim_type.set, position).to_python()
    return value


def _bound(constraint: isl.Constraint, factor: int, *, is_lower: bool) -> Expr:
    """The first value of a loop (`is_lower`), or the one past its last, that a constraint allows.

    `factor * i + rest >= 0` means `i >= ceil(-rest / factor)` for a positive factor and
    `i <= floor(rest / -factor)` for a negative one; an equality is both.
    """
    kind = isl.dim_type.param
    names = [constraint.get_dim_name(kind, k) or "" for k in range(constraint.dim(kind))]
    terms = [
        (name, constraint.get_coefficient_val(kind, k).to_python()) for k, name in enumerate(names)
    ]
    constant = constraint.get_constant_val().to_python()
    # ceil(x / f) = floor((x + f - 1) / f), and one past floor(x / f) is floor((x + f) / f).
    sign, size = (-1, factor) if factor > 0 else (1, -factor)
    shift = size - 1 if is_lower else size
    return affine_sum([(n, sign * c) for n, c in terms], sign * constant + shift) // size


def _max(x: Expr, y: Expr) -> Expr:
    return x.max(y)


def _min(x: Expr, y: Expr) -> Expr:
    return x.min(y)
