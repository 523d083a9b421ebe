"""Gather sums of narrow signed integers in unsigned variables, for compilers of C.

Sums of ours wrap around, those of C's signed types must not overflow: they are written as
`s = (int)(s + (unsigned)e)`. The conversion in every iteration hides from compilers that a loop
adds up products of bytes, for which machines have instructions. A variable that is unsigned during
the loop has the same bits and needs none.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import Binary, Cast, Expr, Load
from loopwright.ir.loops import Alloc, Block, Buffer, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import expressions, fresh_name, loads, rebuild, statements, walk
from loopwright.lower.build import bound_names, is_straight_line

__all__ = ["unsigned_sums"]


def unsigned_sums(nest: LoopNest) -> LoopNest:
    """Sums in variables that innermost loops of straight-line code gather from narrow integers.

        for l in range(n): s[] = s[] + (int32)a[l] * (int32)b[l]
    ->  alloc s_u: uint32; s_u[] = (uint32)s[]
        for l in range(n): s_u[] = s_u[] + (uint32)(int32)a[l] * (uint32)(int32)b[l]
        s[] = (int32)s_u[]
    """
    taken = bound_names(nest)
    own = {s.buffer.name for s in statements(nest.body) if isinstance(s, Alloc)}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL or stmt.until is not None:
            return stmt
        if not is_straight_line(stmt.body):
            return stmt
        whole: Stmt = stmt
        for store in statements(stmt.body):
            if isinstance(store, Store) and store.buffer in own and _is_sum(store, stmt.body):
                name = fresh_name(f"{store.buffer}_u", taken)
                taken.add(name)
                whole = _gathered(whole, store, name)
        return whole

    return replace(nest, body=rebuild(nest.body, visit))


def _is_sum(store: Store, body: Stmt) -> bool:
    """Whether a store adds narrow integers to a variable that nothing else in a body touches."""
    if store.index or store.is_atomic or store.value.dtype.kind != "i":
        return False
    match store.value:
        case Binary(op="add" | "sub", x=Load(array=array, index=()), y=y) if array == store.buffer:
            is_narrow = any(isinstance(x, Cast) and _widens(x) for x in walk(y))
        case _:
            return False
    inside = list(statements(body))
    uses = [x for s in inside for e in expressions(s) for x in loads(e) if x.array == array]
    writes = [s for s in inside if isinstance(s, Store) and s.buffer == array]
    return is_narrow and len(uses) == len(writes) == 1


def _widens(cast: Cast) -> bool:
    return cast.x.dtype.is_integer and cast.x.dtype.bits < cast.dtype.bits


def _gathered(whole: Stmt, store: Store, name: str) -> Stmt:
    """The loop with the sum of one store in a variable of another name."""
    dtype = store.value.dtype
    wrapping = DTYPES[f"uint{dtype.bits}"]
    value = store.value
    assert isinstance(value, Binary)
    total = Binary(value.op, Load(name, (), wrapping), _modular(value.y, wrapping))
    gathers = replace(store, buffer=name, value=total)
    inner = rebuild(whole, lambda stmt: gathers if stmt is store else stmt)
    memory = Buffer(name, wrapping, (), Space.STACK, writable=True)
    first = Store(name, (), Cast(Load(store.buffer, (), dtype), wrapping))
    last = Store(store.buffer, (), Cast(Load(name, (), wrapping), dtype))
    return Alloc(memory, (), Block((first, inner, last)))


def _modular(expr: Expr, dtype: DType) -> Expr:
    """An integer modulo 2^bits, as which sums and products may be computed too."""
    match expr:
        case Binary(op="add" | "sub" | "mul" as op, x=x, y=y):
            return Binary(op, _modular(x, dtype), _modular(y, dtype))
    return Cast(expr, dtype)
