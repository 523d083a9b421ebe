"""What overlapped tiles of a stencil have in common on meshes and on GPUs.

    made_start = made                                    grids of which only borders are read
    for block in range(0, blocks, 2):
        for source, target in (grid, grid_next), (grid_next, grid):
            for tile:
                box = source[tile and what its steps need around it]
                for step: S1; S2; ...                    on box, on less of it from step to step
                target[tile] = box

There is an even number of blocks, of at most `steps` steps each, so that the last one leaves its
values in the grids of the program. The steps of block b are those from (b * all) // blocks on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, Space, Stmt, Store
from loopwright.ir.program import Array, Program
from loopwright.ir.time_stencil import Growth, StencilStatement, TimeTiles
from loopwright.ir.visit import fresh_name, rewrite, substitute
from loopwright.lower.buffers import scalar_names
from loopwright.lower.build import lets, loop, seq
from loopwright.lower.linear_forms import normal

__all__ = ["TimeTileWriter", "scratchpad_box"]


class TimeTileWriter(ABC):
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
        self.lines = {name: self._name(f"{name}_box").name for name in self.stencil.lines}
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

    @abstractmethod
    def _phase(self, block: Expr, *, is_there: bool) -> Stmt:
        """One block of steps; `is_there`: from the grids of the program to the others."""

    @abstractmethod
    def _borders(self) -> Stmt:
        """Copies of the grids that are made in every step, for what nobody writes of them."""

    @abstractmethod
    def _computed_on(
        self, own: StencilStatement, starts: Sequence[Expr], stops: Sequence[Expr]
    ) -> Stmt:
        """The instances of a statement that write a box of elements."""

    def _sources(self, *, is_there: bool) -> dict[str, str]:
        """Where a block of steps reads its grids; `is_there`: from those of the program."""
        stencil = self.stencil
        return {
            name: name if name in stencil.fixed or (name in stencil.carried and is_there)
            else self.other[name]
            for name, _ in stencil.boxes
        }  # fmt: skip

    def _limits(self, block: Expr) -> list[tuple[Var, Expr]]:
        """The first step of a block, and their number."""
        every = self.stencil.stop - self.stencil.first
        first = normal(every * block // self.blocks)
        stop = normal(every * (block + 1) // self.blocks)
        return [(self.first, first), (self.steps, normal(stop - self.first))]

    def _inside(self, k: int) -> Expr:
        """Elements of a tile along a dimension."""
        return normal((self.stencil.end[k] - self.tile[k]).min(self.tiles.sizes[k]))

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

    def _is_read(self, name: str) -> Expr:
        """Whether some of the box of a grid that is made in every step is written by nobody."""
        (writer,) = (own for own in self.stencil.statements if own.array == name)
        beside: Expr = Const(False, BOOL)
        sides = zip(self.corner[name], self.count[name], writer.low, writer.stop, strict=True)
        for at, by, low, stop in sides:
            for test in (Binary("lt", at, low), Binary("gt", normal(at + by), stop)):
                beside = test if beside == Const(False, BOOL) else Binary("or", beside, test)
        return beside

    def _updated(self, own: StencilStatement) -> Stmt:
        """One statement of a step, on what the rest of the block needs of it."""
        left = normal(self.steps - 1 - self.step)
        starts: list[Expr] = []
        stops: list[Expr] = []
        for k, (size, tile) in enumerate(zip(self.tiles.sizes, self.tile, strict=True)):
            low = tile - _grown(own.region.low[k], left)
            high = tile + size + _grown(own.region.high[k], left)
            starts.append(normal(low.max(own.low[k])))
            stops.append(normal(high.min(own.stop[k])))
        return self._computed_on(own, starts, stops)

    def _instance(self, own: StencilStatement, at: Sequence[Expr]) -> Store:
        """A statement for the element of its grid with these subscripts."""
        stencil = self.stencil
        statement = self.program.statement(own.name)
        values: dict[str, Expr] = {stencil.time: normal(stencil.first + self.first + self.step)}
        for place, iterator, shift in zip(at, own.iterators, own.shifts, strict=True):
            if iterator:
                values[iterator] = normal(place - shift)
        value = self._in_boxes(substitute(statement.value, values))
        index = tuple(substitute(entry, values) for entry in statement.write.index)
        return Store(self.boxes[own.array], self._moved(own.array, index), value, own.name)

    def _moved(self, array: str, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """Subscripts of a box for those of a grid."""
        pairs = zip(index, self.corner[array], strict=True)
        return tuple(normal(entry - corner) for entry, corner in pairs)

    def _in_boxes(self, value: Expr) -> Expr:
        """An expression over the grids, over their boxes."""

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.array in self.corner:
                index = self._moved(node.array, node.index)
                return replace(node, array=self.boxes[node.array], index=index)
            if isinstance(node, Load) and node.array in self.lines:
                return replace(node, array=self.lines[node.array], index=(self.step,))
            return node

        return rewrite(value, change)


def scratchpad_box(
    dtype: DType, name: str, extents: Sequence[int], width: Expr
) -> tuple[Buffer, tuple[Expr, ...]]:
    """Memory of a box in the scratchpad, whose rows have `width` elements and no gaps."""
    strides: list[Expr] = [Const(1)]
    if len(extents) > 1:
        strides.insert(0, width)
    for extent in reversed(extents[1:-1]):
        strides.insert(0, normal(strides[0] * extent))
    box = Buffer(name, dtype, tuple(strides), Space.SCRATCHPAD, writable=True)
    return box, tuple(map(Const, extents))


def _grown(growth: tuple[int, int], steps: Expr) -> Expr:
    base, rate = growth
    return normal(steps * rate + base)


def _beyond(growth: tuple[int, int], steps: Expr) -> Expr:
    """Elements beyond a tile; none where that would be less."""
    found = _grown(growth, steps)
    return normal(found.max(0)) if growth[0] < 0 else found
