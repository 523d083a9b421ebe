"""Functions that a body defines: nested ones and lambdas, bound to arguments like any helper."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    StaticValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.call_arguments import CallArguments
from loopwright.frontends.python.procedures.reading_context import ReadingContext
from loopwright.frontends.python.python_values import constant
from loopwright.frontends.refusal import Refusal
from loopwright.lazy_dataclass import dataclass

__all__ = ["LocalFunction", "bound_parameters", "default_value", "parameters_of"]


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A function whose outer names are those of the function around it, as they are at a call."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    values: ReadingContext  # of the function around it
    defaults: Mapping[str, AnyValue]

    @property
    def body(self) -> list[ast.stmt]:
        if isinstance(self.node, ast.FunctionDef):
            return self.node.body
        return [ast.copy_location(ast.Return(self.node.body), self.node.body)]

    def __repr__(self) -> str:
        return f"the function '{self.name}'"


def parameters_of(args: ast.arguments) -> list[ast.arg]:
    """The parameters of a definition, starred ones last."""
    starred = [x for x in (args.vararg, args.kwarg) if x is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *starred]


def bound_parameters(
    function: FunctionType | LocalFunction, given: CallArguments
) -> dict[str, AnyValue]:
    """The parameters of a helper with the values of a call."""
    if isinstance(function, LocalFunction):
        signature, defaults = _signature(function), function.defaults
    else:
        signature, defaults = inspect.signature(function), {}
    try:
        bound = signature.bind(*given.args, **given.keywords)
    except TypeError as error:
        raise Refusal("LW124", f"'{given.name}': {error}") from None
    found: dict[str, AnyValue] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            raise Refusal("LW124", f"'{given.name}' takes any named arguments")
        if parameter.kind is parameter.VAR_POSITIONAL:
            found[name] = TupleValue(tuple(bound.arguments.get(name, ())))
        elif name in bound.arguments:
            found[name] = bound.arguments[name]
        else:
            found[name] = defaults[name] if name in defaults else default_value(parameter.default)
    return found


def _signature(function: LocalFunction) -> inspect.Signature:
    args, kinds = function.node.args, inspect.Parameter
    groups = (
        (args.posonlyargs, kinds.POSITIONAL_ONLY),
        (args.args, kinds.POSITIONAL_OR_KEYWORD),
        ([args.vararg] if args.vararg else [], kinds.VAR_POSITIONAL),
        (args.kwonlyargs, kinds.KEYWORD_ONLY),
        ([args.kwarg] if args.kwarg else [], kinds.VAR_KEYWORD),
    )
    found = []
    for group, kind in groups:
        for arg in group:
            default = None if arg.arg in function.defaults else inspect.Parameter.empty
            found.append(inspect.Parameter(arg.arg, kind, default=default))
    return inspect.Signature(found)


def default_value(value: object) -> AnyValue:
    """An object that is known when the function is compiled."""
    if isinstance(value, bool | int | float | complex):
        return constant(value)
    if isinstance(value, tuple | list):
        return TupleValue(tuple(map(default_value, value)), isinstance(value, list))
    return StaticValue(value)
