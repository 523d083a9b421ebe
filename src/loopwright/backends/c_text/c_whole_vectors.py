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
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.row_walk import LINE_BYTES, LONG_BYTES, first_stored, walks
from loopwright.ir.visit import (
    children,
    constant_trips,
    expressions,
    loads,
    names,
    statements,
)

__all__ = [
    "may_overlap",
    "overlapping_vectors",
    "pieces_by_lines",
    "takes_whole_vectors",
    "whole_vector_lanes",
    "whole_vectors",
]

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
_MANY = 16  # iterations of a loop that is not written out
_BITS = (32, 64)  # of elements whose vectors gcc makes as long as it is told


def whole_vectors(scopes: Scopes, lanes: int) -> None:
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


def takes_whole_vectors(nest: LoopNest) -> bool:
    """Whether compilers are told to take loops of a nest by whole vectors.

    All or none: where whole vectors run the frequency sinks, for loops too that have elements of
    several lengths, store to several rows or take one element at a time (durbin 0.84, fdtd-2d 0.9).
    """
    innermost = (
        x for x in _loops(nest.body) if _is_kept(x) and not any(map(_is_kept, _loops(x.body)))
    )
    return bool(nest.vector_bits) and all(
        _is_whole(loop, nest) for loop in innermost if loop.var not in nest.of_one_vector
    )


def whole_vector_lanes(loop: For, nest: LoopNest) -> int | None:
    """How many iterations a whole vector takes; None where gcc is to decide."""
    if loop.var in nest.of_one_vector or not _is_whole(loop, nest):
        return None
    return nest.vector_bits // min(_bits(loop))


def _loops(stmt: Stmt) -> Iterator[For]:
    return (inner for inner in statements(stmt) if isinstance(inner, For))


def _is_kept(loop: For) -> bool:
    """Whether compilers do not write a loop out."""
    return loop.mark is not Mark.UNROLL and (constant_trips(loop) or _MANY) >= _MANY


def _is_whole(loop: For, nest: LoopNest) -> bool:
    """Whether a loop takes elements of one length in vectors, and stores begin at lines alike."""
    bits = _bits(loop)
    is_one = len(bits) == 1 and bits <= set(_BITS)
    return loop.mark is Mark.SIMD and is_one and _stores_alike(loop, nest, min(bits) // 8)


def _stores_alike(loop: For, nest: LoopNest, size: int) -> bool:
    """Whether a loop stores elements of `size` bytes to one row, or to rows that begin alike.

    Of several rows only one begins at a line with the loop: whole vectors of the others would all
    lie across two (jacobi-2d in strips of two rows of 1300 doubles 0.85, reactions of two
    substances 0.81), unless rows are known to be whole lines apart (1304 doubles 1.3). Loops that
    store too little for a begin at a line have as many vectors across two lines, whole or half:
    whole ones are half as many instructions (heat in three dimensions, two rows of 118 doubles
    1.24 in L2; overlaps of Gaussians 1.3).
    """
    inside = list(statements(loop.body))
    copied = {stmt.var for stmt in inside if isinstance(stmt, For)}
    stores = [stmt for stmt in inside if isinstance(stmt, Store) and stmt.index]
    rows = {(stmt.buffer, stmt.index[:-1]) for stmt in stores}
    if len(rows) <= 1 and not any(names(entry) & copied for _, row in rows for entry in row):
        return True
    if len({stmt.buffer for stmt in stores}) > 1 or not all(
        loop.var in names(stmt.index[-1]) and walks(loop.var, stmt.index) for stmt in stores
    ):
        return False
    (buffer,) = {stmt.buffer for stmt in stores}
    strides = [x for one in nest.buffers if one.name == buffer for x in one.strides[:-1]]
    return loop.var not in nest.to_lines or (
        bool(strides) and all(_is_whole_lines(stride, size) for stride in strides)
    )


def _is_whole_lines(stride: Expr, size: int) -> bool:
    """Whether so many elements of `size` bytes are known to be whole lines."""
    match stride:
        case Const(value=int() as count):
            return count * size % LINE_BYTES == 0
    return False


def _stores_one_array(loop: For) -> bool:
    """Whether a loop stores to one array: rows of others are not cut where their lines begin.

    A second start of the loop is not paid for then (wavelets 0.88, highest entries so far 0.89;
    measured, Sapphire Rapids).
    """
    return len({x.buffer for x in statements(loop.body) if isinstance(x, Store) and x.index}) <= 1


def _moves_only(loop: For) -> bool:
    """Whether a loop computes nothing that it stores."""
    inside = (stmt for stmt in statements(loop.body) if isinstance(stmt, Store | Let))
    return all(isinstance(stmt.value, Load | Const | Var) for stmt in inside)


def _bits(loop: For) -> set[int]:
    """The lengths of the numbers that a loop computes with."""
    values = [stmt.value for stmt in statements(loop.body) if isinstance(stmt, Store | Let)]
    parts = (part for value in values for part in _on_data(value))
    return {part.dtype.bits for part in parts if part.dtype != BOOL}


def _on_data(expr: Expr) -> list[Expr]:
    """An expression and its parts, subscripts left out."""
    if isinstance(expr, Load):
        return [expr]
    return [expr, *(part for child in children(expr) for part in _on_data(child))]


@contextmanager
def pieces_by_lines(scopes: Scopes, loop: For, nest: LoopNest) -> Iterator[For]:
    """Inside, the loop of one piece: up to the first line that is stored to, and from there on.

    The loop itself where it is not to be cut: gcc makes memcpy of loops that only move elements,
    which finds lines by itself.
    """
    start, stop = Var(f"{loop.var} from"), Var(f"{loop.var} to")
    is_cut = loop.var in nest.to_lines and not _moves_only(loop) and _stores_one_array(loop)
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


def may_overlap(loop: For, nest: LoopNest, lanes: int) -> bool:
    """Whether the whole vectors of a loop may have elements in common.

    What is computed twice has the same value: the loop reads no array that it stores to.
    """
    inside = list(statements(loop.body))
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    stored = {stmt.buffer for stmt in stores}
    read = {load.array for stmt in inside for e in expressions(stmt) for load in loads(e)}
    is_plain = all(isinstance(stmt, Block | Store | Let | For) for stmt in inside)
    are_alone = not any(stmt.is_atomic or not stmt.index for stmt in stores)
    trips = constant_trips(loop)
    is_long = lanes * min(_bits(loop)) // 8 == LINE_BYTES and (trips is None or trips >= 2 * lanes)
    return is_plain and are_alone and is_long and not stored & read and not _moves_only(loop)


def overlapping_vectors(
    scopes: Scopes, loop: For, nest: LoopNest, lanes: int, write: Callable[[For, int], None]
) -> bool:
    """Write a loop as whole vectors of which the first and the last overlap others, if it may.

    `write` writes a loop, by whole vectors of that many lanes or, for none, singly.
    """
    stored = first_stored(loop) if may_overlap(loop, nest, lanes) else None
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
                write(replace(loop, start=start, stop=start + lanes), lanes)
                scopes.lines.add(f"if ({low} == {last}) break;")
        if constant_trips(loop) is None:
            with scopes.braces("else"):
                write(loop, 0)
    return True
