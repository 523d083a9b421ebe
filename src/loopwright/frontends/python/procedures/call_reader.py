"""Calls in a NumPy function: by name, of methods, of ufuncs and of helpers."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from types import FunctionType
from typing import TypeAlias

import numpy as np

from loopwright.frontends.python.fingerprint import MISSING
from loopwright.frontends.python.prelude.prelude_functions import PRELUDE
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.array_functions import FUNCTIONS_OF_ARRAYS
from loopwright.frontends.python.procedures.array_operations import converted
from loopwright.frontends.python.procedures.array_reductions import REDUCTIONS
from loopwright.frontends.python.procedures.array_views import FUNCTIONS_OF_VIEWS
from loopwright.frontends.python.procedures.call_arguments import (
    CallArguments,
    dtype_argument,
    is_none,
)
from loopwright.frontends.python.procedures.local_functions import LocalFunction
from loopwright.frontends.python.procedures.masks import masked
from loopwright.frontends.python.procedures.reading_context import ReadingContext
from loopwright.frontends.python.procedures.static_functions import static_result
from loopwright.frontends.python.python_values import PyValue, constant
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import FLOAT64
from loopwright.memo import IdentityMap

__all__ = ["CallReader", "Helper", "HelperCall", "is_helper"]

Helper: TypeAlias = FunctionType | LocalFunction
# Reads a helper with values: (function, call, arguments) -> result.
HelperCall = Callable[[Helper, CallArguments], AnyValue]
_METHODS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "std": np.std, "var": np.var,
    "min": np.min, "max": np.max, "all": np.all, "any": np.any, "dot": np.dot,
    "round": np.round, "transpose": np.transpose, "reshape": np.reshape, "swapaxes": np.swapaxes,
    "argmin": np.argmin, "argmax": np.argmax, "cumsum": np.cumsum, "trace": np.trace,
    "cumprod": np.cumprod, "conj": np.conjugate, "conjugate": np.conjugate, "ravel": np.ravel,
    "clip": np.clip, "take": np.take, "repeat": np.repeat, "squeeze": np.squeeze,
    "diagonal": np.diagonal, "searchsorted": np.searchsorted, "ptp": np.ptp,
}  # fmt: skip
# ufunc -> what its reduce and accumulate are, where these are known.
_REDUCE: IdentityMap[object, object] = IdentityMap(
    [
        (np.add, np.sum), (np.multiply, np.prod), (np.minimum, np.min), (np.maximum, np.max),
        (np.logical_and, np.all), (np.logical_or, np.any),
    ]
)  # fmt: skip
_ACCUMULATE: IdentityMap[object, object] = IdentityMap(
    [(np.add, np.cumsum), (np.multiply, np.cumprod)]
)


class CallReader:
    """Reads the calls of one function."""

    def __init__(self, values: ReadingContext, call_helper: HelperCall) -> None:
        self._values = values
        self._call_helper = call_helper

    def read(self, node: ast.Call) -> AnyValue:
        """The value of a call."""
        values, func, name = self._values, node.func, ast.unparse(node.func)
        function = values.static(func)
        if function is MISSING and isinstance(func, ast.Attribute):
            owner = values.solid(values.value(func.value))
            if isinstance(owner, StaticValue) and isinstance(owner.value, np.ufunc):
                return self._of_ufunc(owner.value, func.attr, self._arguments(node, name))
            if not isinstance(owner, StaticValue):
                return self._method(node, func, owner)
            function = getattr(owner.value, func.attr, MISSING)
        elif function is MISSING:
            found = values.value(func)
            function = found.value if isinstance(found, StaticValue) else MISSING
        return self.call(function, self._arguments(node, name))

    def _arguments(self, node: ast.Call, name: str, *first: AnyValue) -> CallArguments:
        nodes = [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
        nodes += [keyword.value for keyword in node.keywords]
        values = self._values.values(*nodes)
        args: list[AnyValue] = []
        for arg, value in zip(node.args, values, strict=False):
            if not isinstance(arg, ast.Starred):
                args.append(value)
            elif isinstance(value, TupleValue):
                args += value.items
            else:
                raise Refusal("LW124", "starred arguments are no tuple", found=str(value))
        keywords: dict[str, AnyValue] = {}
        for keyword, value in zip(node.keywords, values[len(node.args) :], strict=True):
            if keyword.arg is None:
                raise Refusal("LW124", "starred named arguments are not compiled")
            keywords[keyword.arg] = value
        return CallArguments(name, (*first, *args), keywords)

    def call(self, function: object, given: CallArguments) -> AnyValue:
        """The value of a call of a function that is known."""
        values = self._values
        function = getattr(function, "py_func", function)
        if function is builtins.len and len(given.args) == 1:
            return _length(given.args[0])
        if not values.elementwise.has(function):
            keywords = {name: values.solid(value) for name, value in given.keywords.items()}
            given = CallArguments(given.name, tuple(map(values.solid, given.args)), keywords)
        known = static_result(function, given)
        if known is not None:
            return known
        if function in (min, max) and len(given.args) == 1 and not given.keywords:
            given = self._spread(function, given)
        if function in FUNCTIONS_OF_ARRAYS:
            return values.functions.call(function, given)
        if function in FUNCTIONS_OF_VIEWS:
            return values.functions.views.call(function, given)
        if function in PRELUDE:
            return self._call_helper(PRELUDE[function], given)
        if function in REDUCTIONS:
            return self._reduction(function, given)
        if values.elementwise.has(function):
            return self._elementwise(function, given)
        if is_helper(function):
            assert isinstance(function, FunctionType | LocalFunction)
            return self._call_helper(function, given)
        hint = "functions of arrays: docs/python.md lists them"
        raise Refusal("LW123", f"the function '{given.name}' is not known", hint=hint)

    def _spread(self, function: object, given: CallArguments) -> CallArguments:
        """The arguments of min and max of one tuple or vector."""
        (only,) = given.args
        if isinstance(only, TupleValue) and len(only.items) > 1:
            return CallArguments(given.name, only.items, {})
        if isinstance(only, ArrayValue):
            hint = f"np.{given.name}, which gives NaN where there is one"
            raise Refusal("LW123", f"'{given.name}' of an array is not compiled", hint=hint)
        return given

    def _reduction(self, function: object, given: CallArguments) -> AnyValue:
        """A reduction or product, with out=."""
        values, keywords = self._values, dict(given.keywords)
        out = keywords.pop("out", None)
        args = (values.array_like(given.args[0]), *given.args[1:]) if given.args else ()
        if function in (np.dot, np.matmul):
            args = tuple(map(values.array_like, args))
        if not is_none(out) and function in (np.sum, np.prod) and isinstance(out, ArrayValue):
            keywords.setdefault("dtype", StaticValue(out.dtype.numpy))
        found = values.reductions.call(function, CallArguments(given.name, args, keywords))
        if is_none(out):
            return found
        assert out is not None
        assert isinstance(found, PyValue | ArrayValue)
        return values.writes.out(out, found)

    # -- ufuncs -----------------------------------------------------------------------------------

    def _elementwise(self, function: object, given: CallArguments) -> AnyValue:
        """A function of elements, with out=, where= and dtype= of ufuncs."""
        values, keywords = self._values, dict(given.keywords)
        out, where, dtype = (keywords.pop(x, None) for x in ("out", "where", "dtype"))
        args = given.args
        if isinstance(function, np.ufunc) and out is None and len(args) == function.nin + 1:
            *rest, out = args
            args = tuple(rest)
        if keywords or (not isinstance(function, np.ufunc) and (where or dtype)):
            word = next(iter(keywords), "where")
            raise Refusal("LW124", f"'{given.name}' takes no {word}= here")
        if isinstance(out, TupleValue) and len(out.items) == 1:
            (out,) = out.items
        if not is_none(dtype):
            kind = dtype_argument(dtype, FLOAT64)
            args = tuple(
                converted(x, kind) if isinstance(x, ArrayValue | PyValue) else x
                for x in map(values.array_like, args)
            )
        found = masked(
            lambda parts: values.elementwise.call(function, given.name, parts) or parts[0], args
        )
        if found is None:
            args = tuple(values.array_like(values.solid(x)) for x in args)
            found = values.elementwise.call(function, given.name, args)
        assert found is not None
        if is_none(where) and is_none(out):
            return found
        assert isinstance(found, PyValue | ArrayValue)
        if is_none(out):
            return found  # elsewhere NumPy's result is whatever memory held
        assert out is not None
        if not is_none(where):
            assert where is not None
            return values.writes.out_where(out, found, where)
        return values.writes.out(out, found)

    def _of_ufunc(self, ufunc: np.ufunc, name: str, given: CallArguments) -> AnyValue:
        """A method of a ufunc."""
        values = self._values
        solid = tuple(map(values.solid, given.args))
        if name != "at":
            solid = tuple(map(values.array_like, solid))
        given = CallArguments(given.name, solid, given.keywords)
        if name == "outer" and len(given.args) == 2 and not given.keywords:
            x, y = given.args
            rank = y.rank if isinstance(y, ArrayValue) else 0
            args = (values.functions.views.with_new_axes(x, rank), y)
            return self.call(ufunc, CallArguments(given.name, args, {}))
        if name == "at" and not given.keywords and len(given.args) == ufunc.nin + 1:
            array, index, *others = given.args
            values.writes.at(
                array,
                values.subscripts.items_of(index),
                others,
                lambda parts: self.call(ufunc, CallArguments(given.name, tuple(parts), {})),
            )
            return StaticValue(None)
        known = {"reduce": _REDUCE, "accumulate": _ACCUMULATE}.get(name, IdentityMap([])).get(ufunc)
        if known is None:
            raise Refusal("LW125", f"'{given.name}' is not compiled")
        keywords = dict(given.keywords)
        if len(given.args) < 2:
            keywords.setdefault("axis", constant(0))
        return self.call(known, CallArguments(given.name, given.args, keywords))

    # -- methods ----------------------------------------------------------------------------------

    def _method(self, node: ast.Call, func: ast.Attribute, base: AnyValue) -> AnyValue:
        values = self._values
        if isinstance(base, TupleValue) and func.attr == "index" and len(node.args) == 1:
            return constant(_place_in(base, values.value(node.args[0])))
        if isinstance(base, PyValue) and func.attr == "item" and not node.args:
            return PyValue(base.expr, weak=base.dtype.name in ("bool", "int64", "float64"))
        if not isinstance(base, ArrayValue):
            text = f"the method '{func.attr}' is not known"
            raise Refusal("LW125", text, found=ast.unparse(node))
        given = self._arguments(node, func.attr, base)
        rest = CallArguments(func.attr, given.args[1:], given.keywords)
        match func.attr:
            case "copy" if not node.args and not node.keywords:
                return values.functions.c_copy(base)
            case "flatten" if not node.args and not node.keywords:
                return values.functions.c_copy(values.functions.views.raveled(base))
            case "astype":
                return values.functions.astype(base, rest)
            case "fill":
                if len(given.args) != 2 or node.keywords:
                    raise Refusal("LW124", "'fill' takes one value")
                values.writes.whole(base, given.args[1])
                return StaticValue(None)
            case "item" if len(given.args) >= 2:
                found = values.subscripts.read(
                    values.build.store(base), values.subscripts.items_of(TupleValue(rest.args))
                )
                if isinstance(found, PyValue):
                    return PyValue(found.expr, weak=found.dtype.bits == 64)
            case "reshape" | "transpose" if len(node.args) > 1:
                joined = TupleValue(rest.args)
                given = CallArguments(func.attr, (base, joined), given.keywords)
        if func.attr in _METHODS:
            return self.call(_METHODS[func.attr], given)
        text = f"the method '{func.attr}' of arrays is not compiled yet"
        raise Refusal("LW125", text, found=ast.unparse(node))


def _place_in(base: TupleValue, value: AnyValue) -> int:
    if value not in base.items:
        raise Refusal("LW184", "the place in this tuple is not known")
    return base.items.index(value)


def _length(value: AnyValue) -> AnyValue:
    if isinstance(value, TupleValue):
        return constant(len(value.items))
    if isinstance(value, ArrayValue) and value.rank:
        return PyValue(value.shape[0], weak=True)
    raise Refusal("LW115", "len of what has no length", found=str(value))


def is_helper(function: object) -> bool:
    """Whether a function is one whose statements are read where it is called."""
    if isinstance(function, LocalFunction):
        return True
    module = str(getattr(function, "__module__", "")).split(".")[0]
    return isinstance(function, FunctionType) and module != "numpy"
