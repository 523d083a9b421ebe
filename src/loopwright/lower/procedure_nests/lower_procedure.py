"""Procedure -> LoopNest: statements in source order, each array statement a nest of its own.

No operation is fused with another one or regrouped, so that every number is NumPy's; sums of
products are the exception. Loops over the elements of a statement are independent (Mark.SIMD).

The kernel takes the arrays of the procedure, and where it has checks or loops that may take long a
status buffer: at the end that holds 0, or the number of the check that has failed, counted from 1,
and its values, or what an interrupt has raised (see `Interrupt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Buffer,
    For,
    If,
    Interrupt,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.procedure import (
    STATUS,
    AllocateArray,
    ArrayRole,
    BindView,
    CheckThat,
    Choose,
    ComputeArray,
    DefineName,
    EndlessLoop,
    LeavableBlock,
    LeaveBlock,
    LeaveLoop,
    MultiplyMatrices,
    NextIteration,
    Procedure,
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    ReduceArray,
    ReturnNow,
    SetElement,
)
from loopwright.ir.visit import loads, statements, statements_inside
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.buffers import stride_name
from loopwright.lower.procedure_nests.build_loops import NestBuilder, block, loops
from loopwright.lower.procedure_nests.contract_matrices import PlanProduct
from loopwright.lower.procedure_nests.element_maps import ElementMap, at_index, may_clash
from loopwright.lower.procedure_nests.fuse_statements import (
    BoxStatement,
    fused,
    may_join,
    scalars_of,
    uses_of,
)
from loopwright.lower.procedure_nests.index_checks import (
    joined_checks,
    never_negative,
    with_checks_outside,
)
from loopwright.lower.procedure_nests.multiply_matrices import lower_product
from loopwright.lower.procedure_nests.numpy_formulas import as_in_vectors
from loopwright.lower.procedure_nests.reduce_array import lower_reduction

__all__ = ["checks_of", "lower_procedure"]

_ZERO, _ONE = Const(0), Const(1)
# Loops from which on LLVM's work on each is cut: a function of 73 loops took 2.9 s (Cascade Lake),
# and takes 0.8 s so, at the same speed.
_MANY_LOOPS = 32
# Iterations before a loop looks for interrupts: by the loops inside of each other in its body.
_FIRST_QUOTA = (1024, 64, 2)
_STACK_BYTES = 1024  # of an array of constant extents that lies on the stack


def lower_procedure(
    procedure: Procedure,
    orders: Mapping[str, tuple[int, ...]] | None = None,
    vector_bits: int = 256,
    plan: PlanProduct | None = None,
) -> LoopNest:
    """The loop nest of a procedure, and its scalars: integers, then the strides of arguments.

    `orders` has the dimensions of arguments from the slowest to the fastest, where that is not the
    order of C. Tiles of products have vectors of `vector_bits`; `plan` chooses the kernels of large
    ones. Sizes are not 1: such extents of arguments are constants of the procedure.
    """
    checks = checks_of(procedure)
    lowering = _Lowering(procedure, orders or {}, checks, vector_bits, plan)
    body = lowering.outermost()
    written = {stmt.buffer for stmt in statements(body) if isinstance(stmt, Store)}
    buffers = [_buffer(array, array.name in written) for array in procedure.arrays]
    if checks or any(isinstance(s, For) and s.interrupt is not None for s in statements(body)):
        body = block(Store(STATUS, (_ZERO,), _ZERO), body)
        buffers.append(Buffer(STATUS, INT64, (_ONE,), writable=True))
    strides = (
        stride_name(array.name, dimension)
        for array in procedure.arrays
        if array.role is ArrayRole.ARGUMENT
        for dimension in range(array.rank)
    )
    scalars = (*procedure.integers, *strides)
    count = sum(isinstance(stmt, For) for stmt in statements(body))
    return LoopNest(
        procedure.name,
        tuple(buffers),
        scalars,
        body,
        leave_to_llvm=True,
        fuses=False,
        has_many_loops=count > _MANY_LOOPS,
    )


def checks_of(procedure: Procedure) -> tuple[CheckThat, ...]:
    """The checks of a procedure in the order of their numbers."""
    return tuple(stmt for stmt in _every(procedure.body) if isinstance(stmt, CheckThat))


def _names(procedure: Procedure) -> set[str]:
    """All names of a procedure."""
    found = {*procedure.integers, *(array.name for array in procedure.arrays)}
    for stmt in _every(procedure.body):
        match stmt:
            case DefineName(name=name) | RangeLoop(var=name):
                found.add(name)
            case BindView(view=view):
                found.add(view.name)
            case AllocateArray(array=array):
                found.add(array.name)
    return found


def _every(body: Sequence[ProcedureStmt]) -> Iterator[ProcedureStmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, RangeLoop | EndlessLoop | LeavableBlock):
            yield from _every(stmt.body)
        elif isinstance(stmt, Choose):
            yield from _every(stmt.body)
            yield from _every(stmt.orelse)


def _buffer(array: ProcedureArray, is_written: bool) -> Buffer:
    if array.role is ArrayRole.ARGUMENT:
        strides: tuple[Expr, ...] = tuple(
            Var(stride_name(array.name, d)) for d in range(array.rank)
        )
    else:
        strides = _packed(array.shape, array.order)
    return Buffer(array.name, array.dtype, strides, writable=is_written)


def _packed(shape: Sequence[Expr], order: Sequence[int]) -> tuple[Expr, ...]:
    """The strides of fresh memory."""
    strides: list[Expr] = [_ONE] * len(shape)
    stride: Expr = _ONE
    for axis in reversed(order or range(len(shape))):
        strides[axis] = stride
        stride = stride * shape[axis]
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The scopes that control statements leave."""

    all: str
    loop: str = ""
    iteration: str = ""


