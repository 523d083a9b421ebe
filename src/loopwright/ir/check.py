"""Valid in, valid out: the invariants of Program and LoopNest, run after every stage in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import assert_never

from loopwright.diagnostics import InternalError
from loopwright.ir.atomics import has_atomic
from loopwright.ir.check_expr import (
    InvalidExpr,
    Scope,
    check_expr,
    check_integer,
    require_index,
    require_integer,
)
from loopwright.ir.dtypes import BOOL, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Const, Expr, Load
from loopwright.ir.islkit import NotAffine, affine, is_order_of, tuple_of
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Block,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Mark,
    MeshBroadcast,
    MeshMessage,
    Prefetch,
    Space,
    Stmt,
    Store,
    Wait,
    WarpMma,
)
from loopwright.ir.program import Access, Program, Role, Statement
from loopwright.ir.schedule_tree import band_name, band_nodes
from loopwright.ir.text import expr_text, nest_text, program_text, statement_text, stmt_text
from loopwright.ir.visit import constant_trips, expressions, loads, names, statements_inside, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = ["SeenLoops", "check_nest", "check_program"]


def check_program(program: Program) -> None:
    """Raise InternalError, with the place and the whole text, when `program` breaks a rule."""
    with _reported(f"program {program.name}", lambda: program_text(program)):
        _check_program(program)


def _check_program(program: Program) -> None:
    names = [*program.params, *(a.name for a in program.arrays)]
    _check_unique("name", names)
    _check_unique("statement", [s.name for s in program.statements])
    params = dict.fromkeys(program.params, INT64)
    sizes = Scope(params, {})
    for array in program.arrays:
        with _at(partial(str, f"array {array.name}")):
            for extent in array.shape:
                check_integer(extent, sizes)
    if not set(tuple_of(program.context)[0]) <= set(program.params):
        raise _Invalid("the context uses names that are no parameters")
    for statement in program.statements:
        with _at(partial(statement_text, statement)):
            _check_statement(statement, program)
    if not is_order_of(program.schedule, [s.domain for s in program.statements]):
        raise _Invalid("the schedule does not order exactly the points of the statements")
    for band in band_nodes(program.schedule):
        name, members = band_name(band), band.band_n_member()
        if members != 1 or not name:
            raise _Invalid(f"band '{name}' has {members} members; each has one, and a name")


def _check_statement(statement: Statement, program: Program) -> None:
    params, name, dims = tuple_of(statement.domain)
    if name != statement.name or dims != statement.iterators:
        raise _Invalid(f"the domain is that of {name}[{', '.join(dims)}]")
    if not set(params) <= set(program.params):
        raise _Invalid("the domain uses names that are no parameters")
    _check_unique("iterator", [*program.params, *statement.iterators])
    arrays = {a.name: a for a in program.arrays}
    scope = Scope(
        dict.fromkeys((*program.params, *statement.iterators), INT64),
        {a.name: (a.dtype, a.rank) for a in program.arrays},
    )
    write = statement.write
    check_expr(statement.value, scope)
    check_expr(write.load(), scope)
    if arrays[write.array].role is Role.IN:
        raise _Invalid(f"array {write.array} is read only")
    if statement.value.dtype != write.dtype:
        raise _Invalid(f"{write.dtype} element gets a {statement.value.dtype} value")
    for access in (write, *statement.reads):
        _check_affine(access, statement)


def _check_affine(access: Access, statement: Statement) -> None:
    for entry in access.index:
        try:
            affine(entry, statement.domain.get_space())
        except NotAffine as error:
            raise _Invalid(f"subscript is not affine: {expr_text(error.expr)}") from error


def check_nest(nest: LoopNest, seen: SeenLoops | None = None) -> None:
    """Raise InternalError, with the place and the whole text, when `nest` breaks a rule.

    Names are unique along every path from the root: a binding never hides another. Siblings may
    use the same name again. Loops `seen` before with the same surroundings are in order: passes
    leave most of a nest as it is.
    """
    seen = SeenLoops() if seen is None else seen
    with _reported(f"nest {nest.name}", lambda: nest_text(nest)):
        _check_unique("scalar", list(nest.scalars))
        around = _Around(Scope(dict.fromkeys(nest.scalars, INT64), {}), {})
        for buffer in nest.buffers:
            with _at(partial(str, f"buffer {buffer.name}")):
                _check_argument(buffer)
                for stride in buffer.strides:
                    check_integer(stride, around.scope)
            around = around.declare(buffer)
        _check_stmt(nest.body, around, seen)


_ARGUMENTS = (Space.GLOBAL, Space.TABLE)
_OWN = (Space.PRIVATE, Space.STACK, Space.REGISTER, Space.SCRATCHPAD)  # memory of one thread


def _check_argument(buffer: Buffer) -> None:
    if buffer.space not in _ARGUMENTS:
        raise _Invalid("an argument lives in global memory or in the table")
    if buffer.space is Space.TABLE and (buffer.dtype != INT64 or buffer.writable):
        raise _Invalid("the table holds int64 and is read only")


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a statement of a nest."""

    scope: Scope
    buffers: Mapping[str, Buffer]
    fixed: frozenset[str] = frozenset()  # variables whose values are known once loops are unrolled
    marks: frozenset[Mark] = frozenset()  # of the loops around
    axes: frozenset[tuple[Mark, Axis]] = frozenset()  # that the loops around are laid along
    varying: frozenset[str] = frozenset()  # names whose values differ between threads of a block
    parted: bool = False  # whether threads of a block may take different ways to get here
    scopes: frozenset[str] = frozenset()  # that may be left from here

    def bind(self, name: str, dtype: DType, *values: Expr) -> _Around:
        """With a name whose value these expressions decide."""
        self._check_free(name)
        scope = Scope({**self.scope.variables, name: dtype}, self.scope.arrays)
        varying = self.varying | {name} if self.varies(*values) else self.varying
        return replace(self, scope=scope, varying=varying)

    def part(self, *decisions: Expr) -> _Around:
        """Behind a branch or loop head that these expressions decide."""
        return replace(self, parted=True) if self.varies(*decisions) else self

    def varies(self, *values: Expr) -> bool:
        """Whether threads of a block may disagree on a value: by their number or own memory."""
        if Mark.THREAD not in self.marks:
            return False
        return any(
            names(value) & self.varying
            or any(self.buffer(load.array).space in _OWN for load in loads(value))
            for value in values
        )

    def declare(self, buffer: Buffer) -> _Around:
        self._check_free(buffer.name)
        arrays = {**self.scope.arrays, buffer.name: (buffer.dtype, len(buffer.strides))}
        scope = Scope(self.scope.variables, arrays)
        return replace(self, scope=scope, buffers={**self.buffers, buffer.name: buffer})

    def _check_free(self, name: str) -> None:
        if name in self.scope.variables or name in self.buffers:
            raise _Invalid(f"name {name} is bound twice")

    def buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise _Invalid(f"buffer {name} is not declared")
        return self.buffers[name]

    def target(self, name: str) -> Buffer:
        buffer = self.buffer(name)
        if buffer.space in _ARGUMENTS and not buffer.writable:
            raise _Invalid(f"buffer {name} is not writable")
        return buffer


