"""Loops of vectors in C text for processors whose vectors are as long as a line of the caches.

gcc makes vectors of 256 bits for AVX-512 unless it is told how many lanes there are:

    #pragma omp simd simdlen(8)

Where all arrays fit into the caches, machine code has whole vectors (planner/loop_plans/
vector_width), and so has the text. clang makes loops of no more than that many lanes then, whose
ends run one by one: it is not told.

A vector that lies across two lines takes as long as two. Where machine code begins to store at a
line (ADR 68), the text runs the same loop twice, up to the first line and from there on:

    const long i_end = n;
    long i_to = lw_to_line(b[1], 1, i_end);
    for (long i_from = 1; i_from < i_end; i_from = i_to, i_to = i_end)
        for (long i = i_from; i < i_to; i++) b[i] = ...

A loop that reads nothing it stores may compute elements twice. Its first vector begins where it
begins, the next one at a line, and the last one ends where it ends:

    const long i_last = n - 8;
    if (i_last >= 1) {
        long i_line = lw_next_line(b[1], 1, 8);
        for (long i_from = 1;; i_from = i_line < i_last ? i_line : i_last, i_line += 8) {
            for (long i = i_from; i < i_from + 8; i++) b[i] = ...
            if (i_from == i_last) break;
        }
    } else
        for (long i = 1; i < n; i++) b[i] = ...

No element is left for half vectors or to be computed singly (heat in three dimensions, rows of 118
doubles: 1.25 times as fast as with whole vectors from the first element on and ends in parts on
Cascade Lake, 1.4 to 1.7 on Sapphire Rapids; rows of 20 to 64: 1.1 to 1.4; of 3,000: 0.96 to 1.0).

Cascade Lake, gcc 12, times as fast as vectors of 256 bits that begin anywhere; 1,000 and 10,000
doubles: three-point stencils 2.0, 1.1; sums of two arrays 2.7, 1.4; updates 1.4, 1.7. Floats: 1.9,
1.5; 1.4, 1.25; 1.6, 1.6. Rows of 10 to 30 elements that were expected to be longer take 2 ns more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from loopwright.backends.c_text.c_operations import Helper
from loopwright.backends.c_text.c_scopes import Scopes
from loopwright.backends.c_text.c_syntax import ATOM, CText, Width
from loopwright.ir.expr import Var
from loopwright.ir.loops import For, LoopNest, Store
from loopwright.ir.row_walk import LINE_BYTES, LONG_BYTES, first_stored
from loopwright.ir.visit import constant_trips, statements
from loopwright.ir.whole_vectors import may_overlap, moves_only

__all__ = ["independent_loop"]

_TO_LINE = Helper(
    "lw_to_line",
    "",
    ("",) * 3,
    (),
    f"((c) - (b) < {LONG_BYTES} / (long)sizeof(a) ? (c) : (b) + "
    f"(long)(-(unsigned long)&(a) % {LINE_BYTES} / sizeof(a)))",
)
_NEXT_LINE = Helper(
    "lw_next_line",
    "",
    ("",) * 3,
    (),
    f"((b) + (c) - (long)((unsigned long)&(a) % {LINE_BYTES} / sizeof(a)))",
)


def independent_loop(
    scopes: Scopes, loop: For, nest: LoopNest, lanes: int | None, write: Callable[[For], None]
) -> None:
    """A loop of independent iterations, with what compilers are told of it before each piece.

    By whole vectors of so many `lanes`, or as compilers take it for None. `write` writes a loop.
    """

    def told(piece: For) -> None:
        if lanes is None:
            scopes.pragma(scopes.expressions.dialect.vector)
        else:
            _whole_vectors(scopes, lanes)
        write(piece)

    if (
        lanes
        and may_overlap(loop, lanes)
        and _overlapping_vectors(scopes, loop, lanes, told, write)
    ):
        return
    with _pieces_by_lines(scopes, loop, nest) as piece:
        told(piece)


def _whole_vectors(scopes: Scopes, lanes: int) -> None:
    """The line before a loop of independent iterations, of which vectors take so many."""
    plain = scopes.expressions.dialect.vector
    is_directive = plain.startswith("#pragma ")
    if not is_directive:
        scopes.pragma_helper(plain)
    name = f"lw_simd_{lanes}"
    scopes.expressions.helpers[name] = Helper(
        name,
        "",
        (),
        (),
        f'_Pragma("omp simd simdlen({lanes})")',
        alone=f'_Pragma("{plain.removeprefix("#pragma ")}")' if is_directive else plain,
        needs="defined _OPENMP && !defined __clang__",
    )
    scopes.lines.directive(f"{name}()")


def _stores_one_array(loop: For) -> bool:
    """Whether a loop stores to one array: rows of others are not cut where their lines begin.

    A second start of the loop is not paid for then (wavelets 0.88, highest entries so far 0.89;
    measured, Sapphire Rapids).
    """
    return len({x.buffer for x in statements(loop.body) if isinstance(x, Store) and x.index}) <= 1


@contextmanager
def _pieces_by_lines(scopes: Scopes, loop: For, nest: LoopNest) -> Iterator[For]:
    """Inside, the loop of one piece: up to the first line that is stored to, and from there on.

    The loop itself where it is not to be cut: gcc makes memcpy of loops that only move elements,
    which finds lines by itself.
    """
    start, stop = Var(f"{loop.var} from"), Var(f"{loop.var} to")
    is_cut = loop.var in nest.to_lines and not moves_only(loop) and _stores_one_array(loop)
    stored = first_stored(loop) if is_cut else None
    if stored is None or stored[0] not in scopes.vectors.forms.contiguous:
        yield loop
        return
    expressions = scopes.expressions
    first, last = expressions.index(loop.start), expressions.index(loop.stop)
    is_narrow = scopes.counts_in_int(loop, first, last)
    kind = "int" if is_narrow else expressions.dialect.index
    expressions.helpers[_TO_LINE.name] = _TO_LINE
    with scopes.block(), scopes.known_range(start.name, scopes.known_from(loop.start)):
        wish = scopes.wishes.get(loop.var, loop.var)
        low, high, end = (scopes.names.declare(f"{wish}_{x}") for x in ("from", "to", "end"))
        for one, name in ((start, low), (stop, high)):
            width = Width.INT if is_narrow else Width.LONG
            expressions.spelling[one.name] = CText(name, ATOM, width)
        place = expressions.element(*stored)
        scopes.lines.add(f"const {kind} {end} = {last};")
        scopes.lines.add(f"{kind} {high} = {_TO_LINE.name}({place}, {first}, {end});")
        steps = f"{low} = {high}, {high} = {end}"
        with scopes.braces(f"for ({kind} {low} = {first}; {low} < {end}; {steps})"):
            yield replace(loop, start=start, stop=stop)


def _overlapping_vectors(
    scopes: Scopes,
    loop: For,
    lanes: int,
    told: Callable[[For], None],
    singly: Callable[[For], None],
) -> bool:
    """Write a loop as whole vectors of which the first and the last overlap others, if that can be.

    One that is shorter than a vector runs `singly`.
    """
    stored = first_stored(loop)
    if stored is None or stored[0] not in scopes.vectors.forms.contiguous:
        return False
    expressions = scopes.expressions
    first, stop = expressions.index(loop.start), expressions.index(loop.stop)
    is_narrow = scopes.counts_in_int(loop, first, stop)
    kind = "int" if is_narrow else expressions.dialect.index
    expressions.helpers[_NEXT_LINE.name] = _NEXT_LINE
    start = Var(f"{loop.var} from")
    with scopes.block(), scopes.known_range(start.name, scopes.known_from(loop.start)):
        wish = scopes.wishes.get(loop.var, loop.var)
        low, line, last = (scopes.names.declare(f"{wish}_{x}") for x in ("from", "line", "last"))
        expressions.spelling[start.name] = CText(low, ATOM, Width.INT if is_narrow else Width.LONG)
        scopes.lines.add(f"const {kind} {last} = {expressions.index(loop.stop - lanes)};")
        with ExitStack() as around:
            if constant_trips(loop) is None:
                around.enter_context(scopes.braces(f"if ({last} >= {first})"))
            place = expressions.element(*stored)
            scopes.lines.add(f"{kind} {line} = {_NEXT_LINE.name}({place}, {first}, {lanes});")
            steps = f"{low} = {line} < {last} ? {line} : {last}, {line} += {lanes}"
            with scopes.braces(f"for ({kind} {low} = {first};; {steps})"):
                told(replace(loop, start=start, stop=start + lanes))
                scopes.lines.add(f"if ({low} == {last}) break;")
        if constant_trips(loop) is None:
            with scopes.braces("else"):
                singly(loop)
    return True
