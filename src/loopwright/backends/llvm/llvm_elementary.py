"""Functions of real numbers as instructions of LLVM, lane by lane (ADR 60)."""

from __future__ import annotations

from loopwright.backends.elementary.elementary_functions import FUNCTIONS, is_elementary
from loopwright.backends.llvm.llvm_builder import FunctionBuilder, SSAValue
from loopwright.backends.llvm.llvm_lanes import Lanes
from loopwright.backends.llvm.llvm_rare_calls import called_where

__all__ = ["elementary"]


def elementary(
    code: FunctionBuilder, function: str, x: SSAValue, features: frozenset[str]
) -> SSAValue | None:
    """The function of x, lane by lane; None where it is the library's."""
    if not is_elementary(function, x.dtype, features):
        return None
    # Errors are taken from sums in their order: nothing of it may be regrouped.
    flags, code.flags = code.flags, ""
    on, found = Lanes(code, x, features), FUNCTIONS[function]
    value: SSAValue = found.make(on, x)
    if found.far is not None:
        is_far = on.compare("ge", on.absolute(x), on.number(found.far[x.dtype]))
        library = function if x.dtype.bits == 64 else f"{function}f"
        value = called_where(code, is_far, library, x, value)
    code.flags = flags
    return value
