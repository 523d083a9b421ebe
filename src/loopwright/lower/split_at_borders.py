"""Loops without guards where no border is near.

    for i in range(n): if (i >= 1) & (n >= i + 2): S else: T
->  for i in range(min(n, 1)): if (i >= 1) & (n >= i + 2): S else: T
    for i in range(1, n - 1): S
    for i in range(max(1, n - 1), n): if (i >= 1) & (n >= i + 2): S else: T

Cases at the borders of arrays (periodic subscripts, one-sided differences, values at walls) become
guards of innermost loops. LLVM either has no vectors then or computes all cases in all of them.
gcc splits loops in order by itself, but not what it is told to take in vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import rebuild, rewrite, statements, walk
from loopwright.lower.build import seq
from loopwright.lower.linear_forms import LinearForm, linear, nonnegative_form, normal
from loopwright.lower.simplify import simplify

__all__ = ["split_at_borders"]

# Iterations at one end of a loop whose guards differ from the others': beyond, code that stands
# there three times is no longer that of a border.
_MOST = 16
_TIMES = 8  # as many iterations as those at both ends: those of a loop that is worth it, at least
_ONE = LinearForm((), 1)
_MARKS = (Mark.SERIAL, Mark.SIMD)


def split_at_borders(nest: LoopNest, marks: Collection[Mark] = _MARKS) -> LoopNest:
    """The nest with loops in three parts where guards are the same in all but their ends.

        for i in range(10): if i >= 2: S else: T
    ->  for i in range(2): if i >= 2: S else: T
        for i in range(2, 10): S

    Iterations keep their order. Of loops around others the ends keep the loops inside as they are.
    Looked at are the guards of innermost loops of some marks.
    """
    if not nest.leave_to_llvm or not any(_guards(s, marks) for s in statements(nest.body)):
        return nest
    body = _split(nest.body, marks)
    return nest if body == nest.body else simplify(replace(nest, body=body))


def _guards(stmt: Stmt, marks: Collection[Mark]) -> list[Expr]:
    """Comparisons of integers in the branches of the innermost loops inside of a loop."""
    if not isinstance(stmt, For):
        return []
    inside = list(statements(stmt.body))
    if any(isinstance(s, For) for s in inside):
        inner = [s for s in inside if isinstance(s, For)]
        leaves = [s for s in inner if not any(isinstance(x, For) for x in statements(s.body))]
        return [guard for leaf in leaves for guard in _guards(leaf, marks)]
    if stmt.mark not in marks:
        return []
    conditions = [s.cond for s in inside if isinstance(s, If)]
    return [node for cond in conditions for node in walk(cond) if _difference(node) is not None]


def _split(stmt: Stmt, marks: Collection[Mark]) -> Stmt:
    inside = partial(_split, marks=marks)
    match stmt:
        case For():
            ends = _ends(stmt, marks)
            if ends is None:
                return replace(stmt, body=inside(stmt.body))
            low, high = ends
            first, last = low.expr, high.expr
            main = inside(_decided(stmt.body, stmt.var, low, high - _ONE))
            parts: list[Stmt] = [replace(stmt, start=first, stop=last, body=main)]
            if low != linear(stmt.start):
                early = replace(stmt, stop=normal(stmt.stop.min(first)), mark=Mark.SERIAL)
                parts.insert(0, early)
            if high != linear(stmt.stop):
                late = replace(stmt, start=normal(first.max(last)), mark=Mark.SERIAL)
                parts.append(late)
            return seq(*parts)
        case Block(body=body):
            return replace(stmt, body=tuple(map(inside, body)))
        case If(body=body, orelse=orelse):
            other = None if orelse is None else inside(orelse)
            return replace(stmt, body=inside(body), orelse=other)
        case Let(body=body) | Alloc(body=body):
            return replace(stmt, body=inside(body))
    return stmt


def _ends(loop: For, marks: Collection[Mark]) -> tuple[LinearForm, LinearForm] | None:
    """Where the iterations with the same guards begin and end; None where that is no gain."""
    is_plain = loop.mark in _MARKS and loop.until is None
    if not is_plain or loop.step != Const(1):
        return None
    start, stop = linear(loop.start), linear(loop.stop)
    before = after = 0
    for cut in (cut for guard in _guards(loop, marks) for cut in _cuts(guard, loop.var)):
        early, late = cut - start, stop - cut
        if not early.terms and early.constant <= _MOST:
            before = max(before, early.constant)
        elif not late.terms and late.constant <= _MOST:
            after = max(after, late.constant)
    trips = stop - start
    if not (before or after) or (not trips.terms and trips.constant < _TIMES * (before + after)):
        return None
    return start + LinearForm((), before), stop - LinearForm((), after)


def _difference(cond: Expr) -> LinearForm | None:
    """x - y of a comparison of integers; None for all else."""
    match cond:
        case Binary(op="lt" | "le" | "gt" | "ge" | "eq" | "ne", x=x, y=y) if x.dtype == INT64:
            return linear(x) - linear(y)
    return None


def _cuts(cond: Expr, var: str) -> Iterator[LinearForm]:
    """The values of a variable from which on a comparison has another result."""
    form = nonnegative_form(cond)
    if form is None:
        form = _difference(cond)
        assert form is not None, "a guard compares integers"
        sign = dict(form.terms).get(Var(var), 0)
        if abs(sign) == 1:
            place = (form * -sign) + LinearForm(((Var(var), 1),), 0)
            yield from (place, place + _ONE)
        return
    sign = dict(form.terms).get(Var(var), 0)
    if abs(sign) == 1:
        place = (form * -sign) + LinearForm(((Var(var), 1),), 0)
        yield place if sign == 1 else place + _ONE


def _decided(body: Stmt, var: str, first: LinearForm, last: LinearForm) -> Stmt:
    """`body` where a variable lies between two values."""

    def at(form: LinearForm, end: LinearForm) -> int | None:
        """A form at an end of the range; None where that is no number."""
        sign = dict(form.terms)[Var(var)]
        found = form - LinearForm(((Var(var), sign),), 0) + end * sign
        return None if found.terms else found.constant

    def truth(form: LinearForm | None) -> tuple[int | None, int | None]:
        """The least and the greatest value of a form that moves with the variable."""
        if form is None or Var(var) not in dict(form.terms):
            return None, None
        ends = at(form, first), at(form, last)
        return ends if dict(form.terms)[Var(var)] > 0 else (ends[1], ends[0])

    def decide(expr: Expr) -> Expr:
        least, greatest = truth(nonnegative_form(expr))
        if least is not None and least >= 0:
            return Const(True, BOOL)
        if greatest is not None and greatest < 0:
            return Const(False, BOOL)
        match expr:
            case Binary(op="eq" | "ne" as op):
                least, greatest = truth(_difference(expr))
                is_apart = (least is not None and least > 0) or (
                    greatest is not None and greatest < 0
                )
                return Const(op == "ne", BOOL) if is_apart else expr
        return expr

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, If):
            return stmt
        return replace(stmt, cond=rewrite(stmt.cond, decide))

    return rebuild(body, visit)
