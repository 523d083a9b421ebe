"""How large expressions are that share parts: counted without walking a part twice."""

from __future__ import annotations

from loopwright.ir.expr import Expr
from loopwright.ir.visit import children

__all__ = ["Sizes"]


class Sizes:
    """Numbers of nodes, remembered by object: shared parts count each time but cost once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expr, int]] = {}  # the expression keeps its address its own

    def of(self, expr: Expr) -> int:
        """The number of nodes of `expr` written out."""
        found = self._known.get(id(expr))
        if found is not None:
            return found[1]
        total = 1 + sum(map(self.of, children(expr)))
        self._known[id(expr)] = (expr, total)
        return total
