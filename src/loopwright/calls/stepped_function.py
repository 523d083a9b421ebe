"""A whole function that runs in steps: compiled segments, and between them what Python does.

Python makes the calls whose code is not ours (of NumPy's libraries, and those that the user names)
and runs the loops and conditions around them. A segment is compiled when it is reached, for the
types that are seen then; one that is not for compiled code runs as the Python function it is.
Nothing is ever started again.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from loopwright.calls.jit_dispatch import NativeCalls, install_native_calls
from loopwright.calls.procedure_function import ProcedureFunction
from loopwright.diagnostics import SourceError, UsageError
from loopwright.frontends.python.fingerprint import ArgType, argument_types, is_unchanged
from loopwright.frontends.python.function_source import FunctionSource, read_source
from loopwright.frontends.python.steps.called_functions import CalledFunctions
from loopwright.frontends.python.steps.make_functions import definition_of, made_function
from loopwright.frontends.python.steps.remedies import Remedies
from loopwright.frontends.python.steps.split_function import Steps, split_function
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.memo import BoundedCache

if TYPE_CHECKING:
    from loopwright.runtime.call_table import CallProgram

__all__ = ["PartFunction", "StepOptions", "SteppedFunction"]

_MOST_CODES = 64  # of one part, by types and by what is handed over
_MOST_LEAVES = 32  # numbers and arrays in tuples that a part is given
_STATIC = (
    str,
    type,
    np.dtype,
    FunctionType,
    BuiltinFunctionType,
    np.ufunc,
    ModuleType,
    type(...),
    slice,
)
Whole: TypeAlias = "ProcedureFunction | SteppedFunction"
Code: TypeAlias = "Whole | _PythonCode"


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What all parts of a function share."""

    named: Callable[[object], bool]  # functions that the user leaves to Python
    threads: Callable[[], int]
    leaves_to_python: bool  # what is refused; else it raises
    captured: dict[str, object]  # outer names that count, the values they had


class _PythonCode:
    """A part that runs as the Python function it is."""

    def __init__(self, function: FunctionType, reason: str) -> None:
        self._function, self.reason = function, reason
        self.captured: tuple[tuple[str, object], ...] = ()

    def __call__(self, args: tuple[Any, ...], threads: int) -> Any:
        log("python", lambda: f"{self._function.__qualname__}: {self.reason}")
        return self._function(*args)

    def explain(self) -> str:
        return f"left to Python: {self.reason}"


