"""Extremes of floating numbers in lanes, with the bits that the order of the source gives.

    for j in range(n): m = a[j] if a[j] > m else m

->  if n > 8:                                    with one vector of 4 lanes; it has four
        e = (n - 1) // 4 * 4
        vector l: v[l] = m
        for j in range(0, e, 4): vector l: v[l] = a[j + l] if a[j + l] > v[l] else v[l]
        t = the greatest of v[0], v[1], v[2], v[3]
        if t < 0 or t > 0: m = t
        else: for j in range(e): as before
        for j in range(e, n): as before
    else: as before

A comparison with NaN is false, so that elements which are NaN change no lane, as they change no m;
where m is NaN at first, all lanes are. The greatest number is the same whoever finds it, but for
zeros: 0.0 and -0.0 are equal, and the first one stays. Where it is zero or NaN, the loop runs in
order once more: it has changed nothing but m. With `m if m > a[j] else a[j]` an element that is NaN
takes the place of m until the next one; lanes then note whether any was.

Where the place of the extreme is noted, lanes note theirs, and of equal ones the first place is
taken (with >= the last): that is the one which the order of the source finds. What is there has the
right sign, and all that is noted of it.

    for j in range(n): k = a[j] > m; m = a[j] if k else m; p = j if k else p

A chain of such selections takes four cycles an element, lanes the time of the loads. What the
iterations set for themselves (k, or d = |a[j] - b[j]|) is computed in place; at least one iteration
is left to the loop in order, so that it has its last value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Protocol

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Alloc, Buffer, For, If, Let, LoopNest, Space, Stmt, Store
from loopwright.ir.visit import fresh_name, rebuild, statements, substitute, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq, substitute_statement, vector
from loopwright.lower.linear_forms import normal
from loopwright.lower.values.extremes import Extreme, extremes_of

__all__ = ["extremes_in_lanes"]

_VECTORS = 4  # of lanes: as many chains hide the four cycles of a selection
_MOST_NODES = 96  # of values that all vectors are compared with
_NOWHERE = -65536.0  # the place of a lane that has found nothing, less than any place
_EXACT = {32: 1 << 24, 64: 1 << 53}  # places that a number of so many bits tells apart


def extremes_in_lanes(
    nest: LoopNest, lanes: Callable[[int], int], *, is_row_major: bool = False
) -> LoopNest:
    """The nest with the extremes of its innermost loops in vectors of `lanes` by bits of a number.

    Elements are neighbours along the last subscript where strides say so, or all `is_row_major`.
    """
    every = (*nest.buffers, *(s.buffer for s in statements(nest.body) if isinstance(s, Alloc)))
    near = {x.name for x in every if is_row_major or x.strides[-1:] == (Const(1),)}
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        found = extremes_of(stmt, near)
        if not found or not isinstance(stmt, For):
            return stmt
        width = lanes(found[0].value.dtype.bits)
        return _in_lanes(stmt, found, width, taken) if width > 1 else stmt

    return replace(nest, body=rebuild(nest.body, visit))


class _Lanes(Protocol):
    """What stands for an extreme in the loop."""

    def begin(self) -> list[Stmt]:
        """Before the loop: every lane begins with the element."""

    def body(self, loop: For) -> list[Stmt]:
        """One step of the loop: a vector of each copy."""

    def join(self) -> list[Stmt]:
        """Behind the loop: the extreme of all lanes."""

    def is_known(self) -> Expr | None:
        """Whether that has the bits which the order of the source gives; None: always."""

    def end(self, loop: For) -> Stmt:
        """The element, and what is noted with it."""

    def inside(self, body: Stmt) -> Stmt:
        """The statement with the memory that it needs."""


def _in_lanes(loop: For, extremes: list[Extreme], width: int, taken: set[str]) -> Stmt:
    """A loop with its extremes in vectors where it is long enough, as it is where it is not."""
    nodes = max(sum(1 for _ in walk(extreme.value)) for extreme in extremes)
    copies = max(1, min(_VECTORS // len(extremes), _MOST_NODES // nodes))

    def fresh(wish: str) -> str:
        name = fresh_name(wish, taken)
        taken.add(name)
        return name

    lane, end = Var(fresh(f"{loop.var}_l")), Var(fresh(f"{loop.var}_e"))
    every: list[_Lanes] = []
    for extreme in extremes:
        rows = _Rows(extreme, copies, width, lane, fresh)
        every.append(_Noted.of(rows, fresh) if extreme.notes else _Plain.of(rows, fresh))
    step = copies * width
    trips = loop.stop - loop.start
    body = seq(*(part for x in every for part in x.body(loop)))
    known = [cond for x in every if (cond := x.is_known()) is not None]
    ended = seq(*(x.end(loop) for x in every))
    if known:
        is_known = reduce(lambda x, y: Binary("and", x, y), known)
        ended = If(is_known, ended, replace(loop, stop=end))
    found: Stmt = seq(
        *(part for x in every for part in x.begin()),
        replace(loop, stop=end, body=body, step=Const(step)),
        *(part for x in every for part in x.join()),
        ended,
    )
    for x in every:
        found = x.inside(found)
    last = normal(loop.start + (trips - 1) // step * step)
    whole = Let(end.name, last, seq(found, replace(loop, start=end)))
    is_long: Expr = Binary("gt", trips, Const(2 * step))
    if any(extreme.notes for extreme in extremes):
        most = _EXACT[extremes[0].value.dtype.bits]
        is_long = Binary("and", is_long, Binary("lt", trips, Const(most)))
    return If(is_long, whole, loop)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Vectors of lanes, several of them: an array [copies, width]."""

    extreme: Extreme
    copies: int
    width: int
    lane: Var
    fresh: Callable[[str], str]

    def buffer(self, mark: str, rank: int) -> Buffer:
        """Memory of an element, of a vector or of all vectors."""
        element = self.extreme.element
        strides: tuple[Expr, ...] = (Const(self.width), Const(1))
        name = self.fresh(f"{element.array}_{mark}")
        return Buffer(name, element.dtype, strides[2 - rank :], Space.STACK)

    def allocated(self, buffer: Buffer, body: Stmt) -> Stmt:
        shape: tuple[Expr, ...] = (Const(self.copies), Const(self.width))
        return Alloc(buffer, shape[2 - len(buffer.strides) :], body)

    def each(self, buffer: Buffer, copy: int, value: Expr) -> Stmt:
        """One vector of values, by lane."""
        return vector(self.lane, self.width, Store(buffer.name, (Const(copy), self.lane), value))

    def value(self, var: str, copy: int) -> Expr:
        """What the extreme is taken of, of one copy, by lane."""
        place = normal(Var(var) + (copy * self.width) + self.lane)
        return substitute(self.extreme.value, {var: place})

    def number(self, value: float) -> Const:
        return Const(value, self.extreme.element.dtype)


