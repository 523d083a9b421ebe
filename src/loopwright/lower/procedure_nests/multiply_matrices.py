"""Products of matrices and vectors as loops.

Every element of a product is a chain of fused multiply-adds in the order of the sum, but for inner
products along the fastest axis of both factors: those of rows with a vector have eight chains, a
single one has four times as many where it is long. Tiles of the result stay in registers for a
block of the sum, so that bits depend on neither tiles nor vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, For, If, Mark, Space, Stmt, Store
from loopwright.lower.procedure_nests.build_loops import NestBuilder, block, loops
from loopwright.lower.procedure_nests.contract_matrices import PlanProduct, contracted, is_large
from loopwright.lower.procedure_nests.element_maps import ElementMap
from loopwright.lower.procedure_nests.pairwise_sums import sum_of_neighbours

__all__ = ["lower_product"]

_LANES = 8  # chains of an inner product
_AT_ONCE = 4  # steps of a sum whose results are stored once
_PARTS = 4  # sets of accumulators of a long inner product, whose chains run side by side
_ROWS_AT_ONCE = 4  # inner products whose chains run side by side
_ROWS, _VECTORS = 6, 2  # of a tile in registers
_BLOCK = 256  # steps of a sum for which a tile stays there: what a tile reads fits the first cache
_ZERO, _ONE = Const(0), Const(1)

Element = Callable[[Expr, Expr], Expr]


def lower_product(
    builder: NestBuilder,
    target: ElementMap,
    left: ElementMap,
    right: ElementMap,
    vector_bits: int = 256,
    plan: PlanProduct | None = None,
    taken: Collection[str] = (),
) -> Stmt:
    """The loops of `target[...] = left @ right`; tiles have vectors of `vector_bits`.

    Where `plan` is given, matrices that turn out to be large are multiplied by the kernels it
    chooses; these bind none of the names `taken`.
    """
    return _Product(builder, target, left, right, vector_bits, plan, taken).loops()


class _Product:
    def __init__(
        self,
        builder: NestBuilder,
        target: ElementMap,
        left: ElementMap,
        right: ElementMap,
        vector_bits: int,
        plan: PlanProduct | None,
        taken: Collection[str],
    ) -> None:
        self.builder, self.target, self.left, self.right = builder, target, left, right
        self.plan, self.taken = plan, taken
        self.dtype = target.dtype
        self.lanes = vector_bits // self.dtype.bits
        self.has_row, self.has_column = len(left.axes) > 1, len(right.axes) > 1
        count = len(target.axes) - self.has_row - self.has_column
        self.batch = builder.index(count)
        self.extent = left.shape[-1]  # of the sum

    def loops(self) -> Stmt:
        if self.has_row and self.has_column:
            body = self.matrix()
        elif self.has_row:
            is_fast = self.left.by_memory()[-1] == len(self.left.axes) - 1
            body = self.vector(
                self.left.shape[-2], lambda i, k: self.first(k, i), self.second, is_fast
            )
        elif self.has_column:
            is_fast = self.right.by_memory()[-1] == len(self.right.axes) - 2
            body = self.vector(
                self.right.shape[-1], lambda j, k: self.second(k, j), self.first, is_fast
            )
        else:
            body = self.inner_product((), self.first, self.second)
        order = tuple(range(len(self.batch)))
        return loops(self.batch, self.target.shape, order, body, Mark.SERIAL)

    # -- elements ---------------------------------------------------------------------------------

    def first(self, k: Expr, *row: Expr) -> Expr:
        return self.left.load(_broadcast(self.left, (*self.batch, *row, k), 1 + self.has_row))

    def second(self, k: Expr, *column: Expr) -> Expr:
        index = (*self.batch, k, *column)
        return self.right.load(_broadcast(self.right, index, 1 + self.has_column))

    def store(self, value: Expr, *index: Expr) -> Stmt:
        return Store(self.target.base, self.target.element((*self.batch, *index)), value)

    def now(self, *index: Expr) -> Expr:
        place = self.target.element((*self.batch, *index))
        return Load(self.target.base, place, self.dtype)

    def zero(self) -> Expr:
        number = 0.0 if self.dtype.kind in "fc" else False if self.dtype.kind == "b" else 0
        return Const(number, self.dtype)

    def variable(self) -> Var:
        return self.builder.index(1)[0]

    # -- vectors ----------------------------------------------------------------------------------

    def inner_product(
        self, index: Sequence[Expr], x: Callable[[Expr], Expr], y: Callable[[Expr], Expr]
    ) -> Stmt:
        """One sum of products: several sets of accumulators for what is long, then one."""
        k, part, lane = self.builder.index(3)
        sums, at_once = self.builder.name("lanes"), _PARTS * _LANES
        total = self.builder.cell("total", self.dtype)

        def now(number: Expr) -> Expr:
            return Load(sums, (number, lane), self.dtype)

        def in_lanes(number: Expr, value: Expr) -> Stmt:
            body = Store(sums, (number, lane), value)
            return For(lane.name, _ZERO, Const(_LANES), body, _ONE, Mark.VECTOR)

        def each(stmt: Stmt) -> Stmt:
            return For(part.name, _ZERO, Const(_PARTS), stmt, _ONE, Mark.UNROLL)

        def added(number: Expr, at: Expr) -> Stmt:
            return in_lanes(number, _added(now(number), x(at), y(at), self.dtype))

        long = self.extent - self.extent % at_once
        whole = self.extent - self.extent % _LANES
        joined = sum_of_neighbours([now(Const(number)) for number in range(_PARTS)])
        lanes = [Load(sums, (_ZERO, Const(number)), self.dtype) for number in range(_LANES)]
        rest = total.store(_added(total.load(), x(k), y(k), self.dtype))
        body = block(
            each(in_lanes(part, self.zero())),
            For(k.name, _ZERO, long, each(added(part, k + part * _LANES + lane)), Const(at_once)),
            in_lanes(_ZERO, joined),
            For(k.name, long, whole, added(_ZERO, k + lane), Const(_LANES)),
            total.store(sum_of_neighbours(lanes)),
            For(k.name, whole, self.extent, rest, _ONE),
        )
        registers = Buffer(sums, self.dtype, (Const(_LANES), _ONE), Space.REGISTER, True)
        body = Alloc(registers, (Const(_PARTS), Const(_LANES)), body)
        return total.around(block(body, self.store(total.load(), *index)))

    def inner_products(
        self,
        rows: tuple[Expr, Expr],
        at_once: int,
        matrix: Element,
        vector: Callable[[Expr], Expr],
    ) -> Stmt:
        """The inner products of rows of a matrix, some at a time, with one set of accumulators."""
        first, k, r, lane = self.builder.index(4)
        sums = self.builder.name("lanes")
        whole = self.extent - self.extent % _LANES

        def each(stmt: Stmt) -> Stmt:
            return For(r.name, _ZERO, Const(at_once), stmt, _ONE, Mark.UNROLL)

        def in_lanes(value: Expr) -> Stmt:
            body = Store(sums, (r, lane), value)
            return each(For(lane.name, _ZERO, Const(_LANES), body, _ONE, Mark.VECTOR))

        row = first + r
        now = Load(sums, (r, lane), self.dtype)
        update = _added(now, matrix(row, k + lane), vector(k + lane), self.dtype)
        lanes = [Load(sums, (r, Const(x)), self.dtype) for x in range(_LANES)]
        rest = _added(self.now(row), matrix(row, k), vector(k), self.dtype)
        body = block(
            in_lanes(self.zero()),
            For(k.name, _ZERO, whole, in_lanes(update), Const(_LANES)),
            each(self.store(sum_of_neighbours(lanes), row)),
            For(k.name, whole, self.extent, each(self.store(rest, row)), _ONE),
        )
        registers = Buffer(sums, self.dtype, (Const(_LANES), _ONE), Space.REGISTER, True)
        body = Alloc(registers, (Const(at_once), Const(_LANES)), body)
        return For(first.name, *rows, body, Const(at_once))

    def vector(
        self, extent: Expr, matrix: Element, vector: Callable[[Expr], Expr], is_fast: bool
    ) -> Stmt:
        """A matrix times a vector: by rows where the sum runs along memory, else by columns."""
        row = self.variable()
        if is_fast:
            whole = extent - extent % _ROWS_AT_ONCE
            return block(
                self.inner_products((_ZERO, whole), _ROWS_AT_ONCE, matrix, vector),
                self.inner_products((whole, extent), 1, matrix, vector),
            )
        zero = For(row.name, _ZERO, extent, self.store(self.zero(), row), _ONE, Mark.SIMD)
        k = self.variable()

        def columns(start: Expr, stop: Expr, at_once: int) -> Stmt:
            value = self.now(row)
            for step in range(at_once):
                value = _added(value, matrix(row, k + step), vector(k + step), self.dtype)
            body = For(row.name, _ZERO, extent, self.store(value, row), _ONE, Mark.SIMD)
            return For(k.name, start, stop, body, Const(at_once))

        whole = self.extent - self.extent % _AT_ONCE
        return block(zero, columns(_ZERO, whole, _AT_ONCE), columns(whole, self.extent, 1))

    # -- matrices ---------------------------------------------------------------------------------

    def matrix(self) -> Stmt:
        """Large matrices by the kernels of contractions, others by loops of their own."""
        small, large = self.small_matrix(), self.large_matrix()
        if large is None:
            return small
        return If(is_large(self.left.shape[-2], self.right.shape[-1], self.extent), large, small)

    def large_matrix(self) -> Stmt | None:
        if self.plan is None or not self.dtype.is_float or self.dtype.bits < 32:
            return None
        maps = self.target, self.left, self.right
        _, left, right = (_broadcast(x, (*self.batch, _ZERO, _ZERO), 2)[:-2] for x in maps)
        return contracted(maps, (self.batch, left, right), self.plan, self.taken)

    def small_matrix(self) -> Stmt:
        rows, columns = self.left.shape[-2], self.right.shape[-1]
        if self.right.by_memory()[-1] != len(self.right.axes) - 1:
            return self.with_copy(rows, columns)
        if not self.dtype.is_float or self.dtype.bits < 32:
            return self.strip(self.second, (_ZERO, rows), (_ZERO, columns))
        return self.tiles(self.second, rows, columns)

    def with_copy(self, rows: Expr, columns: Expr) -> Stmt:
        """The product with a copy of the right factor whose rows lie in memory."""
        k, j = self.builder.index(2)
        name, most = self.builder.name("right"), self.right.most[-2:]
        buffer = Buffer(name, self.dtype, (most[1], _ONE), Space.SCRATCH, True)
        copy = Store(name, (k, j), self.second(k, j))
        order = (1, 0)  # along the memory that is read

        def second(k: Expr, j: Expr) -> Expr:
            return Load(name, (k, j), self.dtype)

        body = block(
            loops((k, j), (self.extent, columns), order, copy, Mark.SIMD),
            self.strip(second, (_ZERO, rows), (_ZERO, columns))
            if not self.dtype.is_float or self.dtype.bits < 32
            else self.tiles(second, rows, columns),
        )
        return Alloc(buffer, most, body)

    def strip(self, second: Element, rows: tuple[Expr, Expr], columns: tuple[Expr, Expr]) -> Stmt:
        """Some elements of the product, row by row."""
        i, j, k = self.builder.index(3)

        def along(body: Stmt) -> Stmt:
            return For(j.name, *columns, body, _ONE, Mark.SIMD)

        value = _added(self.now(i, j), self.first(k, i), second(k, j), self.dtype)
        body = block(
            along(self.store(self.zero(), i, j)),
            For(k.name, _ZERO, self.extent, along(self.store(value, i, j)), _ONE),
        )
        return For(i.name, *rows, body, _ONE)

    def tiles(self, second: Element, rows: Expr, columns: Expr) -> Stmt:
        """Tiles in registers, and what is left of rows and columns."""
        width = _VECTORS * self.lanes
        i, j, k, start, r, v = self.builder.index(6)
        sums = self.builder.name("tile")
        whole_rows, whole_columns = rows - rows % _ROWS, columns - columns % width

        def each(value: Expr, *, is_sum: bool) -> Stmt:
            """A statement for each element of the tile."""
            here = (i + r, j + v)
            body = Store(sums, (r, v), value) if is_sum else self.store(value, *here)
            lanes = For(v.name, _ZERO, Const(width), body, _ONE, Mark.VECTOR)
            return For(r.name, _ZERO, Const(_ROWS), lanes, _ONE, Mark.UNROLL)

        tile = Load(sums, (r, v), self.dtype)
        stop = Binary("min", start + _BLOCK, self.extent)
        update = _added(tile, self.first(k, i + r), second(k, j + v), self.dtype)
        body = block(
            each(self.now(i + r, j + v), is_sum=True),
            For(k.name, start, stop, each(update, is_sum=True), _ONE),
            each(tile, is_sum=False),
        )
        registers = Buffer(sums, self.dtype, (Const(width), _ONE), Space.REGISTER, True)
        body = Alloc(registers, (Const(_ROWS), Const(width)), body)
        body = For(i.name, _ZERO, whole_rows, body, Const(_ROWS))
        body = For(j.name, _ZERO, whole_columns, body, Const(width))
        body = For(start.name, _ZERO, self.extent, body, Const(_BLOCK))
        m, n = self.builder.index(2)
        zero = loops(
            (m, n), (whole_rows, whole_columns), (0, 1), self.store(self.zero(), m, n), Mark.SIMD
        )
        return block(
            zero,
            body,
            self.strip(second, (_ZERO, whole_rows), (whole_columns, columns)),
            self.strip(second, (whole_rows, rows), (_ZERO, columns)),
        )


def _added(before: Expr, x: Expr, y: Expr, dtype: DType) -> Expr:
    if dtype.is_float and dtype.bits > 16:
        return Call("fma", (x, y, before))
    return Binary("add", before, Binary("mul", x, y))


def _broadcast(factor: ElementMap, index: Sequence[Expr], own: int) -> tuple[Expr, ...]:
    """The index of an element of a factor: its batch axes broadcast, the last `own` do not."""
    taken = index[len(index) - len(factor.axes) :]
    batch = len(factor.axes) - own
    pairs = zip(factor.axes[:batch], taken[:batch], strict=True)
    return (*(_ZERO if x.extent == _ONE else at for x, at in pairs), *taken[batch:])
