"""The first panels of a turn come while cores still use the last ones of the turn before.

    for i_t: for j_t: C_box = C[i_t, j_t]
        start A_part[0] = the first panel
        for k_t, slot 0 and 1 in turns:
            wait; if there is one: start A_part[1 - slot] = the next panel
            S(A_part[slot])
        C[i_t, j_t] = C_box
->  start A_part[0] = the first panel of the first turn
    for i_t: for j_t: C_box = C[i_t, j_t]
        for k_t, slots in turns over all turns:
            wait; if there is one: start A_part[1 - slot] = the next panel
                  else if there is one: start A_part[1 - slot] = the first panel of the next turn
            S(A_part[slot])
        C[i_t, j_t] = C_box

Without it nobody computes while the first panels of each turn come (5% of a product of 1200 x 1200
x 1000 on a triangle). Nobody writes what panels are brought in from, or all that they have of it is
there before somebody puts it (`lower/drop_copies`). Where turns or their panels depend on outer
turns (triangles), slots begin anew in each turn: a panel comes ahead where each turn has an even
number of them, and else as before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select, Unary, Var
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
    Space,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.schedule import DroppedCopy
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    names,
    operands,
    rebuild,
    rewrite,
    statements,
    substitute,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import at_turn, bound_names, seq
from loopwright.lower.linear_forms import linear, normal

__all__ = ["panels_ahead"]

_LINE = 128  # bytes: boxes begin at multiples
_TRUE = Const(True, BOOL)


def panels_ahead(nest: LoopNest, in_place: Sequence[DroppedCopy] = ()) -> LoopNest:
    """The nest in which first panels of turns come during the turns before.

    Of arrays that are read `in_place` all that panels have is read before it is put, where cores do
    not meet behind puts.
    """
    taken: set[str] = set()
    kept = {one.array for one in in_place if not one.is_closed}
    cores: dict[str, int] = {}  # coordinates, and how many values they have

    def down(stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.THREAD, stop=Const(value=int(count))):
                cores[stmt.var] = count
                return replace(stmt, body=down(stmt.body))
            case For(mark=Mark.SERIAL):
                turns = _turns(stmt, kept, cores)
                if turns is None:
                    return stmt
                if not taken:
                    taken.update(bound_names(nest))
                made = _Ahead(turns, taken).stmt()
                return made if _most_bytes(made) <= _most_bytes(stmt) else stmt
            case For() | Let() | Alloc():
                return replace(stmt, body=down(stmt.body))
            case Block(body=children):
                return Block(tuple(map(down, children)))
        return stmt

    return replace(nest, body=down(nest.body))


@dataclass(frozen=True, slots=True)
class _Panels:
    """Panels of a loop, two at a time: their memory, the request for the first ones, the loop."""

    memory: tuple[Alloc, ...]
    first: Stmt
    loop: For
    slot: Let  # in the loop
    coming: Stmt  # the request for the next ones
    rest: tuple[Stmt, ...]  # of the loop, behind it

    def trips(self, start: Expr) -> Expr:
        """Panels from a start on."""
        gap = normal((self.loop.stop - start).max(0))
        return normal((gap + (self.loop.step - 1)) // self.loop.step)


@dataclass(frozen=True, slots=True)
class _Turns:
    """Loops of turns, one inside of another, and the panels of a turn."""

    heads: tuple[For | Let, ...]  # loops and bindings, the outermost loop first
    body: Stmt  # of the innermost one
    panels: _Panels
    start: Expr  # of the panels of the first turn
    is_numbered: bool  # whether all bounds are the same in each turn

    @property
    def loops(self) -> list[For]:
        return [head for head in self.heads if isinstance(head, For)]


def _turns(loop: For, kept: Collection[str], cores: Mapping[str, int]) -> _Turns | None:
    """The turns that begin at a loop; None where panels of the next one cannot come ahead."""
    heads: list[For | Let] = []
    inner: Stmt = loop
    while isinstance(inner, Let) or (isinstance(inner, For) and inner.mark is Mark.SERIAL):
        heads.append(inner)
        inner = inner.body
    found = _panels(inner)
    if len(found) != 1:
        return None
    (panels,) = found
    loops = [head for head in heads if isinstance(head, For)]
    turning = {one.var for one in loops}
    local = {head.name for head in heads if isinstance(head, Let)}
    bounds = [expr for one in loops for expr in expressions(one)]
    fixed = [panels.loop.stop, panels.loop.step]
    fixed += [expr for one in panels.memory for expr in expressions(one)]
    if any(names(expr) & (turning | local) for expr in fixed):
        return None
    if any(names(expr) & local for expr in bounds):
        return None
    begins_anew = bool(names(panels.loop.start) & (turning | local))
    if begins_anew and not _begins_with_turn(panels.loop, heads, cores):
        return None
    is_triangle = any(names(expr) & turning for expr in bounds)
    if is_triangle and not _are_all_there(loops):
        return None
    is_numbered = not is_triangle and not begins_anew
    sources = {s.source for s in statements(panels.first) if isinstance(s, Copy)}
    written = {_target(s) for s in statements(inner)}
    if sources & (written - set(kept)) or not _is_bound_outside(panels.first, inner, heads):
        return None
    start = Const(0) if begins_anew else panels.loop.start
    return _Turns(tuple(heads), inner, panels, start, is_numbered)


def _target(stmt: Stmt) -> str:
    match stmt:
        case Store(buffer=name) | Copy(target=name):
            return name
    return ""


def _is_bound_outside(first: Stmt, body: Stmt, heads: list[For | Let]) -> bool:
    """Whether a request uses no name that is bound in the body of the turns."""
    used = {name for s in statements(first) for expr in expressions(s) for name in names(expr)}
    bound = {s.name if isinstance(s, Let) else s.var for s in statements(body)
             if isinstance(s, Let | For)}  # fmt: skip
    return not used & (bound - {h.name if isinstance(h, Let) else h.var for h in heads})


def _are_all_there(loops: list[For]) -> bool:
    """Whether two loops of turns, the second one on a triangle, have an iteration for each first.

    The first one begins at a constant from 0 on, and so does the second.
    """
    if len(loops) != 2:  # rows and columns
        return False
    outer, inner = loops
    match outer.start, inner.start:
        case Const(value=int(low)), Const(value=int(first)) if 0 <= first <= low:
            pass
        case _:
            return False
    limits = operands("min", outer.stop)
    for end in operands("min", inner.stop):
        form = linear(end)
        factor = dict(form.terms).get(Var(outer.var), 0)
        is_past = (
            len(form.terms) == 1 and factor >= 0 and form.constant + factor * low > first
        ) if factor else (not form.terms and form.constant > first)  # fmt: skip
        if not is_past and end not in limits:
            return False
    return True


def _begins_with_turn(panels: For, heads: Sequence[For | Let], cores: Mapping[str, int]) -> bool:
    """Whether the panels of a turn go from its first iteration to the last one of all turns.

    Turns have an even number of panels, so what is left is even in all of them or in none.
    """
    start = panels.start
    for head in reversed(heads):
        if isinstance(head, Let):
            start = substitute(start, {head.name: head.value})
    loops = {head.var: head for head in heads if isinstance(head, For)}

    def of_turn(node: Expr) -> Expr:
        """(i_t + 32 * row) // 256 * 256 is i_t, of turns of 256."""
        match node:
            case Binary(op="floordiv", x=x, y=Const(value=int(by))):
                form = linear(x)
                turns = [(a, f) for a, f in form.terms if isinstance(a, Var) and a.name in loops]
                others = [(a, f) for a, f in form.terms if (a, f) not in turns]
                if len(turns) != 1 or not all(
                    isinstance(a, Var) and a.name in cores and f > 0 for a, f in others
                ):
                    return node
                ((turn, factor),) = turns
                assert isinstance(turn, Var)
                most = sum(f * (cores[a.name] - 1) for a, f in others if isinstance(a, Var))
                loop = loops[turn.name]
                is_turn = factor == 1 and loop.step == Const(by) and loop.start == Const(0)
                if is_turn and form.constant >= 0 and form.constant + most < by:
                    return turn // by
        return node

    start = normal(rewrite(normal(start), of_turn))
    for loop in loops.values():
        match loop.step, panels.step:
            case Const(value=int(by)), Const(value=int(step)) if by % (2 * step) == 0:
                begins = (Var(loop.var), normal(Var(loop.var) // by * by))
                if start in begins and loop.start == Const(0) and loop.stop == panels.stop:
                    return True
    return False


def _panels(stmt: Stmt) -> list[_Panels]:
    """The loops of panels in the body of a turn, in no other loop and under no condition."""
    match stmt:
        case Alloc():
            memory: list[Alloc] = []
            inner: Stmt = stmt
            while isinstance(inner, Alloc):
                memory.append(inner)
                inner = inner.body
            found = _panels_of(memory, inner)
            return _panels(stmt.body) if found is None else [found]
        case Let(body=body):
            return _panels(body)
        case Block(body=children):
            return [one for child in children for one in _panels(child)]
    return []


def _panels_of(memory: list[Alloc], inner: Stmt) -> _Panels | None:
    """The panels that some memory is for, where the request for the first ones stands there."""
    match inner:
        case Block(body=(If(orelse=None) as first, Commit(), For(mark=Mark.SERIAL) as loop)):
            pass
        case _:
            return None
    match loop.body:
        case Let(body=Block(body=(Wait(pending=0), If(orelse=None) as coming, Commit(), *rest))):
            pass
        case _:
            return None
    assert isinstance(loop.body, Let)
    copies = [s for s in statements(first) if isinstance(s, Copy)]
    own = {one.buffer.name for one in memory}
    is_plain = all(s.is_async and not s.after_puts and s.target in own for s in copies)
    is_all = {s.target for s in copies} == own
    others = [s for s in statements(first) if not isinstance(s, Copy | If | Block)]
    if not copies or not is_plain or not is_all or others:
        return None
    return _Panels(tuple(memory), first, loop, loop.body, coming, tuple(rest))


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Writes the turns down anew."""

    turns: _Turns
    taken: set[str]

    def stmt(self) -> Stmt:
        turns, panels = self.turns, self.turns.panels
        loops = turns.loops
        is_even: Expr = _TRUE
        slot, trips = panels.slot.value, panels.trips(turns.start)
        if turns.is_numbered:
            number: Expr = Const(0)
            for loop in loops:
                many = (loop.stop - loop.start + loop.step - 1) // loop.step
                number = number * many + (Var(loop.var) - loop.start) // loop.step
            slot = normal((number * trips + slot) % 2)
        else:
            is_even = normal(Binary("eq", trips % 2, Const(0)))
        start: dict[str, Expr] = {loop.var: loop.start for loop in loops}
        is_run: Expr = is_even
        for loop in loops:
            stop = normal(substitute(loop.stop, start))
            is_run = _both(is_run, Binary("lt", loop.start, stop))
        first = seq(If(is_run, self._brought("first", start, Const(0))), Commit())
        var = Var(panels.slot.name)
        coming = seq(panels.coming, self._next(normal(1 - var), is_even))
        inner = replace(panels.slot, value=slot, body=seq(Wait(0), coming, Commit(), *panels.rest))
        made: Stmt = replace(panels.loop, body=inner)
        if is_even != _TRUE:  # else all panels come ahead
            made = seq(If(Unary("not", is_even), panels.first), Commit(), made)
        made = _replaced(turns.body, panels.memory[0], made)
        for head in reversed(turns.heads):
            made = replace(head, body=made)
        made = seq(first, made)
        for one in reversed(panels.memory):
            made = replace(one, body=made)
        return made

    def _next(self, slot: Expr, is_even: Expr) -> Stmt:
        """The request for the first panels of the next turn, in the last iteration of this one."""
        loops, panel = self.turns.loops, self.turns.panels.loop
        values: dict[str, Expr] = {}
        bound: list[tuple[Var, Expr]] = []
        step: Expr = loops[-1].step
        is_there: Expr = _TRUE
        for at, loop in reversed(list(enumerate(loops))):
            later = self._fresh(f"{loop.var}_next")
            bound.append((later, normal(Var(loop.var) + step)))
            is_there = Binary("lt", later, loop.stop)
            values[loop.var] = Select(is_there, later, loop.start) if at else later
            if at:
                step = Select(is_there, Const(0), loops[at - 1].step)
        is_last = Binary("ge", normal(Var(panel.var) + panel.step), panel.stop)
        found: Stmt = If(is_there, self._brought("next", values, slot))
        for var, value in reversed(bound):
            found = Let(var.name, value, found)
        return If(_both(is_last, is_even), found)

    def _fresh(self, wish: str) -> Var:
        name = fresh_name(wish, self.taken)
        self.taken.add(name)
        return Var(name)

    def _brought(self, word: str, values: Mapping[str, Expr], slot: Expr) -> Stmt:
        """The request for the first panels at some values of the loops of turns."""

        def to_slot(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Copy):
                return replace(stmt, target_start=(slot, *stmt.target_start[1:]))
            return stmt

        get = rebuild(self.turns.panels.first, to_slot)
        return at_turn(
            get, self.turns.heads, values, lambda name: self._fresh(f"{name}_{word}").name
        )


def _replaced(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """A statement with `new` in the place of the memory of panels."""
    if stmt is old:
        return new
    match stmt:
        case Alloc(body=body) | Let(body=body):
            return replace(stmt, body=_replaced(body, old, new))
        case Block(body=children):
            return seq(*(_replaced(child, old, new) for child in children))
    return stmt


def _most_bytes(stmt: Stmt) -> int:
    """Bytes of a scratchpad that a statement takes at a time, at most."""
    match stmt:
        case Alloc(buffer=buffer, shape=shape, body=body) if buffer.space is Space.SCRATCHPAD:
            sides = [side.value for side in shape if isinstance(side, Const)]
            own = prod(int(side.real) for side in sides) * buffer.dtype.bytes
            return -(-own // _LINE) * _LINE + _most_bytes(body)
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return _most_bytes(body)
        case If(body=body, orelse=orelse):
            return max(_most_bytes(body), 0 if orelse is None else _most_bytes(orelse))
        case Block(body=children):
            return max((_most_bytes(child) for child in children), default=0)
    return 0


def _both(x: Expr, y: Expr) -> Expr:
    if x == _TRUE or y == _TRUE:
        return y if x == _TRUE else x
    return Binary("and", x, y)
