"""Simplify a loop nest: index arithmetic in normal form, without dead code and implied guards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Axis, Block, For, If, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import operands, rebuild, rewrite, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import substitute_statement
from loopwright.lower.linear_forms import LinearForm, linear, nonnegative_form, normal
from loopwright.lower.statement_uses import StatementUses, conjuncts, form_key

__all__ = ["simplify", "simplify_divisions"]

_EMPTY = Block(())
_OF_A_MESH = (Axis.ROW, Axis.COLUMN, Axis.MESH, Axis.CIRCLE)


def simplify(nest: LoopNest) -> LoopNest:
    """Fold index arithmetic; drop unused bindings and memory, empty loops and implied guards.

        for i in range(1 * n):
            let k = i
            if i < n + 1: a[k + 0] = x
    ->  for i in range(n): a[i] = x

    The order of stores and the marks of loops stay.
    """
    return replace(nest, body=_Simplifier().all_of(nest.body))


def _fold(stmt: Stmt) -> Stmt:
    """Index expressions and conditions in normal form; the user's arithmetic stays as written."""

    def visit(node: Stmt) -> Stmt:
        match node:
            case For(start=start, stop=stop, step=step, until=until):
                bounds = normal(start), normal(stop), normal(step)
                ends = until and rewrite(until, _fold_subscripts)
                if bounds == (start, stop, step) and ends is until:
                    return node
                return replace(node, start=bounds[0], stop=bounds[1], step=bounds[2], until=ends)
            case If(cond=cond):
                folded = normal(cond)
                return node if folded == cond else replace(node, cond=folded)
            case Let(value=value) if not any(isinstance(x, Load) for x in walk(value)):
                folded = normal(value)
                return node if folded == value else replace(node, value=folded)
            case Store(index=index, value=value):
                place, stored = tuple(map(normal, index)), rewrite(value, _fold_subscripts)
                if place == index and stored is value:
                    return node
                return replace(node, index=place, value=stored)
        return node

    return rebuild(stmt, visit)


def _fold_subscripts(expr: Expr) -> Expr:
    if isinstance(expr, Load):
        folded = tuple(map(normal, expr.index))
        return expr if folded == expr.index else replace(expr, index=folded)
    return expr


class _Simplifier:
    """Simplifies statements whose index expressions are in normal form, innermost ones first."""

    def __init__(self) -> None:
        self.uses = StatementUses()

    def all_of(self, stmt: Stmt) -> Stmt:
        """A statement and all inside of it."""
        return rebuild(_fold(stmt), self.simplified)

    def simplified(self, stmt: Stmt) -> Stmt:
        """One statement whose parts are simplified already."""
        match stmt:
            case Block():
                return _simplified_block(stmt)
            case For():
                return self._simplified_for(stmt)
            case If():
                return self._simplified_if(stmt)
            case Let(name=name, value=value, body=body):
                if isinstance(value, Const | Var) and not stmt.is_anew and not stmt.parts:
                    return self.all_of(substitute_statement(body, {name: value}))
                return stmt if name in self.uses.names(body) else body
            case Alloc(buffer=buffer, body=body):
                return stmt if buffer.name in self.uses.buffers(body) else body
        return stmt

    def _simplified_for(self, loop: For) -> Stmt:
        if loop.body == _EMPTY:
            return _EMPTY
        extent = linear(loop.stop) - linear(loop.start)
        if not extent.terms and extent.constant <= 0:
            return _EMPTY
        # A parallel loop of one iteration says that one thread only does the work, one over blocks
        # or cores that a kernel begins.
        is_mapped = loop.mark in (Mark.PARALLEL, Mark.BLOCK) or loop.axis in _OF_A_MESH
        is_once = not extent.terms and not is_mapped and loop.until is None
        if is_once and isinstance(loop.step, Const) and extent.constant <= _int(loop.step):
            return self.all_of(substitute_statement(loop.body, {loop.var: loop.start}))
        if not self.uses.guards(loop.body):
            return loop
        known = [linear(Var(loop.var)) - linear(bound) for bound in operands("max", loop.start)]
        known += [
            linear(bound) - linear(Var(loop.var)) + LinearForm((), -1)
            for bound in operands("min", loop.stop)
        ]
        body = self._assume(loop.body, known)
        return loop if body is loop.body else replace(loop, body=body)

    def _simplified_if(self, branch: If) -> Stmt:
        orelse = None if branch.orelse == _EMPTY else branch.orelse
        if isinstance(branch.cond, Const):
            return branch.body if branch.cond.value else (orelse or _EMPTY)
        if branch.body == _EMPTY and orelse is None:
            return _EMPTY
        known = [form for c in conjuncts(branch.cond) if (form := nonnegative_form(c)) is not None]
        body = self._assume(branch.body, known)
        is_same = body is branch.body and orelse is branch.orelse
        return branch if is_same else If(branch.cond, body, orelse)

    def _assume(self, stmt: Stmt, known: list[LinearForm]) -> Stmt:
        """`stmt` without the guards that follow from forms known to be >= 0."""
        least: dict[frozenset[tuple[Expr, int]], int] = {}
        for fact in known:
            terms, constant = form_key(fact)
            least[terms] = min(constant, least.get(terms, constant))

        def follows(terms: frozenset[tuple[Expr, int]], constant: int) -> bool:
            return terms in least and constant >= least[terms]

        def is_open(cond: Expr) -> bool:
            form = nonnegative_form(cond)
            return form is None or not follows(*form_key(form))

        def visit(node: Stmt) -> Stmt:
            if not isinstance(node, If):
                return node
            parts = conjuncts(node.cond)
            left = [cond for cond in parts if is_open(cond)]
            if len(left) == len(parts):
                return node
            cond: Expr = Const(True, BOOL)
            for part in left:
                cond = normal(Binary("and", cond, part))
            return self._simplified_if(replace(node, cond=cond))

        if not any(follows(*guard) for guard in self.uses.guards(stmt)):
            return stmt
        return rebuild(stmt, visit)


