"""Names in expressions: loop variables, arguments, locals, and numbers from outside."""

from __future__ import annotations

import ast
import difflib

import numpy as np

from loopwright.frontends.python.captures import MISSING, Captures
from loopwright.frontends.python.scope import Scope
from loopwright.frontends.python.values import Refusal, Reported, Value, constant
from loopwright.frontends.tree import ArrayParam, IntParam, Local
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Load, Var

__all__ = ["Lookup"]


class Lookup:
    """Finds what names stand for at the place being read."""

    def __init__(self, scope: Scope, captures: Captures) -> None:
        self._scope = scope
        self._captures = captures
        self.untyped: list[ast.Name] = []  # reads of locals that have no type yet

    def array(self, node: ast.expr) -> ArrayParam | Local:
        """The array that `node` names."""
        if isinstance(node, ast.Name) and node.id not in self._scope.loops:
            if node.id in self._scope.arrays:
                return self._scope.arrays[node.id]
            param = self._scope.params.get(node.id)
            if param is not None and isinstance(param[0], ArrayParam):
                return param[0]
            if not self._is_own(node.id) and self._captures.resolve(node.id) is MISSING:
                raise self._unknown(node.id)
        raise Refusal(
            "LW115",
            f"'{ast.unparse(node)}' is not an array",
            hint="only array arguments and local arrays have elements",
        )

    def resolve(self, node: ast.expr) -> tuple[str, object]:
        """The dotted name `node` and the outer object it stands for, or MISSING."""
        parts: list[str] = []
        base = node
        while isinstance(base, ast.Attribute):
            parts.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or self._is_own(base.id):
            return ast.unparse(node), MISSING
        dotted = ".".join([base.id, *parts])
        return dotted, self._captures.resolve(dotted)

    def _is_own(self, name: str) -> bool:
        """Whether a name belongs to the function rather than to what surrounds it."""
        scope = self._scope
        return name in scope.params or name in scope.assigned or name in scope.counters

    def value(self, node: ast.Name) -> Value:
        """What a bare name stands for."""
        scope, name = self._scope, node.id
        if name in scope.loops:
            return Value(Var(scope.loops[name]), weak=True)
        if name in scope.known:
            return scope.known[name]
        if name in scope.arrays:
            return _whole(name, scope.arrays[name])
        if name in scope.params:
            return self._param(name)
        if name in scope.counters:
            raise Refusal(
                "LW107",
                f"the loop variable '{name}' is used outside its loop",
                hint="compute the value from the bounds of the loop",
            )
        if name not in scope.assigned:
            return self.captured(node, name)
        if name in scope.types:
            dtype, weak = scope.types[name]
            return Value(Load(scope.scalar(name), (), dtype), weak)
        self.untyped.append(node)
        raise Reported

    def _param(self, name: str) -> Value:
        param, given = self._scope.params[name]
        if isinstance(param, ArrayParam):
            return _whole(name, param)
        if isinstance(param, IntParam):
            return Value(Var(param.name), weak=given.kind == "python")
        return Value(Load(param.name, (), param.dtype), weak=given.kind == "python")

    def captured(self, node: ast.expr, dotted: str) -> Value:
        """The outer number `dotted`, by value."""
        value = self._captures.resolve(dotted)
        if isinstance(value, np.generic):
            is_number = value.dtype.name in DTYPES
        else:
            is_number = isinstance(value, bool | int | float | complex)
        if is_number:
            assert isinstance(value, bool | int | float | complex | np.generic)
            return constant(value)
        if value is MISSING:
            raise self._unknown(dotted)
        raise Refusal(
            "LW129",
            f"'{ast.unparse(node)}' is not a number",
            found=f"an object of type '{type(value).__qualname__}' from outside the function",
            hint="numbers are captured by value; pass arrays as arguments",
        )

    def _unknown(self, name: str) -> Refusal:
        scope = self._scope
        known = [*scope.params, *sorted(scope.assigned), *scope.loops]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else "pass it as an argument"
        return Refusal("LW102", f"the name '{name}' is not defined", hint=hint)


def _whole(name: str, array: ArrayParam | Local) -> Value:
    """A bare array name: an array of rank 0 is its element."""
    if array.shape:
        subscripts = ", ".join("ijkl"[: len(array.shape)]) if len(array.shape) < 5 else "i, ..."
        raise Refusal(
            "LW116",
            f"the array '{name}' is used as a number",
            hint=f"write the loop over its elements {name}[{subscripts}]",
        )
    return Value(Load(array.name, (), array.dtype))
