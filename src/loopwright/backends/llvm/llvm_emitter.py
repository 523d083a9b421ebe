"""LoopNest to LLVM IR text: functions, loops, scopes and memory spaces.

    define void @kernel(ptr launch, ptr team, i64 thread, ptr buffer...)

with the entry points of llvm_entry around it.

In explicit nests vector types, fused multiply-adds and lane broadcasts are written here, and LLVM
only selects instructions, allocates registers and schedules (ADR 4). Nests with `leave_to_llvm`
are optimised by its whole pipeline, with metadata on loops and aliases (llvm_metadata).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import assert_never

from loopwright.backends.llvm import llvm_arena as arena
from loopwright.backends.llvm import llvm_bounds_check as check
from loopwright.backends.llvm import llvm_memory as memory
from loopwright.backends.llvm.llvm_builder import Flag, SSAValue, int_literal, plain_name
from loopwright.backends.llvm.llvm_entry import emit_entries
from loopwright.backends.llvm.llvm_expressions import Innermost, LLVMExpressions
from loopwright.backends.llvm.llvm_interrupts import interruptible
from loopwright.backends.llvm.llvm_lines import overlapping_vectors, pieces_by_lines
from loopwright.backends.llvm.llvm_metadata import Metadata, fast_math_flags, is_independent
from loopwright.backends.llvm.llvm_narrow import NarrowUses, hidden_narrowing
from loopwright.backends.llvm.llvm_procedures import (
    Invocation,
    OutlinedLoop,
    declaration,
    invoke,
    open_arguments,
    outline,
)
from loopwright.backends.llvm.llvm_rare_calls import any_of
from loopwright.backends.llvm.llvm_team import (
    TEAM_FUNCTIONS,
    can_claim,
    claimed_pieces,
    fixed_share,
    is_for_teams,
)
from loopwright.diagnostics import InternalError
from loopwright.ir.any_lane import AnyLane, any_lane
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
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
from loopwright.ir.module import CodeUnit, Module
from loopwright.ir.row_walk import first_stored
from loopwright.ir.visit import (
    constant_trips,
    loads,
    loop_depth,
    rebuild,
    statements,
    substitute,
)
from loopwright.ir.whole_vectors import has_lanes, overlapping_lanes
from loopwright.memo import IdentityMap

__all__ = ["emit_module"]

# LLVM's work on loop variables grows exponentially with the loops around them: where there are
# more, it is asked not to optimise.
_MOST_LOOPS = 16
# Loops over complex numbers become vectors where no more loops are nested: LLVM takes 2.3 s for
# those of a nest of ten.
_MOST_AROUND_VECTORS = 5


def emit_module(
    nest: LoopNest, features: frozenset[str] = frozenset(), *, checked: bool = False
) -> Module:
    """The LLVM module of a nest: the kernel and the two functions that size its scratch memory.

    `features` are the machine's instruction set extensions; without them the code is portable.
    With `checked`, subscripts are compared with the extents of arrays: see llvm_bounds_check.
    """
    nest = check.with_limits(nest) if checked else nest
    kernel = _Emitter(nest, features, check.checked_names(nest) if checked else ())
    if nest.leave_to_llvm and not checked:
        kernel.outlined = outline(nest)
    kernel.has_team = has_team = is_for_teams(nest)
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
    text, units = _with_procedures(kernel, parts, features)
    return Module("llvm", text, nest.name, arrays, nest.scalars, units)


def _with_procedures(
    kernel: _Emitter, parts: Sequence[str], features: frozenset[str]
) -> tuple[str, tuple[CodeUnit, ...]]:
    """The text of a module with the procedures of its kernel, and the units it is compiled in.

    Declarations stand first; `parts` is everything but those. Procedures are explicit: where LLVM
    optimises the kernel, they are a unit of their own, which it takes as it stands.
    """
    declared, own = kernel.code.declarations, dict[str, None]()
    heads, texts = [], []
    for procedure, name in kernel.procedures.items():
        scalars = tuple(variable for variable, _ in procedure.variables)
        written = _Emitter(LoopNest(name, procedure.buffers, scalars, procedure.body), features)
        texts.append(written.procedure(procedure))
        heads.append(declaration(name, procedure))
        own.update(written.code.declarations)
    text = "\n".join([*{**declared, **own}, *texts, *parts])
    leave_to_llvm, has_many = kernel.nest.leave_to_llvm, kernel.nest.has_many_loops
    if not texts:
        return text, (CodeUnit(text, leave_to_llvm, has_many),)
    calling, explicit = "\n".join([*declared, *heads, *parts]), "\n".join([*own, *texts])
    return text, (
        CodeUnit(calling, leave_to_llvm, has_many),
        CodeUnit(explicit, leave_to_llvm=False),
    )


def _attributes(nest: LoopNest) -> str:
    """How LLVM is to treat the function of a nest."""
    if loop_depth(nest.body) > _MOST_LOOPS:
        return "noinline optnone"
    # Both entries call the kernel: one copy is enough to optimise.
    if not nest.leave_to_llvm:
        return ""
    return (
        f'noinline "prefer-vector-width"="{nest.vector_bits}"' if nest.vector_bits else "noinline"
    )


class _Emitter:
    """Writes one function of a nest."""

    def __init__(
        self, nest: LoopNest, features: frozenset[str], checked: tuple[str, ...] = ()
    ) -> None:
        readonly = {b.name for b in nest.buffers if not b.writable}
        self.values = LLVMExpressions(readonly, features)
        self.code = self.values.code
        self.nest = nest
        self.outlined: IdentityMap[For, Invocation] = IdentityMap()  # loops that are procedures
        self.procedures: dict[OutlinedLoop, str] = {}  # those invoked so far, and their names
        self.checked = checked  # buffers whose accesses are checked, in the order of their numbers
        self.ends: dict[str, str] = {}  # labels behind the open scopes
        self.arena: IdentityMap[Alloc, memory.PointerBuffer] = IdentityMap()
        self.has_team = False  # all threads run what no parallel loop holds
        self.depth = 0  # loops around what is being written
        self.claims = False  # threads claim pieces of parallel loops; else they have fixed shares
        usual = 256 if "avx2" in features else 128
        # Array statements of any kind are independent loops; others were looked at by a planner.
        self.metadata = Metadata(vector_bits=nest.vector_bits or usual, has_widths=nest.fuses)
        self._narrow_uses = NarrowUses()
        self.code.flags = fast_math_flags(nest)
        is_ours = nest.leave_to_llvm and nest.fuses and not nest.reassoc
        self.values.fuses = is_ours and "fma" in features

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
            first = len(self.nest.scalars) - len(check.VIOLATION)
            self.values.violation = self.code.emit(f"getelementptr i64, ptr %launch, i64 {first}")
        for pointer, buffer in zip(pointers, self.nest.buffers, strict=True):
            if buffer.space is Space.TABLE:
                count = len(self.nest.scalars)
                pointer = self.code.emit(f"getelementptr i64, ptr %launch, i64 {count}")
            is_inside = self.nest.leave_to_llvm and not self.checked
            self.values.declare(
                buffer, memory.PointerBuffer(pointer, buffer.dtype, is_inside=is_inside)
            )
            if self.checked:
                ends = (check.limit_names(buffer.name, d) for d in range(len(buffer.strides)))
                self._limit(
                    buffer,
                    tuple((self.values.scope[low], self.values.scope[up]) for low, up in ends),
                )
        self._open_arena(Space.SCRATCH, 1)
        self._open_arena(Space.PRIVATE, 2)
        self._narrow(self.nest.body, self.nest.scalars)
        self.statement(self.nest.body)
        head = f"define internal void @{self.nest.name}(ptr %launch, ptr %team, i64 %thread"
        head += f", {arguments})" if arguments else ")"
        return self._closed(head, _attributes(self.nest))

    def procedure(self, procedure: OutlinedLoop) -> str:
        arguments = open_arguments(procedure, self.values)
        self.statement(procedure.body)
        return self._closed(f"define hidden void @{self.nest.name}({arguments})")

    def _closed(self, head: str, attributes: str = "noinline") -> str:
        """The whole text of a function that begins with `head`."""
        self.code.effect("ret void")
        head += f" nounwind {attributes}"
        if self.code.features:
            # LLVM ends the process when it cannot select an instruction, as for a processor whose
            # name it does not know: what the code uses is said here.
            head += f' "target-features"="{",".join(self.code.features)}"'
        head = " ".join((head, *self.code.attributes))
        return "\n".join([f"{head} {{", "entry:", *self.code.entry, *self.code.lines, "}"])

    def _invoke(self, invocation: Invocation) -> None:
        """Call the procedure of a loop; equal procedures are one function."""
        known = self.procedures
        name = known.setdefault(invocation.procedure, f"{self.nest.name}_{len(known)}")
        invoke(name, invocation, self.values)

    def size_function(self, space: Space, suffix: str) -> str:
        self._open_scalars()
        total = SSAValue("0", INT64)
        for alloc in arena.allocations(self.nest, space):
            total = memory.index_binary(
                self.code, "add", total, arena.size(self.values, alloc, self.nest)
            )
        self.code.effect(f"ret i64 {total.text}")
        head = f"define i64 @{self.nest.name}_{suffix}(ptr %launch) nounwind {{"
        return "\n".join([head, "entry:", *self.code.lines, "}"])

    def _open_scalars(self) -> None:
        for number, name in enumerate(self.nest.scalars):
            pointer = self.code.emit(f"getelementptr i64, ptr %launch, i64 {number}")
            self.values.scope[name] = SSAValue(
                self.code.emit(f"load i64, ptr {pointer}, align 8"), INT64
            )

    def _narrow(self, body: Stmt, variables: Collection[str]) -> None:
        """Make ready what loops of `body` compare or choose of variables that are in scope."""
        if self.nest.leave_to_llvm:
            for name, dtype in sorted(self._narrow_uses.in_loops(body, variables), key=str):
                found = hidden_narrowing(self.code, self.values.scope[name], dtype)
                self.values.narrow[name, dtype] = found

    def _open_arena(self, space: Space, word: int) -> None:
        """Assign every arena buffer its address; all sizes depend on kernel arguments only."""
        allocs = list(arena.allocations(self.nest, space))
        if not allocs:
            return
        slot = self.code.emit(f"getelementptr i64, ptr %team, i64 {word}")
        base = self.code.emit(f"load ptr, ptr {slot}, align 8")
        if space is Space.PRIVATE:
            slot = self.code.emit(f"getelementptr i64, ptr %team, i64 {word + 1}")
            stride = self.code.emit(f"load i64, ptr {slot}, align 8")
            offset = self.code.emit(f"mul i64 {stride}, %thread")
            base = self.code.emit(f"getelementptr i8, ptr {base}, i64 {offset}")
        scopes = (
            self.metadata.alias_scopes(len(allocs))
            if self.nest.leave_to_llvm
            else [""] * len(allocs)
        )
        for alloc, tags in zip(allocs, scopes, strict=True):
            self.arena[alloc] = memory.PointerBuffer(
                base, alloc.buffer.dtype, tags, planes=alloc.buffer.planes
            )
            base = self.code.emit(
                f"getelementptr i8, ptr {base}, {arena.size(self.values, alloc, self.nest)}"
            )

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
            case For() if stmt in self.outlined:
                self._invoke(self.outlined[stmt])
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case LabelledBlock():
                self._scope(stmt)
            case Leave(name=name):
                self.code.branch(self.ends[name])
                self.code.start(self.code.label("behind."))  # which nothing reaches
            case Let():
                self._let(stmt)
            case Store(buffer=name, index=index, value=value):
                self.values.store(name, index, self.values.value(value))
            case Alloc():
                test = any_lane(stmt)
                if test is None or self.checked or self.values.vector is not None:
                    self._alloc(stmt)
                else:
                    self._where_any_lane(test)
            case Copy():
                self.statement(stmt.as_loops(self.values.buffers[stmt.source].dtype))
            case Barrier():
                function = "lw_meet" if self.claims else "lw_barrier"
                self.code.effect(f"call void @{function}(ptr %team, i64 %thread)")
            case Commit() | Wait():
                pass  # copies of a processor are done at once
            case MeshBroadcast() | MeshMessage():
                raise InternalError("a processor has no mesh of cores")
            case WarpMma():
                raise InternalError("a processor has no warps")
            case Prefetch(buffer=name, index=index, write=write, level=level):
                place = self.values.buffers[name]
                assert isinstance(place, memory.PointerBuffer)
                with (
                    self.values.one_lane(0, *index)
                    if self.values.vector is not None
                    else self.code.scope()
                ):
                    found = self.values.offset(name, index)
                    assert found is not None
                    memory.prefetch(self.code, place, found[0], write=write, level=level)
            case _:
                assert_never(stmt)

    def _loop(self, loop: For) -> None:
        start, stop, step = (self.values.index(x) for x in (loop.start, loop.stop, loop.step))
        is_free = self.nest.leave_to_llvm and self.values.vector is None
        lanes = overlapping_lanes(loop, self.nest) if is_free else None
        place = self._first_place(loop, is_cut=lanes is not None)
        if lanes is not None and place is not None:
            self._overlapping_loop(loop, (start, stop), place[0], lanes)
            return
        if place is not None:
            bounds, facts = (start, stop), self.metadata.pieces()
            with pieces_by_lines(self.code, bounds, *place, facts) as piece:
                self._iterate(loop, *piece, step)
        elif loop.interrupt is not None and not self.has_team and not self.checked:
            found = loop.interrupt
            status, end = self.values.buffers[found.status], self.ends[found.scope]
            with (
                interruptible(self.code, (start, stop, step), found.quota, status, end) as var,
                self.values.bound(loop.var, var),
            ):
                self.statement(loop.body)
        elif loop.mark is not Mark.PARALLEL:
            self._iterate(loop, start, stop, step)
        elif self.claims:
            with claimed_pieces(self.code, (start, stop, step)) as piece:
                self._iterate(loop, *piece, step)
        else:
            self._iterate(loop, *fixed_share(self.code, (start, stop, step)), step)

    def _overlapping_loop(
        self, loop: For, bounds: tuple[SSAValue, SSAValue], pointer: str, lanes: int
    ) -> None:
        """Whole vectors from both ends; a loop that is shorter than one runs singly."""
        code, (start, stop) = self.code, bounds
        vectors, singly, done = (code.label(x) for x in ("whole.", "short.", "end."))
        trips = code.emit(f"sub nsw i64 {stop.text}, {start.text}")
        is_long = code.emit(f"icmp sge i64 {trips}, {lanes}")
        code.effect(f"br i1 {is_long}, label %{vectors}, label %{singly}")
        code.start(vectors)
        low, facts = Var(f"{loop.var}.from"), self.metadata.pieces()
        with (
            code.scope(),
            overlapping_vectors(code, bounds, pointer, lanes, facts) as first,
            self.values.bound(low.name, first),
        ):
            self._shifted_vector_loop(replace(loop, start=low), lanes)
        code.branch(done)
        code.start(singly)
        with code.scope():
            self._iterate(loop, start, stop, SSAValue("1", INT64))
        code.branch(done)
        code.start(done)

    def _first_place(self, loop: For, *, is_cut: bool = False) -> tuple[str, int] | None:
        """Address and bytes of what a loop stores first, where it is to begin at a line."""
        is_cut = is_cut or loop.var in self.nest.to_lines
        found = first_stored(loop) if is_cut else None
        place = None if found is None else self.values.buffers[found[0]]
        if found is None or not isinstance(place, memory.PointerBuffer) or self.checked:
            return None
        name, index = found
        if int_literal(self.values.index(self.values.strides[name][-1])) != 1:
            return None
        offset = self.values.offset(name, index)
        assert offset is not None, "outside of vectors every element has an offset"
        # Where the loop has no iterations, the address may lie anywhere.
        pointer = memory.address(self.code, replace(place, is_inside=False), offset[0])
        return pointer, place.dtype.bytes

    def _iterate(self, loop: For, start: SSAValue, stop: SSAValue, step: SSAValue) -> None:
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
        group = self.metadata.group() if self.nest.leave_to_llvm and is_independent(loop) else None
        tags, code.tags = code.tags, code.tags if group is None else f", !llvm.access.group {group}"
        apart, self.depth = code.parts_apart, self.depth + 1
        code.parts_apart = group is not None and self.depth <= _MOST_AROUND_VECTORS
        narrow, innermost = dict(self.values.narrow), self.values.innermost
        self.values.innermost = self._innermost(loop, start)
        with self.values.bound(loop.var, SSAValue(var, INT64)):
            if loop.until is not None:
                inner = code.label(f"{loop.var}.inner.")
                code.effect(f"br {self.values.flag(loop.until)}, label %{done}, label %{inner}")
                code.start(inner)
            self._narrow(loop.body, (loop.var,))
            self.statement(loop.body)
        self.values.narrow, self.values.innermost = narrow, innermost
        code.tags, code.parts_apart, self.depth = tags, apart, self.depth - 1
        code.lines.append(f"  {following} = add nsw i64 {var}, {step.text}")
        code.lines[phi_line] = (
            f"  {var} = phi i64 [ {start.text}, %{entered} ], [ {following}, %{code.block} ]"
        )
        more = code.emit(f"icmp slt i64 {following}, {stop.text}")
        if self.checked and not any(isinstance(x, Barrier) for x in statements(loop.body)):
            more = check.unless_violated(code, self.values.violation, more)
        facts = ""
        if self.nest.leave_to_llvm:
            is_short = loop.var in self.nest.of_one_vector
            facts = self.metadata.loop(loop, group, is_short=is_short)
        code.effect(f"br i1 {more}, label %{body}, label %{done}{facts}")
        code.start(done)

    def _innermost(self, loop: For, start: SSAValue) -> Innermost | None:
        """What accesses in the body of a loop may know of it, if it holds no other loops."""
        below = (x for x in statements(loop.body) if isinstance(x, For))
        if loop.step != Const(1) or any(x.mark is not Mark.UNROLL for x in below):
            return None
        return Innermost(loop.var, start, frozenset(self.values.scope))

    def _scope(self, stmt: LabelledBlock) -> None:
        code, end = self.code, self.code.label(f"{stmt.name}.end.")
        self.ends[stmt.name] = end
        # What stands behind a Leave does not run in every iteration of the loops around.
        innermost, self.values.innermost = self.values.innermost, None
        with code.scope():
            self.statement(stmt.body)
        self.values.innermost = innermost
        code.branch(end)
        code.start(end)

    def _let(self, stmt: Let) -> None:
        value = stmt.value
        if self.values.varies(value) and value.dtype == INT64 and not loads(value):
            # Written out where it is used: subscripts stay sums in which lanes can be seen.
            here = {stmt.name: value}
            self.statement(rebuild(stmt.body, expression=lambda e: substitute(e, here)))
            return
        if value.dtype == INT64 and not self.values.varies(value):
            self.values.wraps = True
            bound = self.values.index(value)
            self.values.wraps = False
        else:
            bound = self.values.value(value)
        with self.values.bound(stmt.name, bound):
            self.statement(stmt.body)

    def _vector_loop(self, loop: For) -> None:
        lanes = self._trips(loop)
        if lanes == 0:
            return
        if lanes == 1 or self.values.vector is not None or not has_lanes(loop):
            self._unrolled_loop(loop)
            return
        if loop.start != Const(0) or loop.step != Const(1):
            self._shifted_vector_loop(loop, lanes)
            return
        self.values.vector = (loop.var, lanes)
        with self.values.bound(loop.var, SSAValue("0", INT64)):
            self.statement(loop.body)
        self.values.vector = None

    def _shifted_vector_loop(self, loop: For, lanes: int) -> None:
        """The same loop with a variable that counts lanes from 0."""
        first, lane = Var(f"{loop.var}.first"), Var(f"{loop.var}.lane")
        here = {loop.var: first + lane * loop.step}
        body = rebuild(loop.body, expression=lambda e: substitute(e, here))
        with self.values.bound(first.name, self.values.index(loop.start)):
            self._vector_loop(For(lane.name, Const(0), Const(lanes), body, Const(1), Mark.VECTOR))

    def _unrolled_loop(self, loop: For) -> None:
        start, step = self.values.index(loop.start), self.values.index(loop.step)
        for number in range(self._trips(loop)):
            distance = memory.index_binary(self.code, "mul", SSAValue(str(number), INT64), step)
            here = memory.index_binary(self.code, "add", start, distance)
            if loop.in_order and number:
                memory.keep_order(self.code, self.values.features)
            with self.values.bound(loop.var, here):
                self.statement(loop.body)

    def _trips(self, loop: For) -> int:
        bounds = [int_literal(self.values.index(x)) for x in (loop.start, loop.stop, loop.step)]
        trips = len(range(*bounds)) if None not in bounds else constant_trips(loop)  # type: ignore[arg-type]
        if trips is None:
            raise InternalError(f"loop '{loop.var}' is marked {loop.mark.value} but not constant")
        return trips

    def _branch(self, stmt: If) -> None:
        code = self.code
        then, otherwise, done = (code.label(x) for x in ("then.", "else.", "end."))
        flag = self.values.flag(stmt.cond)
        code.effect(f"br {flag}, label %{then}, label %{otherwise}{self.metadata.branch(stmt)}")
        innermost, self.values.innermost = self.values.innermost, None
        for label, body in ((then, stmt.body), (otherwise, stmt.orelse)):
            code.start(label)
            with code.scope():
                if body is not None:
                    self.statement(body)
            code.branch(done)
        self.values.innermost = innermost
        code.start(done)

    def _where_any_lane(self, test: AnyLane) -> None:
        """A branch around statements that no lane needs: all are asked at once."""
        code, loop = self.code, test.lanes
        lanes = self._trips(loop)
        flags: list[Flag] = []
        for one in test.tests:
            self.values.vector = (loop.var, lanes)
            with ExitStack() as scopes:
                scopes.enter_context(self.values.bound(loop.var, SSAValue("0", INT64)))
                for let in one.values:
                    bound = self.values.value(let.value)
                    scopes.enter_context(self.values.bound(let.name, bound))
                flags.append(self.values.flag(one.cond))
            self.values.vector = None
        then, done = code.label("some."), code.label("none.")
        code.effect(f"br i1 {any_of(code, flags)}, label %{then}, label %{done}")
        code.start(then)
        innermost, self.values.innermost = self.values.innermost, None
        with code.scope():
            self.statement(test.body)
        self.values.innermost = innermost
        code.branch(done)
        code.start(done)

    def _limit(self, buffer: Buffer, limits: tuple[tuple[SSAValue, SSAValue], ...]) -> None:
        """Check accesses of a buffer in memory against these limits."""
        self.values.limits[buffer.name] = self.checked.index(buffer.name) + 1, limits

    def _alloc(self, stmt: Alloc) -> None:
        self.values.declare(stmt.buffer, self._place_of(stmt))
        if self.checked and stmt.buffer.space is not Space.REGISTER:
            zero = SSAValue("0", INT64)
            self._limit(stmt.buffer, tuple((zero, self.values.index(x)) for x in stmt.shape))
        self.statement(stmt.body)

    def _place_of(self, stmt: Alloc) -> memory.PointerBuffer | memory.RegisterBuffer:
        buffer = stmt.buffer
        if stmt in self.arena:
            return self.arena[stmt]
        shape = [int_literal(self.values.index(x)) for x in stmt.shape]
        reach = int_literal(arena.reach(self.values, stmt))
        if None in shape or reach is None:
            raise InternalError(f"buffer '{buffer.name}' needs a constant shape")
        return memory.make_local(self.code, buffer, tuple(int(x or 0) for x in shape), reach)
