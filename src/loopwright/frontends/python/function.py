"""A Python function and the types of its arguments to a SourceTree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import FunctionType

from loopwright.diagnostics import Collector, Diagnostic, UsageError
from loopwright.frontends.names import Names
from loopwright.frontends.python.arguments import ArgType
from loopwright.frontends.python.captures import Captures
from loopwright.frontends.python.scope import Scope, assigned_names, loop_names
from loopwright.frontends.python.source import Source, read_source
from loopwright.frontends.python.statements import BodyReader
from loopwright.frontends.python.values import Type
from loopwright.frontends.rewrite import drop_unused
from loopwright.frontends.tree import ArrayParam, IntParam, Param, ScalarParam, SourceTree
from loopwright.ir.expr import Var

__all__ = ["parse_function"]


def parse_function(
    function: Callable[..., object], argument_types: Sequence[ArgType]
) -> SourceTree:
    """Read a function of loops, for arguments of the given types (one per parameter, in order).

    Raises SourceError with every fault found. Types of locals are inferred by reading the body
    until they settle: each reading can only widen them, so a few readings do.
    """
    source = read_source(function)
    assert isinstance(function, FunctionType)
    arguments = _arguments(source, len(argument_types))
    captures = Captures(function)
    types: dict[str, Type] = {}
    while True:
        names, faults = Names(), Collector()
        params, sizes = _params(source, arguments, argument_types, names)
        scope = Scope(
            names,
            _by_name(arguments, params, argument_types),
            assigned_names(source.definition.body),
            loop_names(source.definition.body),
            types,
        )
        reader = BodyReader(source, captures, scope, faults)
        body = reader.block(source.definition.body)
        if reader.assignments.types == types:
            break
        types = reader.assignments.types
    if not len(faults):
        reader.report_untyped()
    faults.raise_if_any()
    span = source.span(source.definition)
    return drop_unused(
        SourceTree(
            Names().fresh(source.definition.name),
            params,
            sizes,
            reader.assignments.locals(),
            body,
            reader.result,
            captures.items(),
            span,
        )
    )


def _arguments(source: Source, given: int) -> list[ast.arg]:
    """The parameters of the definition, in call order."""
    signature = source.definition.args
    faults = Collector()
    for star in (signature.vararg, signature.kwarg):
        if star is not None:
            message, hint = "a starred parameter cannot be compiled", "name every parameter"
            faults.add(Diagnostic(source.span(star), message, "LW127", hint=hint))
    faults.raise_if_any()
    arguments = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
    if len(arguments) != given:
        raise UsageError(
            f"'{source.definition.name}' takes {len(arguments)} arguments", found=f"{given}"
        )
    return arguments


def _params(
    source: Source, arguments: Sequence[ast.arg], types: Sequence[ArgType], names: Names
) -> tuple[tuple[Param, ...], tuple[str, ...]]:
    """The parameters with unique names, and the names of all extents."""
    # Arguments first, so that they keep the names the user gave them.
    unique = [names.fresh(argument.arg) for argument in arguments]
    params: list[Param] = []
    sizes: list[str] = []
    for argument, name, given in zip(arguments, unique, types, strict=True):
        span = source.span(argument)
        if given.kind == "array":
            extents = [names.fresh(f"{name}_{k}") for k in range(given.rank)]
            params.append(ArrayParam(name, given.element, tuple(map(Var, extents)), span))
            sizes += extents
        elif given.element.kind in "biu":
            params.append(IntParam(name, span))
        else:
            params.append(ScalarParam(name, given.element, span))
    return tuple(params), tuple(sizes)


def _by_name(
    arguments: Sequence[ast.arg], params: Sequence[Param], types: Sequence[ArgType]
) -> dict[str, tuple[Param, ArgType]]:
    """Python's names of the parameters to what they are."""
    rows = zip(arguments, params, types, strict=True)
    return {argument.arg: (param, given) for argument, param, given in rows}
