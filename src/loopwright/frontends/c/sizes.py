"""How large expressions are that share parts: counted without walking a part twice."""

from __future__ import annotations

from loopwright.ir.expr import Expr
from loopwright.ir.visit import children

__all__ = ["Sizes"]


class Sizes:
    """Nodes and depths, remembered by object: shared parts count each time but cost once."""

    def __init__(self) -> None:
        # the expression keeps its address its own
        self._known: dict[int, tuple[Expr, int, int]] = {}

    def of(self, expr: Expr) -> int:
        """The number of nodes of `expr` written out."""
        return self._measure(expr)[1]

    def depth_of(self, expr: Expr) -> int:
        """The number of nodes above one another."""
        return self._measure(expr)[2]

    def _measure(self, expr: Expr) -> tuple[Expr, int, int]:
        found = self._known.get(id(expr))
        if found is None:
            parts = [self._measure(part) for part in children(expr)]
            total = 1 + sum(size for _, size, _ in parts)
            depth = 1 + max((depth for _, _, depth in parts), default=0)
            found = self._known[id(expr)] = (expr, total, depth)
        return found