class SeenLoops:
    """Loops that have been checked, as objects, with what stood around them."""

    def __init__(self) -> None:
        self._around: IdentityMap[Stmt, _Around] = IdentityMap()

    def has(self, stmt: Stmt, around: _Around) -> bool:
        return self._around.get(stmt) == around

    def add(self, stmt: Stmt, around: _Around) -> None:
        self._around[stmt] = around


def _check_stmt(stmt: Stmt, around: _Around, seen: SeenLoops) -> None:
    """Check one statement, then those below it; the fault is reported with the innermost one."""
    if isinstance(stmt, For) and seen.has(stmt, around):
        return
    with _at(partial(stmt_text, stmt)):
        ended = around.bind(stmt.var, INT64) if isinstance(stmt, For) and stmt.until else around
        for expr in expressions(stmt):
            # What ends a loop sees its variable; its bounds do not.
            is_end = isinstance(stmt, For) and expr is stmt.until
            check_expr(expr, ended.scope if is_end else around.scope)
            _check_registers((part for part in walk(expr) if isinstance(part, Load)), around)
        inner = _check_node(stmt, around)
    for child in statements_inside(stmt):
        _check_stmt(child, inner, seen)
    if isinstance(stmt, For):
        seen.add(stmt, around)


def _check_node(stmt: Stmt, around: _Around) -> _Around:
    """Check the statement itself and return what stands around those below it."""
    match stmt:
        case For():
            return _check_loop(stmt, around)
        case If(cond=cond):
            if cond.dtype != BOOL:
                raise _Invalid(f"condition is {cond.dtype}, not bool")
            return around.part(cond)
        case Let(name=name, value=value):
            return around.bind(name, value.dtype, value)
        case Alloc():
            return _check_alloc(stmt, around)
        case Store(buffer=name, index=index, value=value):
            buffer = around.target(name)
            require_index(index, len(buffer.strides))
            _check_registers((Load(name, index, buffer.dtype),), around)
            if value.dtype != buffer.dtype:
                raise _Invalid(f"{buffer.dtype} element gets a {value.dtype} value")
            if stmt.is_atomic:
                _check_update(stmt, buffer)
        case Copy():
            _check_copy(stmt, around)
        case MeshBroadcast():
            _check_broadcast(stmt, around)
        case MeshMessage():
            _check_message(stmt, around)
        case Prefetch(buffer=name, index=index):
            require_index(index, len(around.buffer(name).strides))
        case Barrier(scope=scope):
            _check_barrier(scope, around)
        case Wait(pending=pending):
            if pending < 0:
                raise _Invalid("a wait leaves none or more groups pending")
        case WarpMma():
            _check_mma(stmt, around)
        case LabelledBlock(name=name):
            if name in around.scopes:
                raise _Invalid(f"scope {name} is open already")
            return replace(around, scopes=around.scopes | {name})
        case Leave(name=name):
            if name not in around.scopes:
                raise _Invalid(f"no scope {name} can be left from here")
        case Block() | Commit():
            pass
        case _:
            assert_never(stmt)
    return around


