"""Floating sums of C text that may be regrouped, four at a time.

    for (i = 0; i < n; i++) s += a[i] * b[i];
->  const long part = n < 256 ? 0 : n / 4;
    double s_2 = 0.0, s_3 = 0.0, s_4 = 0.0;
    for (i = 0; i < part; i++) { s += a[i] * b[i]; s_2 += a[i + part] * b[i + part]; ... }
    s += s_2; s_3 += s_4; s += s_3;
    for (i = part * 4; i < n; i++) s += a[i] * b[i];

gcc gathers a sum in one vector, and every addition waits four cycles for the one before; clang has
four such vectors. Parts of the range, since gcc makes no vectors of neighbours that belong to
different sums, and no `omp simd reduction`: of loops that other passes have copied gcc makes no
vectors then. Below 2 KiB the loop is as it was; terms of more than two elements are gathered in
halves, for the streams that a processor follows. Rows of arrays beyond the second cache are in
parts where each is about a page: shorter streams break off (rows of 300 to 1,300 doubles from
memory 0.7 to 1.0 in halves, 0.7 to 0.85 in four parts, of 2,000 and 4,000 1.1).

Cascade Lake, gcc 12, times as fast as one sum in halves and in four parts; 1,000, 2,000 and 10,000
doubles: sums 1.73, 2.6; 1.86, 2.7; 1.86, 2.1; dot products 1.8, 1.9; 1.65, 1.9; 1.3, 1.45; one
array read backwards 1.65, 1.6; 1.6, 1.65; 1.3, 1.45. Floats of 512 elements on 1.2 to 1.8, 1.3 to
2.6.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from loopwright.backends.c_text.c_scopes import Scopes
from loopwright.backends.c_text.c_syntax import ATOM, CText, Width, c_type
from loopwright.backends.c_text.c_vectors import ReductionUpdate
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import For
from loopwright.ir.row_walk import LONG_BYTES
from loopwright.ir.visit import loads, names, substitute

__all__ = ["sum_of_parts", "updated"]

_COMPOUND = {"add": "+=", "sub": "-=", "mul": "*="}
_MOST_PARTS, _FEW_STREAMS = 4, 2
_STREAM_BYTES = 3840  # of a part that a processor fetches ahead: nearly a page
_NEUTRAL = {"add": "0.0", "sub": "0.0", "mul": "1.0"}


def updated(target: str, op: str, value: CText | str) -> str:
    """The statement that updates a variable or element by a sum, difference or product."""
    return f"{target} {_COMPOUND[op]} {value};"


def sum_of_parts(
    scopes: Scopes, loop: For, update: ReductionUpdate, name: str, near: Collection[str]
) -> For:
    """Print all parts of a long reduction into the variable `name`; the loop over the rest.

    `near` are the arrays that lie in the second cache.
    """
    expressions = scopes.expressions
    moving = _moving(update.value, loop.var)
    parts = _MOST_PARTS if len(moving) <= _FEW_STREAMS else 2
    # Vectors come again with every iteration of a loop around.
    is_near = all(len(load.index) == 1 or load.array in near for load in moving)
    least = (LONG_BYTES if is_near else parts * _STREAM_BYTES) // update.target.dtype.bytes
    trips, part = loop.stop - loop.start, Var(f"{loop.var} part")
    wish = scopes.wishes.get(loop.var, loop.var)
    spelled = scopes.names.declare(f"{wish}_part")
    count = expressions.index(trips)
    scopes.lines.add(
        f"const {expressions.dialect.index} {spelled} = "
        f"{count.within(ATOM)} < {least} ? 0 : {count.within(ATOM)} / {parts};"
    )
    expressions.spelling[part.name] = CText(spelled, ATOM, Width.LONG)
    sums = [name, *(scopes.names.declare(f"{name}_{k + 1}") for k in range(1, parts))]
    for other in sums[1:]:
        scopes.lines.add(f"{c_type(update.target.dtype)} {other} = {_NEUTRAL[update.op]};")
    with scopes.loop(replace(loop, stop=loop.start + part)):
        for k, target in enumerate(sums):
            at = Var(loop.var) + part * k if k > 1 else Var(loop.var) + part
            value = substitute(update.value, {loop.var: at}) if k else update.value
            scopes.lines.add(updated(target, update.op, expressions.value(value)))
    while len(sums) > 1:
        for into, other in zip(sums[::2], sums[1::2], strict=True):
            scopes.lines.add(f"{into} {update.sign}= {other};")
        sums = sums[::2]
    return replace(loop, start=loop.start + part * parts)


def _moving(value: Expr, var: str) -> set[Load]:
    """The elements that move with a loop."""
    return {x for x in loads(value) if any(var in names(entry) for entry in x.index)}
