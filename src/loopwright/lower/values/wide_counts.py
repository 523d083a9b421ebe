"""Counts over numbers of 64 bits that are read backwards, in variables of 64 bits during a loop.

    for k: c[] = c[] + (1 if x[d - k] > y else 0)    with c: int32 and x: float64

gcc has no vectors for such a loop: lanes of the sum hold two vectors of the comparison, and those
come from memory in the wrong order. In 64 bits both have the same lanes. The sum of a 32-bit number
and fewer than 2^47 steps is right modulo 2^32 when it is cut off behind the loop. Exceedances in
the days before a day and ranks among them as C text, Cascade Lake: 1.05 before, 4.4 times gcc now
(clang 3.8). Counts that read forwards have vectors either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.dtypes import BOOL, DTYPES
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Load, Select
from loopwright.ir.loops import Alloc, Block, Buffer, For, Let, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    loads,
    names,
    rebuild,
    statements,
    walk,
)
from loopwright.lower.build import bound_names, is_straight_line
from loopwright.lower.values.elements_apart import distance_of
from loopwright.lower.values.plain_reductions import as_reduction

__all__ = ["counts_widely", "widen_counts"]

_WIDE = DTYPES["int64"]
_MOST = 1 << 15  # the size of a step: far from 2^63 however often it is taken


def widen_counts(nest: LoopNest) -> LoopNest:
    """Gather counts of innermost loops of straight-line code in 64 bits, as their data have them.

        for k in range(n): c[] = c[] + (1 if x[d - k] > y else 0)
    ->  alloc c_w: int64; c_w[] = (int64)c[]
        for k in range(n): c_w[] = c_w[] + (1 if x[d - k] > y else 0)
        c[] = (int32)c_w[]
    """
    taken = bound_names(nest)
    own = {s.buffer.name for s in statements(nest.body) if isinstance(s, Alloc)}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or not counts_widely(stmt):
            return stmt
        whole: Stmt = stmt
        for store in statements(stmt.body):
            if isinstance(store, Store) and store.buffer in own and _step(store) is not None:
                name = fresh_name(f"{store.buffer}_w", taken)
                taken.add(name)
                whole = _gathered(whole, store, name)
        return whole

    return replace(nest, body=rebuild(nest.body, visit))


def counts_widely(loop: For) -> bool:
    """Whether a loop counts in narrower variables what it finds by comparing 64-bit numbers.

    Everything that it stores must be such a count: beside a floating sum, which keeps its order,
    vectors would not pay. Some of the numbers must come backwards.
    """
    if loop.mark is not Mark.SERIAL or loop.until is not None or not is_straight_line(loop.body):
        return False
    inside = list(statements(loop.body))
    bound = {stmt.name: stmt.value for stmt in inside if isinstance(stmt, Let)}
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    elements = [x for stmt in inside for e in expressions(stmt) for x in loads(e)]
    if not any(_comes_backwards(x, loop) for x in elements):
        return False
    read = [x.array for x in elements]
    steps = {store.buffer: step for store in stores if (step := _step(store)) is not None}
    return (
        bool(steps)
        and len(stores) == len(steps)
        and all(read.count(name) == 1 for name in steps)
        and all(_compares_widely(step, bound) for step in steps.values())
    )


def _comes_backwards(element: Load, loop: For) -> bool:
    """Whether the next iteration loads the neighbour before a number of 64 bits."""
    is_wide = element.dtype.bits == _WIDE.bits and bool(element.index)
    return is_wide and distance_of(loop, element) == -1


def _step(store: Store) -> Expr | None:
    """What a store adds to a count that it takes on; None where it is no count."""
    if store.index or store.is_atomic or not 16 <= store.value.dtype.bits < _WIDE.bits:
        return None
    match as_reduction(store).value:
        case Binary(op="add", x=Load(array=array, index=()), y=y) as value if (
            array == store.buffer and value.dtype.is_integer and _is_small(y)
        ):
            return y
    return None


def _is_small(step: Expr) -> bool:
    """Whether a condition chooses a step among small numbers."""
    match step:
        case Select(x=Const(value=int(x)), y=Const(value=int(y))):
            return max(abs(x), abs(y)) <= _MOST
        case Cast(x=x):
            return x.dtype == BOOL or _is_small(x)
    return False


def _compares_widely(step: Expr, bound: Mapping[str, Expr]) -> bool:
    """Whether a condition of a step compares numbers of 64 bits that are loaded."""
    found = [
        part
        for part in walk(step)
        if isinstance(part, Binary) and part.op in COMPARISONS and part.x.dtype.bits == _WIDE.bits
    ]
    if any(loads(part) or names(part) & bound.keys() for part in found):
        return True
    named = [bound[name] for name in names(step) if name in bound]
    return any(_compares_widely(value, bound) for value in named)


def _gathered(whole: Stmt, store: Store, name: str) -> Stmt:
    """The loop with the count of one store in a variable of another name."""
    dtype = store.value.dtype
    step = _step(store)
    assert step is not None
    total = Binary("add", Load(name, (), _WIDE), _widened(step))
    counts = replace(store, buffer=name, value=total)
    inner = rebuild(whole, lambda stmt: counts if stmt is store else stmt)
    memory = Buffer(name, _WIDE, (), Space.STACK, writable=True)
    first = Store(name, (), Cast(Load(store.buffer, (), dtype), _WIDE))
    last = Store(store.buffer, (), Cast(Load(name, (), _WIDE), dtype))
    return Alloc(memory, (), Block((first, inner, last)))


def _widened(step: Expr) -> Expr:
    match step:
        case Select(cond=cond, x=Const(value=x), y=Const(value=y)):
            return Select(cond, Const(x, _WIDE), Const(y, _WIDE))
        case Cast(x=x) if x.dtype != BOOL:
            return _widened(x)
    assert isinstance(step, Cast)
    return Select(step.x, Const(1, _WIDE), Const(0, _WIDE))
