"""Stencils in overlapped tiles as a LoopNest for the cores of a mesh (tiles/time_tile_writer).

Cores bring boxes into their scratchpads, and put tiles to the other grids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
    Stmt,
    Store,
)
from loopwright.ir.program import Program
from loopwright.ir.time_stencil import StencilStatement, TimeTiles
from loopwright.lower.buffers import argument_buffers, scalar_names
from loopwright.lower.build import lets, loop, seq
from loopwright.lower.linear_forms import normal
from loopwright.lower.tiles.time_tile_writer import TimeTileWriter, scratchpad_box

__all__ = ["lower_time_tiles"]


def lower_time_tiles(program: Program, tiles: TimeTiles) -> LoopNest:
    """The nest of a program that is one stencil, in overlapped tiles."""
    body = _Writer(program, tiles).nest()
    return LoopNest(program.name, argument_buffers(program), scalar_names(program), body)


class _Writer(TimeTileWriter):
    def _dealt(self, body: Stmt) -> Stmt:
        """Tiles dealt out to cores: along rows and columns, or all of them."""
        axes = [Axis.MESH] if len(self.tile) == 1 else [Axis.ROW, Axis.COLUMN]
        for k in reversed(range(len(self.tile))):
            first, end = self.stencil.start[k], self.stencil.end[k]
            made = loop(self.tile[k], first, end, body, self.tiles.sizes[k])
            assert isinstance(made, For)
            body = replace(made, mark=Mark.THREAD, axis=axes[k]) if k < len(axes) else made
        return body

    def _borders(self) -> Stmt:
        parts: list[Stmt] = []
        shape = tuple(self._inside(k) for k in range(len(self.tile)))
        zero = tuple(Const(0) for _ in shape)
        for name in self.stencil.made:
            memory = self._scratchpad(name, self.boxes[name], self.tiles.sizes, shape[-1])
            there = Copy(self.boxes[name], zero, name, tuple(self.tile), shape)
            back = Copy(self.other[name], tuple(self.tile), self.boxes[name], zero, shape)
            parts.append(self._dealt(Alloc(*memory, seq(there, back))))
        return seq(*parts)

    def _scratchpad(
        self, name: str, own: str, extents: Sequence[int], width: Expr
    ) -> tuple[Buffer, tuple[Expr, ...]]:
        return scratchpad_box(self.program.array(name).dtype, own, extents, width)

    def _phase(self, block: Expr, *, is_there: bool) -> Stmt:
        stencil = self.stencil
        grids = [name for name, _ in stencil.boxes]
        source = self._sources(is_there=is_there)
        kept = [name for name in grids if name not in stencil.made]
        inner: list[Stmt] = [self._brought(name, source[name]) for name in kept]
        for name in stencil.lines:
            here = (normal(stencil.first + self.first),)
            inner.append(Copy(self.lines[name], (Const(0),), name, here, (self.steps,)))
        inner.append(self._computed(source, is_last=None if is_there else normal(block + 1)))
        inner += [
            self._put(name, self.other[name] if is_there else name) for name in stencil.carried
        ]
        whole: Stmt = seq(*inner)
        for name in reversed(kept):
            whole = self._in_box(name, whole)
        for name in reversed(stencil.lines):
            line = self._scratchpad(name, self.lines[name], (self.tiles.steps,), Const(1))
            whole = Alloc(*line, whole)
        bound: list[tuple[Var, Expr]] = []
        for name, growth in stencil.boxes:
            bound += self._bounds(name, growth)
        dealt = self._dealt(lets(bound, whole))
        return lets(self._limits(block), dealt)

    def _computed_on(
        self, own: StencilStatement, starts: Sequence[Expr], stops: Sequence[Expr]
    ) -> Stmt:
        body: Stmt = self._instance(own, self.at)
        for k in reversed(range(len(self.at))):
            body = loop(self.at[k], starts[k], stops[k], body)
        return body

    def _in_box(self, name: str, body: Stmt) -> Stmt:
        width = self.count[name][-1]
        extents = self.tiles.extents(name)
        return Alloc(*self._scratchpad(name, self.boxes[name], extents, width), body)

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

    def _brought(self, name: str, source: str) -> Stmt:
        """A box; of grids that are made in every step only where nobody writes some of it."""
        corner, count = tuple(self.corner[name]), tuple(self.count[name])
        zero = tuple(Const(0) for _ in corner)
        copy = Copy(self.boxes[name], zero, source, corner, count)
        if name not in self.stencil.made:
            return copy
        return If(self._is_read(name), copy)

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
        packed, extents = self._scratchpad(name, self.packed.name, self.tiles.sizes, shape[-1])
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
