"""Which functions of real numbers are code of ours, in straight lines that vectors take (ADR 60).

Elsewhere they are calls of the library, one number at a time. A function is ours with vectors of so
many lanes that it is faster than the library's (Neoverse N1, ns a number in a loop; library's, ours
in float64 and float32):

    exp      6.6  4.4    6.3  1.8        sin, cos   23.5  7.3    11.4  2.9
    tanh    30.3  4.9   30.0  1.9        log         7.4  8.1     6.4  2.6

Lanes, single numbers, machine code, C text and every plan have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopwright.backends.elementary.elementary_arithmetic import INTEGERS, Arithmetic
from loopwright.backends.elementary.elementary_exponential import exponential, hyperbolic_tangent
from loopwright.backends.elementary.elementary_logarithm import logarithm
from loopwright.backends.elementary.elementary_trigonometry import FAR, cosine, sine
from loopwright.ir.dtypes import DType
from loopwright.lazy_dataclass import dataclass

__all__ = ["FUNCTIONS", "ElementaryFunction", "elementary_functions", "is_elementary"]

_VECTOR_BITS = {"avx512f": 512, "avx2": 256, "neon": 128}  # the widest first


@dataclass(frozen=True, slots=True)
class ElementaryFunction:
    """How a function is computed, and where that is worth it."""

    make: Callable[[Arithmetic[Any, Any], Any], Any]  # in straight lines
    least: int  # lanes of a vector
    ulps: float  # bound of its error, in units of the last place of a result
    far: Mapping[DType, float] | None = None  # numbers from here on are the library's


FUNCTIONS = {
    "exp": ElementaryFunction(exponential, 2, 1.2),
    "tanh": ElementaryFunction(hyperbolic_tangent, 2, 2.6),
    "sin": ElementaryFunction(sine, 2, 1.2, FAR),
    "cos": ElementaryFunction(cosine, 2, 1.2, FAR),
    "log": ElementaryFunction(logarithm, 4, 1.2),
}


def is_elementary(name: str, dtype: DType, features: frozenset[str]) -> bool:
    """Whether a function of numbers of a type is ours on a machine."""
    function = FUNCTIONS.get(name)
    if function is None or dtype not in INTEGERS or "fma" not in features:
        return False
    bits = next((bits for name, bits in _VECTOR_BITS.items() if name in features), 0)
    return bits >= function.least * dtype.bits


def elementary_functions(features: frozenset[str]) -> frozenset[tuple[str, DType]]:
    """The functions that are ours on a machine, each with its types."""
    pairs = ((name, dtype) for name in FUNCTIONS for dtype in INTEGERS)
    return frozenset(pair for pair in pairs if is_elementary(*pair, features))
