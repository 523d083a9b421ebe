"""The numbers that a call of a function of C begins with: scalar arguments, declared values.

Values of declarations are computed once for each call, by the meaning of expressions in
`ir/evaluate`, each in the type of its variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import Diagnostic, DtypeError, SourceError, UsageError
from loopwright.frontends.c import CVariable, InitialValue
from loopwright.frontends.c.declaration_parser import Constant, constant_of
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.evaluate import Rules, compile_expr, convert, literal, quiet
from loopwright.ir.expr import Binary, Const, Expr, Select
from loopwright.ir.intervals import limits
from loopwright.ir.memory import UndefinedRead
from loopwright.ir.visit import rewrite
from loopwright.runtime.array_arguments import Array

__all__ = [
    "Values",
    "initial_array",
    "initial_list",
    "initial_number",
    "number",
    "open_extent",
    "whole",
]

Values: TypeAlias = dict[str, Any]  # by name in C

_ACCEPTED = (
    "C's operators and functions of <math.h> on numbers, parameters, constants of the file and"
    " earlier variables that nothing has changed; or assign it in the region"
)
_NUMBERS_ONLY = "a list of numbers; or assign the elements in the region"
_NO_POINTER = "name the array itself in the region, or make it a parameter"


# -- scalar arguments -----------------------------------------------------------------------------


def whole(name: str, value: Any, dtype: DType) -> int:
    """An integer argument, which fits its type."""
    if type(value) is not int:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise DtypeError(f"argument '{name}' is an integer", found=repr(value)[:60])
        value = int(value)
    low, high = limits(dtype)
    if not low <= value <= high:
        raise UsageError(f"argument '{name}' does not fit {dtype}", found=str(value))
    return int(value)


def number(name: str, value: Any, dtype: DType) -> Array:
    """A scalar argument, which C passes by value, as memory of its own."""
    kinds = (bool, int, float, np.number, np.bool_)
    if not isinstance(value, kinds) or isinstance(value, complex | np.complexfloating):
        raise DtypeError(f"argument '{name}' is a number of {dtype}", found=repr(value)[:60])
    if dtype.is_integer:
        return np.array(whole(name, value, dtype), dtype.numpy)
    return np.array(value, dtype.numpy)


# -- values of declarations -----------------------------------------------------------------------


def initial_number(variable: CVariable) -> Callable[[Values], np.generic] | None:
    """The value that a scalar is declared with, from the arguments of a call; None: without any.

    Raises SourceError for a value that a call does not know.
    """
    if not variable.init:
        return None
    if variable.start is None:
        what = "is not known to a call"
        raise SourceError(_refused(variable, what, _ACCEPTED))
    compute = _computation(variable.start)
    if variable.start.parameters:
        return compute
    fixed = compute({})
    return lambda given: fixed


def initial_array(variable: CVariable, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """A new array of a variable of the file or of lists, as C begins it.

    What has no value of its own is zero.
    """
    array = np.zeros(shape, variable.dtype.numpy)
    if not variable.shape:
        first = initial_number(variable)
        array[...] = 0 if first is None else first({})
        return array
    items = initial_list(variable)
    if items is not None and not _fill(array, items, variable.dtype):
        message = f"the list that '{variable.name}' begins with does not fit its extents"
        raise SourceError(Diagnostic(variable.span, message, "LW151", found=variable.init[:60]))
    return array


def initial_list(variable: CVariable) -> Constant | None:
    """The lists of numbers that an array is declared with; None: without any.

    Raises SourceError for a list of other items.
    """
    if not variable.init:
        return None
    found = constant_of(variable.init)
    if found is None:
        is_list = variable.init.startswith("{")
        what = "has items that are not plain numbers" if is_list else "is no list of numbers"
        raise SourceError(_refused(variable, what, _NUMBERS_ONLY if is_list else _NO_POINTER))
    return found


def open_extent(variable: CVariable, rest: Sequence[int | None]) -> int | None:
    """The first extent of `double w[] = {1, 2, 1};`, whose other extents are `rest`.

    None where no list tells it.
    """
    items = initial_list(variable) if variable.extents[0] == "" else None
    if not isinstance(items, list):
        return None
    row = 1 if any(isinstance(item, list) for item in items) else math.prod(n or 1 for n in rest)
    return -(-len(items) // row)


def _refused(variable: CVariable, what: str, hint: str) -> Diagnostic:
    message = f"the value that '{variable.name}' begins with {what}"
    return Diagnostic(variable.span, message, "LW151", found=variable.init[:60], hint=hint)


def _fill(array: np.ndarray[Any, Any], first: Constant, dtype: DType) -> bool:
    """Put the items of a list into an array, by rows where braces are left out."""
    if not isinstance(first, list):
        return False
    if not any(isinstance(item, list) for item in first):
        flat = array.reshape(-1)
        flat[: len(first)] = [_converted(item, dtype) for item in first[: flat.size]]
        return len(first) <= flat.size
    if array.ndim < 2 or len(first) > len(array):
        return False
    rows = zip(array, first, strict=False)
    return all(isinstance(items, list) and _fill(row, items, dtype) for row, items in rows)


def _converted(item: Constant, dtype: DType) -> np.generic:
    """A number in the type of an element; integers wrap as C converts them."""
    if isinstance(item, int) and dtype.is_integer:
        return literal(item, dtype)
    with quiet():
        value: np.generic = convert(np.asarray(item)[()], dtype)
    return value


# -- computation ----------------------------------------------------------------------------------


class _DivisionByZero(UndefinedRead):
    """A quotient of integers by zero; no matter where a condition does not choose it."""


class _DefinedQuotients(Rules):
    """The rules of numbers, but integers divided by zero have no value."""

    def binary(self, op: str) -> Callable[[Any, Any], Any]:
        rule = super().binary(op)
        if op not in ("floordiv", "mod"):
            return rule

        def divide(x: Any, y: Any) -> Any:
            if y == 0:
                raise _DivisionByZero("an integer is divided by zero")
            return rule(x, y)

        return divide


_RULES = _DefinedQuotients()


class _Scalars:
    """A frame of scalars."""

    def __init__(self, values: dict[str, np.generic]) -> None:
        self.variables: Mapping[str, np.generic] = {}
        self._values = values

    def load(self, array: str, index: tuple[int, ...]) -> np.generic:
        return self._values[array]


def _computation(start: InitialValue) -> Callable[[Values], np.generic]:
    """The value of the last step as a function of the arguments of a call."""
    steps = [(step, compile_expr(_in_turn(step.expr), _RULES)) for step in start.steps]

    def compute(given: Values) -> np.generic:
        values: dict[str, Any] = {
            name: number(c, given[c], kind)[()] for name, c, kind in start.parameters
        }
        frame = _Scalars(values)
        with quiet():
            for step, evaluate in steps:
                try:
                    values[step.name] = evaluate(frame)
                except _DivisionByZero:
                    message = f"the value that '{step.name}' begins with divides an integer by zero"
                    told = ", ".join(f"{c} = {values[name]}" for name, c, _ in start.parameters)
                    fault = Diagnostic(step.span, message, "LW151", found=told)
                    raise SourceError(fault) from None
        result: np.generic = values[start.steps[-1].name]
        return result

    return compute


def _in_turn(expr: Expr) -> Expr:
    """The expression with && and || by cases: what they leave out may have no value."""

    def change(node: Expr) -> Expr:
        match node:
            case Binary(op="and", x=x, y=y) if node.dtype == BOOL:
                return Select(x, y, Const(False, BOOL))
            case Binary(op="or", x=x, y=y) if node.dtype == BOOL:
                return Select(x, Const(True, BOOL), y)
            case _:
                return node

    return rewrite(expr, change)
