"""Reductions along axes, in the order in which NumPy goes through the memory of the value."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import reduce

from loopwright.ir.dtypes import FLOAT32, DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var, cast
from loopwright.ir.loops import Alloc, Buffer, For, If, Let, Mark, Space, Stmt, Store
from loopwright.ir.procedure import ReduceArray
from loopwright.lower.procedure_nests.build_loops import Cell, NestBuilder, block, loops
from loopwright.lower.procedure_nests.element_maps import ElementMap
from loopwright.lower.procedure_nests.pairwise_sums import pairwise_sum

__all__ = ["lower_reduction"]

Value = Callable[[Sequence[Expr]], Expr]
_ZERO, _ONE = Const(0), Const(1)
_BUFFER = 8192  # elements of NumPy's buffers
_NEUTRAL = {"add": 0, "mul": 1, "and": 1, "or": 0}


def lower_reduction(
    builder: NestBuilder,
    stmt: ReduceArray,
    target: ElementMap,
    value: Value,
    most: Sequence[Expr],
    others: Container[Expr] = (),
    plain: ElementMap | None = None,
) -> Stmt:
    """The loops of a reduction. `value` gives the element at an index, and reads no target.

    `most` are upper bounds of the extents that are known at entry; `others` are extents that are
    not 1; `plain` is the value where it is memory of the caller as it lies there.
    """
    reduction = _Reduction(builder, stmt, target, value, most, others, plain)
    body = block(reduction.begin(), reduction.along(tuple(x for run in stmt.runs for x in run)))
    return reduction.around(body)


class _Reduction:
    def __init__(
        self,
        builder: NestBuilder,
        stmt: ReduceArray,
        target: ElementMap,
        value: Value,
        most: Sequence[Expr],
        others: Container[Expr],
        plain: ElementMap | None,
    ) -> None:
        self.builder, self.stmt, self.target, self.value = builder, stmt, target, value
        self.most, self.others, self.plain = most, others, plain
        self.variables = builder.index(len(stmt.shape))
        pairs = zip(self.variables, stmt.shape, strict=True)
        self.index = [_ZERO if extent == _ONE else var for var, extent in pairs]
        self.kept = [axis for axis in range(len(stmt.shape)) if axis not in stmt.axes]
        self.is_pairwise = stmt.op == "add" and not target.dtype.is_exact
        self.memory: list[Alloc] = []  # of the statement, with bodies to come

    def around(self, body: Stmt) -> Stmt:
        for alloc in self.memory:
            body = Alloc(alloc.buffer, alloc.shape, body)
        return body

    def place(self) -> tuple[Expr, ...]:
        return self.target.element([self.index[axis] for axis in self.kept])

    def now(self) -> Expr:
        return Load(self.target.base, self.place(), self.target.dtype)

    def store(self, value: Expr) -> Stmt:
        return Store(self.target.base, self.place(), value)

    def loops(self, order: Sequence[int], body: Stmt, mark: Mark = Mark.SERIAL) -> Stmt:
        moving = [axis for axis in order if self.stmt.shape[axis] != _ONE]
        return loops(self.variables, self.stmt.shape, moving, body, mark)

    def begin(self) -> Stmt:
        """The target before anything is added: the neutral number, or the first element."""
        dtype = self.target.dtype
        neutral = _NEUTRAL.get(self.stmt.op)
        if neutral is not None:
            exact = bool(neutral) if dtype.kind == "b" else neutral
            number = float(neutral) if dtype.kind in "fc" else exact
            return self.loops(self.kept, self.store(Const(number, dtype)), Mark.SIMD)
        first = [_ZERO if axis in self.stmt.axes else x for axis, x in enumerate(self.index)]
        return self.loops(self.kept, self.store(self.value(first)), Mark.SIMD)

    def along(self, order: tuple[int, ...]) -> Stmt:
        """All axes of `order`, from the slowest to the fastest in NumPy's memory of the value."""
        order = tuple(axis for axis in order if self.stmt.shape[axis] != _ONE)
        inner = self.inner_run(order)
        outer = tuple(axis for axis in order if axis not in inner)
        is_reduced = bool(inner) and inner[0] in self.stmt.axes
        is_total = len(self.stmt.axes) == len(self.stmt.shape)
        if is_total and self.is_pairwise and outer and not self.stmt.chunk:
            return self.buffered(order)
        if is_reduced:
            found = self.loops(outer, self.reduced(inner))
        else:
            found = self.loops(order, self.store(self.updated(self.now())), Mark.SIMD)
        # NumPy leaves out axes of extent 1: the next one is the fastest then.
        extents = [self.stmt.shape[axis] for axis in inner]
        slower = set(outer) & set(self.stmt.axes)
        is_longer = any(isinstance(x, Const) or x in self.others for x in extents)
        if not self.is_pairwise or not slower or is_longer:
            return found
        tests: list[Expr] = [Binary("eq", extent, _ONE) for extent in extents]
        single = reduce(_both, tests)
        return If(single, self.loops(inner, self.along(outer)), found)

    def inner_run(self, order: tuple[int, ...]) -> tuple[int, ...]:
        """The fastest axes that lie in one run and are all reduced, or all kept."""
        if not order:
            return ()
        run = next(run for run in self.stmt.runs if order[-1] in run)
        is_reduced = order[-1] in self.stmt.axes
        found: list[int] = []
        for axis in reversed([axis for axis in run if axis in order]):
            if (axis in self.stmt.axes) != is_reduced:
                break
            found.insert(0, axis)
        return tuple(found)

    def updated(self, before: Expr) -> Expr:
        return Binary(self.stmt.op, before, self.value(self.index))

    def reduced(self, inner: tuple[int, ...]) -> Stmt:
        """The target with the elements along the reduced axes `inner`."""
        if not self.is_pairwise:
            total = self.builder.cell("total", self.target.dtype)
            update = self.loops(inner, total.store(self.updated(total.load())))
            body = block(total.store(self.now()), update, self.store(total.load()))
            return total.around(body)
        dtype = self.target.dtype
        wide = FLOAT32 if dtype.bits == 16 else dtype  # NumPy adds half numbers as single ones
        total = self.builder.cell("total", wide)
        count = self.count(inner)
        element, before = self.elements(inner, wide)
        if self.stmt.chunk:
            start = self.builder.index(1)[0]
            left = Binary("min", count - start, Const(self.stmt.chunk))
            piece = self.sum_of(left, lambda at: element(start + at), total, wide)
            whole: Stmt = For(start.name, _ZERO, count, piece, Const(self.stmt.chunk))
        else:
            whole = self.sum_of(count, element, total, wide)
        return total.around(block(before, whole))

    def buffered(self, order: tuple[int, ...]) -> Stmt:
        """The sum of all elements, with gaps between them: NumPy copies pieces of them first.

        A piece is as many whole runs, or whole groups of runs, as its buffer holds, or one run.
        """
        dtype = self.target.dtype
        wide = FLOAT32 if dtype.bits == 16 else dtype
        total = self.builder.cell("total", wide)
        groups: list[Expr] = []
        left = order
        while left:
            inner = self.inner_run(left)
            groups.append(self.count(inner))
            left = tuple(axis for axis in left if axis not in inner)
        whole = self.count(order)
        plane, piece = (Var(self.builder.name(x)) for x in ("plane", "piece"))
        first, start = self.builder.index(2)
        element, before = self.elements(order, wide)
        stop = Binary("min", first + plane, whole)
        size = Binary("min", stop - start, piece)
        body = self.sum_of(size, lambda at: element(start + at), total, wide)
        body = For(start.name, first, stop, body, piece)
        body = For(first.name, _ZERO, whole, body, plane)
        sizes = _pieces(groups[0], groups[1:], whole)
        for var, value in zip((plane, piece), sizes, strict=True):
            body = Let(var.name, Binary("max", value, _ONE), body)
        return total.around(block(before, body))

    def count(self, axes: Sequence[int]) -> Expr:
        count: Expr = _ONE
        for axis in axes:
            count = count * self.stmt.shape[axis]
        return count

    def sum_of(
        self, count: Expr, element: Callable[[Expr], Expr], total: Cell, wide: DType
    ) -> Stmt:
        """The pairwise sum of some elements, added to the target."""
        found = pairwise_sum(self.builder, wide, count, element, total)
        updated = Binary("add", cast(self.now(), wide), total.load())
        return block(found, self.store(cast(updated, self.target.dtype)))

    def elements(self, inner: tuple[int, ...], wide: DType) -> tuple[Callable[[Expr], Expr], Stmt]:
        """The elements along some axes by one number, and what must run before."""
        if len(inner) == 1:

            def at(number: Expr) -> Expr:
                index = [number if a == inner[0] else x for a, x in enumerate(self.index)]
                return cast(self.value(index), wide)

            return at, block()
        if self.plain is not None and len(inner) == len(self.inner_run(inner)):
            return lambda number: cast(self.plain_element(inner, number), wide), block()
        size: Expr = _ONE
        place: Expr = _ZERO
        for axis in inner:
            place = place * self.stmt.shape[axis] + self.index[axis]
            size = size * self.most[axis]
        name = self.builder.name("row")
        row = Buffer(name, wide, (_ONE,), Space.SCRATCH, True)
        self.memory.append(Alloc(row, (size,), block()))
        store = Store(name, (place,), cast(self.value(self.index), wide))
        return lambda number: Load(name, (number,), wide), self.loops(inner, store, Mark.SIMD)

    def plain_element(self, inner: tuple[int, ...], number: Expr) -> Expr:
        """An element of memory without gaps, counted along the axes `inner`."""
        assert self.plain is not None
        index: list[Expr] = [_ZERO if axis in inner else x for axis, x in enumerate(self.index)]
        index[inner[-1]] = number
        return self.plain.load(index)


def _pieces(core: Expr, groups: Sequence[Expr], whole: Expr) -> tuple[Expr, Expr]:
    """How many elements pieces do not go beyond, and how many a piece has.

    `core` elements are copied together, `groups` are the extents around them from the fastest on.
    """
    if not groups:
        return whole, whole
    wider = core * groups[0]
    fits = Binary("le", wider, Const(_BUFFER))
    plane, piece = _pieces(wider, groups[1:], whole)
    runs = Binary("max", Const(_BUFFER) // Binary("max", core, _ONE), _ONE)
    return Select(fits, plane, wider), Select(fits, piece, runs * core)


def _both(one: Expr, other: Expr) -> Expr:
    return Binary("and", one, other)
