"""How far a computed number may lie from what exact arithmetic gives: running error bounds.

A slack of 0 says that no operation on the way to a number rounded: machines that fuse, split or
reorder the same operations must give the same bits. Otherwise results may differ by a few slacks;
an infinite one says that nothing is known, as after a comparison that rounding may have decided.
The bounds are those of first-order running error analysis, each rounding counted twice over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from loopwright.ir.dtypes import DType

__all__ = ["slack_of_binary", "slack_of_call", "slack_of_cast", "slack_of_unary"]

_FRACTIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


def slack_of_binary(op: str, x: Any, y: Any, result: Any, sx: float, sy: float) -> float:
    """The slack of `result = x op y` for operands of slacks `sx` and `sy`."""
    if x.dtype.kind not in "fc":
        return 0.0 if sx == sy == 0.0 else math.inf
    if op in ("min", "max") or math.inf in (sx, sy):
        return max(sx, sy)
    if result.dtype.kind == "b":
        is_clear = sx == sy == 0.0 or abs(complex(x) - complex(y)) > 4 * (sx + sy)
        return 0.0 if is_clear else math.inf
    if not _finite(x, y, result):
        return 0.0 if sx == sy == 0.0 else math.inf
    if op in ("add", "sub"):
        carried = sx + sy
    elif op == "mul":
        carried = sx * abs(y) + sy * abs(x) + sx * sy
    elif op == "div":
        room = abs(y) - 4 * sy
        carried = math.inf if room <= 0 else (sx + abs(result) * sy) / room
    else:
        return _rounding(result) if sx == sy == 0.0 else math.inf
    return float(carried) + (0.0 if _is_exact(op, x, y, result) else _rounding(result))


def slack_of_unary(op: str, result: Any, sx: float) -> float:
    """The slack of `op x`; complex magnitudes round."""
    return sx + (_rounding(result) if op == "abs" and result.dtype.kind == "c" else 0.0)


def slack_of_call(function: str, args: tuple[Any, ...], result: Any, slacks: list[float]) -> float:
    """The slack of a function of arguments; what libraries compute differs by some units."""
    if function == "fma":
        x, y, z = args
        product = x * y
        inner = slack_of_binary("mul", x, y, product, slacks[0], slacks[1])
        return slack_of_binary("add", product, z, result, inner, slacks[2])
    if any(slacks):
        if function in ("conj", "real", "imag"):
            return slacks[0]
        if function == "sqrt" and result.dtype.kind == "f" and result > 0:
            return float(slacks[0] / result) + _rounding(result)
        return math.inf
    if function in ("floor", "ceil", "conj", "real", "imag"):
        return 0.0
    if function == "sqrt" and result.dtype.kind == "f" and _finite(result):
        root = Fraction(float(result))
        return 0.0 if root * root == Fraction(float(args[0])) else _rounding(result)
    return 8 * _rounding(result) if _finite(result) else 0.0


def slack_of_cast(x: Any, result: Any, target: DType, sx: float) -> float:
    """The slack of a conversion: to an integer all is known or nothing."""
    if target.kind not in "fc":
        return 0.0 if sx == 0.0 else math.inf
    if not _finite(result) or complex(result) == complex(x):
        return sx
    return sx + _rounding(result)


def _rounding(result: Any) -> float:
    """Two units in the last place of a number, and what underflow may lose."""
    kind = np.finfo(result.dtype)
    return float(2 * kind.eps) * float(abs(result)) + 2 * float(kind.smallest_subnormal)


def _finite(*numbers: Any) -> bool:
    return all(np.isfinite(x) for x in numbers)


def _is_exact(op: str, x: Any, y: Any, result: Any) -> bool:
    """Whether a result is what exact arithmetic gives."""
    if result.dtype.kind == "c":
        # Parts of small integers stay integers; everything else counts as rounded.
        parts = (part for z in (x, y, result) for part in (z.real, z.imag))
        return op != "div" and all(float(p).is_integer() and abs(p) < 2**20 for p in parts)
    if op == "div" and y == 0:
        return False
    if op != "div" and all(float(z).is_integer() for z in (x, y)):
        # Python's integers have no end; fractions are slower.
        a, b = int(x), int(y)
        exact = a + b if op == "add" else a - b if op == "sub" else a * b
        return int(result) == exact
    value = _FRACTIONS[op](Fraction(float(x)), Fraction(float(y)))
    return value == Fraction(float(result))
