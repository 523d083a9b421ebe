"""What is known where a whole function is entered: sizes, integers, expressions over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loopwright.ir.evaluate import Given, compiled, quiet
from loopwright.ir.expr import Const, Expr

__all__ = ["EntryValues"]


class EntryValues:
    """The sizes and integer arguments of a call."""

    def __init__(self, integers: Mapping[str, int]) -> None:
        self.integers = integers
        self._frame = Given({name: np.int64(value) for name, value in integers.items()}, {})

    def integer(self, expr: Expr) -> int:
        """The value of an extent, a start or a step."""
        if isinstance(expr, Const):
            return int(expr.value.real)
        with quiet():
            return int(compiled(expr)(self._frame))

    def holds(self, condition: Expr) -> bool:
        """Whether a condition holds."""
        with quiet():
            return bool(compiled(condition)(self._frame))
