"""Compute roots and quotients of a loop that has no vectors in strips that have.

A loop that sums in the order of the source, or hands elements on to its next iteration, takes one
element at a time, its roots and quotients with the rest. Most need nothing of what is handed on.
Then a loop of vectors computes those of a strip of iterations first, and the loop itself, unchanged
otherwise, takes them from memory:

    r2 = 0.01; for k: r2 += d(i, k) * d(i, k)         the same for i = s .. s + 63 in vectors, where
    e += f(sqrt(r2))                            ->    t[i - s] = sqrt(r2)
                                                      e += f(t[i - s]), i = s .. s + 63

What is computed first is the value of an expression x at its place in an iteration: the statements
before it that x needs, directly or through others, run on copies of what they write, so they
change nothing. The value is that of the loop itself where all that is read either is not written
by the loop, or is written before, whole, in the same iteration.

Processors have one divider, and a vector of two takes no less than two numbers there: this is for
vectors of four and more. It is done where machine code is emitted, as `functions_apart` is, for
LLVM keeps such loops without vectors. Those that carry only sums of what is no product stay: for
some processors LLVM takes vectors with the sums in order, on others strips take longer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Alloc, Block, Buffer, For, If, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import (
    children,
    constant_trips,
    expressions,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
    walk,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, renamed, renamed_expr, seq
from loopwright.lower.values.strips import allocated, change_loops, fresh, strip_end, written

__all__ = ["LEAST_LANES", "quotients_apart"]

LEAST_LANES = 4  # of the vectors that are worth it

_FEWEST = 16  # iterations of a loop that is worth it
_SHORT = 8  # iterations of loops inside, which LLVM writes out
_INSTRUCTIONS = frozenset({"sqrt", "fma", "abs", "copysign", "min_number", "max_number"})
_LEAST = 2  # roots and quotients in an iteration that are worth the memory they go through


@dataclass(frozen=True, slots=True)
class _Found:
    """An expression to be computed first, and what it needs."""

    at: int  # the part of the body that it stands in
    value: Expr
    needed: frozenset[str]  # local buffers, as they are before that part


def quotients_apart(nest: LoopNest, dtypes: Collection[DType]) -> LoopNest:
    """Strips for the roots and quotients of these types in innermost serial loops."""
    if not nest.leave_to_llvm or not dtypes:
        return nest
    taken = set(bound_names(nest))
    local = {s.buffer.name: s for s in statements(nest.body) if isinstance(s, Alloc)}

    def change(stmt: For) -> Stmt:
        loop = _Loop(stmt, local, dtypes)
        return loop.in_strips(taken) if loop.has_enough() and not loop.is_left() else stmt

    return change_loops(nest, _FEWEST, change)


class _Loop:
    """A serial loop and the parts of its body."""

    def __init__(self, loop: For, local: Mapping[str, Alloc], dtypes: Collection[DType]) -> None:
        self.loop = loop
        self.parts = loop.body.body if isinstance(loop.body, Block) else (loop.body,)
        self.local = local
        self.dtypes = dtypes
        inside = [s for part in self.parts for s in statements(part)]
        self.is_plain = not any(isinstance(part, Block) for part in self.parts) and all(
            isinstance(s, Store | Block | If)
            or (isinstance(s, For) and s.until is None and (constant_trips(s) or 99) <= _SHORT)
            for s in inside
        )
        self.written = {s.buffer for s in inside if isinstance(s, Store)}

    def has_enough(self) -> bool:
        """Whether a loop of plain parts has roots and quotients that may be worth it."""
        values = (value for part in self.parts for value in _values(part))
        certain = (x for value in values for x in _certain(value, self.dtypes))
        return self.is_plain and sum(map(_weight, certain)) >= _LEAST

    def in_strips(self, taken: set[str]) -> Stmt:
        found = list(dict.fromkeys(self._found()))
        if sum(_weight(x.value) for x in found) < _LEAST:
            return self.loop
        return self._strips(found, taken)

    def is_left(self) -> bool:
        """Whether LLVM has vectors for the loop: it hands on nothing, or sums of no products."""
        stored = [s for part in self.parts for s in statements(part) if isinstance(s, Store)]
        read = {load.array for s in stored for e in expressions(s) for load in loads(e)}
        end = len(self.parts)
        carried = self.written & read
        carried -= {x for x in carried & self.local.keys() if self._is_set_anew(x, end)}
        return all(self._is_sum(s, carried) for s in stored if s.buffer in carried)

    def _is_sum(self, store: Store, carried: set[str]) -> bool:
        own = Load(store.buffer, store.index, store.value.dtype)
        is_moved = any(self.loop.var in names(index) for index in store.index)
        match store.value:
            case Binary(op="add" | "sub", x=x, y=y) if x == own and not is_moved:
                is_product = isinstance(y, Binary) and y.op == "mul"
                return not is_product and not carried & {load.array for load in loads(y)}
        return False

    def _found(self) -> Iterator[_Found]:
        for at, part in enumerate(self.parts):
            if any(isinstance(s, If) for s in statements(part)):
                continue
            own = written([part]) if isinstance(part, For) else set()
            inner = {s.var for s in statements(part) if isinstance(s, For)}
            for value in _values(part):
                for x in _certain(value, self.dtypes):
                    needed = self._needed(x, at)
                    moves = self.loop.var in names(x) or bool(needed)
                    if needed is None or not moves or needed & own or names(x) & inner:
                        continue
                    yield _Found(at, x, needed)

    def _needed(self, expr: Expr, at: int) -> frozenset[str] | None:
        """The local buffers that `expr` needs before a part; None where it needs others."""
        needed: set[str] = set()
        todo = {load.array for load in loads(expr)} & self.written
        while todo:
            name = todo.pop()
            if name not in self.local or not self._is_set_anew(name, at):
                return None
            needed.add(name)
            for part in self.parts[:at]:
                if name not in written([part]):
                    continue
                if any(isinstance(s, If) for s in statements(part)):
                    return None
                for stmt in statements(part):
                    if isinstance(stmt, For):
                        bounds = (stmt.start, stmt.stop, stmt.step)
                        todo |= {x.array for e in bounds for x in loads(e)} & self.written
                    if isinstance(stmt, Store) and stmt.buffer == name:
                        if any(map(_is_called, walk(stmt.value))):
                            return None  # copies would call twice
                        read = {x.array for e in expressions(stmt) for x in loads(e)}
                        todo |= (read & self.written) - needed
        whole = {load.array for load in loads(expr)}
        return frozenset(needed) if all(not self._rank(x) for x in whole & needed) else None

    def _rank(self, name: str) -> int:
        return len(self.local[name].shape)

    def _is_set_anew(self, name: str, at: int) -> bool:
        """Whether each iteration sets a local buffer before it reads it, up to a part.

        A scalar by a statement of its own; elements just before, in the same turn of a loop.
        """
        if any(not isinstance(extent, Const) for extent in self.local[name].shape):
            return False
        if not self._rank(name):
            first = next((p for p in self.parts[:at] if _uses(p, name)), None)
            if isinstance(first, For):
                return _is_set_first(first, name)
            is_set = isinstance(first, Store) and first.buffer == name
            return is_set and isinstance(first, Store) and name not in _read([first.value])
        uses = [part for part in self.parts[:at] if _uses(part, name)]
        return len(uses) == 1 and isinstance(uses[0], For) and _is_set_first(uses[0], name)

    def _strips(self, found: Sequence[_Found], taken: set[str]) -> Stmt:
        loop = self.loop
        strip = Var(fresh(f"{loop.var}_s", taken))
        stop = strip_end(loop, strip)
        place = (Var(loop.var) - strip,)
        buffers = [
            Buffer(fresh("value_of", taken), x.value.dtype, (Const(1),), Space.STACK) for x in found
        ]
        stored = {
            x: Load(buffer.name, place, buffer.dtype)
            for x, buffer in zip(found, buffers, strict=True)
        }
        needed = sorted(frozenset[str]().union(*(x.needed for x in found)))
        copies = {name: fresh(name, taken) for name in needed}

        def taken_at(at: int, part: Stmt) -> Stmt:
            values = {x.value: value for x, value in stored.items() if x.at == at}

            def exchanged(expr: Expr) -> Expr:
                return rewrite(expr, lambda node: values.get(node, node))

            return rebuild(part, expression=exchanged) if values else part

        first: list[Stmt] = []
        for at, part in enumerate(self.parts):
            for x, value in stored.items():
                if x.at == at:
                    first.append(Store(value.array, place, renamed_expr(x.value, copies)))
            if at < found[-1].at:
                kept = _only(taken_at(at, part), needed)
                first += (renamed(stmt, copies) for stmt in kept)
        computed: Stmt = seq(*first)
        for name in needed:
            known = self.local[name]
            own = replace(known.buffer, name=copies[name], space=Space.STACK)
            computed = Alloc(own, known.shape, computed)
        vectors = replace(loop, start=strip, stop=stop, body=computed, mark=Mark.SIMD, copies=0)
        rest = seq(*(taken_at(at, part) for at, part in enumerate(self.parts)))
        body = seq(vectors, replace(loop, start=strip, stop=stop, body=rest))
        return allocated(loop, strip, body, buffers)


def _certain(expr: Expr, dtypes: Collection[DType]) -> list[Expr]:
    """Roots and quotients that are computed whatever the data are, none inside another."""
    match expr:
        case Call(function="sqrt") | Binary(op="div") if expr.dtype in dtypes:
            return [expr]
        case Select(cond=cond):
            certain: tuple[Expr, ...] = (cond,)
        case Binary(op="and" | "or", x=x):
            certain = (x,)
        case _:
            certain = children(expr)
    return [found for part in certain for found in _certain(part, dtypes)]


def _weight(expr: Expr) -> int:
    """Roots and quotients in an expression."""
    is_one = isinstance(expr, Call) and expr.function == "sqrt"
    is_one = is_one or (isinstance(expr, Binary) and expr.op == "div")
    return is_one + sum(map(_weight, children(expr)))


def _is_called(expr: Expr) -> bool:
    """Whether a node takes as long as a call of the library."""
    is_power = isinstance(expr, Binary) and expr.op in ("pow", "mod") and expr.dtype.is_float
    return is_power or (isinstance(expr, Call) and expr.function not in _INSTRUCTIONS)


def _values(part: Stmt) -> Iterator[Expr]:
    for stmt in statements(part):
        if isinstance(stmt, Store):
            yield stmt.value


def _read(values: Sequence[Expr]) -> set[str]:
    return {load.array for value in values for load in loads(value)}


def _uses(part: Stmt, name: str) -> bool:
    return any(name in _read(expressions(s)) for s in statements(part)) or name in written([part])


def _is_set_first(loop: For, name: str) -> bool:
    """Whether every turn of a loop of stores sets what it reads of a buffer before, at that place.

    Such a loop runs, and what a scalar has after it is of its last turn.
    """
    own = loop.body.body if isinstance(loop.body, Block) else (loop.body,)
    done: set[tuple[Expr, ...]] = set()
    for stmt in own:
        if not isinstance(stmt, Store):
            return False
        read = {load.index for e in expressions(stmt) for load in loads(e) if load.array == name}
        if not read <= done:
            return False
        if stmt.buffer == name:
            done.add(stmt.index)
    return bool(done) and bool(constant_trips(loop))


def _only(part: Stmt, kept: Collection[str]) -> Iterator[Stmt]:
    """A part of a body with the stores to some buffers alone."""
    match part:
        case Store(buffer=name):
            if name in kept:
                yield part
        case Block(body=body):
            for stmt in body:
                yield from _only(stmt, kept)
        case For(body=body):
            inside = tuple(_only(body, kept))
            if inside:
                yield replace(part, body=seq(*inside))
