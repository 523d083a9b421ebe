"""A Python function and the types of its arguments to a Procedure."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType

import numpy as np

from loopwright.diagnostics import (
    Collector,
    Diagnostic,
    LoopwrightError,
    SourceError,
    UsageError,
)
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.python.fingerprint import ArgType, Captures, NewCapture, argument_types
from loopwright.frontends.python.function_source import FunctionSource, read_source
from loopwright.frontends.python.name_resolution import assigned_names, loop_names
from loopwright.frontends.python.prelude.prelude_functions import is_of_prelude
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    Unknown,
    memory_value,
    whole_view,
)
from loopwright.frontends.python.procedures.body_reader import BodyReader
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import CallArguments
from loopwright.frontends.python.procedures.call_reader import Helper
from loopwright.frontends.python.procedures.inlined_returns import HelperReturns, WiderReturn
from loopwright.frontends.python.procedures.local_functions import (
    LocalFunction,
    bound_parameters,
    parameters_of,
)
from loopwright.frontends.python.procedures.reading_context import ReadingContext
from loopwright.frontends.python.procedures.returned_values import ReturnedValues
from loopwright.frontends.python.procedures.value_reader import ValueReader
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.frontends.python.python_values import PyType, PyValue
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import BOOL, DTYPES, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.procedure import ArrayRole, Parameter, Procedure, ProcedureArray

__all__ = ["read_procedure"]

_MOST_CALLS = 24  # helpers inside of each other


def read_procedure(
    function: FunctionType,
    types: Sequence[ArgType],
    variant: Variant | None = None,
    hidden: Sequence[str] = (),
) -> Procedure:
    """The Procedure of a function for types of arguments, one per parameter in order.

    `hidden` are outer names of arrays, which are parameters behind the others. Raises SourceError
    with every fault found, and NewCapture at an array from outside that is not among them.
    """
    return _Reading(function, types, variant or Variant(), hidden).procedure()


class _Reading:
    """One function being read, with the helpers it calls."""

    def __init__(
        self,
        function: FunctionType,
        types: Sequence[ArgType],
        variant: Variant,
        hidden: Sequence[str],
    ) -> None:
        self._function = function
        self._hidden = hidden
        self._hidden_arrays: dict[str, AnyValue] = {}
        self._paths: list[tuple[str, Captures]] = []  # where helpers find their outer names
        self._types = types
        self._build = Building(FreshNames(), variant)
        self._faults = Collector()
        self._captures: list[Captures] = []
        self._calls: list[Helper] = []
        self._results = ReturnedValues(self._build)
        self._parameters: list[Parameter] = []
        self._sizes: list[str] = []
        self._helper_captures: dict[str, object] = {}

    def procedure(self) -> Procedure:
        source = read_source(self._function)
        captures = Captures(self._function)
        self._paths.append(("", captures))
        values = self._reader(source, captures, source.definition.args, source.definition.body)
        self._build.span = source.span(source.definition)
        names = _parameters(source)
        if len(names) != len(self._types) - len(self._hidden):
            raise UsageError(
                f"'{source.definition.name}' takes {len(names)} arguments",
                found=f"{len(self._types)}",
            )
        for place, (name, given) in enumerate(zip(names, self._types, strict=False)):
            try:
                values.env[name.arg] = self._argument(place, name.arg, given)
            except Refusal as refusal:
                values.report(refusal, name)
                values.env[name.arg] = Unknown("")
        for place, path in enumerate(self._hidden, len(names)):
            self._hidden_arrays[path] = self._argument(place, path, self._types[place])
        body = source.definition.body
        BodyReader(self._build, values, self._faults, self._results).function(body)
        self._faults.raise_if_any()
        build, returned = self._build, self._results.final()
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
            self._results.late,
            tuple(build.claims.values()),
            tuple((name, _kept(x)) for name, x in self._outer_names(captures)),
        )

    def _outer_names(self, captures: Captures) -> tuple[tuple[str, object], ...]:
        return (*captures.items(), *self._helper_captures.items())

    def _captured_array(self, captures: Captures, name: str, value: object) -> AnyValue:
        """An array from outside, as one more argument."""
        path = next((path for path, own in self._paths if own is captures), None)
        try:
            argument_types((value,))
        except LoopwrightError:
            path = None
        if path is None:
            text = f"'{name}' is an array from outside the function"
            raise Refusal("LW129", text, hint="pass it as an argument")
        if path + name not in self._hidden_arrays:
            raise NewCapture(path + name)
        return self._hidden_arrays[path + name]

    def _path_of(self, function: FunctionType) -> str | None:
        """How the compiled function finds a helper, whose outer names stand behind that."""
        for path, captures in self._paths:
            for name, value in captures.items():
                if getattr(value, "py_func", value) is function:
                    return f"{path}{name}."
        return None

    def _reader(
        self,
        source: FunctionSource,
        captures: Captures,
        args: ast.arguments,
        body: Sequence[ast.stmt],
        enclosing: ReadingContext | None = None,
    ) -> ValueReader:
        names = {arg.arg for arg in parameters_of(args)}
        own = assigned_names(body) | loop_names(body) | names
        return ValueReader(
            self._build,
            source,
            captures,
            self._faults,
            own,
            self._call,
            self._captured_array,
            enclosing,
        )

    # -- arguments --------------------------------------------------------------------------------

    def _argument(self, place: int, name: str, given: ArgType) -> AnyValue:
        build = self._build
        unique = build.names.fresh(name)
        dtype = given.element
        if given.kind == "array":
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

    def _call(self, function: Helper, given: CallArguments) -> AnyValue:
        """The value of a call of a helper, whose statements are read here."""
        is_ours = isinstance(function, FunctionType) and is_of_prelude(function)
        is_open = function in self._calls or function is self._function
        if is_open and not is_ours:  # the prelude calls itself with arrays of lower rank
            chain = " -> ".join(_name(f) for f in (*self._calls, function))
            raise Refusal("LW195", "a recursive call cannot be compiled", found=chain)
        if len(self._calls) >= _MOST_CALLS:
            raise Refusal("LW195", "too many helpers call each other")
        bound = bound_parameters(function, given)
        if isinstance(function, LocalFunction):
            around, args, body = function.values, function.node.args, function.body
            source, captures = around.source, around.captures
            values = self._reader(source, captures, args, body, around)
        else:
            source, captures = read_source(function), Captures(function)
            path = "" if is_ours else self._path_of(function)
            if path is None:
                text = f"the helper '{given.name}' is no name outside of the function"
                raise Refusal("LW195", text, hint="call it by the name of its definition")
            if not is_ours:
                self._paths.append((path, captures))
            body = source.definition.body
            values = self._reader(source, captures, source.definition.args, body)
        count = len(self._faults)
        self._calls.append(function)
        try:
            result = self._inlined(values, body, bound)
        finally:
            self._calls.pop()
        # Names of the prelude are ours and do not change.
        if isinstance(function, FunctionType) and not is_ours:
            # Names that the helper reads, as the function that is compiled finds them.
            self._helper_captures |= {f"{path}{name}": v for name, v in captures.items()}
        if len(self._faults) > count:
            if is_ours:  # whose text is no concern of the user's
                first, *_ = self._faults.take_from(count)
                text = f"'{given.name}' is not compiled for such arguments"
                raise Refusal("LW124", text, found=first.message)
            raise Reported
        return result

    def _inlined(
        self, values: ValueReader, body: Sequence[ast.stmt], bound: dict[str, AnyValue]
    ) -> AnyValue:
        """The result of statements that are read here, with the values of their parameters."""
        build = self._build
        start, written = len(build.blocks[-1]), set(build.written)
        types: dict[int, PyType] = {}
        while True:
            values.env = dict(bound)
            returns = HelperReturns(build, types)
            try:
                BodyReader(build, values, self._faults, returns).function(body)
            except WiderReturn as wider:
                types = wider.types
                del build.blocks[-1][start:]
                build.written = set(written)
            else:
                return returns.result()


def _kept(value: object) -> object:
    """What calls compare with the value of an outer name; of an array its type."""
    return argument_types((value,))[0] if isinstance(value, np.ndarray) else value


def _name(function: Helper) -> str:
    return function.name if isinstance(function, LocalFunction) else function.__name__


def _parameters(source: FunctionSource) -> list[ast.arg]:
    args = source.definition.args
    starred = args.vararg or args.kwarg
    if starred is not None:
        message, hint = "a starred parameter cannot be compiled", "name every parameter"
        raise SourceError(Diagnostic(source.span(starred), message, "LW127", hint=hint))
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]