class PartFunction:
    """A function of Python that is compiled for the types it is called with, as far as it goes.

    `prefix`: what stands before its outer names where the whole function sees them.
    """

    def __init__(self, function: FunctionType, options: StepOptions, prefix: str = "") -> None:
        self.function = function
        self.codes: BoundedCache[tuple[ArgType, ...], Code] = BoundedCache(_MOST_CODES)
        self._options, self._prefix = options, prefix
        self._stepped: dict[tuple[Any, ...], SteppedFunction] = {}
        self._flat: BoundedCache[tuple[Any, ...], PartFunction] = BoundedCache(_MOST_CODES)
        self._native: NativeCalls | None = None
        if _has_native_calls():
            self._native = NativeCalls(function, self._call)
            self._dispatch_words = self._native.words  # by this name native code finds them

    def _call(self, *args: Any, **named: Any) -> Any:
        count = self.function.__code__.co_argcount + self.function.__code__.co_kwonlyargcount
        if named or len(args) != count:
            import inspect  # lazy: most calls pass everything by position, and it loads slowly

            bound = inspect.signature(self.function).bind(*args, **named)
            bound.apply_defaults()
            args = tuple(bound.arguments.values())
        try:
            types = argument_types(args)
        except UsageError as error:
            return self._with_others(args, error)
        threads = self._options.threads()
        result = self.code(types, args)(args, threads)
        if self._native is not None:
            self._native.remember(args, threads, self._known)
        return result

    __call__ = _call

    def _known(self, args: tuple[Any, ...]) -> ProcedureFunction | None:
        """The code that a call has run, which native code may run again."""
        found = self.codes.get(argument_types(args))
        return found if isinstance(found, ProcedureFunction) else None

    def code(self, types: tuple[ArgType, ...], args: tuple[Any, ...]) -> Code:
        """The code for arguments of these types."""
        found = self.codes.get(types)
        if found is None or not is_unchanged(self.function, _captured_by(found)):
            if self._native is not None:
                self._native.forget()
            found = self.codes[types] = self._compiled(types, args)
            self._note(found)
        return found

    def _compiled(self, types: tuple[ArgType, ...], args: tuple[Any, ...]) -> Code:
        try:
            return self.whole(types, args)
        except SourceError as error:
            is_rank_0 = any(x.kind == "array" and not x.rank for x in types)
            if is_rank_0 or self._options.leaves_to_python:
                return _PythonCode(self.function, str(error))
            raise

    def whole(self, types: tuple[ArgType, ...], args: tuple[Any, ...]) -> Whole:
        """The function as a whole, or in steps; raises SourceError where it is refused."""
        stepped = self.in_steps(None)
        if stepped is not None:
            return stepped
        found = ProcedureFunction(self.function, types)
        try:
            found.read_for(args)
        except SourceError as error:
            stepped = self.in_steps(error)
            if stepped is None:
                raise
            return stepped
        return found

    def _note(self, code: Code) -> None:
        if not isinstance(code, SteppedFunction):  # whose parts do that themselves
            found = {f"{self._prefix}{name}": value for name, value in code.captured}
            self._options.captured.update(found)

    def in_steps(self, error: SourceError | None) -> SteppedFunction | None:
        """The function in steps, or None where it has none: after a refusal, or at once."""
        source = read_source(self.function)
        source = replace(source, definition=copy.deepcopy(source.definition))
        calls = CalledFunctions(self.function, source, self._options.named)
        remedies = Remedies(source, calls)
        remedies.marked += calls.called()
        if error is not None and not remedies.find(error):
            return None
        if not remedies.marked and not remedies.opened:
            return None
        remedies.widen()
        key = tuple(sorted(f"{source.span(x)} {ast.dump(x)}" for x in remedies.nodes()))
        if key not in self._stepped:
            found = SteppedFunction(self.function, source, calls, remedies, self._options)
            self._options.captured.update(
                (f"{self._prefix}{name}", value) for name, value in calls.captures.items()
            )
            self._stepped[key] = found
        return self._stepped[key]

    # -- what is no array and no number -----------------------------------------------------------

    def _with_others(self, args: tuple[Any, ...], error: UsageError) -> Any:
        """A call with tuples, functions, None: their numbers and arrays become the arguments."""
        stepped = self.in_steps(None)
        if stepped is not None:
            return stepped(args, self._options.threads())
        given = _Flat(args)
        if given.is_other:
            return _PythonCode(self.function, str(error))(args, 1)
        key = tuple(given.shapes)
        if key not in self._flat:
            made = _flat_function(self.function, given)
            self._flat[key] = PartFunction(made, self._options, self._prefix)
        return self._flat[key](*given.leaves)


@cache
def _has_native_calls() -> bool:
    """Whether calls go to the native dispatcher first; asked when the first part is made."""
    return install_native_calls(PartFunction)


def _captured_by(code: Code) -> tuple[tuple[str, object], ...]:
    """The outer names that the code of a function has read itself."""
    return code.here if isinstance(code, SteppedFunction) else code.captured


