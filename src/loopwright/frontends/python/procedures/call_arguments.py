"""Arguments of a call in a function that is read: by position and by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.ir.expr import Const, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "CallArguments",
    "array_argument",
    "axes_of",
    "dtype_argument",
    "is_none",
    "shape_argument",
    "static_integer",
]

_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


@dataclass(frozen=True, slots=True)
class CallArguments:
    """What a call passes."""

    name: str  # of the function, as it is written
    args: tuple[AnyValue, ...]
    keywords: dict[str, AnyValue]

    def bound(self, *names: str, needed: int = 0) -> list[AnyValue | None]:
        """The value of each parameter, None where it is left out."""
        if len(self.args) > len(names):
            text = f"'{self.name}' takes at most {len(names)} arguments here"
            raise Refusal("LW124", text, found=str(len(self.args)))
        found: dict[str, AnyValue | None] = dict.fromkeys(names)
        found.update(zip(names, self.args, strict=False))
        for name, value in self.keywords.items():
            if name not in names:
                hint = ", ".join(f"{x}=" for x in names[needed:])
                raise Refusal("LW124", f"'{self.name}' takes no {name}= here", hint=hint)
            if found[name] is not None:
                raise Refusal("LW124", f"'{self.name}' is given {name} twice")
            found[name] = value
        for name in names[:needed]:
            if found[name] is None:
                raise Refusal("LW124", f"'{self.name}' needs {name}")
        return list(found.values())


def is_none(value: AnyValue | None) -> bool:
    """Whether an argument is left out, or None."""
    return value is None or (isinstance(value, StaticValue) and value.value is None)


def dtype_argument(value: AnyValue | None, default: DType) -> DType:
    """The dtype that an argument names."""
    if value is None or (isinstance(value, StaticValue) and value.value is None):
        return default
    if isinstance(value, StaticValue):
        given = value.value
        if isinstance(given, type) and given in _PYTHON:
            return DTYPES[_PYTHON[given]]
        if isinstance(given, np.dtype | str) or (
            isinstance(given, type) and issubclass(given, np.generic)
        ):
            return dtype_of(given)
    raise Refusal("LW183", "this is no dtype that is compiled", found=str(value))


def static_integer(value: AnyValue, what: str) -> int:
    """An integer that is known when the function is compiled."""
    if isinstance(value, PyValue) and isinstance(value.expr, Const) and value.dtype.is_integer:
        return int(value.expr.value.real)
    raise Refusal("LW184", f"{what} is not a constant integer", found=str(value))


def shape_argument(build: Building, value: AnyValue) -> tuple[Expr, ...]:
    """A shape: an integer or a tuple of them."""
    items: Sequence[AnyValue] = value.items if isinstance(value, TupleValue) else (value,)
    found = []
    for item in items:
        if not isinstance(item, PyValue):
            raise Refusal("LW114", "an extent is not an integer", found=str(item))
        extent = build.index(item, "an extent")
        build.require(extent, "ValueError", "negative dimensions are not allowed", ())
        found.append(extent)
    return tuple(found)


def axes_of(value: AnyValue | None, rank: int) -> tuple[int, ...]:
    """The axes that an argument names, in order; all of them where it is left out."""
    if is_none(value):
        return tuple(range(rank))
    assert value is not None
    items = value.items if isinstance(value, TupleValue) else (value,)
    found = [static_integer(item, "an axis") for item in items]
    if not all(-rank <= axis < rank for axis in found):
        raise Refusal("LW111", f"axis {found} of an array of rank {rank}")
    plain = tuple(axis % rank for axis in found)
    if len(set(plain)) != len(plain):
        raise Refusal("LW111", "an axis is named twice", found=str(plain))
    return plain


def array_argument(value: AnyValue | None, name: str) -> ArrayValue:
    """An argument that has to be an array."""
    if isinstance(value, ArrayValue):
        return value
    raise Refusal("LW115", f"'{name}' is not given an array", found=str(value))
