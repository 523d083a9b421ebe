"""The source line of each store of a nest, found by matching it with the program's statements.

Lowering changes subscripts, seldom the operations on data: a store whose value has the operations,
arrays and constants of exactly one statement is an instance of that statement. Where none has, the
statement that the store names is the one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Store
from loopwright.ir.program import Program, Statement
from loopwright.ir.visit import children, loads

__all__ = ["origins"]

Shape: TypeAlias = tuple[object, ...]


def origins(program: Program) -> Callable[[Store], str]:
    """A function from stores to `file:line`; empty where several statements or none match."""
    places: dict[Shape, set[str]] = {}
    for statement in program.statements:
        key = (statement.write.array, *_shape(statement.value))
        places.setdefault(key, set()).add(_place(statement))
    certain = {key: next(iter(found)) for key, found in places.items() if len(found) == 1}
    named = {s.name: _place(s) for s in program.statements}

    def origin(store: Store) -> str:
        by_shape = certain.get((store.buffer, *_shape(store.value)))
        return named.get(store.statement, "") if by_shape is None else by_shape

    return origin


def _place(statement: Statement) -> str:
    span = statement.span
    return "" if span is None else f"{os.path.basename(span.file)}:{span.line}"


def _shape(expr: Expr) -> Shape:
    """The operations of an expression with its arrays and constants, without index arithmetic."""
    if expr.dtype == INT64 and not loads(expr):
        return ("index",)
    match expr:
        case Const(value=value, dtype=dtype):
            return ("const", repr(value), dtype.name)
        case Var(name=name):
            return ("var", name)
        case Load(array=array):
            return ("load", array)
        case Unary(op=op) | Binary(op=op):
            head: object = op
        case Call(function=function):
            head = function
        case Cast(dtype=dtype):
            head = dtype.name
        case Select():
            head = "select"
    return (head, *map(_shape, children(expr)))