class _Flat:
    """Arguments with tuples taken apart."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.leaves: list[Any] = []  # numbers and arrays
        self.statics: list[object] = []
        self.is_other = False  # something is neither
        self.shapes = [self._shape(arg) for arg in args]

    def _shape(self, arg: Any) -> Any:
        """What a value is made of: a leaf, an object that is known, or a tuple of such."""
        if type(arg) in (tuple, list):
            return type(arg), tuple(map(self._shape, arg))
        if arg is None or isinstance(arg, _STATIC):
            self.statics.append(arg)
            return "static", repr(arg) if isinstance(arg, str | slice) else id(arg)
        try:
            argument_types((arg,))
        except UsageError:
            self.is_other = True
        self.leaves.append(arg)
        self.is_other = self.is_other or len(self.leaves) > _MOST_LEAVES
        return "leaf"


def _flat_function(function: FunctionType, given: _Flat) -> FunctionType:
    """The function of the leaves of its arguments."""
    source = read_source(function)
    definition, place = source.definition, source.definition.body[0]
    names = [arg.arg for arg in ast.walk(definition.args) if isinstance(arg, ast.arg)]
    parameters: list[str] = []
    statics: dict[str, object] = {}
    head: list[ast.stmt] = []

    def value(name: str, shape: Any) -> ast.expr:
        if shape == "leaf":
            parameters.append(name)
            found: ast.expr = ast.Name(name, ast.Load())
        elif shape[0] == "static":
            statics[f"{name}_static"] = given.statics[len(statics)]
            found = ast.Name(f"{name}_static", ast.Load())
        else:
            items = [value(f"{name}_{k}_", inner) for k, inner in enumerate(shape[1])]
            kind = ast.Tuple if shape[0] is tuple else ast.List
            found = kind(items, ast.Load())
        return ast.copy_location(found, place)

    for name, shape in zip(names, given.shapes, strict=True):
        found = value(name, shape)
        if shape != "leaf":
            target = ast.copy_location(ast.Name(name, ast.Store()), place)
            head.append(ast.copy_location(ast.Assign([target], found), place))
    new = definition_of(definition.name, tuple(parameters), [*head, *definition.body], place)
    return made_function(new, function, source, statics)


class SteppedFunction:
    """A function in steps."""

    def __init__(
        self,
        function: FunctionType,
        source: FunctionSource,
        calls: CalledFunctions,
        remedies: Remedies,
        options: StepOptions,
    ) -> None:
        self._function, self._source, self._options = function, source, options
        self.here = calls.captures.items()  # outer names that decide what the steps are
        self._remedies = remedies
        made = [node for node in remedies.marked if isinstance(node, ast.Call)]
        named = [node for node in made if options.named(calls.static(node.func))]
        helpers = [x for x in made if calls.helper(x) is not None and x not in named]
        steps = split_function(source, remedies.marked, remedies.opened, helpers, named)
        self._steps: Steps = steps
        self._parts = {
            x.name: PartFunction(made_function(x.definition, function, source), options)
            for x in steps.segments
        }
        parts = dict(self._parts)
        for name, call in steps.helpers.items():
            helper = calls.helper(call)
            assert helper is not None
            parts[name] = PartFunction(helper, options, f"{ast.unparse(call.func)}.")
        self._driver = made_function(steps.driver, function, source, parts)

    @property
    def captured(self) -> tuple[tuple[str, object], ...]:
        """The outer names that count, with the values they had."""
        return tuple(self._options.captured.items())

    def __call__(self, args: tuple[Any, ...], threads: int) -> Any:
        """Run the steps."""
        del threads
        return self._driver(*args)

    def record(self, program: CallProgram, args: tuple[Any, ...], threads: int) -> bool:
        """Leave such calls to Python."""
        del program, args, threads
        return False

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What is compiled, and what Python does in between."""
        del args, threads
        calls = self._remedies.marked
        lines = [
            f"a whole function in {len(self._parts)} compiled segments,"
            f" driven by Python, which makes {len(calls)} call{'s' * (len(calls) != 1)}"
        ]
        for node in sorted(self._remedies.nodes(), key=lambda n: n.lineno):
            span = self._source.span(node)
            lines.append(f"  line {span.line}: {ast.unparse(node).splitlines()[0]}")
        lines.append(ast.unparse(self._driver_shown()))
        for name, part in self._parts.items():
            for types, code in part.codes.items():
                shown = ", ".join(x.dtype + "[]" * x.rank for x in types)
                lines += [f"{name}({shown}):", *_indented(code.explain())]
        return "\n".join(lines)

    def _driver_shown(self) -> ast.FunctionDef:
        return self._steps.driver

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """Refuse: each segment has code of its own."""
        raise UsageError(f"'{self._function.__name__}' runs in steps: there is no one {stage}")

    def inspect_schedule(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """The steps in the order they run."""
        return self.explain(args, threads)

    def plan_of(self, args: tuple[Any, ...], threads: int) -> Any:
        """Refuse: segments run in source order."""
        raise UsageError(f"'{self._function.__name__}' runs in steps, which have no plan")

    def task(self, args: tuple[Any, ...], threads: int, *, as_loops: bool = False) -> Any:
        """Refuse: there are no plans to measure."""
        return self.plan_of(args, threads)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