def _at(buffer: Buffer, *index: Expr | int) -> Load:
    places = tuple(Const(x) if isinstance(x, int) else x for x in index)
    return Load(buffer.name, places, buffer.dtype)


@dataclass(frozen=True, slots=True)
class _Plain:
    """An extreme without its place."""

    rows: _Rows
    vectors: Buffer
    last: Buffer  # the extreme of all lanes
    met: Buffer | None  # by lane: 1 where it has met NaN

    @classmethod
    def of(cls, rows: _Rows, fresh: Callable[[str], str]) -> _Plain:
        met = rows.buffer("n", 1) if rows.extreme.is_ended_by_nan else None
        return cls(rows, rows.buffer("v", 2), rows.buffer("t", 0), met)

    def _chosen(self, value: Expr, held: Expr) -> Expr:
        return Select(Binary(self.rows.extreme.strictly, value, held), value, held)

    def begin(self) -> list[Stmt]:
        rows = self.rows
        found = [rows.each(self.vectors, at, rows.extreme.element) for at in range(rows.copies)]
        if self.met is not None:
            zero = Store(self.met.name, (rows.lane,), rows.number(0.0))
            found.append(vector(rows.lane, rows.width, zero))
        return found

    def body(self, loop: For) -> list[Stmt]:
        rows, found = self.rows, []
        for at in range(rows.copies):
            value = rows.value(loop.var, at)
            chosen = self._chosen(value, _at(self.vectors, at, rows.lane))
            found.append(rows.each(self.vectors, at, chosen))
            if self.met is not None:
                note = _at(self.met, rows.lane)
                kept = Select(Binary("eq", value, value), note, rows.number(1.0))
                store = Store(self.met.name, (rows.lane,), kept)
                found.append(vector(rows.lane, rows.width, store))
        return found

    def join(self) -> list[Stmt]:
        rows, held = self.rows, _at(self.vectors, 0, self.rows.lane)
        found = []
        for at in range(1, rows.copies):
            chosen = self._chosen(_at(self.vectors, at, rows.lane), held)
            found.append(rows.each(self.vectors, 0, chosen))
        every = [_at(self.vectors, 0, at) for at in range(rows.width)]
        while len(every) > 2:  # by halves
            pairs = zip(every[::2], every[1::2], strict=True)
            found += [Store(x.array, x.index, self._chosen(y, x)) for x, y in pairs]
            every = every[::2]
        found.append(Store(self.last.name, (), self._chosen(every[1], every[0])))
        return found

    def is_known(self) -> Expr:
        last, zero = _at(self.last), self.rows.number(0.0)
        found: Expr = Binary("or", Binary("lt", last, zero), Binary("gt", last, zero))
        if self.met is not None:
            for at in range(self.rows.width):
                found = Binary("and", found, Binary("eq", _at(self.met, at), zero))
        return found

    def end(self, loop: For) -> Stmt:
        element = self.rows.extreme.element
        return Store(element.array, element.index, _at(self.last))

    def inside(self, body: Stmt) -> Stmt:
        every = (self.last, self.vectors, *(() if self.met is None else (self.met,)))
        return reduce(lambda inner, buffer: self.rows.allocated(buffer, inner), every, body)


