"""Blocked closures on a GPU as a LoopNest: kernels for every block of steps, launched in order.

    guard                                    sums cannot overflow, no element is NaN
    for first step block                     on the host
      close a[K, K] in shared memory; where some a[k, k] is better than the identity of times,
          leave it as it was and note `first` in left_at
      a[K, :]                                a thread for each column, which it keeps in registers
      a[:, K]                                a thread for each row, likewise
      a[i, j] = a[i, j] plus over k in K of a[i, k] times a[k, j]       a product, for other i, j
    steps from left_at on in source order    by one block

Every kernel looks at `left_at` first, which holds the end as long as all steps are taken in blocks:
the host never waits for the device. A column of a[K, :] is used by the thread of that column only
(analysis/sharing: the exact condition holds for the row panel with threads along its columns).
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.ir.closure import GridClosure
from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.grid_kernel import GridKernel
from loopwright.ir.kernel_variant import Algebra, Initial
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
from loopwright.lower.buffers import argument_buffers, scalar_names
from loopwright.lower.build import lets, loop, renamed, seq, tiles, unrolled
from loopwright.lower.contraction_nests.operand_layout import Affine, AffineOperand
from loopwright.lower.grid_nests.grid_product import grid_product
from loopwright.lower.tiles.lower_closure import PREFIX, guard_limits
from loopwright.semirings import identity

__all__ = ["lower_grid_closure"]

_MEET = Barrier(BarrierScope.BLOCK)
_THREADS = 256
_BLOCKS = 256  # that scan the matrix
_STRIP = 64  # threads of a block that take rows or columns of the panels
_SUB = 16  # elements of a strip that a thread keeps in registers
_ZERO, _ONE = Const(0), Const(1)
first, end, i, j, k = (Var(PREFIX + x) for x in ("first", "end", "i", "j", "k"))
own, size = Var(PREFIX + "own"), Var(PREFIX + "size")
thread, block = Var("thread.x"), Var("block.x")


def lower_grid_closure(program: Program, found: GridClosure) -> LoopNest:
    """The nest of a program that is one closure, for a GPU."""
    body = _Writer(found).nest()
    return LoopNest(program.name, argument_buffers(program), scalar_names(program), body)


def _kernel(
    blocks: Expr, threads: int, body: Stmt, *shared: tuple[Buffer, tuple[int, ...]]
) -> Stmt:
    body = For("thread.x", _ZERO, Const(threads), body, _ONE, Mark.THREAD, axis=Axis.X)
    for buffer, shape in shared:
        body = Alloc(buffer, tuple(map(Const, shape)), body)
    return For("block.x", _ZERO, blocks, body, _ONE, Mark.BLOCK, axis=Axis.X)


class _Writer:
    """Writes the kernels of one closure."""

    def __init__(self, found: GridClosure) -> None:
        self.found = found
        self.closure = found.closure
        self.array, self.dtype = self.closure.array, self.closure.dtype
        self.start, self.stop = self.closure.start, self.closure.stop
        self.extent = self.stop - self.start
        self.block = found.block

    def nest(self) -> Stmt:
        here = [(end, (first + self.block).min(self.stop)), (size, end - first)]
        phases = seq(self._square(), self._rows(), self._columns(), self._others())
        blocks = loop(first, self.start, self.stop, lets(here, phases), self.block)
        if not self.closure.needs_guard:
            return blocks
        body = seq(*self._guard(), blocks, self._rest())
        count = Const(2 * _THREADS * _BLOCKS)
        for name, dtype, extent in (("left_at", INT64, _ONE), ("extremes", self.dtype, count)):
            memory = Buffer(PREFIX + name, dtype, (_ONE,), Space.SCRATCH, writable=True)
            body = Alloc(memory, (extent,), body)
        return body

    # -- pieces -----------------------------------------------------------------------------------

    def _element(self, x: Expr, y: Expr) -> Load:
        return Load(self.array, (x, y), self.dtype)

    def _better(self, old: Expr, left: Expr, right: Expr) -> Expr:
        return Binary(self.closure.plus, old, Binary(self.closure.times, left, right))

    def _left(self) -> Expr:
        return Load(PREFIX + "left_at", (_ZERO,), INT64)

    def _leave(self, at: Expr) -> Stmt:
        return Store(PREFIX + "left_at", (_ZERO,), at)

    def _if_taken(self, body: Stmt) -> Stmt:
        """`body` unless the steps in blocks were left before."""
        if not self.closure.needs_guard:
            return body
        return If(self._left().equals(self.stop), body)

    def _outside(self, at: Expr) -> Expr:
        return Binary("or", at < first, at >= end)

    # -- the square -------------------------------------------------------------------------------

    def _square(self) -> Stmt:
        """Close the square in shared memory. Step k leaves row k and column k as they are."""
        name, side = PREFIX + "square", self.block
        tile = Buffer(name, self.dtype, (Const(side + 1), _ONE), Space.SHARED)

        def held(x: Expr, y: Expr) -> Load:
            return Load(name, (x, y), self.dtype)

        def each(body: Stmt, cond: Expr | None = None) -> Stmt:
            """`body` for the elements of the thread: every so many columns of some rows."""
            inner = body if cond is None else If(cond, body)
            columns = min(side, 32)
            rows = max(1, _THREADS // columns)
            inner = loop(j, thread % columns, size, inner, columns)
            return loop(i, thread // columns, size, inner, rows)

        bring = each(Store(name, (i, j), self._element(first + i, first + j)))
        moves = Binary("and", Binary("ne", i, k), Binary("ne", j, k))
        step = each(Store(name, (i, j), self._better(held(i, j), held(i, k), held(k, j))), moves)
        steps = loop(k, _ZERO, size, seq(_MEET, step))
        back = each(Store(self.array, (first + i, first + j), held(i, j)))
        if not self.closure.needs_guard:
            return _kernel(_ONE, _THREADS, seq(bring, steps, back), (tile, (side, side + 1)))
        # All threads test the diagonal: whether to store is the same decision for all of them.
        worse = "lt" if self.closure.plus == "min" else "gt"
        count = Buffer(PREFIX + "bad", INT64, (), Space.STACK)
        bad = Load(PREFIX + "bad", (), INT64)
        is_worse = Binary(worse, held(k, k), Const(0, self.dtype))
        test = loop(k, _ZERO, size, If(is_worse, Store(PREFIX + "bad", (), _ONE)))
        one = If(thread.equals(0), self._leave(first))
        decide = seq(Store(PREFIX + "bad", (), _ZERO), test, If(bad.equals(0), back, one))
        body = seq(bring, steps, _MEET, Alloc(count, (), decide))
        return _kernel(_ONE, _THREADS, self._if_taken(body), (tile, (side, side + 1)))

    # -- rows and columns of the block ------------------------------------------------------------

    def _strip(self, place: Callable[[Expr], tuple[Expr, ...]]) -> Stmt:
        """All steps of the strip of a thread in shared memory, `_SUB` elements in registers.

        Element x of the strip lies at panel[place(x)]. For every part s of the strip: its steps on
        itself, then on the other parts c, one after another. The strip belongs to one thread, so no
        barrier is needed.
        """
        if not self.found.variant.in_registers:
            return self._strip_in_memory(place)
        panel, square = PREFIX + "panel", PREFIX + "square"
        part, other, x, y = (Var(PREFIX + name) for name in ("part", "other", "x", "y"))
        held, moved = PREFIX + "held", PREFIX + "moved"
        parts = Const(self.block // _SUB)

        def at(buffer: str, *index: Expr) -> Load:
            return Load(buffer, index, self.dtype)

        def fetch(buffer: str, number: Expr) -> Stmt:
            value = at(panel, *place(number * _SUB + x))
            return unrolled(x, _SUB, Store(buffer, (x,), value))

        def put(buffer: str, number: Expr) -> Stmt:
            return unrolled(x, _SUB, Store(panel, place(number * _SUB + x), at(buffer, x)))

        def steps(buffer: str, number: Expr, *, is_own: bool) -> Stmt:
            factor = at(square, part * _SUB + y, number * _SUB + x)
            better = self._better(at(buffer, x), factor, at(held, y))
            update: Stmt = Store(buffer, (x,), better)
            if is_own:
                update = If(Binary("ne", x, y), update)
            body = unrolled(x, _SUB, update)
            return unrolled(y, _SUB, If(part * _SUB + y < size, body))

        registers = [Buffer(name, self.dtype, (_ONE,), Space.REGISTER) for name in (held, moved)]
        one = seq(fetch(moved, other), steps(moved, other, is_own=False), put(moved, other))
        others = loop(other, _ZERO, parts, If(Binary("ne", other, part), one))
        whole = seq(fetch(held, part), steps(held, part, is_own=True), put(held, part), others)
        body = loop(part, _ZERO, tiles(size, _SUB), whole)
        for buffer in registers:
            body = Alloc(buffer, (Const(_SUB),), body)
        return body

    def _strip_in_memory(self, place: Callable[[Expr], tuple[Expr, ...]]) -> Stmt:
        """As `_strip`, with all elements of the panel where they lie."""
        begin, x, y = (Var(PREFIX + name) for name in ("begin", "x", "y"))
        stop = begin + _SUB

        def held(at: Expr) -> Load:
            return Load(PREFIX + "panel", place(at), self.dtype)

        factor = Load(PREFIX + "square", (y, x), self.dtype)
        update = Store(PREFIX + "panel", place(x), self._better(held(x), factor, held(y)))

        def steps(body: Stmt) -> Stmt:
            return loop(y, begin, stop.min(size), body)

        own_part = loop(x, begin, stop, If(Binary("ne", x, y), update))
        others = loop(x, _ZERO, begin, update), loop(x, stop, self.block, update)
        body = seq(steps(own_part), steps(seq(*others)))
        return loop(begin, _ZERO, size, body, _SUB)

    def _panel(self, pitch: int) -> Buffer:
        """The strips of all threads of a block in shared memory."""
        strides = (Const(pitch), _ONE)
        is_volatile = not self.found.variant.in_registers
        name = PREFIX + "panel"
        return Buffer(name, self.dtype, strides, Space.SHARED, is_volatile=is_volatile)

    def _square_tile(self, *, is_transposed: bool) -> tuple[Buffer, Stmt]:
        """The closed square in shared memory, square[k, x], and how the threads bring it there."""
        square, side = PREFIX + "square", self.block
        tile = Buffer(square, self.dtype, (Const(side), _ONE), Space.SHARED)
        row, column = ((at).min(size - 1) for at in (i // side, i % side))
        if is_transposed:
            row, column = column, row
        source = self._element(first + row, first + column)
        store = Store(square, (i // side, i % side), source)
        return tile, loop(i, thread, side * side, store, _STRIP)

    def _rows(self) -> Stmt:
        """a[K, j] for every column j outside the block."""
        panel, side = PREFIX + "panel", self.block
        tile, bring = self._square_tile(is_transposed=True)
        columns = self._panel(_STRIP)
        at = Var(PREFIX + "column")
        held = Load(panel, (own, thread), self.dtype)
        load = loop(own, _ZERO, size, Store(panel, (own, thread), self._element(first + own, at)))
        nothing = Const(False if self.dtype == BOOL else 0, self.dtype)
        rest = loop(own, size, side, Store(panel, (own, thread), nothing))
        back = loop(own, _ZERO, size, Store(self.array, (first + own, at), held))
        steps = self._strip(lambda x: (x, thread))
        is_worked = Binary("and", at < self.stop, self._outside(at))
        work = If(is_worked, seq(load, rest, steps, back))
        place = [(at, self.start + block * _STRIP + thread)]
        body = self._if_taken(seq(bring, _MEET, lets(place, work)))
        shared = ((tile, (side, side)), (columns, (side, _STRIP)))
        return _kernel(tiles(self.extent, _STRIP), _STRIP, body, *shared)

    def _columns(self) -> Stmt:
        """a[i, K] for every row i outside the block; neighbouring threads load neighbours."""
        panel, side = PREFIX + "panel", self.block
        tile, bring = self._square_tile(is_transposed=False)
        rows = self._panel(side + 1)
        begin, x, y = self.start + block * _STRIP, i // side, i % side
        fetch = self._element((begin + x).min(self.stop - 1), first + y.min(size - 1))
        load = loop(i, thread, _STRIP * side, Store(panel, (x, y), fetch), _STRIP)
        steps = self._strip(lambda at: (thread, at))
        is_row = Binary("and", begin + x < self.stop, self._outside(begin + x))
        is_stored = Binary("and", is_row, y < size)
        moved = Store(self.array, (begin + x, first + y), Load(panel, (x, y), self.dtype))
        back = loop(i, thread, _STRIP * side, If(is_stored, moved), _STRIP)
        body = self._if_taken(seq(bring, load, _MEET, steps, _MEET, back))
        shared = ((tile, (side, side)), (rows, (_STRIP, side + 1)))
        return _kernel(tiles(self.extent, _STRIP), _STRIP, body, *shared)

    # -- all others -------------------------------------------------------------------------------

    def _others(self) -> Stmt:
        """The product of the block's columns and rows, for elements outside of both."""
        closure = self.closure
        algebra = Algebra(
            closure.plus,
            closure.times,
            identity(closure.plus, self.dtype),
            *(self.dtype,) * 4,
            Initial.OUT,
            scaled=False,
        )
        start = self.start
        layout = Affine(
            {
                "left": AffineOperand(self.dtype, (start, first), {"i": (1, 0), "p": (0, 1)}),
                "right": AffineOperand(self.dtype, (first, start), {"j": (0, 1), "p": (1, 0)}),
                "out": AffineOperand(self.dtype, (start, start), {"i": (1, 0), "j": (0, 1)}),
            }
        )

        def is_stored(x: Expr, y: Expr) -> Expr:
            return Binary("and", self._outside(start + x), self._outside(start + y))

        kernel = GridKernel(algebra, self.found.variant)
        product = grid_product(kernel, layout, is_stored, around=self._if_taken)
        names = dict.fromkeys(("left", "right", "out"), self.array)
        sizes = [(Var("M"), self.extent), (Var("N"), self.extent), (Var("K"), size)]
        own_names = {var.name: PREFIX + var.name for var, _ in sizes}
        bound = [(Var(own_names[var.name]), value) for var, value in sizes]
        return lets(bound, renamed(product, {**names, **own_names}))

    # -- guard, and what is left ------------------------------------------------------------------

    def _guard(self) -> list[Stmt]:
        """Set left_at to the end, or to the start where sums might overflow or an element is NaN.

        Threads gather the extremes of their elements; one block then those of all threads.
        """
        least, most = PREFIX + "least", PREFIX + "most"
        extremes = PREFIX + "extremes"
        zero = Const(0, self.dtype)

        def gathered(body: Stmt) -> Stmt:
            found = seq(Store(least, (), zero), Store(most, (), zero), body)
            for name in (least, most):
                found = Alloc(Buffer(name, self.dtype, (), Space.STACK), (), found)
            return found

        def fold(name: str, value: Expr, op: str) -> Stmt:
            return Store(name, (), Binary(op, Load(name, (), self.dtype), value))

        def fold_both(low: Expr, high: Expr) -> Stmt:
            return seq(fold(least, low, "min"), fold(most, high, "max"))

        number = block * _THREADS + thread

        def scan() -> Stmt:
            value = self._element(i, j)
            inner = loop(j, self.start + thread, self.stop, fold_both(value, value), _THREADS)
            rows = loop(i, self.start + block, self.stop, inner, _BLOCKS)
            keep = [
                Store(extremes, (number * 2 + at,), Load(name, (), self.dtype))
                for at, name in enumerate((least, most))
            ]
            return seq(rows, *keep)

        def read(at: Expr) -> Expr:
            return Load(extremes, (at,), self.dtype)

        shared = Buffer(PREFIX + "gathered", self.dtype, (_ONE,), Space.SHARED)
        held = PREFIX + "gathered"

        def gather() -> Stmt:
            own_part = loop(
                i, thread, _THREADS * _BLOCKS, fold_both(read(i * 2), read(i * 2 + 1)), _THREADS
            )
            keep = [
                Store(held, (thread * 2 + at,), Load(name, (), self.dtype))
                for at, name in enumerate((least, most))
            ]
            all_ = loop(
                i,
                _ZERO,
                _THREADS,
                fold_both(Load(held, (i * 2,), self.dtype), Load(held, (i * 2 + 1,), self.dtype)),
            )
            low, high = guard_limits(self.closure)
            safe = Binary(
                "and",
                Binary("ge", Load(least, (), self.dtype), low),
                Binary("le", Load(most, (), self.dtype), high),
            )
            decide = If(safe, self._leave(self.stop), self._leave(self.start))
            return seq(own_part, *keep, _MEET, If(thread.equals(0), seq(all_, decide)))

        return [
            _kernel(Const(_BLOCKS), _THREADS, gathered(scan())),
            _kernel(_ONE, _THREADS, gathered(gather()), (shared, (2 * _THREADS,))),
        ]

    def _rest(self) -> Stmt:
        """Steps from left_at on, in source order, by one block.

        Rows before row k depend on row k as it was, and on themselves: a thread takes a row. Row k
        comes next, then the rows behind it, which depend on row k as it is now.
        """

        def whole_row(at: Expr) -> Stmt:
            value = self._better(self._element(at, j), self._element(at, k), self._element(k, j))
            return loop(j, self.start, self.stop, Store(self.array, (at, j), value))

        before = loop(i, self.start + thread, k, whole_row(i), _THREADS)
        behind = loop(i, k + 1 + thread, self.stop, whole_row(i), _THREADS)
        itself = If(thread.equals(0), whole_row(k))
        steps = seq(before, _MEET, itself, _MEET, behind, _MEET)
        return _kernel(_ONE, _THREADS, loop(k, self._left(), self.stop, steps))
