"""Floating sums of C text that may be regrouped, two at a time.

    for (i = 0; i < n; i++) s += a[i] * b[i];
->  const long half = n < 256 ? 0 : n / 2;
    double s_2 = 0.0;
    for (i = 0; i < half; i++) { s += a[i] * b[i]; s_2 += a[i + half] * b[i + half]; }
    s += s_2;
    for (i = half * 2; i < n; i++) s += a[i] * b[i];

gcc gathers a sum in one vector, and every addition waits four cycles for the one before; clang has
four such vectors. Halves, since gcc makes no vectors of neighbours that belong to different sums,
and no `omp simd reduction`: of loops that other passes have copied gcc makes no vectors then. Below
2 KiB the loop is as it was. Cascade Lake, gcc 12, times as fast as one sum; 258, 1,000 and 10,000
doubles: dot products 1.5, 1.65, 1.15; one array read backwards 1.15 to 1.2; sums 1.5, 1.8, 1.9;
floats from 500 on 1.3 to 1.8.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.backends.c_text.c_scopes import Scopes
from loopwright.backends.c_text.c_syntax import ATOM, CText, Width, c_type
from loopwright.backends.c_text.c_vectors import ReductionUpdate
from loopwright.ir.expr import Var
from loopwright.ir.loops import For
from loopwright.ir.row_walk import LONG_BYTES
from loopwright.ir.visit import substitute

__all__ = ["sum_of_halves", "updated"]

_COMPOUND = {"add": "+=", "sub": "-=", "mul": "*="}
_NEUTRAL = {"add": "0.0", "sub": "0.0", "mul": "1.0"}


def updated(target: str, op: str, value: CText | str) -> str:
    """The statement that updates a variable or element by a sum, difference or product."""
    return f"{target} {_COMPOUND[op]} {value};"


def sum_of_halves(scopes: Scopes, loop: For, update: ReductionUpdate, name: str) -> For:
    """Print both halves of a long reduction into the variable `name`; the loop over the rest."""
    expressions = scopes.expressions
    least = LONG_BYTES // update.target.dtype.bytes
    trips, half = loop.stop - loop.start, Var(f"{loop.var} half")
    wish = scopes.wishes.get(loop.var, loop.var)
    spelled = scopes.names.declare(f"{wish}_half")
    count = expressions.index(trips)
    scopes.lines.add(
        f"const {expressions.dialect.index} {spelled} = "
        f"{count.within(ATOM)} < {least} ? 0 : {count.within(ATOM)} / 2;"
    )
    expressions.spelling[half.name] = CText(spelled, ATOM, Width.LONG)
    other = scopes.names.declare(f"{name}_2")
    scopes.lines.add(f"{c_type(update.target.dtype)} {other} = {_NEUTRAL[update.op]};")
    with scopes.loop(replace(loop, stop=loop.start + half)):
        moved = substitute(update.value, {loop.var: Var(loop.var) + half})
        for target, value in ((name, update.value), (other, moved)):
            scopes.lines.add(updated(target, update.op, expressions.value(value)))
    scopes.lines.add(f"{name} {update.sign}= {other};")
    return replace(loop, start=loop.start + half * 2)