def _check_loop(stmt: For, around: _Around) -> _Around:
    for bound in (stmt.start, stmt.stop, stmt.step):
        require_integer(bound)
    match stmt.step:
        case Const(value=int(value)) if value <= 0:
            raise _Invalid("the step is not positive")
    if stmt.until is not None and (stmt.until.dtype != BOOL or stmt.mark is not Mark.SERIAL):
        raise _Invalid("what ends a loop is a condition, and the loop is serial")
    if stmt.interrupt is not None:
        if stmt.interrupt.scope not in around.scopes or stmt.mark is not Mark.SERIAL:
            raise _Invalid(f"no interrupt can leave {stmt.interrupt.scope} from here")
        around.target(stmt.interrupt.status)
    if stmt.mark is Mark.PARALLEL and Mark.PARALLEL in around.marks:
        raise _Invalid("a parallel loop stands inside another")
    for outer in _NOT_INSIDE.get(stmt.mark, ()):
        if outer in around.marks:
            raise _Invalid(f"a {stmt.mark.value} loop stands inside a {outer.value} loop")
    if stmt.axis is not None and stmt.mark not in (Mark.BLOCK, Mark.THREAD):
        raise _Invalid(f"a {stmt.mark.value} loop is laid along an axis")
    if stmt.axis is not None and (stmt.mark, stmt.axis) in around.axes:
        raise _Invalid(f"two {stmt.mark.value} loops are laid along axis {stmt.axis.value}")
    if stmt.copies and stmt.mark is not Mark.SERIAL:
        raise _Invalid(f"a {stmt.mark.value} loop has copies of its own")
    if stmt.in_order and stmt.mark is not Mark.UNROLL:
        raise _Invalid(f"iterations of a {stmt.mark.value} loop are not kept in order")
    bounds = (stmt.start, stmt.stop, stmt.step)
    inner = around.part(*bounds).bind(stmt.var, INT64, *bounds)
    if stmt.mark is Mark.THREAD:
        inner = replace(inner, varying=inner.varying | {stmt.var})
    inner = replace(inner, marks=around.marks | {stmt.mark})
    if stmt.mark is not Mark.SERIAL:
        inner = replace(inner, scopes=frozenset())
    if stmt.axis is not None:
        inner = replace(inner, axes=around.axes | {(stmt.mark, stmt.axis)})
    if stmt.until is not None:
        inner = inner.part(stmt.until)
    if stmt.mark not in (Mark.VECTOR, Mark.UNROLL):
        return inner
    if constant_trips(stmt) is None:
        raise _Invalid(f"a loop marked {stmt.mark.value} has no constant extent")
    if not names(stmt.start) <= around.fixed:
        return inner
    return replace(inner, fixed=around.fixed | {stmt.var})


