"""Stencils in overlapped tiles as a LoopNest for a GPU (lower/tiles/time_tile_writer).

    block x for block.x in range(tiles): alloc shared A_box, B_box: thread x: thread y:
        A_box = A[tile and what its steps need around it]
        barrier
        for step: S1 on the boxes; barrier; S2; barrier; ...
        A_next[tile] = A_box

One launch for each block of steps. The threads of a block take the elements of a box in turns: rows
along y, columns along x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Buffer,
    For,
    If,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.program import Program
from loopwright.ir.time_stencil import StencilStatement, TimeTiles
from loopwright.lower.buffers import argument_buffers, scalar_names
from loopwright.lower.build import lets, loop, seq, tiles
from loopwright.lower.grid_nests.map_to_grid import coordinate
from loopwright.lower.linear_forms import normal
from loopwright.lower.tiles.time_tile_writer import TimeTileWriter

__all__ = ["lower_grid_time_tiles"]

_AXES = (Axis.X, Axis.Y)  # of threads, along the last dimension and the one before it
_BLOCK = coordinate(Mark.BLOCK, Axis.X)
_MEET = Barrier(BarrierScope.BLOCK)


def lower_grid_time_tiles(program: Program, tiles: TimeTiles) -> LoopNest:
    """The nest of a program that is one stencil, in overlapped tiles."""
    assert tiles.threads is not None
    body = _Writer(program, tiles, tiles.threads).nest()
    return LoopNest(program.name, argument_buffers(program), scalar_names(program), body)


class _Writer(TimeTileWriter):
    def __init__(self, program: Program, tiles: TimeTiles, threads: tuple[int, int]) -> None:
        super().__init__(program, tiles)
        self.threads = tuple(reversed(threads))  # along x and y
        self.values = [self._name(f"value{r}") for r in range(tiles.each)]
        self.one = self._name("row" if self._ranks > 1 else "element")
        self.lines.clear()  # one element of them for a step: all threads read it in one access

    def _phase(self, block: Expr, *, is_there: bool) -> Stmt:
        stencil = self.stencil
        source = self._sources(is_there=is_there)
        parts = [self._brought(name, source[name]) for name, _ in stencil.boxes]
        parts.append(_MEET)
        steps = [part for own in stencil.statements for part in (self._updated(own), _MEET)]
        parts.append(loop(self.step, 0, self.steps, seq(*steps)))
        parts += [
            self._put(name, self.other[name] if is_there else name) for name in stencil.carried
        ]
        if not is_there and stencil.made:
            puts = seq(*(self._put_made(name) for name in stencil.made))
            parts.append(If(Binary("eq", normal(block + 1), self.blocks), puts))
        bound = [pair for name, growth in stencil.boxes for pair in self._bounds(name, growth)]
        boxes = [name for name, _ in stencil.boxes]
        return lets(self._limits(block), self._kernel(lets(bound, seq(*parts)), boxes))

    def _kernel(self, body: Stmt, boxes: Sequence[str] = ()) -> Stmt:
        """A grid of blocks, one for each tile, with boxes in their shared memory."""
        counts = [
            normal(tiles(end - start, size))
            for start, end, size in zip(
                self.stencil.start, self.stencil.end, self.tiles.sizes, strict=True
            )
        ]
        every: Expr = Const(1)
        rest: Expr = Var(_BLOCK)
        bound: list[tuple[Var, Expr]] = []
        for k in reversed(range(len(counts))):
            number = rest if k == 0 else rest % counts[k]
            rest = rest // counts[k]
            bound.append(
                (self.tile[k], normal(self.stencil.start[k] + number * self.tiles.sizes[k]))
            )
            # Grids without elements have no tiles: the product of two negative counts is none.
            every = every * counts[k].max(0)
        body = lets(bound, body)
        for axis, count in zip(_AXES[: self._ranks], self.threads, strict=False):
            name = coordinate(Mark.THREAD, axis)
            body = For(name, Const(0), Const(count), body, Const(1), Mark.THREAD, axis=axis)
        for name in reversed(boxes):
            body = Alloc(*self._shared(name), body)
        return For(_BLOCK, Const(0), normal(every), body, Const(1), Mark.BLOCK, axis=Axis.X)

    @property
    def _ranks(self) -> int:
        """Dimensions along which threads lie."""
        return min(len(self.tile), len(_AXES))

    def _shared(self, name: str) -> tuple[Buffer, tuple[Expr, ...]]:
        extents = self.tiles.extents(name)
        strides = [1]
        for extent in reversed(extents[1:]):
            strides.insert(0, strides[0] * extent)
        dtype = self.program.array(name).dtype
        steps = tuple(map(Const, strides))
        box = Buffer(self.boxes[name], dtype, steps, Space.SHARED, writable=True)
        return box, tuple(map(Const, extents))

    def _along(self, k: int, start: Expr, stop: Expr, body: Stmt) -> Stmt:
        """Threads take the elements of the last two dimensions in turns."""
        axis = len(self.tile) - 1 - k
        if axis >= self._ranks:
            return loop(self.at[k], start, stop, body)
        own = Var(coordinate(Mark.THREAD, _AXES[axis]))
        return loop(self.at[k], normal(start + own), stop, body, self.threads[axis])

    def _computed_on(
        self, own: StencilStatement, starts: Sequence[Expr], stops: Sequence[Expr]
    ) -> Stmt:
        """Every thread computes `each` elements one behind the other, then stores them.

        What they read in common is loaded once: no store stands between.
        """
        each = self.tiles.each
        rank = len(self.at)
        along = rank - self._ranks  # the dimension of the neighbours
        if each == 1 or not own.iterators[along]:
            return self._over(starts, stops, self._instance(own, self.at))

        def at(place: Expr) -> list[Expr]:
            return [place if k == along else x for k, x in enumerate(self.at)]

        first, stop = self.at[along], stops[along]
        found = [self._instance(own, at(normal(first + r))) for r in range(each)]
        pairs = [
            (replace(value, dtype=store.value.dtype), store)
            for value, store in zip(self.values, found, strict=True)
        ]
        stores = seq(*(replace(store, value=value) for value, store in pairs))
        whole = lets([(value, store.value) for value, store in pairs], stores)
        rest: Stmt = self._instance(own, at(self.one))
        for k in reversed(range(along + 1, rank)):
            whole = self._along(k, starts[k], stops[k], whole)
            rest = self._along(k, starts[k], stops[k], rest)
        last = normal((first + each).min(stop))
        body: Stmt = If(
            Binary("le", normal(first + each), stop), whole, loop(self.one, first, last, rest)
        )
        axis = self._ranks - 1
        thread = Var(coordinate(Mark.THREAD, _AXES[axis]))
        step = each * self.threads[axis]
        body = loop(first, normal(starts[along] + thread * each), stop, body, step)
        for k in reversed(range(along)):
            body = loop(self.at[k], starts[k], stops[k], body)
        return body

    def _over(self, low: Sequence[Expr], stop: Sequence[Expr], body: Stmt) -> Stmt:
        for k in reversed(range(len(self.at))):
            body = self._along(k, low[k], stop[k], body)
        return body

    def _brought(self, name: str, source: str) -> Stmt:
        """A box; of grids that are made in every step only where nobody writes some of it."""
        corner, count = self.corner[name], self.count[name]
        value = Load(source, tuple(self.at), self.program.array(name).dtype)
        store = Store(self.boxes[name], self._moved(name, self.at), value)
        ends = [normal(at + by) for at, by in zip(corner, count, strict=True)]
        whole = self._over(corner, ends, store)
        return If(self._is_read(name), whole) if name in self.stencil.made else whole

    def _put(self, name: str, target: str) -> Stmt:
        """The elements of a tile from its box to a grid."""
        ends = [normal(at + self._inside(k)) for k, at in enumerate(self.tile)]
        return self._over(self.tile, ends, self._kept(name, target))

    def _put_made(self, name: str) -> Stmt:
        """Those of a grid that is made in every step, where its statement writes them."""
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        sides = zip(self.tile, self.tiles.sizes, writer.low, writer.stop, strict=True)
        bounds = [(at.max(low), (at + size).min(stop)) for at, size, low, stop in sides]
        low, stop = zip(*((normal(x), normal(y)) for x, y in bounds), strict=True)
        return self._over(low, stop, self._kept(name, name))

    def _kept(self, name: str, target: str) -> Stmt:
        value = Load(self.boxes[name], self._moved(name, self.at), self.program.array(name).dtype)
        return Store(target, tuple(self.at), value)

    def _borders(self) -> Stmt:
        parts: list[Stmt] = []
        ends = [normal(at + self._inside(k)) for k, at in enumerate(self.tile)]
        for name in self.stencil.made:
            value = Load(name, tuple(self.at), self.program.array(name).dtype)
            store = Store(self.other[name], tuple(self.at), value)
            parts.append(self._kernel(self._over(self.tile, ends, store)))
        return seq(*parts)