def _simplified_block(block: Block) -> Stmt:
    if len(block.body) == 1:
        return block.body[0]
    if not any(isinstance(child, Block) for child in block.body):
        return block
    flat: list[Stmt] = []
    for child in block.body:
        flat += child.body if isinstance(child, Block) else [child]
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def _int(constant: Const) -> int:
    assert isinstance(constant.value, int)
    return constant.value


# -- divisions -----------------------------------------------------------------------------------


def simplify_divisions(nest: LoopNest) -> LoopNest:
    """Write quotients in subscripts without inner loop variables, by their ranges and divisors.

        for t in range(0, n, 64): for i in range(t, t + 64): a[i // 64] = x
    ->  for t in range(0, n, 64): for i in range(t, t + 64): a[t // 64] = x

    The values of a loop from s in steps of q are multiples of gcd(s, q). Where m divides s and d,
    floor((s + r) / d) = floor(s / d) for 0 <= r < m: the quotient does not change within a strip.
    """
    return replace(nest, body=_divisions_in(nest.body, {}))


@dataclass(frozen=True, slots=True)
class _Range:
    """What is known of the values of a loop variable."""

    start: LinearForm
    divisor: int  # of its first value; 0 when that is zero
    step: int
    reach: int | None  # its values lie in [start, start + reach)

    @property
    def common(self) -> int:
        """A divisor of all its values."""
        return math.gcd(self.divisor, self.step)


def _divisions_in(stmt: Stmt, known: Mapping[str, _Range]) -> Stmt:
    match stmt:
        case For(var=var, body=body):
            return replace(stmt, body=_divisions_in(body, {**known, var: _range(stmt, known)}))
        case Block(body=body):
            return Block(tuple(_divisions_in(child, known) for child in body))
        case If(body=body, orelse=orelse):
            other = None if orelse is None else _divisions_in(orelse, known)
            return replace(stmt, body=_divisions_in(body, known), orelse=other)
        case Let() | Alloc():
            return replace(stmt, body=_divisions_in(stmt.body, known))
        case Store(index=index, value=value):
            if not any(map(_divides, (*index, value))):
                return stmt
            divided = tuple(_divided(entry, known) for entry in index)

            # Only subscripts: other expressions are data, which may wrap around.
            def change(expr: Expr) -> Expr:
                if not isinstance(expr, Load):
                    return expr
                return replace(expr, index=tuple(_divided(entry, known) for entry in expr.index))

            return replace(stmt, index=divided, value=rewrite(value, change))
    return stmt


def _divides(expr: Expr) -> bool:
    return any(isinstance(x, Binary) and x.op == "floordiv" for x in walk(expr))


def _divided(entry: Expr, known: Mapping[str, _Range]) -> Expr:
    """A subscript with its quotients simplified."""

    def change(expr: Expr) -> Expr:
        match expr:
            case Binary(op="floordiv", x=x, y=Const(value=int(divisor))) if divisor > 0:
                return _quotient(linear(x), divisor, known)
        return expr

    return normal(rewrite(entry, change))


def _quotient(total: LinearForm, divisor: int, known: Mapping[str, _Range]) -> Expr:
    """floor(total / divisor), without a loop variable that does not change it."""
    for atom, factor in total.terms:
        found = known.get(atom.name) if isinstance(atom, Var) else None
        if found is None or factor != 1 or found.reach is None:
            continue
        # total = s + r with 0 <= r < reach, and something that the common divisor divides.
        rest = total - LinearForm(((atom, 1),), 0)
        common = math.gcd(_common(found.start + LinearForm(rest.terms, 0), known), divisor)
        if rest.constant >= 0 and rest.constant + found.reach <= common:
            return _quotient(found.start + LinearForm(rest.terms, 0), divisor, known)
    common = math.gcd(_common(LinearForm(total.terms, 0), known), divisor)
    aligned = total.constant - total.constant % common if common else total.constant
    return normal(LinearForm(total.terms, aligned).expr // divisor)


def _common(total: LinearForm, known: Mapping[str, _Range]) -> int:
    """A number that divides all values of a form; 0 when they are all zero."""
    result = abs(total.constant)
    for atom, factor in total.terms:
        found = known.get(atom.name) if isinstance(atom, Var) else None
        result = math.gcd(result, abs(factor) * (found.common if found is not None else 1))
    return result


def _range(loop: For, known: Mapping[str, _Range]) -> _Range:
    start = linear(loop.start)
    step = loop.step.value if isinstance(loop.step, Const) else 1
    assert isinstance(step, int)
    gaps = [linear(end) - start for end in operands("min", loop.stop)]
    reach = min((gap.constant for gap in gaps if not gap.terms), default=None)
    return _Range(start, _common(start, known), step, reach)
