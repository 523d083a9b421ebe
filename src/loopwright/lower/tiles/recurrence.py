"""Two loops whose elements are computed from elements before them: what an instance reads.

An element that instance (i, j) reads is the one that instance (i - a, j - b) writes, for constants
a and b; or it belongs to a row, a column, or to the instance alone, and nobody writes it.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.ir.expr import Cast, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, For, Let, Mark, Stmt, Store
from loopwright.ir.visit import children, loads, names, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import linear

__all__ = ["Recurrence", "Source", "recurrence_of"]

_MOST_ROWS = 2  # above, that an element is computed from
_MOST_BACK = 4  # diagonals


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of the inner loop: its value in a row, and what is added from row to row."""

    value: Expr  # over the variable of the outer loop
    slope: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: instance (i - rows, j - columns), by an element that is read."""

    load: Load
    rows: int
    columns: int

    @property
    def back(self) -> int:
        """Diagonals between the value and its use."""
        return self.rows + self.columns


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Two loops, and what the values of their body are made of."""

    row: For
    column: For
    low: Bound
    high: Bound
    stores: Mapping[str, Store]  # by array: the only one to it
    sources: tuple[tuple[str, Source], ...]  # of other instances, with their arrays
    by_row: tuple[Expr, ...]  # the same in all columns; read memory
    by_column: tuple[Expr, ...]  # the same in all rows; read memory
    by_both: tuple[Expr, ...]  # elements that nobody has written in the loops yet
    own: tuple[Load, ...]  # elements that the instance itself has written


def recurrence_of(row: For, inner: str) -> Recurrence | None:
    """What `row` and the loop directly inside of it compute; None where it has no such form."""
    column = row.body
    if not isinstance(column, For) or column.var != inner:
        return None
    for one in (row, column):
        if one.mark is not Mark.SERIAL or one.step != Const(1) or one.until is not None:
            return None
    low, high = _bound(column.start, row.var), _bound(column.stop, row.var)
    if low is None or high is None or (low.slope and high.slope) or high.slope < 0:
        return None
    return _Reader(row, column, low, high).recurrence()


def _bound(expr: Expr, row: str) -> Bound | None:
    if row not in names(expr):
        return Bound(expr, 0)
    form = linear(expr)
    slope = dict(form.terms).get(Var(row), 0)
    rest = [atom for atom, _ in form.terms if atom != Var(row)]
    if slope < -1 or any(row in names(atom) for atom in rest):
        return None
    return Bound(expr, slope)


class _UnfitError(Exception):
    """The loops are no recurrence that diagonals are written for."""


