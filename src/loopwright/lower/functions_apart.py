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
    for at, call in calls:
        if _comes_before(parts[:at], call, parts[at:]):
            return _strips(loop, parts[:at], (call,), parts[at:], taken)
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


def _comes_before(before: Sequence[Stmt], call: Call, rest: Sequence[Stmt]) -> bool:
    """Whether all arguments of a strip may be computed before the statements from the call on."""
    early, later = written(before), written(rest)
    used = {load.array for load in loads(call)} | _read(before)
    is_needed = bool(used & early)  # else the call has one value
    return is_needed and not (early & (later | _read(rest, call)) or later & used)


def _read(parts: Sequence[Stmt], known: Call | None = None) -> set[str]:
    """Arrays that statements read, but for what the call `known` reads."""

    def forget(expr: Expr) -> Expr:
        return Const(0, expr.dtype) if expr == known else expr

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

    Where statements come `before` them, these leave the argument of the one call in its buffer.
    """
    strip = Var(fresh(f"{loop.var}_s", taken))
    stop = strip_end(loop, strip)
    place = (Var(loop.var) - strip,)
    buffers = [
        Buffer(fresh(f"{call.function}_of", taken), call.dtype, (Const(1),), Space.STACK)
        for call in calls
    ]
    values = {
        call: Load(buffer.name, place, call.dtype)
        for call, buffer in zip(calls, buffers, strict=True)
    }

    def over(body: Stmt, mark: Mark) -> For:
        return replace(loop, start=strip, stop=stop, body=body, mark=mark)

    def exchanged(expr: Expr) -> Expr:
        return values.get(expr, expr) if isinstance(expr, Call) else expr

    def with_values(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store):
            return stmt
        return replace(stmt, value=rewrite(stmt.value, exchanged))

    first: tuple[Stmt, ...] = ()
    if before:
        ((call, value),) = values.items()
        first = (over(seq(*before, Store(value.array, place, call.args[0])), Mark.SERIAL),)
        computed: list[Stmt] = [Store(value.array, place, replace(call, args=(value,)))]
    else:
        computed = [Store(value.array, place, call) for call, value in values.items()]
    vectors = over(seq(*computed), Mark.SIMD)
    last = over(rebuild(seq(*rest), with_values), Mark.SERIAL)
    body = seq(*first, vectors, last)
    return allocated(loop, strip, body, buffers)
