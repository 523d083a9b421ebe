"""Loop unswitching: branches of a loop of vectors that are the same in all iterations.

    simd for i: a[i] = x; if t == 0: b[i] = y else: c[i] = z
->  if t == 0: simd for i: a[i] = x; b[i] = y
    else: simd for i: a[i] = x; c[i] = z

LLVM makes vectors before it looks at such a branch, with stores lane by lane under masks. gcc moves
the branch by itself.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr, Unary, Var
from loopwright.ir.loops import Block, For, If, LoopNest, Mark, Stmt
from loopwright.ir.visit import names, rebuild, statements, walk
from loopwright.lower.build import names_bound
from loopwright.lower.values.strips import change_loops

__all__ = ["unswitch_loops"]

_FEWEST = 17  # iterations of a loop that is worth copies of its code
_COPIES = 4  # of a loop, at most
_DIVISIONS = frozenset({"div", "floordiv", "mod"})


def unswitch_loops(nest: LoopNest) -> LoopNest:
    """The nest with such branches before its innermost loops of vectors."""
    if not nest.leave_to_llvm:
        return nest
    return change_loops(nest, _FEWEST, lambda loop: _unswitched(loop, _COPIES), Mark.SIMD)


def _unswitched(loop: For, room: int) -> Stmt:
    """A loop in up to `room` copies, each where some conditions hold or fail."""
    inside = list(statements(loop.body))
    bound = names_bound(loop.body) | {loop.var}
    conditions = [s.cond for s in inside if isinstance(s, If) and _is_fixed(s.cond, bound)]
    if room < 2 or not conditions or any(isinstance(s, For) for s in inside):
        return loop
    cond = conditions[0]
    copies = (_unswitched(_where(loop, cond, holds), room // 2) for holds in (True, False))
    return If(cond, *copies)


def _is_fixed(cond: Expr, bound: set[str] | frozenset[str]) -> bool:
    """Whether a condition is made of integers that a loop does not change; it cannot fail."""
    every = list(walk(cond))
    is_safe = all(isinstance(node, Var | Const | Unary | Binary) for node in every)
    is_safe = is_safe and not any(isinstance(x, Binary) and x.op in _DIVISIONS for x in every)
    return is_safe and not names(cond) & bound


def _where(loop: For, cond: Expr, holds: bool) -> For:
    """A loop where a condition holds or fails."""

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, If) or stmt.cond != cond:
            return stmt
        return stmt.body if holds else stmt.orelse or Block(())

    return replace(loop, body=rebuild(loop.body, visit))