class _Reader:
    """Reads the body of two loops."""

    def __init__(self, row: For, column: For, low: Bound, high: Bound) -> None:
        self.row, self.column, self.low, self.high = row, column, low, high
        body = list(statements(column.body))
        self.scalars = {s.buffer.name for s in body if isinstance(s, Alloc)}
        self.bound = {s.name for s in body if isinstance(s, Let)} | self.scalars
        self.stores = {
            s.buffer: s for s in body if isinstance(s, Store) and s.buffer not in self.scalars
        }
        self.sources: dict[tuple[str, Source], None] = {}
        self.by_row: dict[Expr, None] = {}
        self.by_column: dict[Expr, None] = {}
        self.by_both: dict[Expr, None] = {}
        self.own: dict[Load, None] = {}

    def recurrence(self) -> Recurrence | None:
        try:
            self._check()
            self._statement(self.column.body, set())
        except _UnfitError:
            return None
        if not self.sources or self.by_both.keys() & self.own.keys():
            return None
        return Recurrence(
            self.row,
            self.column,
            self.low,
            self.high,
            self.stores,
            tuple(self.sources),
            tuple(self.by_row),
            tuple(self.by_column),
            tuple(self.by_both),
            tuple(self.own),
        )

    def _check(self) -> None:
        """Every array is written by one store, each element of it by one instance."""
        seen: set[str] = set()
        for stmt in statements(self.column.body):
            is_plain = isinstance(stmt, Store | Let | Block) or (
                isinstance(stmt, Alloc) and not stmt.shape
            )
            if not is_plain or (isinstance(stmt, Store) and stmt.is_atomic):
                raise _UnfitError
            if isinstance(stmt, Store) and stmt.buffer not in self.scalars:
                if stmt.buffer in seen or self._minor(stmt.index) is None:
                    raise _UnfitError
                seen.add(stmt.buffer)

    def _statement(self, stmt: Stmt, written: set[str]) -> None:
        """Take up what a statement reads, with the arrays that were written before it."""
        match stmt:
            case Block(body=body):
                for inner in body:
                    self._statement(inner, written)
            case Let(value=value, body=body):
                self._value(value, written)
                self._statement(body, written)
            case Alloc(body=body):
                self._statement(body, written)
            case Store(buffer=buffer, value=value):
                self._value(value, written)
                written.add(buffer)

    def _value(self, expr: Expr, written: set[str]) -> None:
        element = expr
        while isinstance(element, Cast):
            element = element.x
        if not isinstance(element, Load):
            for part in children(element):
                self._value(part, written)
        elif element.array in self.stores:
            self._element(element, written)
        elif element.array not in self.scalars:
            self._given(expr, element)

    def _given(self, expr: Expr, element: Load) -> None:
        """Take up an element, and what it is converted to, that the loops do not write."""
        if names(element) & self.bound or any(map(loads, element.index)):
            raise _UnfitError
        match names(element) & {self.row.var, self.column.var}:
            case used if len(used) == 2:
                self.by_both[expr] = None
            case used if self.row.var in used:
                self.by_row[expr] = None
            case used if used:
                self.by_column[expr] = None

    def _element(self, load: Load, written: set[str]) -> None:
        """Take up an element of an array that the body writes."""
        if names(load) & self.bound or any(map(loads, load.index)):
            raise _UnfitError
        rows, columns = self._distance(load)
        if (rows, columns) == (0, 0):
            (self.own if load.array in written else self.by_both)[load] = None
            return
        source = Source(load, rows, columns)
        is_before = rows > 0 or (rows == 0 and columns > 0)
        if not is_before or rows > _MOST_ROWS or not 1 <= source.back <= _MOST_BACK:
            raise _UnfitError
        self.sources[load.array, source] = None

    def _slopes(self, expr: Expr) -> tuple[int, int]:
        terms = dict(linear(expr).terms)
        rest = [atom for atom in terms if atom not in (Var(self.row.var), Var(self.column.var))]
        if any(names(atom) & {self.row.var, self.column.var} for atom in rest):
            raise _UnfitError
        return terms.get(Var(self.row.var), 0), terms.get(Var(self.column.var), 0)

    def _minor(self, index: tuple[Expr, ...]) -> tuple[int, int] | None:
        """Two dimensions by which subscripts tell all instances apart."""
        slopes = [self._slopes(entry) for entry in index]
        for first, (a, b) in enumerate(slopes):
            for second, (c, d) in enumerate(slopes[:first]):
                if a * d - b * c:
                    return first, second
        return None

    def _distance(self, load: Load) -> tuple[int, int]:
        """The (a, b) for which the element is the one that instance (i - a, j - b) writes."""
        store = self.stores[load.array].index
        gaps = []
        for one, other in zip(store, load.index, strict=True):
            gap = linear(one) - linear(other)
            if gap.terms:
                raise _UnfitError
            gaps.append(gap.constant)
        minor = self._minor(store)
        assert minor is not None
        (a, b), (c, d) = (self._slopes(store[at]) for at in minor)
        first, second = (gaps[at] for at in minor)
        whole = a * d - b * c
        rows, columns = first * d - b * second, a * second - first * c
        if rows % whole or columns % whole:
            raise _UnfitError
        rows, columns = rows // whole, columns // whole
        for entry, apart in zip(store, gaps, strict=True):
            by_row, by_column = self._slopes(entry)
            if by_row * rows + by_column * columns != apart:
                raise _UnfitError
        return rows, columns
