"""Elements that a loop goes through one by one along rows."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.loops import For, Let, Mark, Stmt, Store
from loopwright.ir.visit import names, statements, substitute

__all__ = ["LINE_BYTES", "LONG_BYTES", "first_stored", "walks"]

LINE_BYTES = 64  # of a line of the caches
# What a loop stores at least before it is worth while to begin at a line: a head of up to 15
# iterations is then won back (Cascade Lake: 1.0 from 1 KiB on, 1.4 at 4 KiB, 1.8 at 8 KiB).
LONG_BYTES = 2048

_LEAST_BYTES = 4  # of elements of which a line holds few


def walks(var: str, index: Sequence[Expr]) -> bool:
    """Whether an element stays, or moves to its neighbour in the row, when `var` grows by one."""

    def moves(expr: Expr) -> bool:
        match expr:
            case Var():
                return True
            case Binary(op="add", x=x, y=y):
                return sum(moves(part) for part in (x, y) if var in names(part)) == 1
            case Binary(op="sub", x=x, y=y):
                return moves(x) and var not in names(y)
        return False

    used = [entry for entry in index if var in names(entry)]
    return not used or (len(used) == 1 and used[0] is index[-1] and moves(index[-1]))


def first_stored(loop: For) -> tuple[str, tuple[Expr, ...]] | None:
    """The first element that a simd loop stores along a row: its array and subscripts.

    None where there is none, where only the body knows which, or where a loop inside has
    iterations that are not copies. Of unrolled copies the first one counts.
    """
    if loop.mark is not Mark.SIMD or loop.step != Const(1) or loop.until is not None:
        return None
    inside = list(statements(loop.body))
    inner = [stmt for stmt in inside if isinstance(stmt, For)]
    if any(stmt.mark is not Mark.UNROLL for stmt in inner):
        return None
    known = {**{stmt.var: stmt.start for stmt in inner}, loop.var: loop.start}
    own = {stmt.name for stmt in inside if isinstance(stmt, Let)} | known.keys()
    for store in (stmt for stmt in inside if _goes_along(loop.var, stmt)):
        assert isinstance(store, Store)
        index = tuple(substitute(entry, known) for entry in store.index)
        if not any(names(entry) & own for entry in index):
            return store.buffer, index
    return None


def _goes_along(var: str, stmt: Stmt) -> bool:
    """Whether a statement stores elements one behind the other, when `var` grows."""
    if not isinstance(stmt, Store) or stmt.value.dtype.bytes < _LEAST_BYTES or not stmt.index:
        return False
    return var in names(stmt.index[-1]) and walks(var, stmt.index)
