"""Keep elements in registers, in loops and unrolled copies where a step has proven it sound.

What a kept statement reads and what does not move with the loop is loaded before it; what it writes
there is gathered in a scalar and stored after it. Copies of an unrolled loop load what they share
once. The proofs are those of transform/keep.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.extent import constant_trips
from loopwright.ir.loops import (
    Alloc,
    Block,
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
from loopwright.ir.visit import loads, names, rebuild, rewrite, statements
from loopwright.ir.walk import fresh_name
from loopwright.lower.chunk import bound_names
from loopwright.lower.linear import linear, normal
from loopwright.lower.simplify import substitute_statement

__all__ = ["keep_in_registers"]

_MOST_COPIES = 64  # stores that unrolled loops may become


def keep_in_registers(nest: LoopNest, kept: Collection[tuple[str, str]]) -> LoopNest:
    """`nest` with registers for the statements and loop variables of `kept`.

    Unrolled loops of constant extent are written out where they hold plain stores.
    """
    keeper = _Keeper(frozenset(kept), bound_names(nest))
    return replace(nest, body=keeper.statement(nest.body))


@dataclass(frozen=True, slots=True)
class _Region:
    """Plain statements in a row."""

    body: tuple[Stmt, ...]
    kept: frozenset[str] = frozenset()  # statements whose elements are theirs while the row runs


@dataclass(frozen=True, slots=True)
class _Register:
    """A scalar that stands for an element."""

    name: str
    dtype: DType
    element: Load
    is_read: bool  # the element's value is needed at the start
    is_written: bool

    @property
    def value(self) -> Expr:
        if self.is_written:
            return Load(self.name, (), self.dtype)
        return Var(self.name, self.dtype)

    def around(self, body: Stmt) -> Stmt:
        """`body` with the register loaded before it and stored after it."""
        if not self.is_written:
            return Let(self.name, self.element, body)
        first = (Store(self.name, (), self.element),) if self.is_read else ()
        last = Store(self.element.array, self.element.index, self.value)
        memory = Buffer(self.name, self.dtype, (), Space.STACK, writable=True)
        return Alloc(memory, (), Block((*first, body, last)))


@dataclass(frozen=True, slots=True)
class _Keeper:
    kept: frozenset[tuple[str, str]]
    taken: set[str]

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.UNROLL):
                region = self._written_out(stmt)
                return self._inside(stmt) if region is None else self._finished(region)
            case For():
                return self._loop(stmt)
            case Block(body=body):
                return Block(tuple(map(self.statement, body)))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else self.statement(orelse)
                return replace(stmt, body=self.statement(body), orelse=other)
            case Let() | Alloc():
                return replace(stmt, body=self.statement(stmt.body))
        return stmt

    def _inside(self, loop: For) -> For:
        return replace(loop, body=self.statement(loop.body))

    def _loop(self, loop: For) -> Stmt:
        regions = self._regions(loop.body)
        if regions is None:
            return self._inside(loop)
        own = frozenset(name for name, var in self.kept if var == loop.var)
        every = [stmt for region in regions for stmt in region.body]
        held = self._registers(every, own, {loop.var})
        changed = (_with_registers(region, own, held) for region in regions)
        inside = replace(loop, body=Block(tuple(map(self._finished, changed))))
        # Nothing may be touched for a loop that makes no iteration.
        return If(loop.start < loop.stop, _around(held, inside)) if held else inside

    def _finished(self, region: _Region) -> Stmt:
        held = self._registers(region.body, region.kept, set())
        return _around(held, Block(_with_registers(region, region.kept, held).body))

    def _regions(self, stmt: Stmt) -> list[_Region] | None:
        """`stmt` as rows of plain statements; None when it is something else."""
        match stmt:
            case Block(body=body):
                parts = [self._regions(child) for child in body]
                if any(part is None for part in parts):
                    return None
                return [region for part in parts for region in part or []]
            case For(mark=Mark.UNROLL):
                region = self._written_out(stmt)
                return None if region is None else [region]
        is_plain = all(isinstance(inner, Store | Let | Block) for inner in statements(stmt))
        return [_Region((stmt,))] if is_plain else None

    def _written_out(self, loop: For) -> _Region | None:
        """The copies of an unrolled loop in a row; None when it has no constant extent."""
        trips, inner = constant_trips(loop), self._regions(loop.body)
        if trips is None or inner is None:
            return None
        row = [stmt for region in inner for stmt in region.body]
        if trips * len(row) > _MOST_COPIES:
            return None
        places = [normal(loop.start + loop.step * number) for number in range(trips)]
        copies = tuple(_at(stmt, loop.var, place) for place in places for stmt in row)
        return _Region(copies, frozenset(name for name, var in self.kept if var == loop.var))

    # -- registers --------------------------------------------------------------------------------

    def _registers(
        self, body: Sequence[Stmt], own: frozenset[str], moving: set[str]
    ) -> tuple[_Register, ...]:
        """Registers for what the statements `own` touch and no variable of `moving` changes.

        Where nothing moves only what is touched more than once is worth one.
        """
        stores = [s for part in body for s in statements(part) if isinstance(s, Store)]
        mine = [s for s in stores if s.statement in own]
        mine = [s for s in mine if _is_one_form([t for t in mine if t.statement == s.statement])]
        elements: dict[Load, list[Store]] = {}
        for store in mine:
            element = Load(store.buffer, store.index, store.value.dtype)
            elements.setdefault(element, []).append(store)
        read = [load for store in mine for load in loads(store.value)]
        held = []
        for element, writers in elements.items():
            if not moving & names(element) and (moving or len(writers) > 1):
                is_read = element in loads(writers[0].value)
                held.append(self._register(element, is_read=is_read, is_written=True))
        written = {store.buffer for store in stores}
        for load in dict.fromkeys(read):
            # What nobody writes the backends keep without our help.
            if load in elements or load.array not in written or moving & names(load):
                continue
            if moving or read.count(load) > 1:
                held.append(self._register(load, is_read=True, is_written=False))
        return tuple(held)

    def _register(self, element: Load, *, is_read: bool, is_written: bool) -> _Register:
        name = fresh_name(f"{element.array}_r", self.taken)
        self.taken.add(name)
        return _Register(name, element.dtype, element, is_read, is_written)


def _is_one_form(stores: Sequence[Store]) -> bool:
    """Whether places differ by constants only: different ones are then apart for certain."""
    first = stores[0]
    return all(
        len(store.index) == len(first.index)
        and all(
            not (linear(x) - linear(y)).terms for x, y in zip(store.index, first.index, strict=True)
        )
        for store in stores
    )


def _with_registers(region: _Region, own: frozenset[str], held: Sequence[_Register]) -> _Region:
    """`region` with registers in place of elements, in the statements `own`."""
    values = {register.element: register for register in held}

    def change(expr: Expr) -> Expr:
        return values[expr].value if isinstance(expr, Load) and expr in values else expr

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store) or stmt.statement not in own:
            return stmt
        value = rewrite(stmt.value, change)
        register = values.get(Load(stmt.buffer, stmt.index, stmt.value.dtype))
        if register is None:
            return replace(stmt, value=value)
        return Store(register.name, (), value)

    return replace(region, body=tuple(rebuild(stmt, visit) for stmt in region.body))


def _around(held: Sequence[_Register], body: Stmt) -> Stmt:
    for register in reversed(held):
        body = register.around(body)
    return body


def _at(stmt: Stmt, var: str, place: Expr) -> Stmt:
    """A plain statement for one value of a loop variable, its subscripts in normal form."""

    def folded(expr: Expr) -> Expr:
        if not isinstance(expr, Load):
            return expr
        return replace(expr, index=tuple(map(normal, expr.index)))

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, Store):
            return node
        index = tuple(map(normal, node.index))
        return replace(node, index=index, value=rewrite(node.value, folded))

    return rebuild(substitute_statement(stmt, {var: place}), visit)
