"""Compute functions of a loop that has no vectors in strips that have.

A sum in the order of the source, a recurrence and a loop with another loop inside take one element
at a time, and the functions they call with them. What a call needs is often there before: then a
strip of iterations computes the arguments, a loop of vectors the function of all of them, and the
loop itself takes the values from memory:

    total += exp(x[c] - top)   ->   t[c - s] = exp(x[c] - top), c = s .. s + 63 in vectors
                                    total += t[c - s],          c = s .. s + 63

What a loop writes may be an argument where it is the element of the iteration, not written before:

    a[c] = exp(a[c] - top)     ->   t[c - s] = exp(a[c] - top), in vectors
    total += a[c]                   a[c] = t[c - s], total += a[c]

With A the statements up to the argument and B those from the call on, A of later iterations comes
before B of earlier ones in a strip. That changes nothing where neither writes what the other reads
or writes; t alone goes from A to B.

This is done where machine code or C text is emitted, as by `narrow_arithmetic`: which functions
vectors can compute is a property of the code generator.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Call, Const, Expr, Load, Var
from loopwright.ir.loops import Block, Buffer, For, If, Let, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import (
    constant_trips,
    expressions,
    loads,
    names,
    reads_what_it_writes,
    rebuild,
    rewrite,
    statements,
    substitute,
    unguarded_calls,
    walk,
)
from loopwright.lower.build import bound_names, lets, needed, seq, substitute_statement
from loopwright.lower.linear_forms import differ
from loopwright.lower.values.strips import allocated, change_loops, fresh, strip_end, written

__all__ = ["functions_apart"]

Functions = Collection[tuple[str, DType]]  # by name and type
Bindings = list[tuple[Var, Expr]]
_FEWEST = 8  # iterations of a loop that is worth it
_MOST_COPIES = 8  # of statements in a loop, each with calls of its own


def functions_apart(nest: LoopNest, known: Functions, twice: Functions = ()) -> LoopNest:
    """Strips for the calls in serial loops of functions that vectors compute.

    Loops that compute functions of `twice` may have to run again: in loops of vectors that read
    what they write these are taken apart, too.

        for c in range(n): total[] = total[] + exp(x[c])
    ->  for s in range(0, n, 64):
            simd for c in range(s, min(n, s + 64)): t[c - s] = exp(x[c])
            for c in range(s, min(n, s + 64)): total[] = total[] + t[c - s]
    """
    if not nest.leave_to_llvm or not known:
        return nest
    taken = set(bound_names(nest))

    def in_strips(loop: For) -> Stmt:
        written_out = _with_copies(loop, known, taken)
        made = _in_strips(written_out, known, taken)
        return loop if made is written_out else made

    found = change_loops(nest, _FEWEST, in_strips)
    if not twice:
        return found
    return change_loops(found, _FEWEST, lambda loop: _once(loop, twice, taken), Mark.SIMD)


def _with_copies(loop: For, known: Functions, taken: set[str]) -> For:
    """A loop whose body is copies of statements that call functions, with the copies written out.

    Rows that are taken four at a time: each copy has calls and bindings of its own, which may come
    first where they read nothing that the copies write.

        for i: unroll q in range(2): let p = x[i, q]; s[q] = s[q] + cos(p)
    ->  for i: let p = x[i, 0]; let p_2 = x[i, 1]; s[0] = s[0] + cos(p); s[1] = s[1] + cos(p_2)
    """
    match loop.body:
        case For(mark=Mark.UNROLL, start=Const(), step=Const(1), until=None) as copies:
            count = constant_trips(copies)
        case _:
            return loop
    bound, parts = _opened(copies.body)
    stored = written(parts)
    if count is None or count > _MOST_COPIES or not all(isinstance(x, Store) for x in parts):
        return loop
    if any(load.array in stored for _, value in bound for load in loads(value)):
        return loop
    if not _calls(bound, parts, known):
        return loop
    bindings: Bindings = []
    made: list[Stmt] = []
    for k in range(count):
        values: dict[str, Expr] = {copies.var: copies.start + k}
        for variable, value in bound:
            own = Var(fresh(variable.name, taken), variable.dtype)
            bindings.append((own, substitute(value, values)))
            values[variable.name] = own
        made += [substitute_statement(part, values) for part in parts]
    return replace(loop, body=lets(bindings, seq(*made)))


def _once(loop: For, twice: Functions, taken: set[str]) -> Stmt:
    """A loop of vectors with the calls that may happen again in strips of their own.

    Its iterations are independent: what none of its statements has written before a call is what it
    was before the loop.
    """
    bound, parts = _opened(loop.body)
    if not all(isinstance(part, Store) for part in parts) or not reads_what_it_writes(loop.body):
        return loop
    calls = dict.fromkeys(call for _, call in _calls(bound, parts, twice))
    unchanged = tuple(call for call in calls if _is_before(call, bound, parts))
    return _strips(loop, bound, (), unchanged, parts, taken) if unchanged else loop


def _is_before(call: Call, bound: Bindings, parts: Sequence[Stmt]) -> bool:
    """Whether stores change nothing of what a call reads before the last place where it stands."""
    places = [at for at, part in enumerate(parts) for x in expressions(part) if call in walk(x)]
    read = loads(_whole(call, bound))
    before = parts[: max(places, default=0)]
    stores = [part for part in before if isinstance(part, Store)]
    inside = written([part for part in before if not isinstance(part, Store)])
    return not inside & {load.array for load in read} and all(
        differ(load, _element(store)) for load in read for store in stores
    )


def _element(store: Store) -> Load:
    return Load(store.buffer, store.index, store.value.dtype)


def _own_elements(loop: For, bound: Bindings, parts: Sequence[Stmt]) -> set[str]:
    """Arrays of which no iteration touches what another does: its variable is a subscript."""
    if not all(isinstance(part, Store) for part in parts):
        return set()
    values = [value for _, value in bound]
    values += [value for part in parts for value in expressions(part)]
    touched = [load for value in values for load in loads(value)]
    touched += [_element(part) for part in parts if isinstance(part, Store)]
    places: dict[str, set[int]] = {}
    for load in touched:
        own = {at for at, index in enumerate(load.index) if index == Var(loop.var)}
        places[load.array] = places.get(load.array, own) & own
    return {array for array, found in places.items() if found}


def _opened(body: Stmt) -> tuple[Bindings, tuple[Stmt, ...]]:
    """The statements of a body, and the bindings around all of them."""
    bound: Bindings = []
    while True:
        match body:
            case Block(body=(only,)):
                body = only
            case Let(name=name, value=value, parts=0, is_anew=False):
                bound.append((Var(name, value.dtype), value))
                body = body.body
            case _:
                return bound, body.body if isinstance(body, Block) else (body,)


def _calls(bound: Bindings, parts: Sequence[Stmt], known: Functions) -> list[tuple[int, Call]]:
    """Calls in bindings and stores, each with the part that it stands in, or before."""
    places = [(0, value) for _, value in bound]
    places += [(at, part.value) for at, part in enumerate(parts) if isinstance(part, Store)]
    return [(at, call) for at, value in places for call in unguarded_calls(value, known)]


def _whole(expr: Expr, bound: Bindings) -> Expr:
    """An expression without bindings."""
    for variable, value in reversed(bound):
        expr = substitute(expr, {variable.name: value})
    return expr


def _in_strips(loop: For, known: Functions, taken: set[str]) -> Stmt:
    """A loop with calls of its own computed in vectors; itself where none can be."""
    bound, parts = _opened(loop.body)
    if not all(isinstance(part, Store | For | If) for part in parts):
        return loop
    calls = _calls(bound, parts, known)
    stored = written(parts)
    wholes = {call: _whole(call, bound) for _, call in calls}
    shared = stored - _own_elements(loop, bound, parts)
    free = [
        call
        for call, whole in wholes.items()
        if loop.var in names(whole)
        and not shared & {load.array for load in loads(whole)}
        and _is_before(call, bound, parts)
    ]
    if free:
        return _strips(loop, bound, (), tuple(free), parts, taken)
    if bound:
        return loop
    for at in dict.fromkeys(at for at, _ in calls):
        rest = parts[at:]
        later = written(rest)
        ready = dict.fromkeys(
            call
            for place, call in calls
            if place >= at and not later & {load.array for load in loads(call)}
        )
        if ready and _come_before(parts[:at], tuple(ready), rest):
            return _strips(loop, bound, parts[:at], tuple(ready), rest, taken)
    return loop


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
    bound: Bindings,
    before: Sequence[Stmt],
    calls: Sequence[Call],
    rest: Sequence[Stmt],
    taken: set[str],
) -> Stmt:
    """The loop in strips; the values of `calls` lie in buffers of a strip.

    Each part has the bindings that it needs.

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

    def over(body: Stmt, mark: Mark, bound: Bindings = bound) -> For:
        named = lets(needed(bound, body), body)
        return replace(loop, start=strip, stop=stop, body=named, mark=mark)

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
        first = (over(seq(*before, *kept), loop.mark),)
    computed = [Store(value.array, place, asked[call]) for call, value in values.items()]
    vectors = over(seq(*computed), Mark.SIMD)
    known = [(variable, rewrite(value, exchanged)) for variable, value in bound]
    last = over(rebuild(seq(*rest), with_values), loop.mark, known)
    return allocated(loop, strip, seq(*first, vectors, last), buffers)
