"""Which calls of a function Python makes where they stand, since their code is not ours to compile.

These are the functions of NumPy and SciPy that the reader of whole functions does not know, the
methods of arrays and random generators that it does not know, functions that the user has named,
and helpers that hold such calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import FunctionType

import numpy as np

from loopwright.diagnostics import LoopwrightError
from loopwright.frontends.python.fingerprint import MISSING, Captures
from loopwright.frontends.python.function_source import FunctionSource, read_source
from loopwright.frontends.python.name_resolution import assigned_names, loop_names
from loopwright.frontends.python.prelude.prelude_functions import PRELUDE
from loopwright.frontends.python.procedures.array_functions import FUNCTIONS_OF_ARRAYS
from loopwright.frontends.python.procedures.array_operations import is_elementwise
from loopwright.frontends.python.procedures.array_reductions import REDUCTIONS
from loopwright.frontends.python.procedures.array_views import FUNCTIONS_OF_VIEWS

__all__ = ["CalledFunctions", "is_foreign", "local_names"]

_GENERATORS = (np.random.Generator, np.random.RandomState)
_METHODS = frozenset(
    name for kind in _GENERATORS for name in dir(kind) if not hasattr(np.ndarray, name)
) | {
    "sort", "argsort", "partition", "argpartition", "searchsorted", "nonzero", "repeat", "choose",
    "compress",
}  # fmt: skip


def is_foreign(function: object) -> bool:
    """Whether a function is one of NumPy or SciPy."""
    if isinstance(function, np.ufunc):
        return True
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or type(owner).__module__
    return callable(function) and str(module).split(".")[0] in ("numpy", "scipy")


def _is_read(function: object) -> bool:
    """Whether the reader of whole functions knows a function."""
    if isinstance(function, type) and issubclass(function, np.generic):
        return True
    tables = (FUNCTIONS_OF_ARRAYS, FUNCTIONS_OF_VIEWS, PRELUDE, REDUCTIONS)
    return any(function in table for table in tables) or is_elementwise(function)


def local_names(source: FunctionSource) -> frozenset[str]:
    """The names that belong to a function: its parameters, and what it assigns."""
    body, args = source.definition.body, source.definition.args
    every = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    return frozenset(assigned_names(body) | loop_names(body) | every)


class CalledFunctions:
    """The calls in one function, by what they call."""

    def __init__(
        self,
        function: FunctionType,
        source: FunctionSource,
        named: Callable[[object], bool],
        outer: frozenset[FunctionType] = frozenset(),
    ) -> None:
        """`named` are functions that the user leaves to Python; `outer` call this one."""
        self.captures = Captures(function)
        self._source, self._named = source, named
        self._own = local_names(source)
        self._outer = outer | {function}

    def called(self) -> Iterator[ast.Call]:
        """The calls that Python makes."""
        for node in ast.walk(self._source.definition):
            if isinstance(node, ast.Call) and self._is_called(node):
                yield node

    def helpers(self) -> Iterator[ast.Call]:
        """The calls of plain functions."""
        for node in ast.walk(self._source.definition):
            if isinstance(node, ast.Call) and self.helper(node) is not None:
                yield node

    def helper(self, node: ast.Call) -> FunctionType | None:
        """The plain function that a call names."""
        found = self.static(node.func)
        found = getattr(found, "py_func", found)
        return found if isinstance(found, FunctionType) and not is_foreign(found) else None

    def static(self, node: ast.expr) -> object:
        """The outer object that a dotted name stands for, or MISSING."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self._own:
            return MISSING
        return self.captures.resolve(".".join([node.id, *parts]))

    def _is_called(self, node: ast.Call) -> bool:
        function = self.static(node.func)
        if function is MISSING:
            return isinstance(node.func, ast.Attribute) and self._is_method(node.func)
        if self._named(function):
            return True
        helper = self.helper(node)
        if helper is not None:
            return self._calls_inside(helper)
        return is_foreign(function) and not _is_read(function)

    def _is_method(self, node: ast.Attribute) -> bool:
        owner = self.static(node.value)
        if owner is MISSING:
            return node.attr in _METHODS
        return isinstance(owner, _GENERATORS)

    def _calls_inside(self, helper: FunctionType) -> bool:
        if helper in self._outer:
            return False
        try:
            source = read_source(helper)
        except LoopwrightError:
            return False
        inside = CalledFunctions(helper, source, self._named, self._outer)
        return any(True for _ in inside.called())
