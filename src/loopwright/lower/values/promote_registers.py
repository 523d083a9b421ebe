"""Promote memory to registers: scalars in straight-line code, elements that a loop leaves alone.

`promote_registers` writes scalars, in stack memory, for the elements of arrays that a step of
transform/register_promotion has proven to be untouched by others; `promote_scalars` turns stack
memory of rank 0 into bindings where the code is straight. Backends keep both in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load, Var
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
from loopwright.ir.visit import (
    constant_trips,
    fresh_name,
    loads,
    names,
    operands,
    rebuild,
    rewrite,
    statements,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, is_straight_line, substitute_statement
from loopwright.lower.linear_forms import LinearForm, linear, normal

__all__ = ["promote_registers", "promote_scalars"]

_MOST_COPIES = 64  # stores that unrolled loops may become


# -- elements of arrays --------------------------------------------------------------------------


def promote_registers(nest: LoopNest, promoted: Collection[tuple[str, str]]) -> LoopNest:
    """Promote the elements that a statement touches to registers during a loop.

        for k in range(n): a[i] = a[i] + b[k] * c[i]
    ->  if 0 < n:
            alloc a_r; a_r = a[i]; let c_r = c[i]
            for k in range(n): a_r = a_r + b[k] * c_r
            a[i] = a_r

    `promoted` has pairs (statement, loop variable). What the statement reads and what does not move
    with the loop is loaded before it; what it writes there is stored after it. Unrolled loops of
    constant extent around straight-line code are written out, and their copies load what they
    share once. Of a loop over strips registers last for all strips.
    """
    promoter = _Promoter(frozenset(promoted), bound_names(nest))
    return replace(nest, body=promoter.statement(nest.body))


@dataclass(frozen=True, slots=True)
class _Region:
    """Straight-line code."""

    body: tuple[Stmt, ...]
    promoted: frozenset[str] = frozenset()  # statements whose elements nobody else touches here


@dataclass(frozen=True, slots=True)
class _Register:
    """A scalar that stands for an element of an array."""

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
class _Promoter:
    """Promotes elements in one nest; `taken` grows with the names of registers."""

    promoted: frozenset[tuple[str, str]]  # (statement, loop variable)
    taken: set[str]

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.UNROLL):
                region = self._unrolled(stmt)
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
            return self._strips(loop) or self._inside(loop)
        own = self._promoted_in(loop)
        every = [stmt for region in regions for stmt in region.body]
        registers = self._registers(every, own, {loop.var})
        changed = (_with_registers(region, own, registers) for region in regions)
        inside = replace(loop, body=Block(tuple(map(self._finished, changed))))
        # A loop without iterations must not touch memory.
        return If(loop.start < loop.stop, _around(registers, inside)) if registers else inside

    def _strips(self, loop: For) -> Stmt | None:
        """A loop over strips, with the registers of the loop inside of a strip around both.

        None for any other loop. Every strip has iterations: else memory would be touched without.
        """
        own, inner = self._promoted_in(loop), _only(loop.body)
        if not own or loop.step == Const(1) or not isinstance(inner, For):
            return None
        if inner.mark is not Mark.SERIAL:
            return None
        if not is_straight_line(inner.body) or not _is_never_empty(inner, loop):
            return None
        registers = self._registers((inner.body,), own, {loop.var, inner.var})
        if not registers:
            return None
        (body,) = _with_registers(_Region((inner.body,)), own, registers).body
        strips = replace(loop, body=self._loop(replace(inner, body=body)))
        return If(loop.start < loop.stop, _around(registers, strips))

    def _promoted_in(self, loop: For) -> frozenset[str]:
        return frozenset(name for name, var in self.promoted if var == loop.var)

    def _finished(self, region: _Region) -> Stmt:
        registers = self._registers(region.body, region.promoted, set())
        return _around(registers, Block(_with_registers(region, region.promoted, registers).body))

    def _regions(self, stmt: Stmt) -> list[_Region] | None:
        """`stmt` as regions one after the other; None when it is something else."""
        match stmt:
            case Block(body=body):
                parts = [self._regions(child) for child in body]
                if any(part is None for part in parts):
                    return None
                return [region for part in parts for region in part or []]
            case For(mark=Mark.UNROLL):
                region = self._unrolled(stmt)
                return None if region is None else [region]
        return [_Region((stmt,))] if is_straight_line(stmt) else None

    def _unrolled(self, loop: For) -> _Region | None:
        """The copies of an unrolled loop; None when it has no constant extent or too many."""
        trips, inner = constant_trips(loop), self._regions(loop.body)
        if trips is None or inner is None:
            return None
        row = [stmt for region in inner for stmt in region.body]
        if trips * len(row) > _MOST_COPIES:
            return None
        values = [normal(loop.start + loop.step * number) for number in range(trips)]
        copies = tuple(_copy(stmt, loop.var, value) for value in values for stmt in row)
        return _Region(copies, self._promoted_in(loop))

    def _registers(
        self, body: Sequence[Stmt], own: frozenset[str], moving: set[str]
    ) -> tuple[_Register, ...]:
        """Registers for what the statements `own` touch and no variable of `moving` changes.

        Where nothing moves only what is touched more than once is worth one.
        """
        stores = [s for part in body for s in statements(part) if isinstance(s, Store)]
        mine = [s for s in stores if s.statement in own]
        mine = [s for s in mine if _is_uniform([t for t in mine if t.statement == s.statement])]
        elements: dict[Load, list[Store]] = {}
        for store in mine:
            element = Load(store.buffer, store.index, store.value.dtype)
            elements.setdefault(element, []).append(store)
        read = [load for store in mine for load in loads(store.value)]
        found = []
        for element, writers in elements.items():
            if not moving & names(element) and (moving or len(writers) > 1):
                is_read = element in loads(writers[0].value)
                found.append(self._register(element, is_read=is_read, is_written=True))
        written = {store.buffer for store in stores}
        for load in dict.fromkeys(read):
            # Backends keep what nobody writes in registers by themselves.
            if load in elements or load.array not in written or moving & names(load):
                continue
            if moving or read.count(load) > 1:
                found.append(self._register(load, is_read=True, is_written=False))
        return tuple(found)

    def _register(self, element: Load, *, is_read: bool, is_written: bool) -> _Register:
        name = fresh_name(f"{element.array}_r", self.taken)
        self.taken.add(name)
        return _Register(name, element.dtype, element, is_read, is_written)


def _only(body: Stmt) -> Stmt:
    """The statement that a block of one holds; any other is itself."""
    while isinstance(body, Block) and len(body.body) == 1:
        (body,) = body.body
    return body


def _is_never_empty(inner: For, outer: For) -> bool:
    """Whether a loop has an iteration in every iteration of the loop around it."""
    var = linear(Var(outer.var))
    known = [var - linear(bound) for bound in operands("max", outer.start)]
    known += [linear(bound) - var + LinearForm((), -1) for bound in operands("min", outer.stop)]

    def is_positive(extent: LinearForm) -> bool:
        gaps = (extent - fact + LinearForm((), -1) for fact in (LinearForm((), 0), *known))
        return any(not gap.terms and gap.constant >= 0 for gap in gaps)

    return all(
        is_positive(linear(high) - linear(low))
        for low in operands("max", inner.start)
        for high in operands("min", inner.stop)
    )


def _is_uniform(stores: Sequence[Store]) -> bool:
    """Whether subscripts differ by constants only: different ones never meet in an element."""
    first = stores[0]
    return all(
        len(store.index) == len(first.index)
        and all(
            not (linear(x) - linear(y)).terms for x, y in zip(store.index, first.index, strict=True)
        )
        for store in stores
    )


def _with_registers(
    region: _Region, own: frozenset[str], registers: Sequence[_Register]
) -> _Region:
    """`region` with registers in place of elements, in the statements `own`."""
    values = {register.element: register for register in registers}

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


def _around(registers: Sequence[_Register], body: Stmt) -> Stmt:
    for register in reversed(registers):
        body = register.around(body)
    return body


def _copy(stmt: Stmt, var: str, value: Expr) -> Stmt:
    """Straight-line code for one value of a loop variable, its subscripts in normal form."""

    def folded(expr: Expr) -> Expr:
        if not isinstance(expr, Load):
            return expr
        return replace(expr, index=tuple(map(normal, expr.index)))

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, Store):
            return node
        index = tuple(map(normal, node.index))
        return replace(node, index=index, value=rewrite(node.value, folded))

    return rebuild(substitute_statement(stmt, {var: value}), visit)


# -- scalars -------------------------------------------------------------------------------------


def promote_scalars(nest: LoopNest) -> LoopNest:
    """Promote stack scalars that only straight-line code uses to bindings, one for each value.

        alloc t; t = x; a[i] = t + t; t = y; b[i] = t
    ->  let t = x; a[i] = t + t; let t_2 = y; b[i] = t_2
    """
    taken = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, Alloc) or not _is_scalar(node) or not is_straight_line(node.body):
            return node
        # The memory goes, so its name is free for the first value.
        taken.discard(node.buffer.name)
        promoted = _promoted(_row(node.body), node.buffer.name, None, taken)
        taken.add(node.buffer.name)
        return node if promoted is None else promoted

    return replace(nest, body=rebuild(nest.body, visit))


def _is_scalar(node: Alloc) -> bool:
    return node.shape == () and node.buffer.space is Space.STACK


def _row(body: Stmt) -> tuple[Stmt, ...]:
    """The statements of `body` in order, nested blocks flattened."""
    if not isinstance(body, Block):
        return (body,)
    return tuple(stmt for child in body.body for stmt in _row(child))


def _promoted(
    row: tuple[Stmt, ...], scalar: str, value: Var | None, taken: set[str]
) -> Stmt | None:
    """`row` with loads of `scalar` replaced by its last `value`; None when it is read unset."""
    done: list[Stmt] = []
    for at, stmt in enumerate(row):
        changed = _with_value(stmt, scalar, value)
        if changed is None:
            return None
        match changed:
            case Store(buffer=name, value=stored) if name == scalar:
                bound = Var(fresh_name(scalar, taken), stored.dtype)
                taken.add(bound.name)
                rest = _promoted(row[at + 1 :], scalar, bound, taken)
                return None if rest is None else Block((*done, Let(bound.name, stored, rest)))
            case Let(body=body):
                # A value bound in the body must reach what follows it, so that goes inside too.
                rest = _promoted((*_row(body), *row[at + 1 :]), scalar, value, taken)
                return None if rest is None else Block((*done, replace(changed, body=rest)))
            case _:
                done.append(changed)
    return Block(tuple(done))


def _with_value(stmt: Stmt, scalar: str, value: Var | None) -> Stmt | None:
    """`stmt` itself, not the body of a binding, with the scalar's value put in; None if unset."""
    if not isinstance(stmt, Store | Let):
        return stmt
    is_unset = False

    def change(expr: Expr) -> Expr:
        nonlocal is_unset
        if isinstance(expr, Load) and expr.array == scalar:
            is_unset = is_unset or value is None
            return value or expr
        return expr

    if isinstance(stmt, Let):
        changed: Stmt = replace(stmt, value=rewrite(stmt.value, change))
    else:
        index = tuple(rewrite(entry, change) for entry in stmt.index)
        changed = replace(stmt, index=index, value=rewrite(stmt.value, change))
    return None if is_unset else changed
