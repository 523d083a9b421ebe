"""Nests with broadcasts: all cores of a mesh run the same iterations, some without own work.

A broadcast needs every core of its row or column. So the loops around one run, on all cores, from
the least iteration of any core to the last one, and a core does its own statements where the
iteration is one of its:

    for j_t in range(64 * thread.column, n, 512): S; broadcast
->  for j_t_all in range(0, n, 512):
        let j_t = j_t_all + 64 * thread.column
        if j_t < n: S
        broadcast

Shared by all are broadcasts, the copies of what they give away, and waits. Their extents say what
there is to move: nothing, where no core of the row or column has such an iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from itertools import product

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    Block,
    Commit,
    Copy,
    For,
    If,
    Let,
    Mark,
    MeshBroadcast,
    Stmt,
    Wait,
)
from loopwright.ir.visit import fresh_name, names, operands, rewrite, statements, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import names_bound, seq
from loopwright.lower.linear_forms import LinearForm, linear, normal

__all__ = ["has_broadcast", "uniform"]

_TRUE = Const(True, BOOL)
Numbers = Callable[[Axis], tuple[Expr, int]]  # a core's number along an axis, and how many


def has_broadcast(stmt: Stmt) -> bool:
    return any(isinstance(inner, MeshBroadcast) for inner in statements(stmt))


def uniform(stmt: Stmt, numbers: Numbers, cores: Mapping[str, int], left: frozenset[Axis]) -> Stmt:
    """What all cores run of a nest with broadcasts.

    `cores` are the variables of a core's coordinates, each with the number of its values; along
    the axes that are `left` the first core does what stands in no mapped loop.
    """
    given = {s.source for s in statements(stmt) if isinstance(s, MeshBroadcast)}
    return _Uniform(numbers, cores, given, set(names_bound(stmt))).run(stmt, _TRUE, left)


@dataclass(slots=True)
class _Uniform:
    numbers: Numbers
    cores: Mapping[str, int]
    given: set[str]  # memory that broadcasts take from
    taken: set[str]  # names in use
    values: dict[str, Expr] = field(default_factory=dict)  # of names that differ between cores
    turns: dict[str, int] = field(default_factory=dict)  # variables of turns, by their steps

    def run(self, stmt: Stmt, active: Expr, left: frozenset[Axis]) -> Stmt:
        """A statement of which a core does its own parts where `active` holds."""
        if left and not _holds_mapped(stmt):
            for axis in left:
                number, _ = self.numbers(axis)
                active = _both(active, Binary("eq", number, Const(0)))
            left = frozenset()
        if not self._is_common(stmt):
            return stmt if active == _TRUE else If(active, stmt)
        match stmt:
            case For(mark=Mark.THREAD):
                return self._mapped(stmt, active, left)
            case For():
                return self._loop(stmt, active, left)
            case Block(body=children):
                return self._sequence(children, active, left)
            case If(cond=cond, body=body, orelse=orelse):
                if not self._differs(cond):
                    other = None if orelse is None else self.run(orelse, active, left)
                    return replace(stmt, body=self.run(body, active, left), orelse=other)
                parts = [self.run(body, _both(active, cond), left)]
                # The next parts of panels: nobody brings in those that no core has.
                somewhere = self._somewhere(cond)
                if orelse is None and not has_broadcast(body) and somewhere != _TRUE:
                    return If(somewhere, parts[0])
                if orelse is not None:
                    parts.append(self.run(orelse, _both(active, Unary("not", cond)), left))
                return seq(*parts)
            case Let(name=name, value=value, body=body):
                if self._differs(value):
                    self.values[name] = self._known(value)
                return replace(stmt, body=self.run(body, active, left))
            case Alloc(body=body):
                return replace(stmt, body=self.run(body, active, left))
        return stmt

    def _is_common(self, stmt: Stmt) -> bool:
        """Whether a statement is one that all cores run, or holds one."""
        return any(
            isinstance(inner, MeshBroadcast | Commit | Wait | Barrier)
            or (isinstance(inner, Copy) and inner.target in self.given)
            for inner in statements(stmt)
        )

    def _sequence(self, children: Iterable[Stmt], active: Expr, left: frozenset[Axis]) -> Stmt:
        made: list[Stmt] = []
        own: list[Stmt] = []  # neighbours that a core does where it is active
        for child in (*children, None):
            if child is not None and not left and not self._is_common(child):
                own.append(child)
                continue
            if own:
                made.append(seq(*own) if active == _TRUE else If(active, seq(*own)))
                own = []
            if child is not None:
                made.append(self.run(child, active, left))
        return seq(*made)

    def _mapped(self, stmt: For, active: Expr, left: frozenset[Axis]) -> Stmt:
        axis = stmt.axis or Axis.MESH
        number, count = self.numbers(axis)
        every = fresh_name(f"{stmt.var}_all", self.taken)
        self.taken.add(every)
        start, stop = self._hull(stmt.start, stmt.step, -1), self._hull(stmt.stop, stmt.step, 1)
        value = normal(Var(every) + number * stmt.step)
        here = self._inside(stmt, active)
        self.values[stmt.var] = value
        match start, normal(stmt.step * count):
            case Const(value=int(first)), Const(value=int(step)) if first % step == 0:
                self.turns[every] = step
        done = {axis} if axis in left else {Axis.ROW, Axis.COLUMN}
        body = Let(stmt.var, value, self.run(stmt.body, here, left - done))
        return For(every, start, stop, body, normal(stmt.step * count))

    def _loop(self, stmt: For, active: Expr, left: frozenset[Axis]) -> Stmt:
        if not self._differs(stmt.start) and not self._differs(stmt.stop):
            return replace(stmt, body=self.run(stmt.body, active, left))
        if self._differs(stmt.start) and self._is_in_step(stmt):
            return self._from_start(stmt, active, left)
        if not _is_multiple(self._known(stmt.start), stmt.step):
            raise InternalError("a loop of all cores begins beside its strips", stmt.var)
        start, stop = self._hull(stmt.start, stmt.step, -1), self._hull(stmt.stop, stmt.step, 1)
        body = self.run(stmt.body, self._inside(stmt, active, is_checked=True), left)
        return replace(stmt, start=start, stop=stop, body=body)

    def _is_in_step(self, stmt: For) -> bool:
        """Whether the cores that need each other for broadcasts in a loop begin it together.

        A strip of columns is one of all cores of a column, and other columns have others.
        """
        varying: set[str] = set()  # coordinates that differ between those cores
        for inner in statements(stmt.body):
            match inner:
                case Commit() | Wait():
                    return False
                case Copy(target=name) if name in self.given:
                    return False
                case MeshBroadcast(axis=axis):
                    other = Axis.COLUMN if axis is Axis.ROW else Axis.ROW
                    varying |= names(self.numbers(other)[0])
        return not names(self._known(stmt.start)) & varying

    def _from_start(self, stmt: For, active: Expr, left: frozenset[Axis]) -> Stmt:
        """A loop that each core runs from its own first iteration on, as often as any of them."""
        every = fresh_name(f"{stmt.var}_all", self.taken)
        self.taken.add(every)
        ends = [normal(end - stmt.start) for end in operands("min", stmt.stop)]
        extent = ends[0]
        for end in ends[1:]:
            extent = normal(extent.min(end))
        value = normal(stmt.start + Var(every))
        here = _both(active, Binary("lt", Var(stmt.var), stmt.stop))
        self.values[stmt.var] = value
        body = Let(stmt.var, value, self.run(stmt.body, here, left))
        return For(every, Const(0), self._hull(extent, stmt.step, 1), body, stmt.step)

    def _inside(self, stmt: For, active: Expr, *, is_checked: bool = False) -> Expr:
        """Where a core has the iteration: between its own bounds."""
        var = Var(stmt.var)
        if self._differs(stmt.start):
            active = _both(active, Binary("ge", var, stmt.start))
        if not is_checked or self._differs(stmt.stop):
            active = _both(active, Binary("lt", var, stmt.stop))
        return active

    def _somewhere(self, cond: Expr) -> Expr:
        """A condition that holds wherever another one does on some core, the same for all."""
        match cond:
            case Binary(op="lt" | "le" as op, x=x, y=y):
                return Binary(op, self._hull(x, Const(1), -1), self._hull(y, Const(1), 1))
        return _TRUE

    # -- bounds over all cores --------------------------------------------------------------------

    def _known(self, expr: Expr) -> Expr:
        """An expression over coordinates of the core and what is the same for all."""
        while names(expr) & self.values.keys():
            expr = substitute(expr, self.values)
        return normal(rewrite(normal(expr), self._number_of_turn))

    def _number_of_turn(self, node: Expr) -> Expr:
        """(t + 64 * row) // 512 as t // 512, of a variable t of turns that are 512 long."""
        match node:
            case Binary(op="floordiv", x=x, y=Const(value=int(by))):
                form = linear(x)
                most = form.constant
                turn: Expr | None = None
                for atom, factor in form.terms:
                    if isinstance(atom, Var) and self.turns.get(atom.name) == by and factor == 1:
                        turn = atom if turn is None else None
                    elif isinstance(atom, Var) and atom.name in self.cores and factor > 0:
                        most += factor * (self.cores[atom.name] - 1)
                    else:
                        return node
                if turn is not None and 0 <= form.constant <= most < by:
                    return turn // by
        return node

    def _differs(self, expr: Expr) -> bool:
        return bool(names(self._known(expr)) & self.cores.keys())

    def _hull(self, expr: Expr, step: Expr, sign: int) -> Expr:
        """The largest value on any core (sign 1) or the least one (-1).

        Strips begin at multiples of their size: so does the first one of all cores.
        """
        known = self._known(expr)
        if not names(known) & self.cores.keys():
            return expr if not names(expr) & self.values.keys() else known
        found = self._extreme(known, sign)
        if found is None:
            found = self._of_all(known, "max" if sign > 0 else "min")
        return normal(found // step * step) if sign < 0 and step != Const(1) else found

    def _extreme(self, expr: Expr, sign: int) -> Expr | None:
        """A bound of an expression that goes up or down with the coordinates."""
        match expr:
            case Binary(op="min" | "max" as op, x=x, y=y):
                one, other = self._extreme(x, sign), self._extreme(y, sign)
                return None if one is None or other is None else normal(Binary(op, one, other))
        total = linear(expr)
        kept: Expr = LinearForm((), total.constant).expr
        for atom, factor in total.terms:
            upwards = sign if factor > 0 else -sign
            part: Expr | None = atom
            if isinstance(atom, Var) and atom.name in self.cores:
                part = Const(self.cores[atom.name] - 1 if upwards > 0 else 0)
            elif names(atom) & self.cores.keys():
                part = None
                match atom:
                    case Binary(op="min" | "max"):
                        part = self._extreme(atom, upwards)
                    case Binary(op="floordiv", x=x, y=Const(value=int(by))) if by > 0:
                        inner = self._extreme(x, upwards)
                        part = None if inner is None else inner // by
            if part is None:
                return None
            kept = kept + part * factor
        return normal(kept)

    def _of_all(self, expr: Expr, op: str) -> Expr:
        """The extremum over all values of the coordinates that occur."""
        used = [name for name in self.cores if name in names(expr)]
        found: Expr | None = None
        for at in product(*(range(self.cores[name]) for name in used)):
            values: dict[str, Expr] = {n: Const(x) for n, x in zip(used, at, strict=True)}
            one = normal(substitute(expr, values))
            found = one if found is None else normal(Binary(op, found, one))
        assert found is not None
        return found


def _is_multiple(expr: Expr, step: Expr) -> bool:
    """Whether strips of a size may begin at a bound; of what is no sum nobody knows."""
    if isinstance(expr, Binary) and expr.op in ("min", "max"):
        return _is_multiple(expr.x, step) and _is_multiple(expr.y, step)
    if not isinstance(step, Const) or any(isinstance(a, Binary) for a, _ in linear(expr).terms):
        return True
    size = int(step.value.real)
    own = [factor for atom, factor in linear(expr).terms if isinstance(atom, Var)]
    return all(factor % size == 0 for factor in own if factor not in (1, -1))


def _holds_mapped(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.mark is Mark.THREAD for s in statements(stmt))


def _both(x: Expr, y: Expr) -> Expr:
    return y if x == _TRUE else Binary("and", x, y)