# A grid of blocks of threads, with lanes and unrolled iterations inside of them; a team has none.
_LANES = (Mark.VECTOR, Mark.SIMD)
_NOT_INSIDE: dict[Mark, tuple[Mark, ...]] = {
    Mark.PARALLEL: (Mark.BLOCK, Mark.THREAD, *_LANES),
    Mark.BLOCK: (Mark.THREAD, Mark.PARALLEL, *_LANES),
    Mark.THREAD: (Mark.PARALLEL, *_LANES),
}


def _check_barrier(scope: BarrierScope, around: _Around) -> None:
    """All threads of the team, or of the block, arrive: each of them, and equally often."""
    if (scope is BarrierScope.BLOCK) != bool(around.marks & {Mark.BLOCK, Mark.THREAD}):
        raise _Invalid(f"a barrier of the {scope.value} stands where there is none")
    if around.marks & {Mark.PARALLEL, *_LANES}:
        raise _Invalid("a barrier stands inside a parallel or vector loop")
    if Mark.BLOCK in around.marks and Mark.THREAD not in around.marks:
        raise _Invalid("a barrier stands in a block but outside of its threads")
    if around.parted:
        raise _Invalid("a barrier stands where threads of a block may not all arrive")


def _check_update(stmt: Store, buffer: Buffer) -> None:
    """An atomic store is one operation on an element of memory that all blocks see."""
    match stmt.value:
        case Binary(op=op, x=Load(array=stmt.buffer, index=stmt.index), y=y):
            is_known = has_atomic(op, buffer.dtype)
            reads = any(isinstance(e, Load) and e.array == stmt.buffer for e in walk(y))
            if is_known and not reads and buffer.space in (Space.GLOBAL, Space.SCRATCH):
                return
    raise _Invalid(f"no atomic operation: {stmt_text(stmt)}")


def _check_alloc(stmt: Alloc, around: _Around) -> _Around:
    buffer = stmt.buffer
    if buffer.space in _ARGUMENTS:
        raise _Invalid(f"{buffer.space.value} memory is not allocated")
    if buffer.planes and not (buffer.dtype.is_complex and buffer.planes.bit_count() == 1):
        raise _Invalid(f"{buffer.dtype} memory has no planes of {buffer.planes}")
    if len(buffer.strides) != len(stmt.shape):
        raise _Invalid(f"{len(buffer.strides)} strides for rank {len(stmt.shape)}")
    for size in stmt.shape:
        require_integer(size)
    for stride in buffer.strides:
        check_integer(stride, around.scope)
    is_fixed = all(isinstance(size, Const) for size in stmt.shape)
    if buffer.space in (Space.REGISTER, Space.STACK, Space.SCRATCHPAD) and not is_fixed:
        raise _Invalid(f"a buffer in {buffer.space.value} memory has a constant shape")
    for mark in (Mark.PARALLEL, Mark.BLOCK, Mark.THREAD):
        if buffer.space is Space.SCRATCH and mark in around.marks:
            raise _Invalid(
                f"scratch memory is shared, it is not allocated inside a {mark.value} loop"
            )
    if buffer.space is Space.SHARED and Mark.THREAD in around.marks:
        raise _Invalid("shared memory is not allocated inside a thread loop")
    return around.declare(buffer)


def _check_copy(stmt: Copy, around: _Around) -> None:
    target, source = around.target(stmt.target), around.buffer(stmt.source)
    if target.dtype != source.dtype:
        raise _Invalid(f"copy of {source.dtype} elements to {target.dtype}")
    for buffer in (target, source):
        if buffer.space is Space.REGISTER and stmt.is_async:
            raise _Invalid("an asynchronous copy does not reach registers")
        if buffer.space is Space.REGISTER and not all(isinstance(n, Const) for n in stmt.shape):
            raise _Invalid("a copy to or from registers has no constant shape")
    for name, start in ((stmt.target, stmt.target_start), (stmt.source, stmt.source_start)):
        _check_registers((Load(name, start, target.dtype),), around)
    require_index(stmt.target_start, len(target.strides))
    require_index(stmt.source_start, len(source.strides))
    if len(stmt.shape) > min(len(target.strides), len(source.strides)):
        raise _Invalid("a copy has more dimensions than a buffer")
    require_index(stmt.shape, len(stmt.shape))
    if stmt.width > 1:
        _check_width(stmt, target, source)


