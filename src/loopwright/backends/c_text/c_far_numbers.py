"""Which functions are lines of ours in a loop of vectors in C text, and which loops run twice.

Elsewhere all are the library's: a number at a time it is as fast or faster.

The sine and cosine of numbers far from zero are the library's, behind a branch that no compiler
makes vectors of (`c_elementary`). A loop that may run twice, because it reads nothing that it
writes, is printed without the branch first, and finds whether any number is far:

    unsigned long lw_far = 0;
    for (i...) { lw_far |= lw_is_far(a[i]); b[i] = lw_sin_near(a[i]); }
    if (lw_far) for (i...) b[i] = lw_sin(a[i]);
"""

from __future__ import annotations

from collections.abc import Collection

from loopwright.backends.c_text.c_elementary import has_far_numbers
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Call, Expr
from loopwright.ir.loops import Alloc, Block, For, Let, Store
from loopwright.ir.visit import loads, reads_what_it_writes, statements, unguarded_calls, walk

__all__ = ["Functions", "far_calls", "far_type", "taken_in_vectors"]

Functions = Collection[tuple[str, DType]]


def taken_in_vectors(loop: For, functions: Functions) -> Functions:
    """Those of the functions that are lines of ours in a loop of vectors."""
    if far_type(loop, functions) is not None:
        return functions
    return [pair for pair in functions if not has_far_numbers(pair[0])]


def far_calls(expr: Expr, functions: Functions) -> list[Call]:
    """Calls of functions of ours that are the library's for some numbers, inner ones too."""
    return [
        part
        for part in walk(expr)
        if isinstance(part, Call)
        and (part.function, part.dtype) in functions
        and has_far_numbers(part.function)
    ]


def far_type(loop: For, functions: Functions) -> DType | None:
    """The type of the numbers that a loop may find to be far; None where it runs as it stands.

    A call that data may leave out asks for its argument all the same, which then must load nothing.
    """
    inside = list(statements(loop.body))
    if not functions or not all(isinstance(s, Block | Store | Let | Alloc) for s in inside):
        return None
    values = [s.value for s in inside if isinstance(s, Store | Let)]
    calls = [call for value in values for call in far_calls(value, functions)]
    certain = {call for value in values for call in unguarded_calls(value, functions)}
    if len({call.dtype for call in calls}) != 1:
        return None
    if any(call not in certain and loads(call) for call in calls):
        return None
    return None if reads_what_it_writes(loop.body) else calls[0].dtype
