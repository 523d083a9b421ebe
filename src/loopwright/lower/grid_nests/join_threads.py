"""Reductions whose terms the threads of a block share: sums of their own, joined at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.schedule import JoinedReduction
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import fresh_name, names, rebuild, rewrite, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq
from loopwright.lower.contraction_nests.combine import apply, join_lanes
from loopwright.lower.linear_forms import normal
from loopwright.semirings import identity

__all__ = ["join_threads"]

_ONE, _NONE = Const(1), Const(0)
_THREAD = Var("thread.x")


def join_threads(
    nest: LoopNest, joined: Sequence[JoinedReduction], threads: Mapping[str, int]
) -> LoopNest:
    """Let every thread of a block add up terms of its own, and join their sums.

        block x for i: thread x for k: y[i] = y[i] + e(i, k)
    ->  block x for i:
            sum = 0
            thread x for k: sum = sum + e(i, k)
            sums[thread.x] = sum; barrier; ...  # pairwise, to the first thread
            if thread.x == 0: y[i] = y[i] + sum

    Where several blocks share the terms of an element, each has a part of the loop, and updates the
    element atomically.

    Loops of `joined` are variables of the nest. A reduction in no block gets one of its own. Where
    isl has left out a loop that tells the element, one thread takes all terms.
    """
    if not joined:
        return nest
    pass_ = _Joining({one.loop: one for one in joined}, threads, bound_names(nest))
    known = frozenset(nest.scalars)
    return replace(nest, body=pass_.visit(nest.body, known, frozenset()))


@dataclass(slots=True)
class _Joining:
    joined: Mapping[str, JoinedReduction]  # by loop
    threads: Mapping[str, int]
    taken: set[str]

    def visit(self, stmt: Stmt, known: frozenset[str], axes: frozenset[Axis]) -> Stmt:
        """A statement with all joins in it; `axes` are those of the blocks around."""
        match stmt:
            case For(var=var) if var in self.joined:
                one = self.joined[var]
                if not set().union(*map(names, one.element)) <= known:
                    return _serial(stmt, one.lanes)
                made, count = self._join(stmt, one, part := Var(self._name("part"))), one.blocks
                if count == 1 and axes:
                    return made
                axis = next(axis for axis in Axis if axis not in axes)
                return For(part.name, _NONE, Const(count), made, _ONE, Mark.BLOCK, axis=axis)
            case For(var=var, mark=mark, body=body):
                if mark is Mark.BLOCK:
                    axes |= {stmt.axis or Axis.X}
                return replace(stmt, body=self.visit(body, known | {var}, axes))
            case Let(name=name, body=body):
                return replace(stmt, body=self.visit(body, known | {name}, axes))
            case Alloc(body=body):
                return replace(stmt, body=self.visit(body, known, axes))
            case Block(body=children):
                return Block(tuple(self.visit(c, known, axes) for c in children))
            case If(body=body, orelse=orelse):
                other = orelse and self.visit(orelse, known, axes)
                return replace(stmt, body=self.visit(body, known, axes), orelse=other)
        return stmt

    def _join(self, loop: For, one: JoinedReduction, part: Var) -> Stmt:
        dtype = _dtype(loop, one.array)
        own, shared = self._name(f"{one.array}_sum"), self._name(f"{one.array}_sums")
        total = Load(own, (_NONE,), dtype)

        def gathered(stmt: Stmt) -> Stmt:
            match stmt:
                case Store(buffer=one.array, index=index, value=value):
                    old = Load(one.array, index, dtype)
                    mine = rewrite(value, lambda expr: total if expr == old else expr)
                    if mine == value:
                        raise InternalError("an update does not read its element", stmt_text(stmt))
                    return Store(own, (_NONE,), mine)
            return stmt

        count = self.threads[one.lanes]
        element = Load(one.array, one.element, dtype)
        is_atomic = one.blocks > 1
        terms = _part_of(loop, part, one.blocks) if is_atomic else loop
        joined = apply(one.op, element, total)
        whole: Stmt = Store(one.array, one.element, joined, is_atomic=is_atomic)
        body = seq(
            Store(own, (_NONE,), Const(identity(one.op, dtype), dtype)),
            rebuild(terms, gathered),
            *join_lanes(one.op, total, shared, _THREAD, _THREAD, count),
            If(Binary("eq", _THREAD, _NONE), whole),
        )
        body = Alloc(Buffer(own, dtype, (_ONE,), Space.REGISTER), (_ONE,), body)
        return Alloc(Buffer(shared, dtype, (_ONE,), Space.SHARED), (Const(count),), body)

    def _name(self, wish: str) -> str:
        found = fresh_name(wish, self.taken)
        self.taken.add(found)
        return found


def _part_of(loop: For, part: Expr, parts: int) -> For:
    """The iterations of a loop that a part of it takes: neighbours, equally many in each."""
    trips = (loop.stop - loop.start + (loop.step - 1)) // loop.step
    each = normal((trips + (parts - 1)) // parts * loop.step)
    start = normal(loop.start + part * each)
    return replace(loop, start=start, stop=normal(loop.stop.min(start + each)))


def _serial(loop: For, lanes: str) -> Stmt:
    """The loop with its iterations in one thread."""

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.var == lanes:
            return replace(stmt, mark=Mark.SERIAL, axis=None)
        return stmt

    return rebuild(loop, visit)


def _dtype(loop: Stmt, array: str) -> DType:
    for stmt in statements(loop):
        if isinstance(stmt, Store) and stmt.buffer == array:
            return stmt.value.dtype
    raise InternalError("a reduction writes nothing", stmt_text(loop))
