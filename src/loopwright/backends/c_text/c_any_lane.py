"""Branches on a condition of any lane in C text.

    unsigned long lw_any = 0;
    for (v...) lw_any |= -(unsigned long)(r[v] < cut);
    if (lw_any) ...

The variable is as wide as the numbers that are compared, so that lanes of conditions are lanes of
it; compilers take the loop in vectors where OpenMP says that it is a reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from loopwright.backends.c_text.c_dialect import ANY_FLAG
from loopwright.backends.c_text.c_scopes import Scopes
from loopwright.backends.c_text.c_syntax import c_type
from loopwright.ir.any_lane import AnyLane
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.loops import Stmt
from loopwright.ir.visit import walk

__all__ = ["print_any_lane"]


def print_any_lane(scopes: Scopes, test: AnyLane, statement: Callable[[Stmt], None]) -> None:
    """Print a branch on a condition of any lane; `statement` prints what stands inside."""
    exprs = [e for one in test.tests for e in (one.cond, *(let.value for let in one.values))]
    bits = max((x.dtype.bits for e in exprs for x in walk(e) if x.dtype.is_float), default=32)
    kind = c_type(DTYPES[f"uint{max(bits, 32)}"])
    with scopes.block():
        scopes.lines.add(f"{kind} {ANY_FLAG} = 0;")
        scopes.pragma(scopes.expressions.dialect.vector_any)
        with scopes.loop(test.lanes):
            for one in test.tests:
                with ExitStack() as inside:
                    if len(test.tests) > 1:
                        inside.enter_context(scopes.block())
                    for let in one.values:
                        inside.enter_context(scopes.bound(let))
                    cond = scopes.expressions.condition(one.cond)
                    scopes.lines.add(f"{ANY_FLAG} |= -({kind})({cond});")
        with scopes.block(f"if ({ANY_FLAG})"):
            statement(test.body)