class _Lowering:
    def __init__(
        self,
        procedure: Procedure,
        orders: Mapping[str, tuple[int, ...]],
        checks: Sequence[CheckThat],
        vector_bits: int,
        plan: PlanProduct | None,
    ) -> None:
        self.procedure, self.vector_bits, self.plan = procedure, vector_bits, plan
        self.taken = _names(procedure)
        self.uses: Mapping[str, int] = {}  # statements that name an array
        self.locals: set[str] = set()  # arrays that are allocated
        self.scalars: set[str] = set()  # of those, arrays that are never in memory
        self.builder = NestBuilder()
        self.positive = never_negative(procedure)
        self.numbers: dict[tuple[object, ...], int] = {}  # of the first check that raises the same
        for number, check in enumerate(checks, 1):
            self.numbers.setdefault(_raised(check), number)
        self.maps = {
            array.name: ElementMap.of_array(array, array.shape, orders.get(array.name))
            for array in procedure.arrays
        }

    def outermost(self) -> Stmt:
        ends = _Ends(self.builder.name("all"))
        body = with_checks_outside(self.procedure.body)
        self.uses = uses_of(body)
        return _scope(ends.all, self.block(body, ends))

    def block(self, body: Sequence[ProcedureStmt], ends: _Ends) -> Stmt:
        """Statements in order; a name stands around all that follows it."""
        found: list[Stmt] = []
        group: list[BoxStatement] = []  # that are yet to run
        around: list[tuple[Callable[[Stmt], Stmt], list[Stmt]]] = []
        for stmt in joined_checks(body, self.positive):
            match stmt:
                case DefineName(name=name, value=value):
                    bound = self.value(value)
                    written = {one.target.base for one in group}
                    if any(load.array in written for load in loads(bound)):
                        found += self.run(group)
                    around.append((_let(name, bound), found))
                    found = []
                case BindView(view=view):
                    self.maps[view.name] = self.maps[view.base].view(view)
                case AllocateArray(array=array, most=most):
                    self.locals.add(array.name)
                    self.maps[array.name] = ElementMap.of_array(array, most)
                    around.append((self.memory(array, most), found))
                    found = []
                case ComputeArray(target=name, value=value):
                    one = self.elementwise(self.maps[name], value, group)
                    if one is None or (group and not may_join(group, one)):
                        found += self.run(group)
                        one = self.elementwise(self.maps[name], value, group)
                    if one is None:
                        found.append(self.compute(self.maps[name], value))
                    else:
                        group.append(one)
                case _:
                    found += self.run(group)
                    found.append(self.statement(stmt, ends))
        found += self.run(group)
        for head, before in reversed(around):
            found = [*before, head(block(*found))]
        return block(*found)

    def memory(self, array: ProcedureArray, most: Sequence[Expr]) -> Callable[[Stmt], Stmt]:
        """The memory of a local array around statements, unless these do without."""
        around = _memory(array, most)
        return lambda body: body if array.name in self.scalars else around(body)

    def value(self, expr: Expr, index: Sequence[Expr] = ()) -> Expr:
        found = at_index(expr, index, self.maps)
        return as_in_vectors(found) if index else found

    def statement(self, stmt: ProcedureStmt, ends: _Ends) -> Stmt:
        match stmt:
            case SetElement(array=name, index=index, value=value):
                target = self.maps[name]
                place = target.element([self.value(x) for x in index])
                return Store(target.base, place, self.value(value))
            case ReduceArray():
                return self.reduce(stmt)
            case MultiplyMatrices(target=name, left=left, right=right):
                factors = self.maps[left], self.maps[right]
                width, taken = self.vector_bits, self.taken
                return lower_product(
                    self.builder, self.maps[name], *factors, width, self.plan, taken
                )
            case RangeLoop():
                return self.range_loop(stmt, ends)
            case EndlessLoop(body=body):
                return self.endless_loop(body, ends)
            case Choose(cond=cond, body=body, orelse=orelse):
                other = self.block(orelse, ends) if orelse else None
                return If(self.value(cond), self.block(body, ends), other)
            case LeavableBlock(name=name, body=body):
                return _scope(name, self.block(body, ends))
            case LeaveBlock(name=name):
                return Leave(name)
            case LeaveLoop():
                return Leave(ends.loop)
            case NextIteration():
                return Leave(ends.iteration)
            case ReturnNow():
                return Leave(ends.all)
            case CheckThat():
                return self.check(stmt, ends)
            case DefineName() | BindView() | AllocateArray() | ComputeArray():
                raise AssertionError("the block binds names, and joins array statements")
            case _:
                assert_never(stmt)

    # -- arrays -----------------------------------------------------------------------------------

    def elementwise(
        self, target: ElementMap, value: Expr, group: Sequence[BoxStatement]
    ) -> BoxStatement | None:
        """A statement that can run element by element; None where its value is needed whole.

        Its index is that of the group before it, if that has as many axes.
        """
        rank = len(target.axes)
        is_alike = group and len(group[0].index) == rank
        index = group[0].index if is_alike else self.builder.index(rank)
        element = self.value(value, index)
        if index and may_clash(element, target, index):
            return None
        return BoxStatement(target, index, element)

    def run(self, group: list[BoxStatement]) -> list[Stmt]:
        """The loops of a group, which is then empty."""
        if not group:
            return []
        scalars = scalars_of(group, self.uses, self.locals)
        self.scalars |= scalars
        made = fused(group, scalars, self.builder)
        group.clear()
        return [made]

    def compute(self, target: ElementMap, value: Expr) -> Stmt:
        """A value that is needed whole, since its target is read at other indices."""
        index = self.builder.index(len(target.axes))
        return self.by_way_of_memory(target, index, target.by_memory(), self.value(value, index))

    def by_way_of_memory(
        self, target: ElementMap, index: Sequence[Var], order: Sequence[int], element: Expr
    ) -> Stmt:
        """The whole value first, then written."""
        name = self.builder.name("value")
        own = ProcedureArray(name, target.dtype, target.shape, order=tuple(order))
        value = Load(name, tuple(index), target.dtype)
        body = block(
            loops(index, target.shape, order, Store(name, tuple(index), element), Mark.SIMD),
            loops(
                index,
                target.shape,
                order,
                Store(target.base, target.element(index), value),
                Mark.SIMD,
            ),
        )
        return _memory(own, target.most)(body)

    def reduce(self, stmt: ReduceArray) -> Stmt:
        target = self.maps[stmt.target]
        most = [self.most(extent, axis, stmt) for axis, extent in enumerate(stmt.shape)]
        lowered = replace(stmt, shape=tuple(map(self.value, stmt.shape)))

        def element(index: Sequence[Expr]) -> Expr:
            return self.value(stmt.value, index)

        others = tuple(map(Var, self.procedure.sizes))
        plain = self.plain(stmt.value, len(stmt.shape))
        return lower_reduction(self.builder, lowered, target, element, most, others, plain)

    def plain(self, value: Expr, rank: int) -> ElementMap | None:
        """Memory of the caller that a value is, whose axes step by one along its dimensions."""
        if not isinstance(value, Load) or value.index:
            return None
        found = self.maps[value.array]
        of_caller = {array.name for array in self.procedure.arrays}
        steps = [axis.steps for axis in found.axes]
        is_plain = all(len(x) == 1 and x[0][1] == _ONE for x in steps)
        return found if is_plain and len(steps) == rank and found.base in of_caller else None

    def most(self, extent: Expr, axis: int, stmt: ReduceArray) -> Expr:
        """An upper bound of an extent of a reduced value that is known at entry."""
        rank = len(stmt.shape)
        for load in loads(stmt.value):
            found = self.maps[load.array]
            own = axis - (rank - len(found.axes))
            if not load.index and own >= 0 and found.axes[own].extent == extent:
                return found.most[own]
        return extent

    # -- control ----------------------------------------------------------------------------------

    def range_loop(self, stmt: RangeLoop, ends: _Ends) -> Stmt:
        start, stop, step = map(self.value, (stmt.start, stmt.stop, stmt.step))
        outer = self.builder.name("loop")
        inner = _Ends(ends.all, outer, self.builder.name("turn"))
        body = _scope(inner.iteration, self.block(stmt.body, inner))
        if isinstance(step, Const) and step.value.real > 0:
            loop = For(stmt.var, start, stop, body, step)
            return _scope(outer, replace(loop, interrupt=self.interrupt_of_range(stmt, body, ends)))
        first, by = Var(self.builder.name("first")), Var(self.builder.name("by"))
        turn = self.builder.index(1)[0]
        trips = Select(
            Binary("gt", by, _ZERO),
            (stop - first + by - 1) // Binary("max", by, _ONE),
            (first - stop - by - 1) // Binary("max", _ZERO - by, _ONE),
        )
        inside = Let(stmt.var, first + turn * by, body)
        interrupt = self.interrupt_of_range(stmt, body, ends)
        found: Stmt = For(turn.name, _ZERO, trips, inside, _ONE, interrupt=interrupt)
        found = Let(first.name, start, Let(by.name, step, found))
        return _scope(outer, found)

    def endless_loop(self, body: Sequence[ProcedureStmt], ends: _Ends) -> Stmt:
        def turns(leave: Stmt) -> Stmt:
            assert isinstance(leave, Leave)
            inner = _Ends(ends.all, leave.name, self.builder.name("turn"))
            return _scope(inner.iteration, self.block(body, inner))

        return self.builder.endless(turns, lambda body: _interrupt(ends, body))

    def interrupt_of_range(self, stmt: RangeLoop, body: Stmt, ends: _Ends) -> Interrupt | None:
        """How a loop over a range may be interrupted; None for one that does not take long.

        Passes on loops keep away from those that may be left. To LLVM each is two loops, and its
        time grows exponentially with these: of loops inside of each other every other one looks.
        """
        depth = _depth(body)
        if ends.loop and any(x.interrupt is not None for x in _outermost_loops(body)):
            return None
        has_arrays = any(
            isinstance(x, ComputeArray | ReduceArray | MultiplyMatrices | EndlessLoop)
            for x in _every(stmt.body)
        )
        return _interrupt(ends, body) if depth > 1 or (depth and has_arrays) else None

    def check(self, stmt: CheckThat, ends: _Ends) -> Stmt:
        number = self.numbers[_raised(stmt)]
        values = (Store(STATUS, (Const(k),), self.value(x)) for k, x in enumerate(stmt.values, 1))
        failed = block(Store(STATUS, (_ZERO,), Const(number)), *values, Leave(ends.all))
        return If(Unary("not", self.value(stmt.cond)), failed)