def _check_broadcast(stmt: MeshBroadcast, around: _Around) -> None:
    if Mark.THREAD not in around.marks:
        raise _Invalid("cores do not come to a broadcast together")
    if stmt.axis not in (Axis.ROW, Axis.COLUMN):
        raise _Invalid(f"a broadcast goes along rows or columns, not {stmt.axis.value}")
    target, source = around.target(stmt.target), around.buffer(stmt.source)
    for buffer, start in ((target, stmt.target_start), (source, stmt.source_start)):
        if buffer.space is not Space.SCRATCHPAD:
            raise _Invalid(f"a broadcast goes from scratchpad to scratchpad, not to {buffer.name}")
        require_index(start, len(buffer.strides))
        if len(stmt.shape) > len(start):
            raise _Invalid("a broadcast has more dimensions than its buffers")
    if target.dtype != source.dtype:
        raise _Invalid(f"broadcast of {source.dtype} to {target.dtype}")


def _check_message(stmt: MeshMessage, around: _Around) -> None:
    if Mark.THREAD not in around.marks:
        raise _Invalid("cores of a mesh send messages, and nobody else")
    buffer = around.target(stmt.buffer)
    if buffer.space is not Space.SCRATCHPAD:
        raise _Invalid(f"a message goes from scratchpad to scratchpad, not to {buffer.name}")
    require_index(stmt.start, len(buffer.strides))
    if len(stmt.shape) != 1 or buffer.strides[-1:] != (Const(1),):
        raise _Invalid("a message has elements that lie one behind another")


def _check_mma(stmt: WarpMma, around: _Around) -> None:
    if around.parted or Mark.THREAD not in around.marks:
        raise _Invalid("the lanes of a warp do not come to a matrix product together")
    for name, start, rank in (
        (stmt.sums, stmt.sums_start, 2),
        (stmt.left, stmt.left_start, 1),
        (stmt.right, stmt.right_start, 1),
    ):
        buffer = around.target(name)
        if buffer.space is not Space.REGISTER or buffer.dtype != FLOAT64:
            raise _Invalid(f"a matrix product takes registers of float64, not {name}")
        require_index(start, rank)
        _check_registers((Load(name, start, buffer.dtype),), around)


def _check_width(stmt: Copy, target: Buffer, source: Buffer) -> None:
    """Runs of elements that move at once are contiguous, and the last extent is whole ones."""
    if any(buffer.strides[-1:] != (Const(1),) for buffer in (target, source)):
        raise _Invalid("a copy of several elements at once needs a last stride of 1")
    match stmt.shape[-1:]:
        case (Const(value=int(extent)),) if extent % stmt.width == 0:
            return
    raise _Invalid(f"a copy by {stmt.width} has a last extent that is no constant multiple")


def _check_registers(accesses: Iterable[Load], around: _Around) -> None:
    """Registers have no address: their subscripts are known when the loops are unrolled."""
    for access in accesses:
        if around.buffer(access.array).space is not Space.REGISTER:
            continue
        if not set().union(*map(names, access.index)) <= around.fixed:
            raise _Invalid(f"register subscript varies at run time: {expr_text(access)}")


def _check_unique(what: str, names: list[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise _Invalid(f"{what} {name} is declared twice")


class _Invalid(Exception):  # noqa: N818, names what was found
    """A broken rule, and the text of the place once it is known."""

    def __init__(self, rule: str, place: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.place = place


@contextmanager
def _at(place: Callable[[], str]) -> Iterator[None]:
    """Name the place of whatever is found wrong inside the block."""
    try:
        yield
    except InvalidExpr as error:
        where = "" if error.expr is None else f", in {expr_text(error.expr)}"
        raise _Invalid(error.rule + where, _head(place())) from error
    except _Invalid as error:
        raise _Invalid(error.rule, error.place or _head(place())) from error


def _head(place: str) -> str:
    """The first two lines: enough to find it in the dump that follows."""
    return "\n".join(place.split("\n")[:2])


@contextmanager
def _reported(what: str, dump: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except _Invalid as error:
        place = f"\nat {error.place}" if error.place else ""
        raise InternalError(f"{what} is not valid: {error.rule}{place}", dump()) from error
