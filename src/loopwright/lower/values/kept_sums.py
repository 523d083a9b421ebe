"""Loops that gather integers in elements of memory, of which compilers of C see no reduction.

    for j: s[k] = s[k] + f(x[j])          with s and x of one type: s[k] may be an x[j], to them

Arrays of a nest do not overlap. With the element in a variable during the loop (keep_elements) the
sum is a reduction, and the loop runs in vectors. Signs of all differences added up, Cascade Lake:
1.06 before, 7.0 times gcc now (clang 6.4).
"""

from __future__ import annotations

from loopwright.ir.expr import Binary, Load
from loopwright.ir.loops import For, Mark, Store
from loopwright.ir.visit import expressions, loads, names, statements
from loopwright.lower.build import is_straight_line
from loopwright.lower.values.plain_reductions import as_reduction

__all__ = ["gathers_in_memory"]


def gathers_in_memory(loop: For) -> bool:
    """Whether straight-line code gathers integers in elements that stay, and does little else.

    Variables that an iteration sets before it reads them are its own. Elements of a type that no
    other array of the loop has are known to lie apart.
    """
    if loop.mark is not Mark.SERIAL or not is_straight_line(loop.body):
        return False
    kept: set[str] = set()
    own: set[str] = set()
    read: set[Load] = set()
    for stmt in statements(loop.body):
        read |= {load for expr in expressions(stmt) for load in loads(expr)}
        if not isinstance(stmt, Store):
            continue
        if stmt.index and _is_gathered(stmt, loop):
            kept.add(stmt.buffer)
        elif not stmt.index and (
            stmt.buffer not in {load.array for load in read} or _is_gathered(stmt, loop)
        ):
            own.add(stmt.buffer)
        elif stmt.buffer not in own:
            return False
    types = {load.dtype.bits for load in read if load.array in kept}
    others = {load.dtype.bits for load in read if load.index and load.array not in kept}
    is_integral = all(load.dtype.is_integer or not load.index for load in read)
    return bool(kept) and is_integral and bool(others & (types | {8}))


def _is_gathered(store: Store, loop: For) -> bool:
    """Whether a store adds to an element that stays during the loop, or takes its extreme."""
    if store.is_atomic or any(loop.var in names(index) for index in store.index):
        return False
    value = as_reduction(store).value
    element = Load(store.buffer, store.index, value.dtype)
    match value:
        case Binary(op="add" | "sub" | "min" | "max", x=x, y=y) if value.dtype.is_integer:
            return x == element and all(load.array != store.buffer for load in loads(y))
    return False
