"""A loop in two pieces, the second of which begins to store where a line of the caches begins.

A vector that lies across two lines takes as long to store as two. Arrays begin anywhere, so only
the address tells: the first piece has the iterations up to the next line, the second one all
others. Loops of few vectors are one piece.

A loop that may compute elements twice (`ir/whole_vectors`) has no ends in parts: its first vector
begins where it begins, the next one at a line, and the last one ends where it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loopwright.backends.llvm.llvm_builder import FunctionBuilder, SSAValue
from loopwright.ir.dtypes import INT64
from loopwright.ir.row_walk import LINE_BYTES, LONG_BYTES

__all__ = ["overlapping_vectors", "pieces_by_lines"]


@contextmanager
def pieces_by_lines(
    code: FunctionBuilder, bounds: tuple[SSAValue, SSAValue], pointer: str, size: int, facts: str
) -> Iterator[tuple[SSAValue, SSAValue]]:
    """A loop over the pieces of the iterations between `bounds`; inside, start and stop of one.

    The first iteration stores `size` bytes at `pointer`. `facts` is the metadata of the loop.
    """
    start, stop = bounds
    cut, body, done = (code.label(hint) for hint in ("cut.", "piece.", "pieces."))
    trips = code.emit(f"sub nsw i64 {stop.text}, {start.text}")
    is_long = code.emit(f"icmp sge i64 {trips}, {LONG_BYTES // size}")
    entered = code.block
    code.effect(f"br i1 {is_long}, label %{cut}, label %{body}")
    code.start(cut)
    line = _first_at_line(code, start, pointer, size)
    code.branch(body)
    code.start(body)
    low, high = code.name("from."), code.name("to.")
    phi_line = len(code.lines)
    code.lines += ["", ""]
    with code.scope():
        yield SSAValue(low, INT64), SSAValue(high, INT64)
    for at, (name, first, at_line, then) in enumerate(
        ((low, start.text, start.text, high), (high, stop.text, line, stop.text))
    ):
        code.lines[phi_line + at] = (
            f"  {name} = phi i64 [ {first}, %{entered} ], [ {at_line}, %{cut} ], "
            f"[ {then}, %{code.block} ]"
        )
    more = code.emit(f"icmp slt i64 {high}, {stop.text}")
    code.effect(f"br i1 {more}, label %{body}, label %{done}{facts}")
    code.start(done)


def _first_at_line(code: FunctionBuilder, start: SSAValue, pointer: str, size: int) -> str:
    """The first iteration that stores at the beginning of a line."""
    address = code.emit(f"ptrtoint ptr {pointer} to i64")
    rest = code.emit(f"and i64 {code.emit(f'sub i64 0, {address}')}, {LINE_BYTES - 1}")
    count = code.emit(f"lshr i64 {rest}, {size.bit_length() - 1}")
    return code.emit(f"add nsw i64 {start.text}, {count}")


@contextmanager
def overlapping_vectors(
    code: FunctionBuilder, bounds: tuple[SSAValue, SSAValue], pointer: str, lanes: int, facts: str
) -> Iterator[SSAValue]:
    """A loop over whole vectors of iterations; inside, the first iteration of one.

    It has at least as many iterations as a vector has lanes, and stores its first one at `pointer`.
    """
    start, stop = bounds
    size = LINE_BYTES // lanes
    last = code.emit(f"sub nsw i64 {stop.text}, {lanes}")
    address = code.emit(f"ptrtoint ptr {pointer} to i64")
    behind = code.emit(f"and i64 {address}, {LINE_BYTES - 1}")
    count = code.emit(f"lshr i64 {behind}, {size.bit_length() - 1}")
    at_line = code.emit(f"sub nsw i64 {code.emit(f'add nsw i64 {start.text}, {lanes}')}, {count}")
    entered = code.block
    body, done = code.label("vector."), code.label("vectors.")
    code.branch(body)
    code.start(body)
    low, line = code.name("from."), code.name("line.")
    phi_line = len(code.lines)
    code.lines += ["", ""]
    with code.scope():
        yield SSAValue(low, INT64)
    after = code.call("i64", "llvm.smin.i64", *(SSAValue(name, INT64) for name in (line, last)))
    following = code.emit(f"add nsw i64 {line}, {lanes}")
    for at, (name, first, then) in enumerate(
        ((low, start.text, after), (line, at_line, following))
    ):
        code.lines[phi_line + at] = (
            f"  {name} = phi i64 [ {first}, %{entered} ], [ {then}, %{code.block} ]"
        )
    more = code.emit(f"icmp slt i64 {low}, {last}")
    code.effect(f"br i1 {more}, label %{body}, label %{done}{facts}")
    code.start(done)
