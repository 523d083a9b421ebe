"""The front end for naive Python loops: a function and argument types to a SourceTree.

Accepted are for loops over range with affine bounds, ifs on affine conditions, assignments to array
elements and local scalars, and expressions of numbers; types and values are those of NumPy 2 and
Python. What differs is the table of docs/python.md: its rows are predicates of the campaign
`operator_types`, and nothing else may differ.
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
