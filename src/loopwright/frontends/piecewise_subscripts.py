"""Index-set splitting at piecewise subscripts: `i == 0 ? n - 1 : i - 1`, minima, maxima.

    S: v[i] = u[i == 0 ? n - 1 : i - 1]  for 0 <= i < n
    ->  S0: v[i] = u[i - 1]                       where i != 0
        S1: v[i] = u[i == 0 ? n - 1 : i - 1]      where i == 0

Both statements take the place of the original, and every iteration runs exactly one of them. The
common case has affine subscripts, so its loops are vectorised, tiled and skewed as without borders;
the rest keeps its piecewise affine subscripts.

An update (`C[i, j] += A[i, k] * B[k, min(j, 3)]`) whose cases depend on one loop each is not split:
as a contraction it reads such an operand from a copy, made in one pass over the operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from loopwright.frontends.source_tree import Assign
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Expr, Select, Unary, Var
from loopwright.ir.islkit import bounded, condition, isl, isl_integer
from loopwright.ir.visit import loads, rewrite, walk

__all__ = ["split_piecewise"]

_MOST_STATEMENTS = 4  # made from one assignment
_QUOTA = 300_000  # isl operations for one assignment
_MOST_CASES = 64  # conditions decided for one statement
_WORTH = 8  # the rest is split again while it has over 1/8 of the points of the common case
# Volumes are estimated for the parameters 1000, 1037, 1074, ..., and for these in reverse order.
_SAMPLES = (1000, 37)


def split_piecewise(
    assign: Assign, domain: isl.Set, known: isl.Set
) -> list[tuple[Assign, isl.Set]]:
    """An assignment and its domain, split at the cases of its subscripts.

    The domains are disjoint and not empty; their union is `domain` for all parameters in `known`.
    """
    if _first_case(assign) is None or _is_update_by_loops(assign, domain):
        return [(assign, domain)]
    return bounded(lambda: _split(assign, domain, known), lambda _: [(assign, domain)], _QUOTA)


def _split(assign: Assign, domain: isl.Set, known: isl.Set) -> list[tuple[Assign, isl.Set]]:
    found: list[tuple[Assign, isl.Set]] = []
    rest = domain
    while len(found) < _MOST_STATEMENTS - 1 and _first_case(assign) is not None:
        common, where = _common_case(assign, rest, known)
        found.append((common, where))
        rest = rest.subtract(where).coalesce()
        if rest.intersect_params(known).is_empty():
            return found
        if _WORTH * _volume(rest) <= _volume(where):
            break
    return [*found, (assign, rest)]


def _common_case(assign: Assign, domain: isl.Set, known: isl.Set) -> tuple[Assign, isl.Set]:
    """The assignment with each case decided for the larger part of `domain`, and that part."""
    for _ in range(_MOST_CASES):
        case = _first_case(assign)
        if case is None:
            break
        (holds, x), (fails, y) = _sides(case)
        space = domain.get_space()
        first = domain.intersect(condition(holds, space))
        second = domain.intersect(condition(fails, space))
        is_first = not first.intersect_params(known).is_empty() and (
            second.intersect_params(known).is_empty() or _volume(first) >= _volume(second)
        )
        domain = (first if is_first else second).coalesce()
        assign = _settled(assign, case, x if is_first else y)
    return assign, domain


def _is_update_by_loops(assign: Assign, domain: isl.Set) -> bool:
    """Whether an element is combined with its old value, and each case depends on one loop."""
    if not any(load == assign.target.load() for load in loads(assign.value)):
        return False
    loops = set(domain.get_var_names(isl.dim_type.set))
    cases = (part for entry in _subscripts(assign) for part in walk(entry) if _is_case(part))
    return all(
        len({x.name for x in walk(case) if isinstance(x, Var)} & loops) <= 1 for case in cases
    )


def _first_case(assign: Assign) -> Expr | None:
    """The first innermost case of a subscript."""
    cases = (part for entry in _subscripts(assign) for part in walk(entry) if _is_case(part))
    for case in cases:
        return next((x for x in _inside(case) if _is_case(x)), case)
    return None


def _inside(case: Expr) -> Iterator[Expr]:
    """The parts of a case from the inside out, itself last."""
    return reversed(list(walk(case)))


def _subscripts(assign: Assign) -> Iterator[Expr]:
    yield from assign.target.index
    for load in loads(assign.value):
        yield from load.index


def _is_case(expr: Expr) -> bool:
    match expr:
        case Select():
            return expr.dtype == INT64
        case Binary(op="min" | "max"):
            return expr.dtype == INT64
        case _:
            return False


def _sides(case: Expr) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    """Two conditions of which one always holds, and the value of the case under each."""
    match case:
        case Select(cond=cond, x=x, y=y):
            return (cond, x), (Unary("not", cond), y)
        case Binary(op=op, x=x, y=y):  # where x == y both conditions hold
            order = "le" if op == "min" else "ge"
            return (Binary(order, x, y), x), (Binary(order, y, x), y)
    raise AssertionError(case)


def _settled(assign: Assign, case: Expr, value: Expr) -> Assign:
    """The assignment with `value` in place of a case in all its subscripts."""

    def change(node: Expr) -> Expr:
        return value if node == case else node

    index = tuple(rewrite(entry, change) for entry in assign.target.index)
    target = replace(assign.target, index=index)
    return replace(assign, target=target, value=rewrite(assign.value, change))


def _volume(piece: isl.Set) -> int:
    """An estimate of the number of points for sample parameters: the volumes of bounding boxes."""
    count = piece.dim(isl.dim_type.param)
    start, step = _SAMPLES
    values = [start + step * at for at in range(count)]
    for sample in (values, values[::-1]):
        fixed = piece
        for at, value in enumerate(sample):
            fixed = fixed.fix_val(isl.dim_type.param, at, isl_integer(value))
        if not fixed.is_empty():
            boxes = [isl.Set.from_basic_set(part) for part in fixed.get_basic_sets()]
            return sum(prod(map(_extent, [box] * _rank(box), range(_rank(box)))) for box in boxes)
    return 0


def _rank(box: isl.Set) -> int:
    return int(box.dim(isl.dim_type.set))


def _extent(fixed: isl.Set, at: int) -> int:
    low, high = fixed.dim_min_val(at), fixed.dim_max_val(at)
    if not low.is_int() or not high.is_int():
        return _SAMPLES[0]
    return int(high.to_python()) - int(low.to_python()) + 1
