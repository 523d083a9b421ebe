"""One register tile of a nest of sums: its sums and factors in registers, its steps, its stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import product

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import Alloc, Buffer, For, If, Let, Space, Stmt, Store
from loopwright.ir.visit import loads, names, rebuild, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import seq, vector
from loopwright.lower.linear_forms import normal
from loopwright.lower.mesh_nests.edge_tiles import (
    Rows,
    common_steps,
    guarded_stores,
    own_stores,
    steps_of_rows,
    whole_or_own,
)

__all__ = ["LANES", "Atom", "RegisterBlock", "TileRoles", "bounding_names"]

LANES = 4  # of a vector of doubles, and of one of floats
_REGISTERS = 32  # of a core
_LARGE = 16  # vectors of a tile that fills the registers


@dataclass(frozen=True, slots=True)
class TileRoles:
    """What the loops around a store are to it."""

    outer: tuple[For, ...]  # they stay as they are
    row: For | None  # moves the target along one dimension
    lane: For  # moves it along its last one
    sums: tuple[For, ...]  # do not move it
    store: Store


@dataclass(frozen=True, slots=True)
class Atom:
    """A part of the value that a register holds while a tile uses it."""

    expr: Expr
    by_row: bool  # one for each row of the tile
    by_lane: bool  # one for each vector of a row, else the same in all lanes


def bounding_names(loop: For) -> set[str]:
    """The variables in the bounds of a loop."""
    return names(loop.start) | names(loop.stop)


@dataclass(slots=True)
class RegisterBlock:
    """One tile, in registers."""

    name: Callable[[str], str]  # a name that is not taken, like a wish
    roles: TileRoles
    atoms: Mapping[Expr, Atom]
    row: Var | None
    lane: Var
    height: int
    vectors: int  # of a row; 0: one element
    memory: list[tuple[str, DType]] = field(default_factory=list)

    def made(self, value: Expr, target: Load) -> Stmt:
        wide = range(max(1, self.vectors))
        places = list(product(range(self.height), wide))
        dtype = target.dtype
        sums = {at: self._register("sum", dtype) for at in places}
        first: list[Stmt] = []
        if self.roles.sums or target in loads(value):  # else nobody needs what was there
            first = [self._set(sums[at], self._at(target, *at)) for at in places]
        held: dict[Expr, dict[tuple[int, int], str]] = {}
        loaded: list[tuple[int, Stmt]] = []  # the row that needs it; -1: all
        moving = {one.var for one in self.roles.sums}
        for atom in self.atoms.values():
            found = held[atom.expr] = {}
            for r, q in places:
                key = (r if atom.by_row else 0, q if atom.by_lane else 0)
                if key not in found:
                    found[key] = self._register("factor", dtype)
                    load = self._set(found[key], self._at(atom.expr, *key))
                    if moving & names(atom.expr):
                        loaded.append((r if atom.by_row else -1, load))
                    else:
                        first.append(load)
        updates: list[tuple[int, Stmt]] = []
        for r, q in places:

            def change(node: Expr, r: int = r, q: int = q) -> Expr | None:
                if node == target:
                    return self._held(sums[r, q], dtype)
                atom = self.atoms.get(node)
                if atom is None:
                    return None
                key = (r if atom.by_row else 0, q if atom.by_lane else 0)
                return self._held(held[node][key], dtype)

            updates.append((r, self._set(sums[r, q], _replaced(value, change))))
        last: list[Stmt] = []
        for at in places:
            element = self._at(target, *at)
            assert isinstance(element, Load)
            store = Store(element.array, element.index, self._held(sums[at], dtype))
            last.append(self._in_lanes(store))

        def step(rows: Sequence[int]) -> Stmt:
            return seq(*(s for r, s in (*loaded, *updates) if r < 0 or r in rows))

        if self._is_large and self._rows is not None:
            general = self._halves(value, target)
            if len(self.memory) >= _REGISTERS:  # a tile of that size does not keep to registers
                return general
        else:
            own = self._own(last, target, sums)
            general = seq(*first, self._steps(step), *(last if own is None else [own]))
        body = self._regular(first, step(range(self.height)), last, general)
        for name, kind in reversed(self.memory):
            register = Buffer(name, kind, (Const(1),), Space.REGISTER, writable=True)
            body = Alloc(register, (Const(LANES if self.vectors else 1),), body)
        return body

    @property
    def _is_large(self) -> bool:
        return self.height * self.vectors >= _LARGE and len(self.roles.sums) == 1

    def _halves(self, value: Expr, target: Load) -> Stmt:
        """The tile by two of half its width, which need less registers for what rows have apart."""
        half, lane = self.vectors // 2, Var(self.name(self.roles.lane.var))
        block = replace(self, lane=lane, vectors=half, memory=[])
        stop = normal(self.lane + LANES * self.vectors)
        body = block.made(value, target)
        return For(lane.name, self.lane, stop, body, Const(LANES * half))

    @property
    def _rows(self) -> Rows | None:
        """The rows of the tile, where bounds of loops inside depend on them."""
        row = self.roles.row
        inner = (self.roles.lane, *self.roles.sums)
        if row is None or self.row is None or self.height == 1:
            return None
        is_tied = any(row.var in bounding_names(one) for one in inner)
        return (row.var, self.row, self.height) if is_tied else None

    def _regular(
        self, first: Sequence[Stmt], step: Stmt, last: Sequence[Stmt], general: Stmt
    ) -> Stmt:
        """A tile whose rows have all steps and lanes in common, else the general one.

        Of a large tile the first step stands beside the loads, and the last one beside the stores:
        in straight code they run in both pipelines at once, in front of a loop they would not.
        """
        if not self._is_large:
            return general
        (one,) = self.roles.sums
        test: Expr | None = None
        if (rows := self._rows) is not None:
            one, test = common_steps(self.roles.lane, one, rows, self.lane, LANES * self.vectors)
        final = Var(self.name(f"{one.var}_last"))
        begin, end = (
            rebuild(step, expression=partial(_moved_to, values={one.var: at}))
            for at in (one.start, final)
        )
        between = replace(one, start=normal(one.start + 1), stop=final, body=step)
        is_apart: Expr = Binary("lt", one.start, final)
        if test is not None:
            is_apart = normal(Binary("and", is_apart, test))
        whole = If(is_apart, seq(*first, begin, between, end, *last), general)
        return Let(final.name, normal(one.stop - 1), whole)

    def _steps(self, step: Callable[[Sequence[int]], Stmt]) -> Stmt:
        """The steps of all rows; where some have more than others, row by row."""
        rows = self._rows
        if rows is not None and any(rows[0] in bounding_names(one) for one in self.roles.sums):
            (steps,) = self.roles.sums
            return steps_of_rows(steps, rows, step)
        inner = step(range(self.height))
        for one in reversed(self.roles.sums):
            inner = replace(one, body=inner)
        if self.row is not None and self.roles.row is not None:
            inner = self._in_row(inner)
        return inner

    def _in_row(self, stmt: Stmt) -> Stmt:
        """A loop of steps whose bounds depend on the row, for a tile of one."""
        row = self.roles.row
        assert row is not None
        assert self.row is not None
        if not isinstance(stmt, For) or row.var not in bounding_names(stmt):
            return stmt
        values = {row.var: self.row}
        start, stop = (normal(substitute(x, values)) for x in (stmt.start, stmt.stop))
        return replace(stmt, start=start, stop=stop)

    def _own(
        self, whole: list[Stmt], target: Load, sums: dict[tuple[int, int], str]
    ) -> Stmt | None:
        """The stores of a tile that the end of a row cuts; None where none does."""
        rows, lanes = self._rows, self.roles.lane
        if rows is None or rows[0] not in bounding_names(lanes):
            return None
        if not self.vectors:
            return guarded_stores(lanes, rows, self.lane, whole)
        name, column = self.name("edge"), Var(self.name("column"))
        written = [
            self._in_lanes(
                Store(name, (Const(r), normal(_LANE + q * LANES)), self._held(x, target.dtype))
            )
            for (r, q), x in sums.items()
        ]
        places = [self._moved(target, r, column) for r in range(self.height)]
        width = LANES * self.vectors
        own = own_stores(lanes, rows, self.lane, column, name, width, written, places)
        return whole_or_own(lanes, rows, self.lane, width, whole, own)

    def _register(self, wish: str, dtype: DType) -> str:
        name = self.name(wish)
        self.memory.append((name, dtype))
        return name

    def _held(self, name: str, dtype: DType) -> Load:
        return Load(name, (self._lane,), dtype)

    def _set(self, name: str, value: Expr) -> Stmt:
        return self._in_lanes(Store(name, (self._lane,), value))

    @property
    def _lane(self) -> Expr:
        """The lane of a vector; of an element there is one."""
        return _LANE if self.vectors else Const(0)

    def _in_lanes(self, store: Store) -> Stmt:
        return vector(_LANE, LANES, store) if self.vectors else store

    def _at(self, expr: Expr, r: int, q: int) -> Expr:
        return self._moved(expr, r, self.lane + (q * LANES) + self._lane)

    def _moved(self, expr: Expr, r: int, lane: Expr) -> Expr:
        values: dict[str, Expr] = {self.roles.lane.var: lane}
        if self.roles.row is not None:
            assert self.row is not None
            values[self.roles.row.var] = self.row + r
        return _normal_places(substitute(expr, values))


_LANE = Var("lane")


def _normal_places(expr: Expr) -> Expr:
    """An expression with the subscripts of its loads in normal form."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Load):
            return replace(node, index=tuple(map(normal, node.index)))
        return node

    return rewrite(expr, change)


def _moved_to(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    return _normal_places(substitute(expr, values))


def _replaced(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """`expr` with parts replaced, outermost first."""
    found = change(expr)
    if found is not None:
        return found
    match expr:
        case Binary(x=x, y=y):
            return replace(expr, x=_replaced(x, change), y=_replaced(y, change))
        case Unary(x=x):
            return replace(expr, x=_replaced(x, change))
    return expr
