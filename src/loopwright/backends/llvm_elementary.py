"""Which functions of real numbers are code of ours, in straight lines that vectors take (ADR 60).

Elsewhere they are calls of the library, one number at a time. A function is ours with vectors of so
many lanes that it is faster than the library's (Neoverse N1, ns a number in a loop; library's, ours
in float64 and float32):

    exp      6.6  4.4    6.3  1.8        sin, cos   23.5  7.3    11.4  2.9
    tanh    30.3  4.9   30.0  1.9        log         7.4  8.1     6.4  2.6

Lanes, single numbers and every plan have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.backends.llvm_builder import FunctionBuilder, SSAValue
from loopwright.backends.llvm_exponential import exponential, hyperbolic_tangent
from loopwright.backends.llvm_lanes import types_in_vectors
from loopwright.backends.llvm_logarithm import logarithm
from loopwright.backends.llvm_trigonometry import cosine, sine
from loopwright.ir.dtypes import DType

__all__ = ["elementary", "elementary_functions"]

_Maker = Callable[[FunctionBuilder, SSAValue, frozenset[str]], SSAValue]
# Function -> the least lanes of a vector, and what computes it.
_FUNCTIONS: dict[str, tuple[int, _Maker]] = {
    "exp": (2, exponential),
    "tanh": (2, lambda code, x, _: hyperbolic_tangent(code, x)),
    "sin": (2, lambda code, x, _: sine(code, x)),
    "cos": (2, lambda code, x, _: cosine(code, x)),
    "log": (4, lambda code, x, _: logarithm(code, x)),
}


def elementary_functions(features: frozenset[str]) -> frozenset[tuple[str, DType]]:
    """The functions that are ours on a machine, each with its types."""
    return frozenset(
        (function, dtype)
        for function, (least, _) in _FUNCTIONS.items()
        for dtype in types_in_vectors(features, least)
    )


def elementary(
    code: FunctionBuilder, function: str, x: SSAValue, features: frozenset[str]
) -> SSAValue | None:
    """The function of x, lane by lane; None where it is the library's."""
    least, make = _FUNCTIONS.get(function, (0, None))
    if make is None or x.dtype not in types_in_vectors(features, least):
        return None
    # Errors are taken from sums in their order: nothing of it may be regrouped.
    flags, code.flags = code.flags, ""
    value = make(code, x, features)
    code.flags = flags
    return value
