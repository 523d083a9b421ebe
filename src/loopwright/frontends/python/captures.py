"""The outer names that a Python function uses, and the values they have."""

from __future__ import annotations

import builtins
from types import FunctionType, ModuleType

__all__ = ["MISSING", "Captures", "is_unchanged", "lookup"]


class _Missing:
    """The type of MISSING."""


MISSING = _Missing()  # what a name stands for that is not defined


class Captures:
    """The names a function takes from outside, with the values they had when first asked for."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._found: dict[str, object] = {}

    def resolve(self, dotted: str) -> object:
        """Return the value of an outer name such as `n` or `np.pi`, or MISSING, and note it."""
        value = lookup(self._function, dotted)
        if not isinstance(value, ModuleType | _Missing):
            self._found[dotted] = value
        return value

    def items(self) -> tuple[tuple[str, object], ...]:
        """Every name asked for that stands for a value."""
        return tuple(self._found.items())


def is_unchanged(function: FunctionType, captured: tuple[tuple[str, object], ...]) -> bool:
    """Whether the outer names of a parsed function still have the values it was parsed with."""
    return all(_same(lookup(function, name), value) for name, value in captured)


def _same(new: object, old: object) -> bool:
    if new is old:
        return True
    # 1, 1.0 and True are equal but make different programs; repr tells 0.0 from -0.0, and nans.
    return type(new) is type(old) and repr(new) == repr(old)


def lookup(function: FunctionType, dotted: str) -> object:
    """Return what a dotted name stands for; attributes are followed in modules and classes."""
    name, *attributes = dotted.split(".")
    value = _variable(function, name)
    for attribute in attributes:
        if not isinstance(value, ModuleType | type):
            return MISSING
        value = getattr(value, attribute, MISSING)
    return value


def _variable(function: FunctionType, name: str) -> object:
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        cell = function.__closure__[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # the enclosing function has not assigned it yet
            return MISSING
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, MISSING)
