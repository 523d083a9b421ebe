"""Where Python may raise: conditions noted while a statement is read, for `error_model="python"`.

A condition may hold where Python raises nothing, but not the other way round: where one held in a
call, its results are dropped and Python runs the function. So integers are compared with bounds of
half their range, in float64. Nothing is noted unless a reader collects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from loopwright.frontends.constant_folding import negated
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Select, Unary, cast

__all__ = [
    "collecting",
    "divides",
    "grows",
    "guarded",
    "is_infinite",
    "narrows",
    "note",
    "noted",
    "taken",
]

_UINT64 = DTYPES["uint64"]
_HALF = 2.0**62
_MOST_EXACT = 2.0**53
_pending: ContextVar[list[Expr] | None] = ContextVar("pending", default=None)


@contextmanager
def collecting(*, wanted: bool = True) -> Iterator[list[Expr]]:
    """Collect the conditions noted inside, but not those of enclosing statements."""
    found: list[Expr] = []
    token = _pending.set(found if wanted else None)
    try:
        yield found
    finally:
        _pending.reset(token)


def note(*conditions: Callable[[], Expr]) -> None:
    """Note conditions under which Python may raise."""
    pending = _pending.get()
    if pending is not None:
        made = [condition() for condition in conditions]
        pending += [cond for cond in made if cond != Const(False, BOOL)]


def noted() -> int:
    """The number of conditions noted so far."""
    return len(_pending.get() or ())


def taken() -> list[Expr]:
    """The conditions noted so far, each once, which are then forgotten."""
    pending = _pending.get()
    found = list(dict.fromkeys(pending or ()))
    if pending is not None:
        pending.clear()
    return found


def guarded(cond: Expr, since: int) -> None:
    """Let what was noted after `since` count only where `cond` holds, which guards its loads."""
    pending = _pending.get()
    if pending is not None:
        pending[since:] = [Select(cond, x, Const(False, BOOL)) for x in pending[since:]]


def narrows(x: Expr, dtype: DType) -> Expr:
    """Whether an integer type does not hold a value that is converted to it."""
    source = x.dtype
    if not dtype.is_integer or isinstance(x, Const) or source.kind not in "iuf":
        return Const(False, BOOL)
    if source.is_float:
        wide = cast(x, FLOAT64)
        low = Binary("ge", wide, Const(float(dtype.least), FLOAT64))
        high = Binary("lt", wide, Const(float(dtype.greatest + 1), FLOAT64))
        return negated(Binary("and", low, high))
    if dtype.least <= source.least and source.greatest <= dtype.greatest:
        return Const(False, BOOL)
    if source == _UINT64:
        return Binary("gt", x, Const(dtype.greatest, _UINT64))
    wide = cast(x, INT64)
    is_below = Binary("lt", wide, Const(dtype.least))
    if dtype == _UINT64:
        return is_below
    return Binary("or", is_below, Binary("gt", wide, Const(dtype.greatest)))


def grows(op: str, x: Expr, y: Expr) -> Expr:
    """Whether an operation on Python's integers may leave int64."""
    return _is_large(Binary(op, cast(x, FLOAT64), cast(y, FLOAT64)), _HALF)


def divides(x: Expr, y: Expr) -> Expr:
    """Whether Python's numbers are divided by zero, or integers that float64 does not hold."""
    zero: Expr = Const(0, y.dtype) if y.dtype.is_integer else Const(0.0, y.dtype)
    found: Expr = Binary("eq", y, zero)
    for side in (x, y):
        if side.dtype.is_integer and not isinstance(side, Const):
            found = Binary("or", found, _is_large(Cast(side, FLOAT64), _MOST_EXACT))
    return found


def is_infinite(x: Expr) -> Expr:
    """Whether a floating or complex number is NaN or infinite."""
    return _is_large(Unary("abs", x), math.inf)


def _is_large(x: Expr, limit: float) -> Expr:
    size = x if isinstance(x, Unary) and x.op == "abs" else Unary("abs", x)
    return negated(Binary("lt", size, Const(limit, size.dtype)))
