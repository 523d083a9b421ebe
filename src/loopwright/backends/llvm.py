"""LoopNest to LLVM IR text: loops, scopes and memory spaces; vectors are explicit.

    define void @kernel(ptr launch, ptr team, i64 thread, ptr buffer...)

with the entry points of llvm_entry around it.

LLVM is asked only to select instructions, allocate registers and schedule: vector types, fused
multiply-adds and lane broadcasts are written here (ADR 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from loopwright.backends import llvm_memory as memory
from loopwright.backends.llvm_entry import emit_entries
from loopwright.backends.llvm_expr import Expressions
from loopwright.backends.llvm_team import BARRIER
from loopwright.backends.llvm_text import Value, int_literal
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import (
    Const,
    Load,
    Var,
)
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
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
from loopwright.ir.visit import statements

__all__ = ["emit_module"]

ARENA_ALIGN = 128  # scratch buffers start on cache-line pairs


def emit_module(nest: LoopNest, features: frozenset[str] = frozenset()) -> Module:
    """The LLVM module of a nest: the kernel and the two functions that size its scratch memory.

    `features` are the machine's instruction set extensions; without them the code is portable.
    """
    kernel = _Emitter(nest, features)
    body = kernel.function()
    sizes = [
        _Emitter(nest, features).size_function(space, suffix)
        for space, suffix in ((Space.SCRATCH, "scratch"), (Space.PRIVATE, "private"))
    ]
    names = tuple(b.name for b in nest.buffers if b.space is Space.GLOBAL)
    entries = emit_entries(nest.name, len(names))
    text = "\n".join([*kernel.code.declarations, BARRIER, body, *sizes, entries])
    return Module("llvm", text, nest.name, names, nest.scalars)


class _Emitter(Expressions):
    """One function being written."""

    def __init__(self, nest: LoopNest, features: frozenset[str]) -> None:
        super().__init__({b.name for b in nest.buffers if not b.writable}, features)
        self.nest = nest

    # -- functions ------------------------------------------------------------------------------

    def function(self) -> str:
        arguments = ", ".join(
            f"ptr noalias %b_{b.name}" if b.writable else f"ptr noalias readonly %b_{b.name}"
            for b in self.nest.buffers
            if b.space is Space.GLOBAL
        )
        self._open_scalars()
        for buffer in self.nest.buffers:
            pointer = f"%b_{buffer.name}"
            if buffer.space is Space.TABLE:
                count = len(self.nest.scalars)
                pointer = self.code.emit(f"getelementptr i64, ptr %launch, i64 {count}")
            self.declare(buffer, memory.Memory(pointer, buffer.dtype))
        self._open_arena(Space.SCRATCH, 1)
        self._open_arena(Space.PRIVATE, 2)
        self.statement(self.nest.body)
        self.code.effect("ret void")
        head = f"define internal void @{self.nest.name}(ptr %launch, ptr %team, i64 %thread"
        head += f", {arguments}) nounwind {{" if arguments else ") nounwind {"
        return "\n".join([head, "entry:", *self.code.entry, *self.code.lines, "}"])

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
        size = Value(str(alloc.buffer.dtype.bytes), INT64)
        for extent in alloc.shape:
            size = memory.index_binary(self.code, "mul", size, self.index(extent))
        size = memory.index_binary(self.code, "add", size, Value(str(ARENA_ALIGN - 1), INT64))
        found = int_literal(size)
        if found is not None:
            return Value(str(found // ARENA_ALIGN * ARENA_ALIGN), INT64)
        return Value(self.code.emit(f"and i64 {size.text}, {-ARENA_ALIGN}"), INT64)

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
        for alloc in allocs:
            self.declare(alloc.buffer, memory.Memory(base, alloc.buffer.dtype))
            base = self.code.emit(f"getelementptr i8, ptr {base}, {self._bytes(alloc)}")

    # -- statements -----------------------------------------------------------------------------

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(body=body):
                for child in body:
                    self.statement(child)
            case For(mark=Mark.VECTOR):
                self._vector_loop(stmt)
            case For(mark=Mark.UNROLL):
                self._unrolled_loop(stmt)
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Let(name=name, value=value, body=inner):
                bound = self.index(value) if value.dtype == INT64 else self.value(value)
                with self.bound(name, bound):
                    self.statement(inner)
            case Store(buffer=name, index=index, value=value):
                self.store(name, index, self.value(value))
            case Alloc():
                self._alloc(stmt)
            case Copy():
                self.statement(_copy_loops(stmt, self.buffers[stmt.source].dtype))
            case Barrier():
                self.code.effect("call void @lw_barrier(ptr %team)")
            case Prefetch(buffer=name, index=index, write=write, level=level):
                place = self.buffers[name]
                assert isinstance(place, memory.Memory)
                pointer = memory.address(self.code, place, self.offset(name, index)[0])
                self.code.declarations["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
                self.code.effect(
                    f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, "
                    f"i32 {max(0, 4 - level)}, i32 1)"
                )
            case _:
                assert_never(stmt)

    def _loop(self, loop: For) -> None:
        code = self.code
        start, stop, step = (self.index(x) for x in (loop.start, loop.stop, loop.step))
        if loop.mark is Mark.PARALLEL:
            start, stop = self._share(start, stop, step)
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
        with self.bound(loop.var, Value(var, INT64)):
            self.statement(loop.body)
        code.lines.append(f"  {following} = add nsw i64 {var}, {step.text}")
        code.lines[phi_line] = (
            f"  {var} = phi i64 [ {start.text}, %{entered} ], [ {following}, %{code.block} ]"
        )
        more = code.emit(f"icmp slt i64 {following}, {stop.text}")
        code.effect(f"br i1 {more}, label %{body}, label %{done}")
        code.start(done)

    def _share(self, start: Value, stop: Value, step: Value) -> tuple[Value, Value]:
        """This thread's contiguous part of the iterations: trips*t/T to trips*(t+1)/T."""
        code = self.code
        threads = code.emit("load i64, ptr %team, align 8")
        span = code.emit(f"sub nsw i64 {stop.text}, {start.text}")
        rounded = code.emit(f"add nsw i64 {span}, {step.text}")
        less = code.emit(f"sub nsw i64 {rounded}, 1")
        trips = code.emit(f"sdiv i64 {less}, {step.text}")

        def edge(thread: str) -> str:
            scaled = code.emit(f"mul nsw i64 {trips}, {thread}")
            first = code.emit(f"sdiv i64 {scaled}, {threads}")
            distance = code.emit(f"mul nsw i64 {first}, {step.text}")
            return code.emit(f"add nsw i64 {start.text}, {distance}")

        low, high = edge("%thread"), edge(code.emit("add nsw i64 %thread, 1"))
        nearer = code.call("i64", "llvm.smin.i64", Value(high, INT64), stop)
        return Value(low, INT64), Value(nearer, INT64)

    def _vector_loop(self, loop: For) -> None:
        lanes = len(self._constant_range(loop))
        assert self.vector is None, "vector loops do not nest"
        if lanes == 1:
            self._unrolled_loop(loop)
            return
        start = self.index(loop.start)
        first = Value(start.text, INT64)
        self.vector = (loop.var, lanes)
        with self.bound(loop.var, first):
            self.statement(loop.body)
        self.vector = None

    def _unrolled_loop(self, loop: For) -> None:
        for value in self._constant_range(loop):
            with self.bound(loop.var, Value(str(value), INT64)):
                self.statement(loop.body)

    def _constant_range(self, loop: For) -> range:
        bounds = [int_literal(self.index(x)) for x in (loop.start, loop.stop, loop.step)]
        if None in bounds:
            raise InternalError(f"loop '{loop.var}' is marked {loop.mark.value} but not constant")
        return range(*bounds)  # type: ignore[arg-type]

    def _branch(self, stmt: If) -> None:
        code = self.code
        then, otherwise, done = (code.label(x) for x in ("then.", "else.", "end."))
        flag = self.flag(stmt.cond)
        code.effect(f"br {flag}, label %{then}, label %{otherwise}")
        for label, body in ((then, stmt.body), (otherwise, stmt.orelse)):
            code.start(label)
            with code.scope():
                if body is not None:
                    self.statement(body)
            code.branch(done)
        code.start(done)

    def _alloc(self, stmt: Alloc) -> None:
        buffer = stmt.buffer
        if buffer.space in (Space.REGISTER, Space.STACK):
            shape = tuple(int_literal(self.index(x)) for x in stmt.shape)
            if None in shape:
                raise InternalError(f"buffer '{buffer.name}' needs a constant shape")
            extents = tuple(int(x or 0) for x in shape)
            if buffer.space is Space.REGISTER:
                place: memory.Memory | memory.Registers = memory.make_registers(
                    self.code, buffer.dtype, extents
                )
            else:
                count = buffer.dtype.bytes
                for extent in extents:
                    count *= extent
                place = memory.Memory(self.code.alloca("i8", max(count, 1)), buffer.dtype)
            self.declare(buffer, place)
        self.statement(stmt.body)


def _copy_loops(copy: Copy, dtype: DType) -> Stmt:
    """A strided copy as loops over its shape."""
    names = [f"{copy.target}.copy{k}" for k in range(len(copy.shape))]
    here = [Var(name) for name in names]
    source = tuple(s + x for s, x in zip(copy.source_start, here, strict=True))
    target = tuple(t + x for t, x in zip(copy.target_start, here, strict=True))
    body: Stmt = Store(copy.target, target, Load(copy.source, source, dtype))
    for name, extent in zip(reversed(names), reversed(copy.shape), strict=True):
        body = For(name, Const(0), extent, body, Const(1))
    return body
