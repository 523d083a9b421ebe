"""Stencils in overlapped tiles as a LoopNest for the cores of a mesh.

    made_start = made                                    grids of which only borders are read
    for block in range(0, blocks, 2):
        for source, target in (grid, grid_next), (grid_next, grid):
            cores: for tile:
                box = source[tile and what its steps need around it]
                for step: S1; S2; ...                    on box, on less of it from step to step
                target[tile] = box
            barrier

There is an even number of blocks, of at most `steps` steps each, so that the last one leaves its
values in the grids of the program. The steps of block b are those from (b * all) // blocks on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Buffer,
    Copy,
    For,
    If,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.program import Array, Program
from loopwright.ir.time_stencil import Growth, StencilStatement, TimeTiles
from loopwright.ir.visit import fresh_name, rewrite, substitute
from loopwright.lower.buffers import argument_buffers, scalar_names
from loopwright.lower.build import lets, loop, seq
from loopwright.lower.linear_forms import normal

__all__ = ["lower_time_tiles"]


def lower_time_tiles(program: Program, tiles: TimeTiles) -> LoopNest:
    """The nest of a program that is one stencil, in overlapped tiles."""
    body = _Writer(program, tiles).nest()
    return LoopNest(program.name, argument_buffers(program), scalar_names(program), body)


class _Writer:
    """Writes the blocks of steps of one stencil."""

    def __init__(self, program: Program, tiles: TimeTiles) -> None:
        self.program = program
        self.tiles = tiles
        self.stencil = tiles.stencil
        self.taken = {a.name for a in program.arrays} | {*program.params, *scalar_names(program)}
        rank = len(tiles.sizes)
        self.block, self.blocks, self.first, self.steps, self.step = (
            self._name(wish) for wish in ("block", "blocks", "first_step", "steps", "step")
        )
        self.tile = [self._name(f"tile{k}") for k in range(rank)]
        self.at = [self._name(f"x{k}") for k in range(rank)]
        self.boxes = {name: self._name(f"{name}_box").name for name, _ in self.stencil.boxes}
        self.boxes |= {name: self._name(f"{name}_box").name for name in self.stencil.lines}
        self.corner = {
            name: [self._name(f"{name}_at{k}") for k in range(rank)]
            for name, _ in self.stencil.boxes
        }
        self.count = {
            name: [self._name(f"{name}_by{k}") for k in range(rank)]
            for name, _ in self.stencil.boxes
        }
        self.packed = self._name("tile_box")
        self.other = {name: self._name(f"{name}_next").name for name in self.stencil.carried}
        self.other |= {name: self._name(f"{name}_start").name for name in self.stencil.made}

    def _name(self, wish: str) -> Var:
        name = fresh_name(wish, self.taken)
        self.taken.add(name)
        return Var(name)

    def nest(self) -> Stmt:
        """All blocks, with the memory of the other grids around them."""
        stencil = self.stencil
        every = normal(stencil.stop - stencil.first)
        pair = 2 * self.tiles.steps
        count = normal((every + (pair - 1)) // pair * 2)
        phases = seq(
            self._phase(self.block, is_there=True), self._phase(self.block + 1, is_there=False)
        )
        body: Stmt = loop(self.block, 0, self.blocks, phases, 2)
        if stencil.made:
            body = seq(self._borders(), body)
        body = lets([(self.blocks, count)], body)
        for name in reversed(self.other):
            body = Alloc(*self._memory(self.program.array(name), self.other[name]), body)
        return body

    def _memory(self, array: Array, name: str) -> tuple[Buffer, tuple[Expr, ...]]:
        strides: list[Expr] = [Const(1)]
        for extent in reversed(array.shape[1:]):
            strides.insert(0, normal(strides[0] * extent))
        return Buffer(name, array.dtype, tuple(strides), Space.SCRATCH, writable=True), array.shape

    def _dealt(self, body: Stmt) -> Stmt:
        """Tiles dealt out to cores: along rows and columns, or all of them."""
        axes = [Axis.MESH] if len(self.tile) == 1 else [Axis.ROW, Axis.COLUMN]
        for k in reversed(range(len(self.tile))):
            first, end = self.stencil.start[k], self.stencil.end[k]
            made = loop(self.tile[k], first, end, body, self.tiles.sizes[k])
            assert isinstance(made, For)
            body = replace(made, mark=Mark.THREAD, axis=axes[k]) if k < len(axes) else made
        return body

    def _inside(self, k: int) -> Expr:
        """Elements of a tile along a dimension."""
        return normal((self.stencil.end[k] - self.tile[k]).min(self.tiles.sizes[k]))

    def _borders(self) -> Stmt:
        """Copies of the grids that are made in every step, for what nobody writes of them."""
        parts: list[Stmt] = []
        shape = tuple(self._inside(k) for k in range(len(self.tile)))
        zero = tuple(Const(0) for _ in shape)
        for name in self.stencil.made:
            memory = self._scratchpad(name, self.tiles.sizes, shape[-1])
            there = Copy(self.boxes[name], zero, name, tuple(self.tile), shape)
            back = Copy(self.other[name], tuple(self.tile), self.boxes[name], zero, shape)
            parts.append(self._dealt(Alloc(*memory, seq(there, back))))
        return seq(*parts)

    def _scratchpad(
        self, name: str, extents: Sequence[int], width: Expr
    ) -> tuple[Buffer, tuple[Expr, ...]]:
        array = self.program.array(name)
        strides: list[Expr] = [Const(1)]
        if len(extents) > 1:
            strides.insert(0, width)
        for extent in reversed(extents[1:-1]):
            strides.insert(0, normal(strides[0] * extent))
        box = Buffer(self.boxes[name], array.dtype, tuple(strides), Space.SCRATCHPAD, writable=True)
        return box, tuple(map(Const, extents))

    def _phase(self, block: Expr, *, is_there: bool) -> Stmt:
        """One block of steps; `is_there`: from the grids of the program to the others."""
        stencil = self.stencil
        every = stencil.stop - stencil.first
        first = normal(every * block // self.blocks)
        stop = normal(every * (block + 1) // self.blocks)
        grids = [name for name, _ in stencil.boxes]
        source = {
            name: name if name in stencil.fixed or (name in stencil.carried and is_there)
            else self.other[name]
            for name in grids
        }  # fmt: skip
        kept = [name for name in grids if name not in stencil.made]
        inner: list[Stmt] = [self._brought(name, source[name]) for name in kept]
        for name in stencil.lines:
            here = (normal(stencil.first + self.first),)
            inner.append(Copy(self.boxes[name], (Const(0),), name, here, (self.steps,)))
        inner.append(self._computed(source, is_last=None if is_there else normal(block + 1)))
        inner += [
            self._put(name, self.other[name] if is_there else name) for name in stencil.carried
        ]
        whole: Stmt = seq(*inner)
        for name in reversed(kept):
            whole = self._in_box(name, whole)
        for name in reversed(stencil.lines):
            whole = Alloc(*self._scratchpad(name, (self.tiles.steps,), Const(1)), whole)
        bound: list[tuple[Var, Expr]] = []
        for name, growth in stencil.boxes:
            bound += self._bounds(name, growth)
        dealt = self._dealt(lets(bound, whole))
        return lets([(self.first, first), (self.steps, normal(stop - self.first))], dealt)

    def _in_box(self, name: str, body: Stmt) -> Stmt:
        width = self.count[name][-1]
        return Alloc(*self._scratchpad(name, self.tiles.extents(name), width), body)

    def _computed(self, source: Mapping[str, str], is_last: Expr | None) -> Stmt:
        """The steps of a tile. Boxes of grids that are made in every step live no longer.

        `is_last`: the number of the block plus one, where it may be the last one.
        """
        made = self.stencil.made
        body = seq(*(self._updated(own) for own in self.stencil.statements))
        parts = [self._brought(name, source[name]) for name in made]
        parts.append(loop(self.step, 0, self.steps, body))
        if is_last is not None and made:
            puts = seq(*(self._put_made(name) for name in made))
            parts.append(If(Binary("eq", is_last, self.blocks), puts))
        whole = seq(*parts)
        for name in reversed(made):
            whole = self._in_box(name, whole)
        return whole

    def _bounds(self, name: str, growth: Growth) -> list[tuple[Var, Expr]]:
        """Names for the first element and the extents of a box."""
        bound: list[tuple[Var, Expr]] = []
        for k, (low, high) in enumerate(zip(growth.low, growth.high, strict=True)):
            start = normal((self.tile[k] - _beyond(low, self.steps)).max(self.stencil.start[k]))
            end = self.tile[k] + self.tiles.sizes[k] + _beyond(high, self.steps)
            corner, count = self.corner[name][k], self.count[name][k]
            bound.append((corner, start))
            bound.append((count, normal(end.min(self.stencil.end[k]) - corner)))
        return bound

    def _brought(self, name: str, source: str) -> Stmt:
        """A box; of grids that are made in every step only where nobody writes some of it."""
        corner, count = tuple(self.corner[name]), tuple(self.count[name])
        zero = tuple(Const(0) for _ in corner)
        copy = Copy(self.boxes[name], zero, source, corner, count)
        if name not in self.stencil.made:
            return copy
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        beside: Expr = Const(False, BOOL)
        for at, by, low, stop in zip(corner, count, writer.low, writer.stop, strict=True):
            for test in (Binary("lt", at, low), Binary("gt", normal(at + by), stop)):
                beside = test if beside == Const(False, BOOL) else Binary("or", beside, test)
        return If(beside, copy)

    def _updated(self, own: StencilStatement) -> Stmt:
        """One statement of a step, on what the rest of the block needs of it."""
        stencil = self.stencil
        statement = self.program.statement(own.name)
        left = normal(self.steps - 1 - self.step)
        values: dict[str, Expr] = {stencil.time: normal(stencil.first + self.first + self.step)}
        for at, iterator, shift in zip(self.at, own.iterators, own.shifts, strict=True):
            if iterator:
                values[iterator] = normal(at - shift)
        value = self._in_boxes(substitute(statement.value, values))
        index = tuple(substitute(entry, values) for entry in statement.write.index)
        body: Stmt = Store(self.boxes[own.array], self._moved(own.array, index), value, own.name)
        for k in reversed(range(len(self.at))):
            low = self.tile[k] - _grown(own.region.low[k], left)
            high = self.tile[k] + self.tiles.sizes[k] + _grown(own.region.high[k], left)
            start, stop = normal(low.max(own.low[k])), normal(high.min(own.stop[k]))
            body = loop(self.at[k], start, stop, body)
        return body

    def _moved(self, array: str, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """Subscripts of a box for those of a grid."""
        pairs = zip(index, self.corner[array], strict=True)
        return tuple(normal(entry - corner) for entry, corner in pairs)

    def _in_boxes(self, value: Expr) -> Expr:
        """An expression over the grids, over their boxes."""
        lines: Mapping[str, str] = {name: self.boxes[name] for name in self.stencil.lines}

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.array in self.corner:
                index = self._moved(node.array, node.index)
                return replace(node, array=self.boxes[node.array], index=index)
            if isinstance(node, Load) and node.array in lines:
                return replace(node, array=lines[node.array], index=(self.step,))
            return node

        return rewrite(value, change)

    def _put(self, name: str, target: str) -> Stmt:
        """The elements of a tile from its box to a grid.

        DMA takes rows without gaps from the scratchpad: they are packed first.
        """
        rank = len(self.tile)
        shape = tuple(self._inside(k) for k in range(rank))
        start = self._moved(name, self.tile)
        if rank == 1:
            return Copy(target, tuple(self.tile), self.boxes[name], start, shape)
        zero = tuple(Const(0) for _ in shape)
        box, extents = self._scratchpad(name, self.tiles.sizes, shape[-1])
        packed = replace(box, name=self.packed.name)
        index = tuple(normal(first + at) for first, at in zip(start, self.at, strict=True))
        value = Load(self.boxes[name], index, packed.dtype)
        body: Stmt = Store(packed.name, tuple(self.at), value)
        for k in reversed(range(rank)):
            body = loop(self.at[k], 0, shape[k], body)
        copy = Copy(target, tuple(self.tile), packed.name, zero, shape)
        return Alloc(packed, extents, seq(body, copy))

    def _put_made(self, name: str) -> Stmt:
        """Those of a grid that is made in every step, where its statement writes them.

        Row by row: that is done once, and their box leaves no room to pack them.
        """
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        rank = len(self.tile)
        low = [normal(at.max(first)) for at, first in zip(self.tile, writer.low, strict=True)]
        high = [
            normal((self.tile[k] + self.tiles.sizes[k]).min(writer.stop[k])) for k in range(rank)
        ]
        place: list[Expr] = [*self.at[: rank - 1], low[-1]]
        width = normal(high[-1] - low[-1])
        shape = (*(Const(1) for _ in place[1:]), width)
        copy = Copy(name, tuple(place), self.boxes[name], self._moved(name, place), shape)
        body: Stmt = If(Binary("gt", width, Const(0)), copy)
        for k in reversed(range(rank - 1)):
            body = loop(self.at[k], low[k], high[k], body)
        return body


def _grown(growth: tuple[int, int], steps: Expr) -> Expr:
    base, rate = growth
    return normal(steps * rate + base)


def _beyond(growth: tuple[int, int], steps: Expr) -> Expr:
    """Elements beyond a tile; none where that would be less."""
    found = _grown(growth, steps)
    return normal(found.max(0)) if growth[0] < 0 else found
