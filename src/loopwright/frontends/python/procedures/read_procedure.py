"""A Python function and the types of its arguments to a Procedure."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from types import FunctionType

from loopwright.diagnostics import Collector, Diagnostic, SourceError, UsageError
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.python.fingerprint import ArgType, Captures, top_level_count
from loopwright.frontends.python.function_source import FunctionSource, read_source
from loopwright.frontends.python.name_resolution import assigned_names, loop_names
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
    Unknown,
    memory_value,
    whole_view,
)
from loopwright.frontends.python.procedures.body_reader import BodyReader
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import CallArguments
from loopwright.frontends.python.procedures.joins import Wider
from loopwright.frontends.python.procedures.prelude import PRELUDE
from loopwright.frontends.python.procedures.returned_values import ReturnedValues
from loopwright.frontends.python.procedures.value_reader import ValueReader
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.frontends.python.python_values import PyValue, constant
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import BOOL, DTYPES, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.procedure import ArrayRole, Parameter, Procedure, ProcedureArray

__all__ = ["read_procedure"]

_PRELUDE_FUNCTIONS = frozenset(function for function, _ in PRELUDE.values())
_MOST_CALLS = 24  # helpers inside of each other


def read_procedure(
    function: FunctionType, types: Sequence[ArgType], variant: Variant | None = None
) -> Procedure:
    """The Procedure of a function for types of arguments, one per parameter in order.

    Raises SourceError with every fault found.
    """
    return _Reading(function, types, variant or Variant()).procedure()


class _Reading:
    """One function being read, with the helpers it calls."""

    def __init__(self, function: FunctionType, types: Sequence[ArgType], variant: Variant) -> None:
        self._function = function
        self._types = types
        self._build = Building(FreshNames(), variant)
        self._faults = Collector()
        self._captures: list[Captures] = []
        self._calls: list[FunctionType] = []
        self._names: list[str] = []  # of the helpers being read, as their callers write them
        self._results = ReturnedValues(self._build)
        self._parameters: list[Parameter] = []
        self._sizes: list[str] = []
        self._helper_captures: dict[str, object] = {}
        self._places = 0  # arrays and numbers among the arguments so far

    def procedure(self) -> Procedure:
        source = read_source(self._function)
        values, captures = self._reader(self._function, source)
        self._build.span = source.span(source.definition)
        names = _parameters(source)
        count = top_level_count(self._types)
        if len(names) != count:
            raise UsageError(
                f"'{source.definition.name}' takes {len(names)} arguments", found=f"{count}"
            )
        types = iter(self._types)
        for name in names:
            try:
                values.env[name.arg] = self._given(name.arg, types)
            except Refusal as refusal:
                values.report(refusal, name)
                values.env[name.arg] = Unknown("")
        body = BodyReader(self._build, values, self._faults, self._results.early)
        result = self._read_body(body, source)
        self._faults.raise_if_any()
        try:
            returned = self._results.final(result)
        except Refusal as refusal:
            values.report(refusal, source.definition.body[-1])
            self._faults.raise_if_any()
        build = self._build
        statements = self._results.without_results(tuple(build.blocks[0]))
        return Procedure(
            build.names.fresh(source.definition.name),
            tuple(self._parameters),
            tuple(self._sizes),
            self._results.arrays(),
            tuple(build.guards),
            statements,
            returned,
            self._results.views(),
            (*captures.items(), *self._helper_captures.items()),
        )

    def _read_body(self, body: BodyReader, source: FunctionSource) -> AnyValue:
        try:
            return body.function(source.definition.body)
        except Wider:  # a name of an outer loop, used where no loop can hand it on
            raise AssertionError("a loop's name leaves the loop") from None

    def _reader(
        self, function: FunctionType, source: FunctionSource
    ) -> tuple[ValueReader, Captures]:
        captures = Captures(function)
        body = source.definition.body
        args = source.definition.args
        every = (*args.posonlyargs, *args.args, *args.kwonlyargs)
        own = assigned_names(body) | loop_names(body) | {arg.arg for arg in every}
        values = ValueReader(self._build, source, captures, self._faults, own, self._call)
        return values, captures

    # -- arguments --------------------------------------------------------------------------------

    def _given(self, name: str, types: Iterator[ArgType]) -> AnyValue:
        """The value of a parameter; its type stands next, those of a tuple's items follow."""
        given = next(types)
        match given.kind:
            case "tuple":
                items = [self._given(f"{name}_{k}", types) for k in range(given.rank)]
                return TupleValue(tuple(items))
            case "static":
                return StaticValue(given.value)
        self._places += 1
        return self._argument(self._places - 1, name, given)

    def _argument(self, place: int, name: str, given: ArgType) -> AnyValue:
        build = self._build
        unique = build.names.fresh(name)
        dtype = given.element
        if given.kind == "array":
            if not given.rank:
                text = f"the argument '{name}' is an array of rank 0"
                raise Refusal("LW194", text, hint=f"pass {name}[()], a number")
            self._parameters.append(Parameter(unique, "array"))
            return self._array(place, unique, given)
        is_word = dtype == BOOL or (dtype.is_integer and dtype != DTYPES["uint64"])
        if not is_word:
            self._parameters.append(Parameter(unique, "number"))
            array = ProcedureArray(unique, dtype, (), ArrayRole.ARGUMENT)
            build.arrays[unique] = array
            return PyValue(Load(unique, (), dtype), weak=given.kind == "python")
        self._parameters.append(Parameter(unique, "int"))
        build.entry.add(unique)
        value: Expr = Var(unique)
        if dtype == BOOL:
            value = Binary("ne", value, Const(0))
        elif dtype != INT64:
            value = Cast(value, dtype)
        return PyValue(value, weak=given.kind == "python")

    def _array(self, place: int, name: str, given: ArgType) -> ArrayValue:
        build = self._build
        shape: list[Expr] = []
        for dimension in range(given.rank):
            if (place, dimension) in build.variant.ones:
                shape.append(Const(1))
                continue
            size = build.names.fresh(f"{name}_n{dimension}")
            self._sizes.append(size)
            build.entry.add(size)
            build.ranges.sizes.add(size)
            shape.append(Var(size))
        order = build.variant.order(place, given.rank)
        is_plain = order == tuple(range(given.rank))
        array = ProcedureArray(
            name, given.element, tuple(shape), ArrayRole.ARGUMENT, () if is_plain else order
        )
        build.arrays[name] = array
        if place in build.variant.gapped:
            build.gapped.add(name)
        return memory_value(whole_view(name, array.dtype, array.shape))

    # -- helpers ----------------------------------------------------------------------------------

    def _call(self, function: FunctionType, node: ast.Call, given: CallArguments) -> AnyValue:
        """The value of a call of a plain function, whose statements are read here."""
        if function in self._calls or function is self._function:
            chain = " -> ".join(f.__name__ for f in (*self._calls, function))
            raise Refusal("LW195", "a recursive call cannot be compiled", found=chain)
        if len(self._calls) >= _MOST_CALLS:
            raise Refusal("LW195", "too many helpers call each other")
        source = read_source(function)
        values, captures = self._reader(function, source)
        values.env.update(_bound(function, given))
        self._calls.append(function)
        self._names.append(given.name)
        body = BodyReader(self._build, values, self._faults, None)
        count = len(self._faults)
        result = body.function(source.definition.body)
        self._calls.pop()
        self._names.pop()
        if function in _PRELUDE_FUNCTIONS:  # they read names of ours, which do not change
            captures = Captures(function)
        # Names that the helper reads, as the function that is compiled finds them.
        prefix = ".".join([*self._names, given.name])
        self._helper_captures |= {f"{prefix}.{name}": v for name, v in captures.items()}
        if len(self._faults) > count:
            raise Reported
        if isinstance(result, Unknown):
            raise Refusal("LW195", f"the result of '{given.name}' {result.why}")
        return result


def _bound(function: FunctionType, given: CallArguments) -> dict[str, AnyValue]:
    """The parameters of a helper with the values of a call."""
    try:
        bound = inspect.signature(function).bind(*given.args, **given.keywords)
    except TypeError as error:
        raise Refusal("LW124", f"'{given.name}': {error}") from None
    found: dict[str, AnyValue] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Refusal("LW124", f"'{given.name}' takes starred arguments")
        if name in bound.arguments:
            found[name] = bound.arguments[name]
        else:
            found[name] = _default(parameter.default)
    return found


def _default(value: object) -> AnyValue:
    if isinstance(value, bool | int | float | complex):
        return constant(value)
    if isinstance(value, tuple):
        return TupleValue(tuple(map(_default, value)))
    return StaticValue(value)


def _parameters(source: FunctionSource) -> list[ast.arg]:
    args = source.definition.args
    starred = args.vararg or args.kwarg
    if starred is not None:
        message, hint = "a starred parameter cannot be compiled", "name every parameter"
        raise SourceError(Diagnostic(source.span(starred), message, "LW127", hint=hint))
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]
