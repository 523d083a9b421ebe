"""What parts of the reader of one function need of the whole: values of nodes, and builders."""

from __future__ import annotations

import ast
from typing import Protocol

from loopwright.frontends.python.fingerprint import Captures
from loopwright.frontends.python.function_source import FunctionSource
from loopwright.frontends.python.procedures.abstract_values import AnyValue
from loopwright.frontends.python.procedures.array_functions import ArrayFunctions
from loopwright.frontends.python.procedures.array_operations import Elementwise
from loopwright.frontends.python.procedures.array_reductions import Reductions
from loopwright.frontends.python.procedures.array_writes import ArrayWrites
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.subscripts import Subscripts
from loopwright.ir.expr import Expr

__all__ = ["ReadingContext"]


class ReadingContext(Protocol):
    """The reader of one function's expressions, as its parts see it."""

    build: Building
    env: dict[str, AnyValue]
    source: FunctionSource
    captures: Captures
    elementwise: Elementwise
    subscripts: Subscripts
    writes: ArrayWrites
    functions: ArrayFunctions
    reductions: Reductions

    def value(self, node: ast.expr) -> AnyValue:
        """The value of an expression."""

    def values(self, *nodes: ast.expr) -> list[AnyValue]:
        """The values of all nodes, in order."""

    def static(self, node: ast.expr) -> object:
        """The outer object that a dotted name stands for, or MISSING."""

    def condition(self, node: ast.expr) -> Expr:
        """`bool(node)`."""

    def frozen(self, value: AnyValue) -> AnyValue:
        """The value as it is now."""

    def solid(self, value: AnyValue) -> AnyValue:
        """The value; elements by a mask as an array of their own."""

    def array_like(self, value: AnyValue) -> AnyValue:
        """The value, a list of numbers as an array."""

    def has(self, name: str) -> bool:
        """Whether a name is local to the function or to one around it."""
