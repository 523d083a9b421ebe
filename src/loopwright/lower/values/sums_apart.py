"""Which loops of C text gather floating sums in order, one element at a time.

    for t: r0 = r0 + x[t] * a[0][t]; ... r7 = r7 + x[t] * a[7][t]

gcc multiplies in vectors of n lanes and adds the products to their sums lane by lane: n additions
and n - 1 shuffles for each sum and vector, 1.6 cycles a term on x86-64. A term that is computed in
the register of its sum takes half a cycle for each operation, where the product rounds with the
sum, but a sum waits four cycles for the one before. So many sums of little work run singly:

    sums >= 4 and operations <= 2 * sums

Times as fast singly, sums of float and double in L1, Cascade Lake: one to three sums 0.9 to 1.0;
products 1.6 and 1.2 (four sums), 1.6 and 1.5 (eight); squares of differences 1.6, 1.3 and 2.0, 1.8;
four operations a term 0.9, 0.6; no product, four sums 1.0. Terms of different sums that lie side by
side are the lanes of one vector: these stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Binary, Call, Expr, Load, Select, Unary
from loopwright.ir.loops import For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import children, constant_trips, loads, rebuild, statements
from loopwright.lower.build import is_straight_line
from loopwright.lower.values.elements_apart import distance_of

__all__ = ["run_sums_singly"]

_LEAST_SUMS = 4  # so many hide the four cycles
_MOST_OPERATIONS = 2  # for each sum
_LEAST_TRIPS = 16  # shorter loops are written out, and have other vectors


def run_sums_singly(nest: LoopNest) -> LoopNest:
    """Have loops of several sums of little work in the code once, one element at a time.

    Where sums may be regrouped, nothing: lanes then have sums of their own.
    """
    if nest.reassoc:
        return nest

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL or stmt.until is not None:
            return stmt
        is_long = (constant_trips(stmt) or _LEAST_TRIPS) >= _LEAST_TRIPS
        is_single = is_long and is_straight_line(stmt.body) and _is_faster_singly(stmt)
        return replace(stmt, copies=1) if is_single else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def _is_faster_singly(loop: For) -> bool:
    inside = [stmt for stmt in statements(loop.body) if isinstance(stmt, Store | Let)]
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    if len(stores) < _LEAST_SUMS or not all(map(_is_sum_of_products, stores)):
        return False
    parts = {part for stmt in inside for part in _on_data(stmt.value)}
    elements = (part for part in parts if isinstance(part, Load) and part.index)
    if any(map(_is_slow, parts)) or any(distance_of(loop, x) not in (0, 1) for x in elements):
        return False
    done = sum(not isinstance(part, Load) and bool(children(part)) for part in parts)
    done -= sum(_has_product(part) for part in parts)
    return done <= _MOST_OPERATIONS * len(stores)


def _is_sum_of_products(store: Store) -> bool:
    """Whether a store adds to a floating variable a product that does not read it."""
    match store.value:
        case Binary(op="add" | "sub", x=Load(array=array, index=()), y=y):
            is_own = array == store.buffer and not store.index
            return is_own and _has_product(store.value) and array not in _read(y)
    return False


def _read(expr: Expr) -> set[str]:
    return {load.array for load in loads(expr)}


def _is_slow(expr: Expr) -> bool:
    """Whether vectors compute an operation for all lanes in the time of one."""
    return isinstance(expr, Call | Select) or (
        isinstance(expr, Binary) and expr.op in ("div", "floordiv", "mod", "pow")
    )


def _has_product(expr: Expr) -> bool:
    """Whether a sum rounds once with a product in it."""
    if not isinstance(expr, Binary) or expr.op not in ("add", "sub"):
        return False
    sides = (x.x if isinstance(x, Unary) else x for x in (expr.x, expr.y))
    return expr.dtype.is_float and any(isinstance(x, Binary) and x.op == "mul" for x in sides)


def _on_data(expr: Expr) -> list[Expr]:
    """An expression and its parts, subscripts left out."""
    if isinstance(expr, Load):
        return [expr]
    return [expr, *(part for child in children(expr) for part in _on_data(child))]