@dataclass(frozen=True, slots=True)
class _Noted:
    """An extreme with its place: that of a lane is the iteration where its vector began."""

    rows: _Rows
    vectors: Buffer
    places: Buffer
    last: Buffer  # the extreme of all lanes
    place: Buffer  # and its iteration, from the first one on
    at: Var  # the iteration

    @classmethod
    def of(cls, rows: _Rows, fresh: Callable[[str], str]) -> _Noted:
        buffers = rows.buffer("v", 2), rows.buffer("p", 2), rows.buffer("t", 0), rows.buffer("q", 0)
        return cls(rows, *buffers, Var(fresh("at")))

    def begin(self) -> list[Stmt]:
        rows, found = self.rows, []
        for at in range(rows.copies):
            found.append(rows.each(self.vectors, at, rows.extreme.element))
            found.append(rows.each(self.places, at, rows.number(_NOWHERE)))
        return found

    def body(self, loop: For) -> list[Stmt]:
        rows, found = self.rows, []
        for at in range(rows.copies):
            value = rows.value(loop.var, at)
            held, place = _at(self.vectors, at, rows.lane), _at(self.places, at, rows.lane)
            better = Binary(rows.extreme.by, value, held)
            here = Cast(normal(Var(loop.var) - loop.start + at * rows.width), place.dtype)
            # The place first: its condition reads what the lane held.
            found.append(rows.each(self.places, at, Select(better, here, place)))
            found.append(rows.each(self.vectors, at, Select(better, value, held)))
        return found

    def join(self) -> list[Stmt]:
        rows, found = self.rows, []
        held, place = _at(self.vectors, 0, rows.lane), _at(self.places, 0, rows.lane)
        for at in range(1, rows.copies):
            value, its = _at(self.vectors, at, rows.lane), _at(self.places, at, rows.lane)
            better, nearer = self._is_better(value, its, held, place)
            found.append(rows.each(self.places, 0, Select(nearer, its, place)))
            found.append(rows.each(self.vectors, 0, Select(better, value, held)))
        found.append(Store(self.last.name, (), _at(self.vectors, 0, 0)))
        found.append(Store(self.place.name, (), _at(self.places, 0, 0)))
        last, first = _at(self.last), _at(self.place)
        for at in range(1, rows.width):
            value = _at(self.vectors, 0, at)
            there = Binary("add", _at(self.places, 0, at), rows.number(float(at)))
            better, nearer = self._is_better(value, there, last, first)
            found.append(Store(self.place.name, (), Select(nearer, there, first)))
            found.append(Store(self.last.name, (), Select(better, value, last)))
        return found

    def _is_better(self, value: Expr, its: Expr, held: Expr, place: Expr) -> tuple[Expr, Expr]:
        """Whether a value is better than another one, and whether it is that or the one to keep."""
        better = Binary(self.rows.extreme.strictly, value, held)
        is_nearer = Binary("gt" if self.rows.extreme.is_last else "lt", its, place)
        return better, Binary("or", better, Binary("and", Binary("eq", value, held), is_nearer))

    def is_known(self) -> None:
        return None

    def end(self, loop: For) -> Stmt:
        extreme = self.rows.extreme
        element, place = extreme.element, _at(self.place)
        kept = [Store(element.array, element.index, extreme.value)]
        for note in extreme.notes:
            assert isinstance(note.value, Select)
            kept.append(replace(note, value=note.value.x))
        stores = substitute_statement(seq(*kept), {loop.var: self.at})
        found = normal(loop.start + Cast(place, INT64))
        return If(Binary("ge", place, self.rows.number(0.0)), Let(self.at.name, found, stores))

    def inside(self, body: Stmt) -> Stmt:
        every = self.place, self.last, self.places, self.vectors
        return reduce(lambda inner, buffer: self.rows.allocated(buffer, inner), every, body)
