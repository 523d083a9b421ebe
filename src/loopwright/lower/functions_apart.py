"""Compute functions of a loop that has no vectors in strips that have.

A sum in the order of the source, a recurrence and a loop with another loop inside take one element
at a time, and the functions they call with them. What a call needs is often there before: then a
strip of iterations computes the arguments, a loop of vectors the function of all of them, and the
loop itself takes the values from memory:

    total += exp(x[c] - top)   ->   t[c - s] = exp(x[c] - top), c = s .. s + 63 in vectors
                                    total += t[c - s],          c = s .. s + 63

With A the statements up to the argument and B those from the call on, A of later iterations comes
before B of earlier ones in a strip. That changes nothing where neither writes what the other reads
or writes; t alone goes from A to B.

This is done where machine code is emitted, as by `narrow_arithmetic`: which functions vectors can
compute is a property of the code generator.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Block, Buffer, For, If, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import (
    children,
    expressions,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
)
from loopwright.lower.build import bound_names, seq
from loopwright.lower.strips import allocated, change_serial_loops, fresh, strip_end, written

__all__ = ["functions_apart"]

_FEWEST = 8  # iterations of a loop that is worth it


def functions_apart(nest: LoopNest, known: Collection[tuple[str, DType]]) -> LoopNest:
    """Strips for the calls in serial loops of functions that vectors compute.

        for c in range(n): total[] = total[] + exp(x[c])
    ->  for s in range(0, n, 64):
            simd for c in range(s, min(n, s + 64)): t[c - s] = exp(x[c])
            for c in range(s, min(n, s + 64)): total[] = total[] + t[c - s]
    """
    if not nest.leave_to_llvm or not known:
        return nest
    taken = set(bound_names(nest))

    return change_serial_loops(nest, _FEWEST, lambda loop: _in_strips(loop, known, taken))


def _in_strips(loop: For, known: Collection[tuple[str, DType]], taken: set[str]) -> Stmt:
    """A loop with calls of its own computed in vectors; itself where none can be."""
    parts = loop.body.body if isinstance(loop.body, Block) else (loop.body,)
    if not all(isinstance(part, Store | For | If) for part in parts):
        return loop
    calls = [
        (at, call)
        for at, part in enumerate(parts)
        if isinstance(part, Store)
        for call in _certain_calls(part.value, known)
    ]
    stored = written(parts)
    free = dict.fromkeys(
        call
        for _, call in calls
        if loop.var in names(call) and not stored & {load.array for load in loads(call)}
    )
    if free:
        return _strips(loop, (), tuple(free), parts, taken)
    for at in dict.fromkeys(at for at, _ in calls):
        rest = parts[at:]
        later = written(rest)
        ready = dict.fromkeys(
            call
            for place, call in calls
            if place >= at and not later & {load.array for load in loads(call)}
        )
        if ready and _come_before(parts[:at], tuple(ready), rest):
            return _strips(loop, parts[:at], tuple(ready), rest, taken)
    return loop


def _certain_calls(expr: Expr, known: Collection[tuple[str, DType]]) -> list[Call]:
    """Calls of known functions that are made whatever the data are, none inside another."""
    match expr:
        case Call(function=function) if (function, expr.dtype) in known:
            return [expr]
        case Select(cond=cond):
            certain: tuple[Expr, ...] = (cond,)
        case Binary(op="and" | "or", x=x):
            certain = (x,)
        case _:
            certain = children(expr)
    return [call for part in certain for call in _certain_calls(part, known)]


def _come_before(before: Sequence[Stmt], calls: Sequence[Call], rest: Sequence[Stmt]) -> bool:
    """Whether all arguments of a strip may be computed before the statements from the calls on."""
    early, later = written(before), written(rest)
    arguments = [{load.array for load in loads(call)} for call in calls]
    if not all(early & used for used in arguments):  # else a call has one value
        return False
    used = _read(before).union(*arguments)
    return not (early & (later | _read(rest, calls)) or later & used)


def _read(parts: Sequence[Stmt], known: Collection[Call] = ()) -> set[str]:
    """Arrays that statements read, but for what the calls `known` read."""

    def forget(expr: Expr) -> Expr:
        return Const(0, expr.dtype) if expr in known else expr

    values = (value for part in parts for s in statements(part) for value in expressions(s))
    return {load.array for value in values for load in loads(rewrite(value, forget))}


def _strips(
    loop: For,
    before: Sequence[Stmt],
    calls: Sequence[Call],
    rest: Sequence[Stmt],
    taken: set[str],
) -> Stmt:
    """The loop in strips; the values of `calls` lie in buffers of a strip.

    Where statements come `before` them, these leave the arguments of the calls in buffers too.
    """
    strip = Var(fresh(f"{loop.var}_s", taken))
    stop = strip_end(loop, strip)
    place = (Var(loop.var) - strip,)
    buffers: list[Buffer] = []

    def in_buffer(wish: str, expr: Expr) -> Load:
        buffer = Buffer(fresh(wish, taken), expr.dtype, (Const(1),), Space.STACK)
        buffers.append(buffer)
        return Load(buffer.name, place, expr.dtype)

    values = {call: in_buffer(f"{call.function}_of", call) for call in calls}

    def over(body: Stmt, mark: Mark) -> For:
        return replace(loop, start=strip, stop=stop, body=body, mark=mark)

    def exchanged(expr: Expr) -> Expr:
        return values.get(expr, expr) if isinstance(expr, Call) else expr

    def with_values(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store):
            return stmt
        return replace(stmt, value=rewrite(stmt.value, exchanged))

    first: tuple[Stmt, ...] = ()
    asked = {call: call for call in calls}
    if before:
        # Calls of one argument, as the sine and the cosine of an angle, share its buffer.
        given = {arg: in_buffer("arg", arg) for arg in dict.fromkeys(c.args[0] for c in calls)}
        asked = {call: replace(call, args=(given[call.args[0]],)) for call in calls}
        kept = [Store(load.array, place, arg) for arg, load in given.items()]
        first = (over(seq(*before, *kept), Mark.SERIAL),)
    computed = [Store(value.array, place, asked[call]) for call, value in values.items()]
    vectors = over(seq(*computed), Mark.SIMD)
    last = over(rebuild(seq(*rest), with_values), Mark.SERIAL)
    return allocated(loop, strip, seq(*first, vectors, last), buffers)