def _interrupt(ends: _Ends, body: Stmt) -> Interrupt:
    return Interrupt(ends.all, STATUS, _FIRST_QUOTA[min(_depth(body), len(_FIRST_QUOTA) - 1)])


def _depth(stmt: Stmt) -> int:
    """How many loops stand inside of each other."""
    inner = max(map(_depth, statements_inside(stmt)), default=0)
    return inner + isinstance(stmt, For)


def _outermost_loops(stmt: Stmt) -> Iterator[For]:
    """The loops of a statement that are in no other one."""
    if isinstance(stmt, For):
        yield stmt
        return
    for inside in statements_inside(stmt):
        yield from _outermost_loops(inside)


def _raised(check: CheckThat) -> tuple[object, ...]:
    """The exception of a check."""
    return check.exception, check.text, check.values, check.span


def _scope(name: str, body: Stmt) -> Stmt:
    """A scope around `body` where something leaves it."""
    for stmt in statements(body):
        if isinstance(stmt, Leave) and stmt.name == name:
            return LabelledBlock(name, body)
        if isinstance(stmt, For) and stmt.interrupt is not None and stmt.interrupt.scope == name:
            return LabelledBlock(name, body)
    return body


def _let(name: str, value: Expr) -> Callable[[Stmt], Stmt]:
    return lambda body: Let(name, value, body)


def _memory(array: ProcedureArray, most: Sequence[Expr]) -> Callable[[Stmt], Stmt]:
    """The memory of a local array around statements."""
    strides = _packed(most, array.order)
    elements = 1
    for extent in most:
        elements *= int(extent.value.real) if isinstance(extent, Const) else 1
    is_known = all(isinstance(extent, Const) for extent in most)
    is_small = is_known and elements * array.dtype.bytes <= _STACK_BYTES
    space = Space.STACK if is_small else Space.SCRATCH
    buffer = Buffer(array.name, array.dtype, strides, space, True)
    return lambda body: Alloc(buffer, tuple(most), body)
