"""LoopNest to LLVM IR text: loops, scopes and memory spaces; vectors are explicit.

    define void @kernel(ptr launch, ptr team, i64 thread, ptr buffer...)

with the entry points of llvm_entry around it.

LLVM is asked only to select instructions, allocate registers and schedule: vector types, fused
multiply-adds and lane broadcasts are written here (ADR 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from loopwright.backends import llvm_check as check
from loopwright.backends import llvm_memory as memory
from loopwright.backends.llvm_entry import emit_entries
from loopwright.backends.llvm_hints import Metadata, freedom, is_independent
from loopwright.backends.llvm_loops import copy_loops, has_lanes
from loopwright.backends.llvm_outline import Procedure, outline
from loopwright.backends.llvm_procedures import Invocations, joined, kernel_attributes
from loopwright.backends.llvm_team import TEAM_FUNCTIONS, can_claim, is_for_teams
from loopwright.backends.llvm_text import Value, int_literal, plain_name
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Var
from loopwright.ir.extent import constant_trips
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.module import Module
from loopwright.ir.visit import loads, names, rebuild, statements, substitute

__all__ = ["emit_module"]

ARENA_ALIGN = 128  # scratch buffers start on cache-line pairs


def emit_module(
    nest: LoopNest, features: frozenset[str] = frozenset(), *, checked: bool = False
) -> Module:
    """The LLVM module of a nest: the kernel and the two functions that size its scratch memory.

    `features` are the machine's instruction set extensions; without them the code is portable.
    Where `checked`, addresses are held against limits that come with the launch: see llvm_check.
    """
    nest = check.with_limits(nest) if checked else nest
    kernel = _Emitter(nest, features, check.checked_names(nest) if checked else ())
    if nest.is_plain and not checked:
        kernel.outlined = outline(nest)
    has_team = is_for_teams(nest)
    kernel.claims = has_team and can_claim(nest)
    body = kernel.function()
    sizes = [
        _Emitter(nest, features).size_function(space, suffix)
        for space, suffix in ((Space.SCRATCH, "scratch"), (Space.PRIVATE, "private"))
    ]
    arrays = tuple(b.name for b in nest.buffers if b.space is Space.GLOBAL)
    entries = emit_entries(nest.name, len(arrays), claims=kernel.claims)
    team = [TEAM_FUNCTIONS] if has_team else []
    tools = [check.INSIDE] if checked else []
    parts = [*team, *tools, body, *sizes, entries, *kernel.metadata.lines]
    text, apart = joined(kernel, parts, lambda own: _Emitter(own, features))
    return Module("llvm", text, nest.name, arrays, nest.scalars, nest.is_plain, apart)


class _Emitter(Invocations):
    """One function being written."""

    def __init__(
        self, nest: LoopNest, features: frozenset[str], checked: tuple[str, ...] = ()
    ) -> None:
        super().__init__({b.name for b in nest.buffers if not b.writable}, features)
        self.nest = nest
        self.checked = checked  # buffers whose accesses are checked, in the order of their numbers
        self.arena: dict[int, memory.Memory] = {}  # by identity of the allocation
        self.claims = False  # threads claim pieces of parallel loops; else they have fixed shares
        self.metadata = Metadata()
        self.code.flags = freedom(nest)

    # -- functions ------------------------------------------------------------------------------

    def function(self) -> str:
        pointers = [f"%b{k}_{plain_name(b.name)}" for k, b in enumerate(self.nest.buffers)]
        arguments = ", ".join(
            f"ptr noalias {'' if b.writable else 'readonly '}{pointer}"
            for pointer, b in zip(pointers, self.nest.buffers, strict=True)
            if b.space is Space.GLOBAL
        )
        self._open_scalars()
        if self.checked:
            first = len(self.nest.scalars) - len(check.TOLD)
            self.told = self.code.emit(f"getelementptr i64, ptr %launch, i64 {first}")
        for pointer, buffer in zip(pointers, self.nest.buffers, strict=True):
            if buffer.space is Space.TABLE:
                count = len(self.nest.scalars)
                pointer = self.code.emit(f"getelementptr i64, ptr %launch, i64 {count}")
            is_inside = self.nest.is_plain and not self.checked
            self.declare(buffer, memory.Memory(pointer, buffer.dtype, is_inside=is_inside))
            if self.checked:
                ends = (check.limit_names(buffer.name, d) for d in range(len(buffer.strides)))
                self._limit(buffer, tuple((self.scope[low], self.scope[up]) for low, up in ends))
        self._open_arena(Space.SCRATCH, 1)
        self._open_arena(Space.PRIVATE, 2)
        self.statement(self.nest.body)
        head = f"define internal void @{self.nest.name}(ptr %launch, ptr %team, i64 %thread"
        head += f", {arguments})" if arguments else ")"
        return self.closed_function(head, kernel_attributes(self.nest))

    def procedure(self, procedure: Procedure) -> str:
        arguments = self.open_arguments(procedure)
        self.statement(procedure.body)
        return self.closed_function(f"define hidden void @{self.nest.name}({arguments})")

    def size_function(self, space: Space, suffix: str) -> str:
        self._open_scalars()
        total = Value("0", INT64)
        for alloc in self._arena_allocs(space):
            total = memory.index_binary(self.code, "add", total, self._bytes(alloc))
        self.code.effect(f"ret i64 {total.text}")
        head = f"define i64 @{self.nest.name}_{suffix}(ptr %launch) nounwind {{"
        return "\n".join([head, "entry:", *self.code.lines, "}"])

    def _open_scalars(self) -> None:
        for number, name in enumerate(self.nest.scalars):
            pointer = self.code.emit(f"getelementptr i64, ptr %launch, i64 {number}")
            self.scope[name] = Value(self.code.emit(f"load i64, ptr {pointer}, align 8"), INT64)

    def _arena_allocs(self, space: Space) -> Iterator[Alloc]:
        for stmt in statements(self.nest.body):
            if isinstance(stmt, Alloc) and stmt.buffer.space is space:
                yield stmt

    def _bytes(self, alloc: Alloc) -> Value:
        """Bytes of an arena buffer, rounded up to whole cache lines."""
        used = set().union(*map(names, (*alloc.shape, *alloc.buffer.strides)))
        if not used <= set(self.nest.scalars):
            raise InternalError(f"the size of '{alloc.buffer.name}' is not known at the launch")
        size = memory.index_binary(
            self.code, "mul", self._reach(alloc), Value(str(alloc.buffer.dtype.bytes), INT64)
        )
        size = memory.index_binary(self.code, "add", size, Value(str(ARENA_ALIGN - 1), INT64))
        found = int_literal(size)
        if found is not None:
            return Value(str(max(found, 0) // ARENA_ALIGN * ARENA_ALIGN), INT64)
        some = self.code.call("i64", "llvm.smax.i64", size, Value("0", INT64))
        return Value(self.code.emit(f"and i64 {some}, {-ARENA_ALIGN}"), INT64)

    def _reach(self, alloc: Alloc) -> Value:
        """Elements from the first to the last one of a buffer, gaps between them included."""
        total = Value("1", INT64)
        for extent, stride in zip(alloc.shape, alloc.buffer.strides, strict=True):
            far = memory.index_binary(self.code, "mul", self.index(extent - 1), self.index(stride))
            total = memory.index_binary(self.code, "add", total, far)
        return total

    def _open_arena(self, space: Space, word: int) -> None:
        """Give every arena buffer its place. All sizes depend on launch values only."""
        allocs = list(self._arena_allocs(space))
        if not allocs:
            return
        slot = self.code.emit(f"getelementptr i64, ptr %team, i64 {word}")
        base = self.code.emit(f"load ptr, ptr {slot}, align 8")
        if space is Space.PRIVATE:
            slot = self.code.emit(f"getelementptr i64, ptr %team, i64 {word + 1}")
            stride = self.code.emit(f"load i64, ptr {slot}, align 8")
            offset = self.code.emit(f"mul i64 {stride}, %thread")
            base = self.code.emit(f"getelementptr i8, ptr {base}, i64 {offset}")
        apart = self.metadata.apart(len(allocs)) if self.nest.is_plain else [""] * len(allocs)
        for alloc, tags in zip(allocs, apart, strict=True):
            self.arena[id(alloc)] = memory.Memory(base, alloc.buffer.dtype, tags)
            base = self.code.emit(f"getelementptr i8, ptr {base}, {self._bytes(alloc)}")

    # -- statements -----------------------------------------------------------------------------

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(body=body):
                for child in body:
                    self.statement(child)
            case For(mark=Mark.BLOCK | Mark.THREAD):
                # As a serial loop it would have one flow of control arrive at each barrier.
                raise InternalError(f"loop {stmt.var} is for a GPU, not for a processor")
            case For(mark=Mark.VECTOR):
                self._vector_loop(stmt)
            case For(mark=Mark.UNROLL):
                self._unrolled_loop(stmt)
            case For() if id(stmt) in self.outlined:
                self.invoke(self.nest.name, self.outlined[id(stmt)])
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Let():
                self._let(stmt)
            case Store(buffer=name, index=index, value=value):
                self.store(name, index, self.value(value))
            case Alloc():
                self._alloc(stmt)
            case Copy():
                self.statement(copy_loops(stmt, self.buffers[stmt.source].dtype))
            case Barrier():
                function = "lw_meet" if self.claims else "lw_barrier"
                self.code.effect(f"call void @{function}(ptr %team, i64 %thread)")
            case Prefetch(buffer=name, index=index, write=write, level=level):
                place = self.buffers[name]
                assert isinstance(place, memory.Memory)
                with self.one_lane(0, *index) if self.vector is not None else self.code.scope():
                    found = self.offset(name, index)
                    assert found is not None
                    # The address may lie anywhere.
                    pointer = memory.address(self.code, replace(place, is_inside=False), found[0])
                self.code.declarations["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
                self.code.effect(
                    f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, "
                    f"i32 {max(0, 4 - level)}, i32 1)"
                )
            case _:
                assert_never(stmt)

    def _loop(self, loop: For) -> None:
        start, stop, step = (self.index(x) for x in (loop.start, loop.stop, loop.step))
        if loop.mark is not Mark.PARALLEL:
            self._iterate(loop, start, stop, step)
        elif self.claims:
            self._claimed(loop, start, stop, step)
        else:
            self._iterate(loop, *self._share(start, stop, step), step)

    def _iterate(self, loop: For, start: Value, stop: Value, step: Value) -> None:
        """The iterations of a loop from `start` to `stop`."""
        code = self.code
        body, done = code.label(f"{loop.var}."), code.label("done.")
        entered = code.block
        code.effect(
            f"br i1 {code.emit(f'icmp slt {start}, {stop.text}')}, label %{body}, label %{done}"
        )
        code.start(body)
        var, following = code.name(f"{loop.var}."), code.name("next.")
        # The back edge's block is known only after the body: remember the line and fill it in.
        phi_line = len(code.lines)
        code.lines.append("")
        group = self.metadata.group() if self.nest.is_plain and is_independent(loop) else None
        tags, code.tags = code.tags, code.tags if group is None else f", !llvm.access.group {group}"
        with self.bound(loop.var, Value(var, INT64)):
            if loop.until is not None:
                inner = code.label(f"{loop.var}.inner.")
                code.effect(f"br {self.flag(loop.until)}, label %{done}, label %{inner}")
                code.start(inner)
            self.statement(loop.body)
        code.tags = tags
        code.lines.append(f"  {following} = add nsw i64 {var}, {step.text}")
        code.lines[phi_line] = (
            f"  {var} = phi i64 [ {start.text}, %{entered} ], [ {following}, %{code.block} ]"
        )
        more = code.emit(f"icmp slt i64 {following}, {stop.text}")
        facts = ""
        if self.nest.is_plain:
            facts = self.metadata.loop(loop, group)
        code.effect(f"br i1 {more}, label %{body}, label %{done}{facts}")
        code.start(done)

    def _claimed(self, loop: For, start: Value, stop: Value, step: Value) -> None:
        """The pieces of a parallel loop that this thread gets, one after the other."""
        code = self.code
        trips = self._trip_count(start, stop, step)
        count = code.emit(f"call i64 @lw_pieces(ptr %team, i64 {trips})")
        pieces = code.emit(f"mul nsw i64 {count}, {code.emit('load i64, ptr %team, align 8')}")
        head, body, done = (code.label(x) for x in ("claim.", "piece.", "claimed."))
        entered = code.block
        code.branch(head)
        code.start(head)
        last, piece = code.name("last."), code.name("piece.")
        phi_line = len(code.lines)
        code.lines.append("")
        code.effect(
            f"{piece} = call i64 @lw_claim(ptr %team, i64 %thread, i64 {count}, i64 {last})"
        )
        more = code.emit(f"icmp slt i64 {piece}, {pieces}")
        code.effect(f"br i1 {more}, label %{body}, label %{done}")
        code.start(body)
        with code.scope():
            self._iterate(loop, *self._part((start, stop, step), trips, piece, pieces), step)
        code.lines[phi_line] = f"  {last} = phi i64 [ -1, %{entered} ], [ {piece}, %{code.block} ]"
        code.branch(head)
        code.start(done)

    def _share(self, start: Value, stop: Value, step: Value) -> tuple[Value, Value]:
        """This thread's part of the iterations."""
        threads = self.code.emit("load i64, ptr %team, align 8")
        trips = self._trip_count(start, stop, step)
        return self._part((start, stop, step), trips, "%thread", threads)

    def _trip_count(self, start: Value, stop: Value, step: Value) -> str:
        """How many iterations a loop has; not above zero where it has none."""
        code = self.code
        span = code.emit(f"sub nsw i64 {stop.text}, {start.text}")
        rounded = code.emit(f"add nsw i64 {span}, {step.text}")
        less = code.emit(f"sub nsw i64 {rounded}, 1")
        return code.emit(f"sdiv i64 {less}, {step.text}")

    def _part(
        self, loop: tuple[Value, Value, Value], trips: str, number: str, parts: str
    ) -> tuple[Value, Value]:
        """Part `number` of the iterations, the first has the most: from ceil(trips*t/T) on."""
        code = self.code
        start, stop, step = loop

        def edge(part: str, spare: str) -> str:
            scaled = code.emit(f"mul nsw i64 {trips}, {part}")
            above = code.emit(f"add nsw i64 {scaled}, {spare}")
            first = code.emit(f"sdiv i64 {above}, {parts}")
            distance = code.emit(f"mul nsw i64 {first}, {step.text}")
            return code.emit(f"add nsw i64 {start.text}, {distance}")

        spare = code.emit(f"sub nsw i64 {parts}, 1")
        low, high = edge(number, spare), edge(code.emit(f"add nsw i64 {number}, 1"), spare)
        nearer = code.call("i64", "llvm.smin.i64", Value(high, INT64), stop)
        return Value(low, INT64), Value(nearer, INT64)

    def _let(self, stmt: Let) -> None:
        value = stmt.value
        if self.varies(value) and value.dtype == INT64 and not loads(value):
            # Written out where it is used: subscripts stay sums in which lanes can be seen.
            here = {stmt.name: value}
            self.statement(rebuild(stmt.body, expression=lambda e: substitute(e, here)))
            return
        if value.dtype == INT64 and not self.varies(value):
            self.wraps = True
            bound = self.index(value)
            self.wraps = False
        else:
            bound = self.value(value)
        with self.bound(stmt.name, bound):
            self.statement(stmt.body)

    def _vector_loop(self, loop: For) -> None:
        lanes = self._trips(loop)
        if lanes == 0:
            return
        if lanes == 1 or self.vector is not None or not has_lanes(loop):
            self._unrolled_loop(loop)
            return
        if loop.start != Const(0) or loop.step != Const(1):
            self._shifted_vector_loop(loop, lanes)
            return
        self.vector = (loop.var, lanes)
        with self.bound(loop.var, Value("0", INT64)):
            self.statement(loop.body)
        self.vector = None

    def _shifted_vector_loop(self, loop: For, lanes: int) -> None:
        """The same loop with a variable that counts lanes from 0."""
        first, lane = Var(f"{loop.var}.first"), Var(f"{loop.var}.lane")
        here = {loop.var: first + lane * loop.step}
        body = rebuild(loop.body, expression=lambda e: substitute(e, here))
        with self.bound(first.name, self.index(loop.start)):
            self._vector_loop(For(lane.name, Const(0), Const(lanes), body, Const(1), Mark.VECTOR))

    def _unrolled_loop(self, loop: For) -> None:
        start, step = self.index(loop.start), self.index(loop.step)
        for number in range(self._trips(loop)):
            distance = memory.index_binary(self.code, "mul", Value(str(number), INT64), step)
            here = memory.index_binary(self.code, "add", start, distance)
            with self.bound(loop.var, here):
                self.statement(loop.body)

    def _trips(self, loop: For) -> int:
        bounds = [int_literal(self.index(x)) for x in (loop.start, loop.stop, loop.step)]
        trips = len(range(*bounds)) if None not in bounds else constant_trips(loop)  # type: ignore[arg-type]
        if trips is None:
            raise InternalError(f"loop '{loop.var}' is marked {loop.mark.value} but not constant")
        return trips

    def _branch(self, stmt: If) -> None:
        code = self.code
        then, otherwise, done = (code.label(x) for x in ("then.", "else.", "end."))
        flag = self.flag(stmt.cond)
        code.effect(f"br {flag}, label %{then}, label %{otherwise}{self.metadata.branch(stmt)}")
        for label, body in ((then, stmt.body), (otherwise, stmt.orelse)):
            code.start(label)
            with code.scope():
                if body is not None:
                    self.statement(body)
            code.branch(done)
        code.start(done)

    def _limit(self, buffer: Buffer, limits: tuple[tuple[Value, Value], ...]) -> None:
        """Let accesses of a buffer in memory be checked."""
        self.limits[buffer.name] = self.checked.index(buffer.name) + 1, limits

    def _alloc(self, stmt: Alloc) -> None:
        self.declare(stmt.buffer, self._place_of(stmt))
        if self.checked and stmt.buffer.space is not Space.REGISTER:
            zero = Value("0", INT64)
            self._limit(stmt.buffer, tuple((zero, self.index(x)) for x in stmt.shape))
        self.statement(stmt.body)

    def _place_of(self, stmt: Alloc) -> memory.Memory | memory.Registers:
        buffer = stmt.buffer
        if id(stmt) in self.arena:
            return self.arena[id(stmt)]
        shape = [int_literal(self.index(x)) for x in stmt.shape]
        reach = int_literal(self._reach(stmt))
        if None in shape or reach is None:
            raise InternalError(f"buffer '{buffer.name}' needs a constant shape")
        match buffer.space:
            case Space.REGISTER:
                return memory.make_registers(
                    self.code, buffer.dtype, tuple(int(x or 0) for x in shape)
                )
            case Space.STACK:
                size = max(reach * buffer.dtype.bytes, 1)
                return memory.Memory(self.code.alloca("i8", size), buffer.dtype)
        raise InternalError(f"no {buffer.space.value} memory on a processor: '{buffer.name}'")
