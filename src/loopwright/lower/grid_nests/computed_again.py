"""Values that a part of a kernel computes again, so that no registers hold them until then."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Expr, Var
from loopwright.ir.loops import Stmt
from loopwright.lower.build import lets, needed, renamed, renamed_expr

__all__ = ["computed_again"]


def computed_again(part: Stmt, given: Sequence[Var], bindings: Sequence[tuple[Var, Expr]]) -> Stmt:
    """`part` with the bindings around it that it needs, under names of their own.

    They are computed from copies of `given`, of which compilers do not know what they are: else
    these would see that all of it was computed before.
    """
    known = [var.name for var in (*given, *(var for var, _ in bindings))]
    names = {name: f"{name.replace('.', '_')}_anew" for name in known}
    again = [(Var(names[var.name]), renamed_expr(value, names)) for var, value in bindings]
    part = renamed(part, names)
    part = lets(needed(again, part), part)
    copies: list[tuple[Var, Expr]] = [(Var(names[var.name]), var) for var in given]
    return lets(needed(copies, part), part, is_anew=True)
