"""Two boxes of an array for the turns of a core: one is used, the other one is on its way.

    for q_t of the core: A_box = A[q_t]; for s_t: S(A_box); A[q_t] = A_box
->  A_box[0] = A[first q_t]
    for q_t of the core, slot 0 and 1 in turns:
        for s_t: in the middle: wait; start A_box[1 - slot] = A[next q_t]
            S(A_box[slot])
        wait; start A[q_t] = A_box[slot]
    wait

In the first half of a turn the box of the last turn goes, and in the second half the next one comes
to its place. Turns of several loops inside each other are one row of turns. No two iterations of
mapped loops move the same element (`transform/stage_box`), so a box may come before others have
gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Commit,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    loop_depth,
    names,
    rebuild,
    rewrite,
    statements,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import at_turn, bound_names, seq, touches
from loopwright.lower.linear_forms import normal

__all__ = ["overlap_boxes"]


def overlap_boxes(nest: LoopNest, rings: Collection[str]) -> LoopNest:
    """The nest whose boxes of two slots come and go while cores work."""
    taken = bound_names(nest)

    def down(stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.SERIAL):
                turns = _turns(stmt, rings)
                if turns is not None:
                    return _Overlap(turns, taken).stmt()
                return replace(stmt, body=down(stmt.body))
            case For() | Let() | Alloc():
                return replace(stmt, body=down(stmt.body))
            case Block(body=children):
                return Block(tuple(map(down, children)))
            case If(orelse=None):
                return replace(stmt, body=down(stmt.body))
        return stmt

    return replace(nest, body=down(nest.body))


@dataclass(frozen=True, slots=True)
class _Turns:
    """Loops around nothing but each other, bindings, and a box that is brought in and put back."""

    heads: tuple[For | Let, ...]  # loops and bindings, the outermost loop first
    ring: Alloc
    get: Stmt  # the copy to the box, under conditions
    middle: tuple[Stmt, ...]
    put: Stmt

    @property
    def loops(self) -> list[For]:
        return [head for head in self.heads if isinstance(head, For)]


def _turns(loop: For, rings: Collection[str]) -> _Turns | None:
    """The turns that begin at a loop; None where it is another one, or copies are not so plain."""
    heads: list[For | Let] = []
    inner: Stmt = loop
    while isinstance(inner, Let) or (isinstance(inner, For) and inner.mark is Mark.SERIAL):
        heads.append(inner)
        inner = inner.body
    if not isinstance(inner, Alloc) or inner.buffer.name not in rings:
        return None
    bound = {head.var if isinstance(head, For) else head.name for head in heads}
    bounds = [expr for head in heads if isinstance(head, For) for expr in expressions(head)]
    fixed = (*bounds, *expressions(inner))
    if any(names(expr) & bound for expr in fixed) or not isinstance(inner.body, Block):
        return None  # an inner loop alone may do
    first, *middle, last = inner.body.body
    name = inner.buffer.name
    get, put = _copied(first), _copied(last)
    if get is None or put is None or get.target != name or put.source != name:
        return None
    if get.after_puts or put.lands or get.is_async or put.is_async:
        return None
    if any(isinstance(s, Copy) and touches(s, name) for m in middle for s in statements(m)):
        return None
    return _Turns(tuple(heads), inner, first, tuple(middle), last)


def _copied(stmt: Stmt) -> Copy | None:
    """The copy that a statement does under some conditions, and nothing else."""
    while isinstance(stmt, If) and stmt.orelse is None:
        stmt = stmt.body
    return stmt if isinstance(stmt, Copy) else None


@dataclass(frozen=True, slots=True)
class _Overlap:
    """Writes the turns down anew."""

    turns: _Turns
    taken: set[str]

    def stmt(self) -> Stmt:
        turns = self.turns
        loops, ring = turns.loops, turns.ring
        slot = self._fresh(f"{ring.buffer.name}_slot")
        number: Expr = Const(0)
        for loop in loops:
            number = number * _trips(loop) + (Var(loop.var) - loop.start) // loop.step
        start: dict[str, Expr] = {loop.var: loop.start for loop in loops}
        is_run: Expr = Const(True, BOOL)
        for loop in loops:
            own = Binary("lt", loop.start, loop.stop)
            is_run = own if isinstance(is_run, Const) else Binary("and", is_run, own)
        first = If(is_run, seq(self._get("first", start, Const(0)), Commit(), Wait(0)))
        middle = [self._with_slot(each, slot) for each in turns.middle]
        put = _started(self._with_slot(turns.put, slot))
        body = seq(self._in_the_middle(seq(*middle), self._next(slot)), Wait(0), put, Commit())
        body = Let(slot.name, normal(number % 2), body)
        for head in reversed(turns.heads):
            body = replace(head, body=body)
        return replace(ring, body=seq(first, body, Wait(0)))

    def _fresh(self, wish: str) -> Var:
        name = fresh_name(wish, self.taken)
        self.taken.add(name)
        return Var(name)

    def _with_slot(self, stmt: Stmt, slot: Expr) -> Stmt:
        """A statement that uses the box of a slot in place of the first one."""
        ring = self.turns.ring.buffer.name

        def load(node: Expr) -> Expr:
            if isinstance(node, Load) and node.array == ring:
                return replace(node, index=(slot, *node.index[1:]))
            return node

        def visit(node: Stmt) -> Stmt:
            match node:
                case Store(buffer=name, index=index) if name == ring:
                    return replace(node, index=(slot, *index[1:]))
                case Copy(target=name, target_start=start) if name == ring:
                    return replace(node, target_start=(slot, *start[1:]))
                case Copy(source=name, source_start=start) if name == ring:
                    return replace(node, source_start=(slot, *start[1:]))
            return node

        return rebuild(stmt, visit, lambda expr: rewrite(expr, load))

    def _next(self, slot: Expr) -> Stmt:
        """The box of the last turn has gone, and the one of the next turn is on its way."""
        values: dict[str, Expr] = {}
        bound: list[tuple[Var, Expr]] = []
        step: Expr = self.turns.loops[-1].step
        is_there: Expr = Const(True, BOOL)
        for at, loop in reversed(list(enumerate(self.turns.loops))):
            later = self._fresh(f"{loop.var}_next")
            bound.append((later, normal(Var(loop.var) + step)))
            is_there = Binary("lt", later, loop.stop)
            values[loop.var] = Select(is_there, later, loop.start) if at else later
            if at:
                outer = self.turns.loops[at - 1].step
                step = Select(is_there, Const(0), outer)
        found: Stmt = If(is_there, self._get("next", values, normal(1 - slot)))
        for var, value in reversed(bound):
            found = Let(var.name, value, found)
        return seq(Wait(0), found, Commit())

    def _in_the_middle(self, stmt: Stmt, done: Stmt) -> Stmt:
        """A statement with `done` in the middle of its deepest loop, or before it."""
        match stmt:
            case Let(body=body) | Alloc(body=body):
                return replace(stmt, body=self._in_the_middle(body, done))
            case Block(body=children) if children:
                deepest = max(children, key=loop_depth)
                at = children.index(deepest)
                found = self._in_the_middle(deepest, done)
                return seq(*children[:at], found, *children[at + 1 :])
            case For(mark=Mark.SERIAL):
                half = self._fresh(f"{stmt.var}_half")
                value = normal(stmt.start + _trips(stmt) // 2 * stmt.step)
                here = If(Binary("eq", Var(stmt.var), half), done)
                loop = replace(stmt, body=seq(here, stmt.body))
                # A loop without an iteration has no middle.
                return seq(
                    Let(half.name, value, loop), If(Binary("le", stmt.stop, stmt.start), done)
                )
        return seq(done, stmt)

    def _get(self, word: str, values: Mapping[str, Expr], slot: Expr) -> Stmt:
        """The request for a box at some values of the loops."""
        get = _started(self._with_slot(self.turns.get, slot))
        return at_turn(
            get, self.turns.heads, values, lambda name: self._fresh(f"{name}_{word}").name
        )


def _started(stmt: Stmt) -> Stmt:
    """The copy of a statement only begins."""
    return rebuild(stmt, lambda s: replace(s, is_async=True) if isinstance(s, Copy) else s)


def _trips(loop: For) -> Expr:
    return normal((loop.stop - loop.start + loop.step - 1) // loop.step)
