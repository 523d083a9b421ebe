"""A contraction on a GPU as a LoopNest: tiles in shared memory, register tiles in threads.

    block y, z for g in batch
      block x for tiles of out                in bands of rows, for the second-level cache
        thread x
          tile 0 to shared memory
          for t in tiles along p but the last
            load tile t + 1 into registers
            for p in tile t: rank-1 update of thread_rows x thread_columns accumulators
            registers to the other tile in shared memory
          the last tile, and the steps that do not fill one
          accumulators to out

With more than two stages tiles are copied to shared memory asynchronously, `stages` - 1 ahead.
With `uses_mma` the warp takes four steps at a time by its matrix unit: a thread has the rows and
columns that the unit gives to its lane. Steps that do not fill a tile go one by one as above.

Bundles are linear loops, as in macro_kernel: element (i, p) of left lies at left_g[g] + left_i[i] +
left_p[p]. With several slices, groups of threads take different steps of each tile, and their sums
are joined through shared memory in the end (grid_ending). Rows and columns beyond the edge repeat
the last ones: they are computed and not stored. Products of an element are added in the order of p,
those of a slice by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Binary, Const, Expr, Load, Var, cast
from loopwright.ir.gpu_machine import MOST_BLOCKS
from loopwright.ir.grid_check import kernel_fault
from loopwright.ir.grid_kernel import WARP, GridKernel
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
    Wait,
    WarpMma,
)
from loopwright.lower.build import (
    lets,
    loop,
    needed,
    nothing,
    repeated,
    seq,
    tiles,
    to_and_fro,
    unrolled,
)
from loopwright.lower.contraction_nests.combine import combine, scaled, start_from, zero
from loopwright.lower.contraction_nests.operand_layout import Layout, Place, bind, inner_scalars
from loopwright.lower.grid_nests.computed_again import computed_again
from loopwright.lower.grid_nests.grid_ending import SLICE, Ending
from loopwright.lower.grid_nests.grid_tables import FIRST_STEP, GridTables, product_arguments
from loopwright.lower.grid_nests.operand_tile import MMA_STEPS, THREAD, OperandTile, in_z_order

__all__ = ["grid_product", "lower_grid_product", "product_scalars"]

_PLACES = ("left_g", "right_g", "out_g", "left_i", "out_i", "right_j", "out_j", "left_p", "right_p")
_BAND = 8  # rows of tiles that blocks go through column by column
_MOST_BYTES = 16  # that one instruction moves
_MEET = Barrier(BarrierScope.BLOCK)

G, M, N, K = (Var(name) for name in "GMNK")
t, p = Var("t"), Var("p")
row, column = Var("row"), Var("column")  # elements of the thread


def product_scalars(kernel: GridKernel) -> tuple[str, ...]:
    """The sizes and places that a launch of the kernel takes.

    Where the reduction is split, `steps` of it go in `parts` of `chunk`, whose sums lie `out_part`
    elements apart.
    """
    steps = ("steps", "chunk", "parts", "out_part") if kernel.variant.is_split else ("K",)
    return ("G", "M", "N", *steps, *_PLACES, *inner_scalars(kernel.variant.strided, _PLACES))


def lower_grid_product(kernel: GridKernel, name: str) -> LoopNest:
    """The LoopNest of a contraction over operands of any rank."""
    layout = GridTables(kernel)
    bases = {x: layout.at(x, "g", _G).index[0] for x in ("left", "right", "out")}
    g, number = _G, Var("block.z") * MOST_BLOCKS + Var("block.y")
    batch: list[tuple[Var, Expr]] = [(g, number)]
    count: Expr = G
    is_there = Binary("lt", g, G)
    if kernel.variant.is_split:
        parts, chunk = Var("parts"), Var("chunk")
        batch = [(_PART, number // G), (g, number % G), (FIRST_STEP, _PART * chunk)]
        batch.append((K, (Var("steps") - FIRST_STEP).min(chunk)))
        count, is_there = G * parts, Binary("lt", _PART, parts)
        bases["out"] += _PART * Var("out_part")
        if kernel.variant.has_stride("p"):
            for x in ("left", "right"):
                bases[x] += layout.at(x, "p", FIRST_STEP).index[0]
    bound = [(Var(f"{x}_base"), base) for x, base in bases.items()]
    writer = _Writer(kernel, layout, bases=bound)
    tile = writer.tile_of_block()
    tile = If(is_there, lets(needed(bound, tile) if kernel.variant.ends_anew else bound, tile))
    body = writer.blocks(lets(batch, tile))
    body = For("block.y", Const(0), count.min(MOST_BLOCKS), body, _ONE, Mark.BLOCK, axis=Axis.Y)
    body = For("block.z", Const(0), tiles(count, MOST_BLOCKS), body, _ONE, Mark.BLOCK, axis=Axis.Z)
    nest = LoopNest(name, product_arguments(kernel), product_scalars(kernel), body)
    return replace(nest, registers=kernel.variant.registers)


def grid_product(
    kernel: GridKernel,
    layout: Layout,
    is_stored: Callable[[Expr, Expr], Expr] | None = None,
    around: Callable[[Stmt], Stmt] = lambda body: body,
) -> Stmt:
    """The kernel of a product for sizes M, N, K in scope, over operands that a layout finds.

    Elements of out for which `is_stored` does not hold, by row and column, are left as they are.
    `around` is put around what a thread does.
    """
    writer = _Writer(kernel, layout, is_stored)
    return writer.blocks(around(writer.tile_of_block()))


_ONE = Const(1)
_OWN = Var("thread_in_slice")
# Of the matrix unit: rows (or columns) of a factor; the lane's own step and column.
_MMA_ROWS = 8
_MMA_STEP, _MMA_COLUMN = Var("lane_step"), Var("lane_column")
_G = Var("g")  # number of the product in its batch
_PART = Var("part")  # of a reduction that is split


class _Writer:
    """Writes what a thread does for one tile of out."""

    def __init__(
        self,
        kernel: GridKernel,
        layout: Layout,
        is_stored: Callable[[Expr, Expr], Expr] | None = None,
        bases: Sequence[tuple[Var, Expr]] = (),
    ) -> None:
        told = kernel_fault(kernel)
        if told is not None:
            raise UsageError("no such kernel of a product", found=str(kernel.variant), hint=told)
        self.kernel = kernel
        self.layout = layout
        self.is_stored = is_stored
        self.bases = bases  # where operands begin, by what is known outside
        # Whether steps of p lead equally far: then the first step of a run is part of its place.
        self.is_linear = not isinstance(layout, GridTables) or kernel.variant.has_stride("p")
        # Tables of tiles that are all alike: here, too.
        by_tiles = isinstance(layout, GridTables) and kernel.variant.by_tiles
        self.tables = layout if by_tiles and isinstance(layout, GridTables) else None
        self.runs: dict[tuple[str, int], Place] = {}  # where the runs of the thread begin
        # Whether sums are of 64 bits or more, and computed by vector units.
        self.is_of_64_bits = kernel.algebra.accumulator.bytes > 4 and not kernel.variant.uses_mma
        v = self.variant = kernel.variant
        self.left, self.right = self._side("left"), self._side("right")
        self.ending = Ending(kernel, layout, self.left, self.right)
        assert is_stored is None or not v.joins

    def _side(self, name: str) -> OperandTile:
        v, is_left = self.variant, name == "left"
        dtype = self.kernel.left if is_left else self.kernel.right
        extent = v.rows if is_left else v.columns
        along_p = v.left_along_p if is_left else v.right_along_p
        rows, pitch = v.tile_shape(name, dtype.bytes)
        return OperandTile(
            name=name,
            dtype=dtype,
            bundle="i" if is_left else "j",
            size=M if is_left else N,
            start=Var("tile_i" if is_left else "tile_j"),
            tile=extent,
            depth=v.depth,
            along_p=along_p,
            width=v.left_width if is_left else v.right_width,
            threads=v.threads,
            own=v.thread_rows if is_left else v.thread_columns,
            piece=v.left_piece if is_left else v.right_piece,
            place=Var("thread_i" if is_left else "thread_j"),
            rows=rows,
            pitch=pitch,
            apart=v.left_apart if is_left else v.right_apart,
            lanes=v.turned_lanes(name, dtype.bytes),
            for_mma=v.uses_mma,
        )

    def blocks(self, body: Stmt) -> Stmt:
        """`body`, which every thread runs, for all tiles of out."""
        v = self.variant
        number = tiles(M, v.rows) * tiles(N, v.columns)
        body = For("thread.x", Const(0), Const(v.threads), body, _ONE, Mark.THREAD, axis=Axis.X)
        shape: tuple[Expr, ...]
        for side in (self.right, self.left):
            shape = (Const(v.stages), Const(side.rows), Const(side.pitch))
            strides = (Const(side.rows * side.pitch), Const(side.pitch), _ONE)
            body = Alloc(Buffer(side.shared, side.dtype, strides, Space.SHARED), shape, body)
        if v.joins:
            body = self.ending.allocated(body)
        if not v.in_registers:
            sums, shape = self._sums()
            body = Alloc(sums, shape, body)
        grid = For("block.x", Const(0), number, body, _ONE, Mark.BLOCK, axis=Axis.X)
        return replace(grid, resident=v.resident)

    def tile_of_block(self) -> Stmt:
        places, runs = self._places(), self._places_of_runs()
        start = self._initialise()
        # Old elements of out are read before places of runs are known: both take registers.
        is_first = self.kernel.algebra.initial is not Initial.ZERO and not self.variant.joins
        work = self._all_steps()
        body = seq(start, lets(runs, work)) if is_first else lets(runs, seq(start, work))
        for side in (self.right, self.left):
            own = Buffer(f"{side.name}_own", side.dtype, (_ONE,), Space.REGISTER)
            following = Buffer(
                f"{side.name}_next", side.dtype, (Const(side.width), _ONE), Space.REGISTER
            )
            body = Alloc(own, (Const(side.own),), body)
            if self.variant.stages == 2 or self.tables is None:  # else no tile passes through them
                body = Alloc(following, (Const(side.runs), Const(side.width)), body)
        if self.variant.in_registers:
            sums, shape = self._sums()
            body = Alloc(sums, shape, body)
        return lets(places, body)

    def _sums(self) -> tuple[Buffer, tuple[Expr, ...]]:
        """Memory of the accumulators, and its extents: registers, or those of all threads."""
        v, dtype = self.variant, self.kernel.algebra.accumulator
        shape: tuple[Expr, ...] = (Const(v.thread_rows), Const(v.thread_columns))
        if v.in_registers:
            strides: tuple[Expr, ...] = (Const(v.thread_columns), _ONE)
            return Buffer("sums", dtype, strides, Space.REGISTER), shape
        strides = (Const(v.thread_columns * v.threads), Const(v.threads), _ONE)
        buffer = Buffer("sums", dtype, strides, Space.SHARED, is_volatile=True)
        return buffer, (*shape, Const(v.threads))

    def _own(self, at_row: Expr, at_column: Expr) -> tuple[Expr, ...]:
        """The subscripts of an accumulator of the thread; neighbours use different banks."""
        here = (at_row, at_column)
        return here if self.variant.in_registers else (*here, THREAD)

    # -- places -----------------------------------------------------------------------------------

    def _places(self) -> list[tuple[Var, Expr]]:
        """Where the tile of the block lies, and the thread in it."""
        v = self.variant
        across, down = tiles(N, v.columns), tiles(M, v.rows)
        number, band, height = Var("block.x"), Var("band"), Var("height")
        inside = number - band * (across * _BAND)
        bound: list[tuple[Var, Expr]] = [
            (band, number // (across * _BAND)),
            (height, (down - band * _BAND).min(_BAND)),
            (self.left.start, (band * _BAND + inside % height) * v.rows),
            (self.right.start, inside // height * v.columns),
        ]
        return bound + self._place_of_thread()

    def _places_of_runs(self) -> list[tuple[Var, Expr]]:
        """The runs that the thread loads."""
        bound: list[tuple[Var, Expr]] = []
        for side in (self.left, self.right):
            last = side.size - (1 if side.along_p else side.width)
            for r in range(side.runs):
                at, step = side.run(r)
                bound.append((Var(f"{side.name}_step{r}"), step))
                bound.append((Var(f"{side.name}_at{r}"), side.column(r)))
                along = self.layout.at(side.name, side.bundle, (side.start + at).min(last))
                place = self.layout.base(side.name) + along
                first = Var(f"{side.name}_step{r}")
                if self.tables is not None:
                    place = place + self.tables.inside(side.name, first)
                elif self.is_linear:
                    place = place + self.layout.at(side.name, "p", first)
                self.runs[side.name, r], bindings = bind(f"{side.name}_run{r}", place)
                bound += bindings
        return bound

    def _place_of_thread(self) -> list[tuple[Var, Expr]]:
        """Threads of a warp lie in a rectangle of the tile, so that few elements serve them."""
        v = self.variant
        along = v.columns // v.thread_columns
        down = _MMA_ROWS if v.uses_mma else v.warp_rows
        lanes = WARP // down
        bound: list[tuple[Var, Expr]] = []
        own: Var = THREAD
        if v.slices > 1:
            own = _OWN
            bound = [(SLICE, THREAD // v.group), (_OWN, THREAD % v.group)]
        if v.group % WARP or along % lanes:
            return [
                *bound,
                (self.left.place, own // along),
                (self.right.place, own % along),
            ]
        warp, lane, warps = own // WARP, own % WARP, along // lanes
        if v.uses_mma:
            at, across = lane // lanes, lane % lanes
            bound.append((_MMA_STEP, across))
            bound.append((_MMA_COLUMN, warp % warps * _MMA_ROWS + at))
        elif self.kernel.algebra.accumulator.bytes > 4:
            # Reads of shared memory bound products of float64; others are faster without.
            at, across = in_z_order(lane, down)
        else:
            at, across = lane // lanes, lane % lanes
        return [
            *bound,
            (self.left.place, warp // warps * down + at),
            (self.right.place, warp % warps * lanes + across),
        ]

    # -- steps ------------------------------------------------------------------------------------

    def _all_steps(self) -> Stmt:
        """The steps of whole tiles, then those that do not fill one; sums to out."""
        whole, depth = Var("whole"), self.variant.depth
        done = whole * depth
        is_last: Stmt = nothing
        if self.tables is None:  # else tiles are whole
            rest = seq(
                self._fetch(whole, is_last=True),
                _MEET,
                self._put(Const(0)),
                _MEET,
                self._rest(K - done),
            )
            is_last = If(Binary("lt", done, K), rest)
        if self.variant.stages == 2:
            tiles, last = self._by_registers(whole)
            if self.variant.ends_anew:
                tiles = seq(tiles, last)
            else:
                is_last = seq(last, is_last)
        else:
            tiles = self._ahead(whole)
        end: Stmt
        if self.variant.joins:
            end = self.ending.around(is_last)
        else:
            end = seq(is_last, self._write_back())
        if self.variant.ends_anew:
            places = [*self.bases, *self._places(), *self._places_of_runs()]
            given = (M, N, Var("block.x"), THREAD, *((_G, _PART) if self.bases else ()))
            end = computed_again(end, given, places)
        return lets([(whole, K // depth)], seq(tiles, end))

    def _by_registers(self, whole: Expr) -> tuple[Stmt, Stmt]:
        """Two tiles: one is used while the next passes through registers; then the last one."""
        is_there, last = Binary("lt", Const(0), whole), self._steps((whole - 1) % 2)
        first = seq(self._fetch(Const(0)), self._put(Const(0)))
        if self.variant.is_early:
            # The last tile may be loaded once more: no branch comes between loads and their use.
            parts = [self._fetch(Const(1).min(whole - 1)), _MEET]
            body = seq(
                self._steps(t % 2),
                self._put((t + 1) % 2),
                self._fetch((t + 2).min(whole - 1)),
                _MEET,
            )
        else:
            parts = [_MEET]
            body = seq(
                self._fetch(t + 1),
                self._steps(t % 2),
                self._put((t + 1) % 2),
                _MEET,
            )
        tiles = If(is_there, seq(first, *parts, loop(t, 0, whole - 1, body)))
        return tiles, If(is_there, last)

    def _ahead(self, whole: Expr) -> Stmt:
        """A ring of tiles, all but one of them under way.

        At the barrier of step t all threads have tile t, and are done with tile t - 1, in whose
        place the next one comes.
        """
        stages = self.variant.stages
        parts: list[Stmt] = []
        for s in range(stages - 1):
            bring = self._bring(Const(s), Const(s))
            parts += [If(Binary("lt", Const(s), whole), bring), Commit()]
        coming = t + (stages - 1)
        bring = If(Binary("lt", coming, whole), self._bring(coming, coming % stages))
        # Copies come after the first step: with two warps to a scheduler, both of them may have
        # just passed a barrier, and factors are read before addresses are computed.
        early = int(self.is_of_64_bits)
        steps = [self._steps(t % stages, 0, early)] if early else []
        steps += [bring, Commit(), self._steps(t % stages, early)]
        return seq(*parts, loop(t, 0, whole, seq(Wait(stages - 2), _MEET, *steps)))

    def _bring(self, number: Expr, buffer: Expr) -> Stmt:
        """Start to copy tile `number`."""
        parts: list[Stmt] = []
        for side in (self.left, self.right):
            source = self.layout.buffer(side.name)
            for r in range(side.runs):
                step, at = Var(f"{side.name}_step{r}"), Var(f"{side.name}_at{r}")
                place = self._place(side, r, number)
                count, width = (1, side.width) if side.keeps_runs else (side.width, 1)
                parts += [
                    Copy(
                        side.shared,
                        side.cell(buffer, step + q * side.apart, at),
                        source,
                        place.along(q).index,
                        (Const(width),),
                        is_async=True,
                        width=width,
                    )
                    for q in range(count)
                ]
        return seq(*parts)

    def _fetch(self, number: Expr, *, is_last: bool = False) -> Stmt:
        """Load the runs of tile `number` into registers."""
        parts: list[Stmt] = []
        for side in (self.left, self.right):
            for r in range(side.runs):
                place = self._place(side, r, number)
                if is_last:
                    own, first = Var(f"{side.name}_step{r}"), number * self.variant.depth
                    last = K - ((side.width - 1) * side.apart + 1 if side.along_p else 1)
                    place = self._from(side, r, (first + own).min(last) - own)
                parts.append(self._load_run(side, r, place))
        return seq(*parts)

    def _place(self, side: OperandTile, r: int, number: Expr) -> Place:
        """Where run `r` of the thread begins in tile `number`."""
        if self.tables is not None:
            return self.runs[side.name, r] + self.tables.tile(side.name, number)
        return self._from(side, r, number * self.variant.depth)

    def _from(self, side: OperandTile, r: int, first: Expr) -> Place:
        """Where run `r` of the thread begins in the tile whose first step is `first`."""
        own = Const(0) if self.is_linear else Var(f"{side.name}_step{r}")
        return self.runs[side.name, r] + self.layout.at(side.name, "p", first + own)

    def _load_run(self, side: OperandTile, r: int, place: Place) -> Stmt:
        name, source = f"{side.name}_next", self.layout.buffer(side.name)
        value = self.layout.value(side.name, place, side.dtype)
        if value != Load(source, place.index, side.dtype):
            return Store(name, (Const(r), Const(0)), cast(value, side.dtype))
        shape = (Const(side.width),)
        return Copy(name, (Const(r), Const(0)), source, place.index, shape, width=side.width)

    def _put(self, buffer: Expr) -> Stmt:
        """Store the runs to a tile in shared memory, across where they lie along p."""
        parts: list[Stmt] = []
        for side in (self.left, self.right):
            name = f"{side.name}_next"
            for r in range(side.runs):
                step, at = Var(f"{side.name}_step{r}"), Var(f"{side.name}_at{r}")
                if side.keeps_runs:
                    width = Const(side.width)
                    place, source = side.cell(buffer, step, at), (Const(r), Const(0))
                    parts.append(Copy(side.shared, place, name, source, (width,), width=side.width))
                    continue
                for q in range(side.width):
                    value = Load(name, (Const(r), Const(q)), side.dtype)
                    cell = side.cell(buffer, step + q * side.apart, at)
                    parts.append(Store(side.shared, cell, value))
        return seq(*parts)

    def _steps(self, buffer: Expr, first: int = 0, last: int | None = None) -> Stmt:
        """The steps of a whole tile, or some; those of its slice where there are several."""
        depth, slices, copies = self.variant.depth, self.variant.slices, self.variant.copies
        if self.variant.uses_mma:
            at = p * MMA_STEPS + _MMA_STEP
            at = at if slices == 1 else SLICE * (depth // slices) + at
            return repeated(p, depth // (slices * MMA_STEPS), self._mma(buffer, at), copies)
        at = p + first if slices == 1 else SLICE * (depth // slices) + (p + first)
        count = (depth // slices if last is None else last) - first
        turns = [self._turn(side, p + first) for side in (self.left, self.right)]
        return repeated(p, count, self._step(buffer, at, turns), copies)

    def _turn(self, side: OperandTile, step: Expr) -> Expr:
        """The turn of a step of the slice in a tile, as compilers see through it."""
        own, each = self.variant.depth // self.variant.slices, side.steps_of_turn
        turn = step // each if own > each else Const(0)
        if self.variant.slices > 1 and each % own == 0:
            turn = SLICE // (each // own)
        elif self.variant.slices > 1 and own % each == 0:
            turn = SLICE * (own // each) + turn
        elif self.variant.slices > 1:
            turn = (SLICE * own + step) // each
        # Where there are more turns than orders, these come again.
        return turn if self.variant.depth // each == side.lanes else turn % max(1, side.lanes)

    def _mma(self, buffer: Expr, at: Expr) -> Stmt:
        """Four steps of all accumulators of the warp; step `at` is that of the lane's factors."""
        parts: list[Stmt] = []
        v, apart = self.variant, self.right.tile // (self.right.own // 2)
        for r in range(v.thread_rows):
            place = self.left.cell(buffer, at, self.left.element(Const(r)))
            if self.kernel.algebra.scaled:
                factor = scaled(self.kernel, Load(self.left.shared, place, self.left.dtype))
                parts.append(Store("left_own", (Const(r),), factor))
            else:
                parts.append(Copy("left_own", (Const(r),), self.left.shared, place, (_ONE,)))
        for c in range(v.thread_columns // 2):
            place = self.right.cell(buffer, at, _MMA_COLUMN + c * apart)
            parts.append(Copy("right_own", (Const(c),), self.right.shared, place, (_ONE,)))
        for r in range(0, v.thread_rows, 2):
            for c in range(v.thread_columns // 2):
                start = (Const(r), Const(2 * c))
                parts.append(
                    WarpMma("sums", start, "left_own", (Const(r),), "right_own", (Const(c),))
                )
        return seq(*parts)

    def _rest(self, count: Expr) -> Stmt:
        """The steps of the last tile, of which there are `count`; slices take turns."""
        slices = self.variant.slices
        turns = [p // x.steps_of_turn % max(1, x.lanes) for x in (self.left, self.right)]
        return loop(p, SLICE if slices > 1 else 0, count, self._step(Const(0), p, turns), slices)

    def _step(self, buffer: Expr, at: Expr, turns: list[Expr]) -> Stmt:
        """One rank-1 update of the accumulators from row `at` of both tiles."""
        parts: list[Stmt] = []
        for side, turn in zip((self.left, self.right), turns, strict=True):
            piece = 1 if side.is_turned else side.piece
            width = max(1, min(piece, _MOST_BYTES // side.dtype.bytes))
            for first in range(0, side.own, piece):
                place = side.piece_of(buffer, at, turn, first)
                shape, target = (Const(piece),), (Const(first),)
                parts.append(
                    Copy(f"{side.name}_own", target, side.shared, place, shape, width=width)
                )
        algebra = self.kernel.algebra
        left: Expr = Load("left_own", (row,), self.left.dtype)
        if algebra.scaled:
            left = scaled(self.kernel, cast(left, algebra.accumulator))
        right = Load("right_own", (column,), self.right.dtype)
        here = self._own(row, column)
        total = combine(self.kernel, Load("sums", here, algebra.accumulator), left, right)
        rows, columns = self.variant.thread_rows, self.variant.thread_columns
        update: Stmt = Store("sums", here, total)
        if self.is_of_64_bits and rows % 2 == 0:
            # A factor of 64 bits that the next update has, too, is not read again (DFMA: 2 cycles,
            # else 3). Factors of 32 bits are two to a read.
            return seq(*parts, to_and_fro(row, rows, column, columns, update))
        return seq(*parts, unrolled(row, rows, unrolled(column, columns, update)))

    # -- accumulators -----------------------------------------------------------------------------

    def _initialise(self) -> Stmt:
        """Accumulators before the first product; beyond the edge those of the last element."""
        i = (self.left.start + self.left.element(row)).min(M - 1)
        j = (self.right.start + self.right.element(column)).min(N - 1)
        old = Load(self.layout.buffer("out"), self._out(i, j), self.kernel.algebra.out)
        start = zero(self.kernel) if self.variant.joins else start_from(self.kernel, old)
        here = self._own(row, column)
        store: Stmt = Store("sums", here, start)
        if self.is_stored is not None:
            # Elements that are not stored need not exist.
            nothing = Store("sums", here, zero(self.kernel))
            store = If(self.is_stored(i, j), store, nothing)
        inner = unrolled(column, self.variant.thread_columns, store)
        return unrolled(row, self.variant.thread_rows, inner)

    def _write_back(self) -> Stmt:
        algebra, i, j = self.kernel.algebra, Var("out_row"), Var("out_column")
        out = self.layout.buffer("out")
        # Sums that are converted are stored one by one, and those of shared memory.
        is_run = algebra.out == algebra.accumulator and self.variant.in_registers
        width = self.variant.out_width if is_run else 1
        total = Load("sums", self._own(row, column), algebra.accumulator)
        store: Stmt = Store(out, self._out(i, j), cast(total, algebra.out))
        first: Expr = column
        if width > 1:
            first = column * width
            run = (Const(width),)
            store = Copy(out, self._out(i, j), "sums", (row, first), run, width=width)
        if self.is_stored is not None:
            store = If(self.is_stored(i, j), store)
        at = self.right.start + self.right.element(first)
        store = lets([(j, at)], If(Binary("lt", j, N), store))
        store = unrolled(column, self.variant.thread_columns // width, store)
        at = self.left.start + self.left.element(row)
        store = lets([(i, at)], If(Binary("lt", i, M), store))
        return unrolled(row, self.variant.thread_rows, store)

    def _out(self, i: Expr, j: Expr) -> tuple[Expr, ...]:
        layout = self.layout
        return (layout.base("out") + layout.at("out", "i", i) + layout.at("out", "j", j)).index
