"""Functions whose results are known when a function is compiled: of types, dtypes and tuples."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import numpy as np

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    Slice,
    StaticValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.call_arguments import (
    CallArguments,
    static_integer,
)
from loopwright.frontends.python.procedures.local_functions import default_value
from loopwright.frontends.python.python_values import WEAK, PyValue, constant
from loopwright.frontends.refusal import Refusal
from loopwright.ir.expr import Const
from loopwright.memo import IdentityMap

__all__ = ["static_attribute", "static_result"]

_MOST_ITEMS = 64  # of a range that is a tuple


def static_result(function: object, given: CallArguments) -> AnyValue | None:
    """What a call of such a function gives; None: it is none."""
    known = _FUNCTIONS.get(function)
    if known is None or given.keywords.keys() - {"strict"}:
        return None
    return known(given.args)


def static_attribute(value: object, name: str) -> AnyValue | None:
    """An attribute of a dtype, or of what describes one."""
    if isinstance(value, np.dtype | np.finfo | np.iinfo) and hasattr(value, name):
        return default_value(getattr(value, name))
    return None


def _is_instance(args: tuple[AnyValue, ...]) -> AnyValue:
    if len(args) != 2:
        raise Refusal("LW124", "'isinstance' takes 2 arguments", found=str(len(args)))
    value, types = args
    kinds = _types(types)
    match value:
        case TupleValue(is_list=is_list):
            return constant(issubclass(list if is_list else tuple, kinds))
        case PyValue(weak=True):
            return constant(issubclass(type(WEAK[value.dtype]), kinds))
        case PyValue():
            return constant(issubclass(value.dtype.numpy.type, kinds))
        case ArrayValue():
            return constant(issubclass(np.ndarray, kinds))
        case StaticValue(value=known):
            return constant(isinstance(known, kinds))
    raise Refusal("LW122", "the type of this is not known", found=str(value))


def _types(value: AnyValue) -> tuple[type, ...]:
    if isinstance(value, TupleValue):
        return tuple(kind for item in value.items for kind in _types(item))
    known = value.value if isinstance(value, StaticValue) else None
    every = getattr(known, "__args__", (known,))
    if not all(isinstance(kind, type) for kind in every):
        raise Refusal("LW122", "this is no type", found=str(value))
    return tuple(every)


def _slice(args: tuple[AnyValue, ...]) -> AnyValue:
    ends: list[PyValue | None] = []
    for end in args:
        if isinstance(end, StaticValue) and end.value is None:
            ends.append(None)
        elif isinstance(end, PyValue):
            ends.append(end)
        else:
            raise Refusal("LW114", "the bound of a slice is not an integer", found=str(end))
    start, stop, step = (None, *ends, None) if len(ends) == 1 else (*ends, None)[:3]
    return Slice(start, stop, step)


def _sequence(args: tuple[AnyValue, ...], *, is_list: bool) -> AnyValue | None:
    if not args:
        return TupleValue((), is_list)
    (only,) = args
    return TupleValue(only.items, is_list) if isinstance(only, TupleValue) else None


def _turned(value: AnyValue) -> AnyValue | None:
    return TupleValue(value.items[::-1]) if isinstance(value, TupleValue) else None


def _zip(args: tuple[AnyValue, ...]) -> AnyValue | None:
    lists = [value.items for value in args if isinstance(value, TupleValue)]
    if len(lists) < len(args):
        return None
    return TupleValue(tuple(map(TupleValue, zip(*lists, strict=False))))


def _enumerate(args: tuple[AnyValue, ...]) -> AnyValue | None:
    first, *start = args
    if not isinstance(first, TupleValue):
        return None
    at = static_integer(start[0], "the start") if start else 0
    pairs = ((constant(k), x) for k, x in enumerate(first.items, at))
    return TupleValue(tuple(map(TupleValue, pairs)))


def _range(args: tuple[AnyValue, ...]) -> AnyValue:
    if all(isinstance(x, PyValue) and isinstance(x.expr, Const) for x in args):
        numbers = range(*(static_integer(x, "a bound") for x in args))
        if len(numbers) <= _MOST_ITEMS:
            return TupleValue(tuple(map(constant, numbers)))
    raise Refusal("LW126", "range stands outside of a loop")


def _result_type(args: tuple[AnyValue, ...]) -> AnyValue:
    kinds: list[object] = []
    for value in args:
        match value:
            case PyValue(weak=True):
                kinds.append(WEAK[value.dtype])
            case PyValue() | ArrayValue():
                kinds.append(value.dtype.numpy)
            case StaticValue(value=known):
                kinds.append(known)
    return StaticValue(np.result_type(*kinds))  # type: ignore[arg-type]


def _of_statics(function: Callable[..., object]) -> Callable[..., AnyValue | None]:
    def call(args: tuple[AnyValue, ...]) -> AnyValue | None:
        known: list[object] = []
        for value in args:
            match value:
                case StaticValue():
                    known.append(value.value)
                case PyValue(expr=Const(value=number)):
                    known.append(number)
                case PyValue() | ArrayValue() if function in (np.finfo, np.iinfo):
                    known.append(value.dtype.numpy)
                case _:
                    return None
        return default_value(function(*known))

    return call


_FUNCTIONS: IdentityMap[object, Callable[[tuple[AnyValue, ...]], AnyValue | None]] = IdentityMap(
    [
        (builtins.isinstance, _is_instance),
        (builtins.tuple, lambda args: _sequence(args, is_list=False)),
        (builtins.list, lambda args: _sequence(args, is_list=True)),
        (builtins.range, _range),
        (builtins.zip, _zip),
        (builtins.enumerate, _enumerate),
        (builtins.reversed, lambda args: _turned(*args)),
        (builtins.slice, _slice),
        (np.result_type, _result_type),
        (np.promote_types, _of_statics(np.promote_types)),
        (np.issubdtype, _of_statics(np.issubdtype)),
        (np.dtype, _of_statics(np.dtype)),
        (np.finfo, _of_statics(np.finfo)),
        (np.iinfo, _of_statics(np.iinfo)),
    ]
)
