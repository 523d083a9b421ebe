"""Full/partial tile separation: run the copies of unrolled loops without bounds in full tiles.

An unrolled loop from max(i_t, ...) to min(i_t + F, ...) has all of its F iterations, the tile is
full, where the other bounds do not matter. Loops around it test that once per iteration; the
innermost loop, which is to run without tests, is split into the part before the full tiles, the
full tiles, and the part after them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import names, operands, rebuild, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import LinearForm, linear, normal

__all__ = ["separate_full_tiles"]


def separate_full_tiles(nest: LoopNest, factors: Mapping[str, int]) -> LoopNest:
    """Separate full tiles, whose unrolled loops have constant bounds, from partial ones.

        for j: unroll for i in range(i_t, min(i_t + 4, n)): S
    ->  if i_t + 4 <= n:
            for j: unroll for i in range(i_t, i_t + 4): S
        else:
            for j: for i in range(i_t, min(i_t + 4, n)): S

    `factors` names the unrolled loops and their extents; in partial tiles they become serial.
    """
    if not any(_full_tile(stmt, factors) for stmt in statements(nest.body)):
        return nest
    known = frozenset(nest.scalars)
    return replace(nest, body=_Separation(factors).statement(nest.body, known))


@dataclass(frozen=True, slots=True)
class _FullTile:
    """The bounds of an unrolled loop in a full tile, and when a tile is full."""

    start: Expr
    stop: Expr
    conditions: tuple[LinearForm, ...]  # the tile is full where all are >= 0


def _full_tile(stmt: Stmt, factors: Mapping[str, int]) -> _FullTile | None:
    """The full tile of an unrolled loop; None for any other statement."""
    if not isinstance(stmt, For) or stmt.mark is not Mark.UNROLL or stmt.var not in factors:
        return None
    count = factors[stmt.var]
    lows, highs = operands("max", stmt.start), operands("min", stmt.stop)
    for low in lows:
        for high in highs:
            gap = linear(high) - linear(low)
            if gap.terms or stmt.step != Const(1) or gap.constant != count:
                continue
            conditions = [linear(low) - linear(other) for other in lows if other != low]
            conditions += [linear(other) - linear(high) for other in highs if other != high]
            return _FullTile(low, high, tuple(conditions))
    return None


@dataclass(frozen=True, slots=True)
class _Separation:
    """Separates the full tiles of one nest."""

    factors: Mapping[str, int]  # loop variable -> extent in a full tile

    def statement(self, stmt: Stmt, known: frozenset[str]) -> Stmt:
        """`stmt` with its full tiles separated; `known` are the variables in scope."""
        match stmt:
            case For(mark=Mark.UNROLL):
                full = _full_tile(stmt, self.factors)
                body = self.statement(stmt.body, known | {stmt.var})
                if full is None or full.conditions:
                    return replace(stmt, body=body, mark=Mark.SERIAL)
                return replace(stmt, start=full.start, stop=full.stop, body=body)
            case For():
                return self._loop(stmt, known)
            case Block(body=body):
                return Block(tuple(self.statement(child, known) for child in body))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else self.statement(orelse, known)
                return replace(stmt, body=self.statement(body, known), orelse=other)
            case Let(name=name, body=body):
                return replace(stmt, body=self.statement(body, known | {name}))
            case Alloc(body=body):
                return replace(stmt, body=self.statement(body, known))
        return stmt

    def _loop(self, loop: For, known: frozenset[str]) -> Stmt:
        inside = known | {loop.var}
        conditions = self._conditions(loop.body, inside)
        if not conditions:
            return replace(loop, body=self.statement(loop.body, inside))
        full = self.statement(self._assuming(loop.body, conditions), inside)
        worst = list(dict.fromkeys(conditions.values()))
        moves = [Var(loop.var) in dict(condition.terms) for condition in worst]
        still = [_without(condition, loop.var) for condition in worst]
        is_linear = not any(loop.var in names(condition.expr) for condition in still)
        if not (_is_innermost(loop) and all(moves) and is_linear):
            test: Expr = Const(True, BOOL)
            for condition in worst:
                test = normal(Binary("and", test, Binary("ge", condition.expr, Const(0))))
            return replace(loop, body=If(test, full, _serial(loop.body)))
        return self._split(loop, worst, full)

    def _split(self, loop: For, conditions: Collection[LinearForm], full: Stmt) -> Stmt:
        """The index set of a loop split where the conditions begin and cease to hold."""
        begin, end = loop.start, loop.stop
        var = Var(loop.var)
        for condition in conditions:
            factor = dict(condition.terms)[var]
            others = _without(condition, loop.var)
            if factor > 0:
                # factor * v + others >= 0 from v = ceil(-others / factor) on
                begin = begin.max(_ceiling(others * -1, factor))
            else:
                end = end.min(normal(others.expr // -factor + 1))
        # Cuts lie in order, whatever the conditions say.
        begin = begin if begin == loop.start else normal(begin.min(loop.stop))
        end = end if end == loop.stop else normal(end.max(begin))
        parts = (
            _serial(replace(loop, stop=begin)),
            replace(loop, start=begin, stop=end, body=full),
            _serial(replace(loop, start=end)),
        )
        is_there = (loop.start != begin, True, end != loop.stop)
        return Block(tuple(p for p, there in zip(parts, is_there, strict=True) if there))

    def _conditions(self, body: Stmt, known: frozenset[str]) -> dict[LinearForm, LinearForm]:
        """The conditions for full tiles inside `body` that the variables `known` decide.

        Each condition is mapped to its worst case: that of the iteration of the unrolled loops
        around it where it holds least.
        """
        found: dict[LinearForm, LinearForm] = {}

        def visit(stmt: Stmt, around: tuple[tuple[str, _FullTile], ...]) -> None:
            full = _full_tile(stmt, self.factors)
            for condition in full.conditions if full is not None else ():
                worst = condition
                for name, outer in reversed(around):
                    worst = _worst(worst, name, outer)
                worst = _without_division(worst)
                if set().union(set(), *(names(atom) for atom, _ in worst.terms)) <= known:
                    found[condition] = worst
            inside = (*around, (stmt.var, full)) if full and isinstance(stmt, For) else around
            for child in _below(stmt):
                visit(child, inside)

        visit(body, ())
        return found

    def _assuming(self, body: Stmt, conditions: Collection[LinearForm]) -> Stmt:
        """`body` where `conditions` hold: unrolled loops without the bounds that do not matter."""

        def visit(node: Stmt) -> Stmt:
            full = _full_tile(node, self.factors)
            if full is None or not isinstance(node, For):
                return node
            start, stop = full.start, full.stop
            for low in operands("max", node.start):
                if linear(full.start) - linear(low) not in conditions and low != full.start:
                    start = start.max(low)
            for high in operands("min", node.stop):
                if linear(high) - linear(full.stop) not in conditions and high != full.stop:
                    stop = stop.min(high)
            return replace(node, start=start, stop=stop)

        return rebuild(body, visit)


def _without(condition: LinearForm, name: str) -> LinearForm:
    """A form without the term of a variable."""
    kept = tuple((atom, count) for atom, count in condition.terms if atom != Var(name))
    return LinearForm(kept, condition.constant)


def _without_division(condition: LinearForm) -> LinearForm:
    """An equivalent condition without divisions by constants.

    floor(e / d) + rest >= 0 means e + d * rest >= 0;
    rest - floor(e / d) >= 0 means d * rest + d - 1 - e >= 0.
    """
    for atom, count in condition.terms:
        match atom:
            case Binary(op="floordiv", x=e, y=Const(value=int(d))) if d > 0 and abs(count) == 1:
                kept = tuple(term for term in condition.terms if term[0] != atom)
                rest = LinearForm(kept, condition.constant) * d
                if count > 0:
                    return _without_division(rest + linear(e))
                return _without_division(rest + LinearForm((), d - 1) - linear(e))
    return condition


def _worst(condition: LinearForm, name: str, full: _FullTile) -> LinearForm:
    """A condition for all iterations of an unrolled loop: that of the one where it is least."""
    factor = dict(condition.terms).get(Var(name), 0)
    if not factor:
        return condition
    place = linear(full.start) if factor > 0 else linear(full.stop) + LinearForm((), -1)
    return condition - LinearForm(((Var(name), factor),), 0) + place * factor


def _below(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Block(body=body):
            return body
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return (body,)
        case If(body=body, orelse=orelse):
            return (body,) if orelse is None else (body, orelse)
    return ()


def _ceiling(total: LinearForm, factor: int) -> Expr:
    return normal((total + LinearForm((), factor - 1)).expr // factor)


def _serial(body: Stmt) -> Stmt:
    """`body` for partial tiles: unrolled loops become serial, around SIMD loops where they can.

    The iterations of a SIMD loop are independent: a loop directly inside it whose bounds do not
    depend on it may be interchanged with it, and the SIMD loop stays innermost.
    """

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, For) and node.mark is Mark.UNROLL:
            return replace(node, mark=Mark.SERIAL)
        return _interchanged(node) if isinstance(node, For) and node.mark is Mark.SIMD else node

    return rebuild(body, visit)


def _interchanged(loop: For) -> For:
    """A SIMD loop moved into the loops directly inside it that do not depend on it."""
    inner = loop.body
    if not isinstance(inner, For) or loop.var in names(inner.start) | names(inner.stop):
        return loop
    return replace(inner, body=_interchanged(replace(loop, body=inner.body)))


def _is_innermost(loop: For) -> bool:
    """Whether a serial loop of step 1 holds no loops but unrolled ones."""
    inner = (stmt for stmt in statements(loop.body) if isinstance(stmt, For))
    is_splittable = loop.step == Const(1) and loop.mark is not Mark.PARALLEL
    return is_splittable and all(stmt.mark is Mark.UNROLL for stmt in inner)
