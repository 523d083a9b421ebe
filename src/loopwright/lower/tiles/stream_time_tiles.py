"""Stencils whose planes stream through scratchpads, as a LoopNest for the cores of a mesh.

    for tile of the core:
        for position:
            wait for the planes of this position, and for what the last one has put
            start the planes of the next position
            for step: S1 on plane position - d1; S2 on plane position - d2; ...
            start to put plane position - d

Boxes are windows of planes: plane q lies in slot q % planes of its grid. Of a grid of which a step
reads what it has made, edges are brought that nobody writes: rows to a strip, from which the core
copies them, columns from memory in which they lie one behind another, whole planes to their slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Block,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    LoopNest,
    Mark,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.plane_stream import PlaneStream, StreamedGrid
from loopwright.ir.program import Array, Program
from loopwright.ir.time_stencil import StencilStatement, TimeTiles
from loopwright.lower.buffers import argument_buffers, scalar_names
from loopwright.lower.build import lets, loop, seq, tiles
from loopwright.lower.linear_forms import normal
from loopwright.lower.tiles.time_tile_writer import TimeTileWriter, scratchpad_box

__all__ = ["stream_time_tiles"]


def stream_time_tiles(program: Program, tiles: TimeTiles) -> LoopNest:
    """The nest of a program that is one stencil, in tiles whose planes stream."""
    assert tiles.stream is not None
    body = _Writer(program, tiles, tiles.stream).nest()
    return LoopNest(program.name, argument_buffers(program), scalar_names(program), body)


class _Writer(TimeTileWriter):
    def __init__(self, program: Program, tiles: TimeTiles, stream: PlaneStream) -> None:
        super().__init__(program, tiles)
        self.stream = stream
        self.number, self.position, self.next = (
            self._name(wish) for wish in ("tile", "position", "next_plane")
        )
        self.plane: Expr = self.at[0]  # that the statement at hand computes
        self.used: dict[tuple[str, int], Var] = {}  # slots of planes at distances of it
        self.slots: dict[tuple[str, int], Var] = {}  # their names
        self.own_slot = self._name("slot")
        self.packed_planes = {
            name: self._name(f"{name}_plane").name for name in self.stencil.carried
        }
        self.strips = {
            (name, word): self._name(f"{name}_{word}").name
            for name in self.stencil.made
            for word in ("before", "behind", "beside")
        }
        for name in self.stencil.made:
            self.other.pop(name)
            if sum(self._edges(name)[-1]):
                self.other[name] = self._name(f"{name}_edges").name

    def _edges(self, name: str) -> tuple[tuple[int, int], ...]:
        edges = self.stream.grid(name).edges
        assert edges is not None
        return edges

    def _memory(self, array: Array, name: str) -> tuple[Buffer, tuple[Expr, ...]]:
        if array.name in self.stencil.made:
            width = Const(sum(self._edges(array.name)[-1]))
            array = replace(array, shape=(*array.shape[:-1], width))
        return super()._memory(array, name)

    # -- the edges of grids, once -----------------------------------------------------------------

    def _borders(self) -> Stmt:
        """The columns of grids that nobody writes, one behind another in memory."""
        return seq(
            *(self._columns_copied(name) for name in self.stencil.made if name in self.other)
        )

    def _columns_copied(self, name: str) -> Stmt:
        stencil, rank = self.stencil, len(self.at)
        (writer,) = (own for own in stencil.statements if own.array == name)
        before, behind = self._edges(name)[-1]
        start, end = stencil.start[-1], stencil.end[-1]
        rows = [self._inside(k) for k in range(1, rank - 1)]
        corner = (self.at[0], *self.tile[1:-1])
        dtype = self.program.array(name).dtype
        sizes = self.tiles.sizes[1:-1]
        whole, extents = scratchpad_box(
            dtype, self.strips[name, "beside"], (*sizes, before + behind), Const(before + behind)
        )
        parts: list[Stmt] = []
        memory: list[tuple[Buffer, tuple[Expr, ...]]] = [(whole, extents)]
        behind_from = normal(writer.stop[-1].max(start))
        for word, many, first, place in (
            ("before", before, start, start),
            ("behind", behind, behind_from, normal(writer.stop[-1] - before)),
        ):
            if not many:
                continue
            width = normal((end - first).min(many))
            box, room = scratchpad_box(dtype, self.strips[name, word], (*sizes, many), width)
            memory.append((box, room))
            zero = tuple(Const(0) for _ in (*rows, width))
            parts.append(Copy(box.name, zero, name, (*corner, first), (*rows, width)))
            index = (*self.at[1:-1], normal(self.at[-1] + (first - place)))
            value = Load(box.name, tuple(self.at[1:]), dtype)
            body: Stmt = Store(whole.name, index, value)
            body = loop(self.at[-1], 0, width, body)
            for k in reversed(range(1, rank - 1)):
                body = loop(self.at[k], 0, rows[k - 1], body)
            parts.append(body)
        width = Const(before + behind)
        zero = tuple(Const(0) for _ in (*rows, width))
        parts.append(Copy(self.other[name], (*corner, Const(0)), whole.name, zero, (*rows, width)))
        inner: Stmt = seq(*parts)
        for box, room in reversed(memory):
            inner = Alloc(box, room, inner)
        for k in reversed(range(1, rank - 1)):
            inner = loop(self.tile[k], stencil.start[k], stencil.end[k], inner, self.tiles.sizes[k])
        return For(
            self.at[0].name, stencil.start[0], stencil.end[0], inner, Const(1),
            Mark.THREAD, axis=Axis.MESH,
        )  # fmt: skip

    # -- tiles and positions ----------------------------------------------------------------------

    def _phase(self, block: Expr, *, is_there: bool) -> Stmt:
        stencil = self.stencil
        last = None if is_there else normal(block + 1)
        inner: list[Stmt] = []
        for name in stencil.lines:
            here = (normal(stencil.first + self.first),)
            inner.append(Copy(self.lines[name], (Const(0),), name, here, (self.steps,)))
        inner.append(self._positions(is_there=is_there, last=last))
        whole: Stmt = seq(*inner)
        for box, extents in reversed(self._boxes()):
            whole = Alloc(box, extents, whole)
        bound = [pair for name, growth in stencil.boxes for pair in self._bounds(name, growth)]
        return lets(self._limits(block), self._dealt(lets(bound, whole)))

    def _dealt(self, body: Stmt) -> Stmt:
        """Tiles dealt out to all cores, one row of them."""
        stencil = self.stencil
        sides = zip(stencil.start, stencil.end, self.tiles.sizes, strict=True)
        counts = [normal(tiles(end - start, size)) for start, end, size in sides]
        every: Expr = Const(1)
        rest: Expr = self.number
        bound: list[tuple[Var, Expr]] = []
        for k in reversed(range(len(counts))):
            at = rest if k == 0 else rest % counts[k]
            rest = rest // counts[k]
            bound.append((self.tile[k], normal(stencil.start[k] + at * self.tiles.sizes[k])))
            # Grids without elements have no tiles: the product of two negative counts is none.
            every = every * counts[k].max(0)
        return For(
            self.number.name, Const(0), normal(every), lets(bound, body), Const(1),
            Mark.THREAD, axis=Axis.MESH,
        )  # fmt: skip

    def _boxes(self) -> list[tuple[Buffer, tuple[Expr, ...]]]:
        """The memory of a tile: windows, packed planes, strips, lines."""
        found: list[tuple[Buffer, tuple[Expr, ...]]] = []
        for name, _ in self.stencil.boxes:
            dtype = self.program.array(name).dtype
            extents, width = self.tiles.extents(name), self.count[name][-1]
            found.append(scratchpad_box(dtype, self.boxes[name], extents, width))
            if name in self.packed_planes and len(extents) > 2:
                inside = self._inside(len(extents) - 1)
                packed = self.packed_planes[name]
                found.append(scratchpad_box(dtype, packed, self.tiles.sizes[1:], inside))
            if name in self.stencil.made:
                found += self._strips(name, extents)
        for name in self.stencil.lines:
            dtype = self.program.array(name).dtype
            found.append(scratchpad_box(dtype, self.lines[name], (self.tiles.steps,), Const(1)))
        return found

    def _strips(self, name: str, extents: Sequence[int]) -> list[tuple[Buffer, tuple[Expr, ...]]]:
        dtype = self.program.array(name).dtype
        edges = self._edges(name)
        found: list[tuple[Buffer, tuple[Expr, ...]]] = []
        for word, many in zip(("before", "behind"), edges[0], strict=True):
            if len(extents) > 2 and many:
                width = self.count[name][-1]
                rows = (many, extents[-1])
                found.append(scratchpad_box(dtype, self.strips[name, word], rows, width))
        if many := sum(edges[-1]):
            shape = (*extents[1:-1], many)
            found.append(scratchpad_box(dtype, self.strips[name, "beside"], shape, Const(many)))
        return found

    def _positions(self, *, is_there: bool, last: Expr | None) -> Stmt:
        """The stream of a tile; `last`: the number of the block plus one, which may be the last."""
        stencil, stream = self.stencil, self.stream
        starts = [self.corner[grid.name][0] + grid.first for grid in stream.grids]
        end = normal(self.tile[0] + self._inside(0))
        written = [grid for grid in stream.grids if grid.written is not None]
        stops = [end + self._put_delay(grid) for grid in written]
        body: list[Stmt] = [Wait(0)]
        body += [self._edged(name) for name in stencil.made]
        sources = {name: name for name in stencil.fixed}
        sources |= {n: n if is_there else self.other[n] for n in stencil.carried}
        body += [self._ahead(name, source) for name, source in sources.items()]
        body += [self._edges_ahead(name) for name in stencil.made]
        steps = seq(*(self._updated(own) for own in stencil.statements))
        body.append(loop(self.step, 0, self.steps, steps))
        body += [self._put(n, self.other[n] if is_there else n) for n in stencil.carried]
        if last is not None and stencil.made:
            puts = seq(*(self._put_made(name) for name in stencil.made))
            body.append(If(Binary("eq", last, self.blocks), puts))
        body.append(Commit())
        first = normal(reduce(lambda x, y: x.min(y), map(normal, starts)) - 1)
        stop = normal(reduce(lambda x, y: x.max(y), map(normal, stops)))
        return seq(loop(self.position, first, stop, seq(*body)), Wait(0))

    def _put_delay(self, grid: StreamedGrid) -> Expr:
        """How many positions behind its first use a plane has its last value."""
        assert grid.written is not None
        rate = self.stream.rate
        found = normal(self.steps * rate + (grid.written - rate))
        return normal(found.max(grid.first)) if rate else found  # there may be blocks of no steps

    def _within(self, plane: Var, value: Expr, low: Expr, stop: Expr, body: Stmt) -> Stmt:
        """A statement about a plane, where that is one of some."""
        inside = Binary("and", Binary("ge", plane, low), Binary("lt", plane, stop))
        return lets([(plane, normal(value))], If(inside, body))

    def _slot(self, name: str, plane: Expr) -> Expr:
        """Where a plane of a grid lies in its window."""
        planes = self.stream.window(name, self.tiles.steps)
        return normal((plane - self.corner[name][0]) % planes)

    def _box_end(self, name: str) -> Expr:
        return normal(self.corner[name][0] + self.count[name][0])

    def _ahead(self, name: str, source: str) -> Stmt:
        """The plane of the next position begins to come."""
        zero = tuple(Const(0) for _ in self.corner[name][1:])
        copy = Copy(
            self.boxes[name],
            (self.own_slot, *zero),
            source,
            (self.next, *self.corner[name][1:]),
            tuple(self.count[name][1:]),
            is_async=True,
        )
        value = self.position + (1 - self.stream.grid(name).first)
        body = lets([(self.own_slot, self._slot(name, self.next))], copy)
        return self._within(self.next, value, self.corner[name][0], self._box_end(name), body)

    # -- statements -------------------------------------------------------------------------------

    def _computed_on(
        self, own: StencilStatement, starts: Sequence[Expr], stops: Sequence[Expr]
    ) -> Stmt:
        at = [one.name for one in self.stencil.statements].index(own.name)
        self.plane = self.at[0] if own.iterators[0] else own.shifts[0]
        self.used = {}
        body: Stmt = self._instance(own, self.at)
        for k in reversed(range(1, len(self.at))):
            body = loop(self.at[k], starts[k], stops[k], body)
        slots = [
            (slot, self._slot(name, self.at[0] + distance))
            for (name, distance), slot in self.used.items()
        ]
        late = self.step * self.stream.rate + self.stream.delays[at]
        body = lets(slots, body)
        return self._within(self.at[0], self.position - late, starts[0], stops[0], body)

    def _moved(self, array: str, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """Subscripts of a window for those of a grid, in a statement."""
        distance = normal(index[0] - self.plane)
        assert isinstance(distance, Const)
        key = array, int(distance.value.real)
        if key not in self.slots:
            self.slots[key] = self._name(f"{array}_slot")
        self.used[key] = self.slots[key]
        return (self.slots[key], *self._in_plane(array, index[1:]))

    def _in_plane(self, array: str, index: Sequence[Expr]) -> tuple[Expr, ...]:
        pairs = zip(index, self.corner[array][1:], strict=True)
        return tuple(normal(entry - corner) for entry, corner in pairs)

    # -- results ----------------------------------------------------------------------------------

    def _put(self, name: str, target: str) -> Stmt:
        """The elements of a tile in a plane that has its last values go to a grid.

        DMA takes rows without gaps from the scratchpad: several are packed first.
        """
        rank = len(self.tile)
        shape = tuple(self._inside(k) for k in range(1, rank))
        start = self._in_plane(name, self.tile[1:])
        there = (self.at[0], *self.tile[1:])
        packed = self.packed_planes[name]
        if rank == 2:
            source = (self.own_slot, *start)
            body: Stmt = Copy(target, there, self.boxes[name], source, shape, is_async=True)
        else:
            index = tuple(normal(x + at) for x, at in zip(start, self.at[1:], strict=True))
            dtype = self.program.array(name).dtype
            value = Load(self.boxes[name], (self.own_slot, *index), dtype)
            body = Store(packed, tuple(self.at[1:]), value)
            for k in reversed(range(1, rank)):
                body = loop(self.at[k], 0, shape[k - 1], body)
            zero = tuple(Const(0) for _ in shape)
            body = seq(body, Copy(target, there, packed, zero, shape, is_async=True))
        last = self.position - self._put_delay(self.stream.grid(name))
        body = lets([(self.own_slot, self._slot(name, self.at[0]))], body)
        stop = normal(self.tile[0] + self._inside(0))
        return self._within(self.at[0], last, self.tile[0], stop, body)

    def _put_made(self, name: str) -> Stmt:
        """Those of a grid that is made in every step, where its statement writes them."""
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        rank = len(self.tile)
        sides = zip(self.tile, self.tiles.sizes, writer.low, writer.stop, strict=True)
        bounds = [(normal(at.max(low)), normal((at + size).min(stop)))
                  for at, size, low, stop in sides]  # fmt: skip
        low, stop = zip(*bounds, strict=True)
        place = (*self.at[1 : rank - 1], low[-1])
        width = normal(stop[-1] - low[-1])
        source = (self.own_slot, *self._in_plane(name, place))
        copy = Copy(name, (self.at[0], *place), self.boxes[name], source, (width,), is_async=True)
        body: Stmt = If(Binary("gt", width, Const(0)), copy)
        for k in reversed(range(1, rank - 1)):
            body = loop(self.at[k], low[k], stop[k], body)
        body = lets([(self.own_slot, self._slot(name, self.at[0]))], body)
        value = self.position - self._put_delay(self.stream.grid(name))
        return self._within(self.at[0], value, low[0], stop[0], body)

    # -- edges ------------------------------------------------------------------------------------

    def _rows_beside(self, name: str) -> list[tuple[str, Expr, Expr]]:
        """Rows of a box that nobody writes: their strip, the first one, one past the last."""
        if len(self.at) == 2:
            return []
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        start = self.corner[name][1]
        end = normal(start + self.count[name][1])
        before, behind = self._edges(name)[0]
        found: list[tuple[str, Expr, Expr]] = []
        if before:
            stop = normal(end.min(writer.low[1]))
            found.append((self.strips[name, "before"], start, stop))
        if behind:
            found.append((self.strips[name, "behind"], normal(start.max(writer.stop[1])), end))
        return found

    def _edges_ahead(self, name: str) -> Stmt:
        """Rows and columns of the next plane that nobody writes begin to come to their strips."""
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        corner, count = self.corner[name], self.count[name]
        parts: list[Stmt] = []
        for strip, start, stop in self._rows_beside(name):
            rows = (normal(stop - start), count[-1])
            first = (self.next, start, corner[-1])
            copy = Copy(strip, (Const(0), Const(0)), name, first, rows, is_async=True)
            parts.append(If(Binary("lt", start, stop), copy))
        if many := sum(self._edges(name)[-1]):
            strip = self.strips[name, "beside"]
            shape: tuple[Expr, ...] = (*count[1:-1], Const(many))
            zero = tuple(Const(0) for _ in shape)
            place: tuple[Expr, ...] = (self.next, *corner[1:-1], Const(0))
            copy = Copy(strip, zero, self.other[name], place, shape, is_async=True)
            end = normal(corner[-1] + count[-1])
            touches = Binary(
                "or", Binary("lt", corner[-1], writer.low[-1]), Binary("gt", end, writer.stop[-1])
            )
            parts.append(If(touches, copy))
        if not parts:
            return Block(())
        value = self.position + (1 - self.stream.grid(name).first)
        low = normal(corner[0].max(writer.low[0]))
        stop = normal(self._box_end(name).min(writer.stop[0]))
        return self._within(self.next, value, low, stop, seq(*parts))

    def _edged(self, name: str) -> Stmt:
        """What nobody writes of a plane is put to its slot before the plane is made."""
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        corner, count = self.corner[name], self.count[name]
        dtype, rank = self.program.array(name).dtype, len(self.at)
        zero = tuple(Const(0) for _ in corner[1:])
        whole = Copy(
            self.boxes[name], (self.own_slot, *zero), name, (self.at[0], *corner[1:]),
            tuple(count[1:]),
        )  # fmt: skip
        parts: list[Stmt] = []
        for strip, start, stop in self._rows_beside(name):
            index = self._in_plane(name, self.at[1:])
            value = Load(strip, (normal(self.at[1] - start), index[-1]), dtype)
            body: Stmt = Store(self.boxes[name], (self.own_slot, *index), value)
            end = normal(corner[-1] + count[-1])
            body = loop(self.at[-1], corner[-1], end, body)
            parts.append(loop(self.at[1], start, stop, body))
        first, end = corner[-1], normal(corner[-1] + count[-1])
        before, behind = self._edges(name)[-1]
        for many, start, stop, base in (
            (before, first, normal(end.min(writer.low[-1])), self.stencil.start[-1]),
            (behind, normal(first.max(writer.stop[-1])), end, writer.stop[-1] - before),
        ):
            if not many:
                continue
            index = self._in_plane(name, self.at[1:])
            strip = self.strips[name, "beside"]
            value = Load(strip, (*index[:-1], normal(self.at[-1] - base)), dtype)
            body = Store(self.boxes[name], (self.own_slot, *index), value)
            body = loop(self.at[-1], start, stop, body)
            for k in reversed(range(1, rank - 1)):
                body = loop(self.at[k], corner[k], normal(corner[k] + count[k]), body)
            parts.append(body)
        outside = Binary(
            "or",
            Binary("lt", self.at[0], writer.low[0]),
            Binary("ge", self.at[0], writer.stop[0]),
        )
        chosen = If(outside, whole, seq(*parts) if parts else None)
        slotted = lets([(self.own_slot, self._slot(name, self.at[0]))], chosen)
        made = self.position - self.stream.grid(name).first
        return self._within(self.at[0], made, corner[0], self._box_end(name), slotted)
