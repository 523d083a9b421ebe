"""SourceTree: a loop program as the user wrote it, before it becomes a polyhedral Program.

The Python and C front ends produce it, `extract` turns it into a Program. Values are typed
expressions of `ir/expr`, all conversions written out. Names are unique in the whole tree: two
loops over `i` are called `i` and `i_1`. Bounds, subscripts and conditions are affine: the front
ends refuse everything else (`affine_check`).
"""

from __future__ import annotations

from typing import TypeAlias

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.program import Access, DeclaredReduction
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ArrayParam",
    "Assign",
    "ForLoop",
    "IfElse",
    "IntParam",
    "Local",
    "Node",
    "Param",
    "ReturnValues",
    "ScalarParam",
    "SourceTree",
]


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """An array argument."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]  # extents; a Var of a name in SourceTree.sizes where not declared
    span: Span


@dataclass(frozen=True, slots=True)
class IntParam:
    """An integer argument; bounds, subscripts and values may use it as Var(name)."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A floating or complex argument; values use it as an array of rank 0."""

    name: str
    dtype: DType
    span: Span


Param: TypeAlias = ArrayParam | IntParam | ScalarParam


@dataclass(frozen=True, slots=True)
class Local:
    """A variable of the function, undefined at first; a scalar has no extents."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]  # affine in sizes and integer arguments
    span: Span


@dataclass(frozen=True, slots=True)
class Assign:
    """`target = value`; the value has the target's dtype."""

    target: Access
    value: Expr
    span: Span
    declared: DeclaredReduction | None = None  # what the front end knows of the value


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for var in range(start, stop, step): body`, as in Python for either sign of the step."""

    var: str
    start: Expr
    stop: Expr
    step: int  # never zero
    body: tuple[Node, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class IfElse:
    """`body` where `cond` holds, else `orelse`."""

    cond: Expr  # bool: "and", "or", "not" over comparisons of affine expressions
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]
    span: Span


Node: TypeAlias = Assign | ForLoop | IfElse


@dataclass(frozen=True, slots=True)
class ReturnValues:
    """The array parameters and locals that the function returns, by name."""

    names: tuple[str, ...]
    is_tuple: bool  # `return a,` and `return a` differ


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A function of loops: its signature, its variables, its body."""

    name: str
    params: tuple[Param, ...]  # in call order; the caller binds arguments by position
    sizes: tuple[str, ...]  # extents of array parameters, int64, at least zero
    locals: tuple[Local, ...]
    body: tuple[Node, ...]
    result: ReturnValues | None
    captured: tuple[tuple[str, object], ...]  # outer names and their values at reading
    span: Span
