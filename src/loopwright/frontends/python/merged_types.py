"""The one type of a name: it holds every value that the name is given, or the name is refused.

NumPy's common type does not always: above 2**53 float64 has no place for all integers, and an
index does not fit into int8. So Python's integers count as int64 beside arrays of integers, and
64-bit integers do not join floats. Only Python's floats are rounded, to the precision of the
arrays that the name is assigned from, as `acc = 0.1; acc += a[i]` rounds them with float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from loopwright.frontends.python.python_values import (
    WEAK,
    PyType,
    PyValue,
    Value,
    convert,
    leaves,
)
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Const
from loopwright.lazy_dataclass import dataclass

__all__ = ["ValueTypes", "join", "merged", "refused_merge", "settled", "types_of"]

_PYTHON = {dtype: type(value).__name__ for dtype, value in WEAK.items()}
# Integers that a floating type holds all have fewer bits than this (signs count).
_WHOLE_BITS = {"float16": 12, "float32": 25, "float64": 54}


def join(types: Sequence[PyType]) -> PyType:
    """The common type of operands."""
    if all(weak for _, weak in types):
        order = list(WEAK)
        return max((dtype for dtype, _ in types), key=order.index), True
    found = np.result_type(*(WEAK[dtype] if weak else dtype.numpy for dtype, weak in types))
    return dtype_of(found), False


@dataclass(frozen=True, slots=True)
class ValueTypes:
    """The types of some values; of Python integers that are literals, the range."""

    types: frozenset[PyType] = frozenset()
    literals: tuple[int, int] | None = None

    def __str__(self) -> str:
        kinds = {*self.types, *({(INT64, True)} if self.literals else ())}
        names = {_PYTHON.get(dtype, dtype.name) if weak else dtype.name for dtype, weak in kinds}
        return " or ".join(sorted(names))

    def with_value(self, value: Value) -> ValueTypes:
        """These types and those of one more value."""
        found = self
        for leaf in leaves(value):
            match leaf:
                case PyValue(expr=Const(value=int() as number, dtype=dtype), weak=True) if (
                    dtype == INT64
                ):
                    low, high = found.literals or (number, number)
                    found = replace(found, literals=(min(low, number), max(high, number)))
                case _:
                    found = replace(found, types=found.types | {leaf.type})
        return found


def types_of(values: Iterable[Value]) -> ValueTypes:
    """The types of some values."""
    found = ValueTypes()
    for value in values:
        found = found.with_value(value)
    return found


def merged(found: ValueTypes) -> tuple[PyType, str]:
    """The type that holds values of all these types; in words what it does not hold, if so."""
    types, literals = sorted(found.types, key=str), found.literals
    strong = [dtype for dtype, weak in types if not weak]
    if (INT64, True) in types and strong and not any(d.is_float or d.is_complex for d in strong):
        types = [(INT64, False) if kind == (INT64, True) else kind for kind in types]
    if literals is not None:
        types.append((INT64, True))
    dtype, weak = join(types)
    if dtype.is_integer and not weak and literals is not None and not _fits(literals, dtype):
        dtype, weak = join([*types, (INT64, False)])
    lost = [kind for kind in types if not _holds(dtype, kind, literals, found)]
    return (dtype, weak), _in_words(lost, dtype)


def _fits(literals: tuple[int, int], dtype: DType) -> bool:
    return dtype.least <= literals[0] and literals[1] <= dtype.greatest


def _holds(dtype: DType, kind: PyType, literals: tuple[int, int] | None, found: ValueTypes) -> bool:
    """Whether a type has every value of a kind."""
    source, weak = kind
    if not source.is_integer or source == dtype:
        return True  # Python's floats are rounded where they join arrays
    if weak and kind not in found.types and literals is not None:  # only literals
        bits = max(abs(literals[0]), abs(literals[1])).bit_length() + 1
        return dtype.is_integer or bits <= _WHOLE_BITS[dtype.real.name]
    if dtype.is_integer:
        return dtype.least <= source.least and source.greatest <= dtype.greatest
    return source.bits + (source.kind == "u") <= _WHOLE_BITS[dtype.real.name]


def _in_words(lost: list[PyType], dtype: DType) -> str:
    if not lost:
        return ""
    names = {"int" if weak else source.name for source, weak in lost}
    return f"{dtype} does not hold every {' and every '.join(sorted(names))}"


def settled(value: Value, what: str = "this value") -> PyValue:
    """A value as one of a single type; refused where no type holds both of its sides."""
    if isinstance(value, PyValue):
        return value
    (dtype, weak), lost = merged(types_of([value]))
    if lost:
        raise refused_merge(what, types_of([value]), lost)
    return PyValue(convert(value, dtype), weak)


def refused_merge(what: str, types: ValueTypes, lost: str) -> Refusal:
    """The refusal of a value of several types that no type holds."""
    hint = "use another name, or convert: float(...) rounds, int(...) truncates"
    return Refusal("LW119", f"{what} is {types}: {lost}", hint=hint)
