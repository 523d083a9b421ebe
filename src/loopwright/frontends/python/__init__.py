"""The front end for naive Python loops: a function and argument types to a SourceTree.

Accepted are for loops over range with affine bounds, ifs on affine conditions, assignments to array
elements and local scalars, and expressions of numbers; types follow NumPy 2. What differs from
plain Python: integers are int64 and wrap around; a local scalar has one type, the common type of
all its assignments, as have both sides of a conditional expression and the arguments of min and
max (which give nan where one of them is nan); a subscript below zero counts from the end only
where it is a constant; both sides of a conditional expression on data stay inside the arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwright.frontends.python.fingerprint import (
    ArgType,
    ForeignArgument,
    argument_types,
    is_unchanged,
)

if TYPE_CHECKING:
    from loopwright.frontends.python.py_statements import parse_function

__all__ = ["ArgType", "ForeignArgument", "argument_types", "is_unchanged", "parse_function"]


def __getattr__(name: str) -> Any:
    if name == "parse_function":
        # lazy: a known function is called without being read
        from loopwright.frontends.python.py_statements import parse_function

        return parse_function
    raise AttributeError(f"module 'loopwright.frontends.python' has no attribute '{name}'")
