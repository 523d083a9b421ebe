"""The meaning of the functions of C's <math.h> that are defined for real numbers only.

Every function is total: outside its domain it is NaN, at a pole infinite, as IEEE 754 has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["REAL_FUNCTIONS"]


def _in_double(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of `math` on scalars of any floating type; NaN where it raises ValueError."""

    def apply(*args: Any) -> Any:
        try:
            value = function(*map(float, args))
        except ValueError:
            value = math.nan
        return args[0].dtype.type(value)

    return apply


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _round(x: Any) -> Any:
    """To the nearest whole number, halves away from zero; zeros keep their sign."""
    whole = np.trunc(x)
    is_far = abs(x - whole) >= x.dtype.type(0.5)
    return whole + np.copysign(x.dtype.type(1), x) if is_far else whole


REAL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cbrt": np.cbrt,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _in_double(math.erf),
    "erfc": _in_double(math.erfc),
    "tgamma": _in_double(_gamma),
    "trunc": np.trunc,
    "round": _round,
    "rint": np.rint,
    "hypot": np.hypot,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "remainder": _in_double(math.remainder),
    "copysign": np.copysign,
}
