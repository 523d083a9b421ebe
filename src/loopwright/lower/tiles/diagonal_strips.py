"""Take two loops of a recurrence in strips of rows whose anti-diagonals are vectors.

    for i in range(i0, i1):
        for j in range(j0, j1): a[i, j] = f(a[i - 1, j], a[i, j - 1], x[i], y[j])
->  for i in range(i0, i1, W):                          a strip; lane v stands for row i + v
        for v: x_d[v] = x[i + v]
        for t in range(first, last, T):                 a block of T diagonals, j = t - v
            y_d[...] = y[...] backwards; a_d[...] = a[...] of the row above and the column before
            for t_d in the block: simd for v: a_d[t_d, v] = f(a_d[t_d - 1, v - 1], a_d[t_d - 1, v],
                                                              x_d[v], y_d[v - t_d])
            for v: for t_d in the block: a[i + v, t_d - v] = a_d[t_d, v]
            the last diagonals of a_d become the first ones

A value that comes from instance (i - a, j - b) lies a + b diagonals before and a lanes before. What
the strip does not compute itself is copied to the place where it would lie. Every element is
computed once, by the expression of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
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
from loopwright.ir.visit import (
    fresh_name,
    loads,
    rebuild,
    rewrite,
    statements,
    substitute,
)
from loopwright.lower.build import bound_names, lets, loop, seq, substitute_statement
from loopwright.lower.linear_forms import normal
from loopwright.lower.tiles.diagonal_copies import DiagonalCopy, square_side
from loopwright.lower.tiles.recurrence import Recurrence, Source, recurrence_of

__all__ = ["diagonals", "has_diagonals"]

_COLUMN = 16  # of the first lane in buffers: rows of them start at whole vectors


def diagonals(nest: LoopNest, strips: Mapping[str, tuple[str, int, int]]) -> LoopNest:
    """Take the loops that `strips` names, each with its inner loop, rows and diagonals, in strips.

        for i: for j: a[i, j] = f(a[i - 1, j], a[i, j - 1])
    ->  for i by rows: for t by diagonals: fill; for t_d: simd for v: a_d[..] = f(a_d[..], a_d[..])
            for v: for t_d: a[i + v, t_d - v] = a_d[..]

    Loops that are no such recurrence stay as they are.
    """
    taken = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.var not in strips:
            return node
        inner, rows, count = strips[node.var]
        found = recurrence_of(node, inner)
        if found is None:
            return node
        return _Writer(found, rows, count, taken).strips()

    return replace(nest, body=rebuild(nest.body, visit))


def has_diagonals(nest: LoopNest, row: str) -> bool:
    """Whether all loops over the variable `row` are recurrences that `diagonals` takes."""
    found = [s for s in statements(nest.body) if isinstance(s, For) and s.var == row]
    inner = [s.body.var if isinstance(s.body, For) else "" for s in found]
    return bool(found) and all(map(recurrence_of, found, inner))


class _Writer:
    """Writes a recurrence in strips of rows."""

    def __init__(self, found: Recurrence, rows: int, count: int, taken: set[str]) -> None:
        self.found, self.rows, self.count, self.taken = found, rows, count, taken
        self.i, self.j = found.row.var, found.column.var
        self.first = self._var(f"{self.i}_s")  # row of lane 0
        self.width = self._var(f"{self.i}_w")  # lanes of the strip
        self.lane = self._var(f"{self.i}_v")
        self.block = self._var(f"{self.j}_b")  # first diagonal of the block
        self.end = self._var(f"{self.j}_e")
        self.t = self._var(f"{self.j}_d")  # diagonal
        self.kept = {  # diagonals of the block before
            name: max((s.back for x, s in found.sources if x == name), default=0)
            for name in found.stores
        }
        self.held = {name: self._name(f"{name}_d") for name in found.stores}
        self.buffers: dict[Expr, str] = {}
        for expr in (*found.by_row, *found.by_column, *found.by_both):
            self.buffers[expr] = self._name(f"{loads(expr)[0].array}_d")

    def _name(self, wish: str) -> str:
        name = fresh_name(wish, self.taken)
        self.taken.add(name)
        return name

    def _var(self, wish: str) -> Var:
        return Var(self._name(wish))

    # -- places -----------------------------------------------------------------------------------

    def _low(self, lane: Expr | int) -> Expr:
        return normal(substitute(self.found.low.value, {self.i: self.first + lane}))

    def _high(self, lane: Expr | int) -> Expr:
        return normal(substitute(self.found.high.value, {self.i: self.first + lane}))

    def _at(self, expr: Expr, lane: Expr, t: Expr) -> Expr:
        """An expression of the source on a lane of a diagonal."""
        values = {self.i: normal(self.first + lane), self.j: normal(t - lane)}
        return rewrite(substitute(expr, values), _normal_index)

    def _cell(self, array: str, lane: Expr, t: Expr, back: int = 0) -> tuple[Expr, Expr]:
        """Where the value of an instance lies, `back` diagonals before."""
        return normal(t - self.block + (self.kept[array] - back)), normal(lane + _COLUMN)

    def _diagonals_of(self, lane: Expr | int) -> tuple[Expr, Expr]:
        """The diagonals of the block that a lane takes part in."""
        low = normal(self._low(lane) + lane).max(self.block)
        return normal(low), normal(normal(self._high(lane) + lane).min(self.end))

    def _lanes_of(self, t: Expr) -> tuple[Expr, Expr]:
        """The lanes that take part in a diagonal.

        Lane v does where low + slope * v <= t - v < high + slope * v, of the bounds in lane 0.
        """
        low, high = self.found.low.slope + 1, self.found.high.slope + 1
        start: Expr = Const(0)
        stop: Expr = self.width
        if low:
            stop = normal(stop.min(normal((t - self._low(0)) // low + 1)))
        if high:
            start = normal(normal((t - self._high(0)) // high + 1).max(0))
        return start, stop

    # -- parts ------------------------------------------------------------------------------------

    def strips(self) -> Stmt:
        found, lane = self.found, self.lane
        rows = [self._staged(x, (lane,), lane, Const(0)) for x in found.by_row]
        fills = loop(lane, 0, self.width, If(self._low(lane) < self._high(lane), seq(*rows)))
        last = self.width - 1
        block = loop(
            self.block,
            self._low(0),
            normal(self._high(last) + last),
            Let(
                self.end.name,
                normal((self.block + self.count).min(normal(self._high(last) + last))),
                seq(*self._block()),
            ),
            self.count,
        )
        strip = seq(fills, block) if rows else block
        width = normal((found.row.stop - self.first).min(self.rows))
        whole = loop(
            self.first,
            found.row.start,
            found.row.stop,
            Let(self.width.name, width, strip),
            self.rows,
        )
        return self._allocated(whole)

    def _block(self) -> Iterator[Stmt]:
        """One block of diagonals: what it needs, its values, and where they go."""
        found, lane, t = self.found, self.lane, self.t
        yield from map(self._columns, found.by_column)
        ends = self._diagonals_of(lane)
        for expr in found.by_both:
            if isinstance(expr, Load):
                yield self._copy(expr, self._staged_cell(expr), is_out=False)
                continue
            place = (normal(t - self.block), lane)
            inner = loop(t, *ends, self._staged(expr, place, lane, t))
            yield loop(lane, 0, self.width, inner)
        for array, source in found.sources:
            yield from self._above(array, source)
            yield from self._beside(array, source)
        yield loop(t, self.block, self.end, self._diagonal())
        for array, store in found.stores.items():
            element = Load(array, store.index, store.value.dtype)
            yield self._copy(element, self._held_cell(element), is_out=True)
        for array, kept in self.kept.items():
            dtype = found.stores[array].value.dtype
            for back in range(kept):
                places = [(Const(at), lane + _COLUMN) for at in (back, back + self.count)]
                move = Store(self.held[array], places[0], Load(self.held[array], places[1], dtype))
                ends = self._lanes_of(normal(self.block + (back + self.count - kept)))
                yield loop(lane, *ends, move, mark=Mark.SIMD)

    def _held_cell(self, element: Load) -> Callable[[Expr, Expr], Load]:
        name = self.held[element.array]
        return lambda lane, t: Load(name, self._cell(element.array, lane, t), element.dtype)

    def _staged_cell(self, element: Load) -> Callable[[Expr, Expr], Load]:
        name = self.buffers[element]
        return lambda lane, t: Load(name, (normal(t - self.block), lane), element.dtype)

    def _copy(self, element: Load, held: Callable[[Expr, Expr], Load], *, is_out: bool) -> Stmt:
        """Copy an element of every instance of the block to or from its buffer."""

        def at(lane: Expr, t: Expr) -> Load:
            place = self._at(element, lane, t)
            assert isinstance(place, Load)
            return place

        return DiagonalCopy(
            self.lane,
            self.t,
            self.width,
            self._diagonals_of,
            at,
            held,
            is_out,
            square_side(element, self.j),
            self._name,
        ).statement()

    def _staged(self, expr: Expr, place: tuple[Expr, ...], lane: Expr, t: Expr) -> Stmt:
        return Store(self.buffers[expr], place, self._at(expr, lane, t))

    def _columns(self, expr: Expr) -> Stmt:
        """Values by column, backwards: that of lane v on diagonal t lies at v - t + a constant."""
        at = self.lane
        last = self.width - 1 if self.found.high.slope > 0 else Const(0)
        high = self._high(last)
        low = self._low(self.width - 1 if self.found.low.slope < 0 else Const(0))
        top = self.block + (self.count - 1)  # the column at place 0
        value = rewrite(substitute(expr, {self.j: normal(top - at)}), _normal_index)
        start = normal(normal(top - high + 1).max(0))
        stop = normal(normal(top - low + 1).min(self.width + (self.count - 1)))
        return loop(at, start, stop, Store(self.buffers[expr], (at,), value))

    def _fill(self, array: str, source: Source, lane: Expr, t: Expr) -> Stmt:
        """Copy the element that an instance needs to the place where it looks for it."""
        place = self._cell(array, normal(lane - source.rows), t, source.back)
        return Store(self.held[array], place, self._at(source.load, lane, t))

    def _above(self, array: str, source: Source) -> Iterator[Stmt]:
        """What the first lanes need of rows above the strip."""
        for lane in range(source.rows):
            fill = loop(
                self.t, *self._diagonals_of(lane), self._fill(array, source, Const(lane), self.t)
            )
            yield fill if lane == 0 else If(self.width > lane, fill)

    def _beside(self, array: str, source: Source) -> Iterator[Stmt]:
        """What the other lanes need of columns before and behind those of the strip."""
        lane = self.lane
        low, high = self.found.low, self.found.high
        for at in range(max(0, source.columns - low.slope * source.rows)):
            yield self._edge(array, source, low.slope, normal(self._low(lane) + at))
        for at in range(max(0, high.slope * source.rows - source.columns)):
            yield self._edge(array, source, high.slope, normal(self._high(lane) - 1 - at))

    def _edge(self, array: str, source: Source, slope: int, column: Expr) -> Stmt:
        """What lanes need for one column each."""
        lane = self.lane
        fill = self._fill(array, source, lane, normal(column + lane))
        guard = _both(self._low(lane) <= column, column < self._high(lane))
        is_inside = If(guard, fill)
        if slope == 0:
            start = normal(normal(self.block - column).max(source.rows))
            stop = normal(normal(self.end - column).min(self.width))
            return loop(lane, start, stop, is_inside)
        t = normal(column + lane)
        here = If(_both(self.block <= t, t < self.end), is_inside)
        return loop(lane, source.rows, self.width, here)

    def _diagonal(self) -> Stmt:
        """All lanes of a diagonal, each as the source has it."""
        lane, t = self.lane, self.t
        held = {load: self._cell(load.array, lane, t) for load in self.found.own}
        for array, source in self.found.sources:
            before = normal(lane - source.rows)
            held[source.load] = self._cell(array, before, t, source.back)

        # Read before all else: a load in one arm of a selection keeps compilers from vectors.
        early: dict[Load, Var] = {}

        def value(expr: Expr) -> Expr:
            made = self._buffered(expr, held)
            if made is None or expr in self.found.own:
                return made or expr
            if made not in early:
                early[made] = Var(self._name(f"{made.array}_v"), made.dtype)
            return early[made]

        def store(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Store) and stmt.buffer in self.held:
                place = self._cell(stmt.buffer, lane, t)
                return replace(stmt, buffer=self.held[stmt.buffer], index=place)
            return stmt

        body = rebuild(self.found.column.body, store, lambda expr: rewrite(expr, value))
        values = {self.i: normal(self.first + lane), self.j: normal(t - lane)}
        body = lets(
            [(var, load) for load, var in early.items()], substitute_statement(body, values)
        )
        return loop(lane, *self._lanes_of(t), body, mark=Mark.SIMD)

    def _buffered(self, expr: Expr, held: Mapping[Load, tuple[Expr, Expr]]) -> Load | None:
        """The element of a buffer that stands for an expression on a lane of a diagonal."""
        if isinstance(expr, Load) and expr in held:
            return Load(self.held[expr.array], held[expr], expr.dtype)
        name = self.buffers.get(expr)
        if name is None:
            return None
        if expr in self.found.by_row:
            return Load(name, (self.lane,), expr.dtype)
        if expr in self.found.by_column:
            place = normal(self.lane - self.t + self.block + (self.count - 1))
            return Load(name, (place,), expr.dtype)
        return Load(name, (normal(self.t - self.block), self.lane), expr.dtype)

    def _allocated(self, body: Stmt) -> Stmt:
        """`body` with the memory of its buffers around it."""
        found = self.found
        shapes: list[tuple[str, Expr, tuple[int, ...]]] = []
        for array, kept in self.kept.items():
            sides = (kept + self.count, _COLUMN + self.rows)
            shapes.append((self.held[array], found.stores[array].value, sides))
        both = self.rows + self.count
        shapes += [(self.buffers[x], x, (self.rows,)) for x in found.by_row]
        shapes += [(self.buffers[x], x, (both,)) for x in found.by_column]
        shapes += [(self.buffers[x], x, (self.count, self.rows)) for x in found.by_both]
        for name, expr, shape in shapes:
            strides = (Const(shape[-1]), Const(1)) if len(shape) > 1 else (Const(1),)
            memory = Buffer(name, expr.dtype, strides, Space.STACK, writable=True)
            body = Alloc(memory, tuple(map(Const, shape)), body)
        return body


def _normal_index(expr: Expr) -> Expr:
    """A load with its subscripts in normal form."""
    if isinstance(expr, Load):
        return replace(expr, index=tuple(map(normal, expr.index)))
    return expr


def _both(one: Expr, other: Expr) -> Expr:
    return Binary("and", one, other)
