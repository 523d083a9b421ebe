"""LoopNest to C statements: one printer, whose dialects are tables (c_dialect).

All threads enter a nest, share the iterations of parallel loops and each do the rest themselves, as
ir/interpret_nest defines. In OpenMP that is a parallel region with worksharing loops in it; a nest
that is one parallel loop becomes a `parallel for`. Without OpenMP the same text runs on one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from loopwright.backends.c_text.c_any_lane import print_any_lane
from loopwright.backends.c_text.c_atomics import atomic_name
from loopwright.backends.c_text.c_choices import choices_by_bits, no_choices
from loopwright.backends.c_text.c_dialect import FAR_FLAG, Dialect
from loopwright.backends.c_text.c_expression_printer import CExpressions
from loopwright.backends.c_text.c_far_numbers import (
    far_calls,
    far_type,
    taken_in_vectors,
)
from loopwright.backends.c_text.c_operations import Helper
from loopwright.backends.c_text.c_scopes import Scopes, allocations, contiguous_buffers
from loopwright.backends.c_text.c_subscripts import leave_to_estimate
from loopwright.backends.c_text.c_sums import sum_of_parts, updated
from loopwright.backends.c_text.c_syntax import ATOM, CText, NamesInUse, Width, c_type
from loopwright.backends.c_text.c_vectors import (
    ReductionUpdate,
    VectorForms,
    VectorStatements,
    lane_stores,
    reductions,
    register_lanes,
    squares,
    vector_lanes,
)
from loopwright.backends.c_text.c_whole_vectors import independent_loop
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.any_lane import any_lane
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
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
from loopwright.ir.request_shape import RequestShape, request_shape
from loopwright.ir.text import expr_text
from loopwright.ir.visit import constant_trips, statements
from loopwright.ir.whole_vectors import takes_whole_vectors, whole_vector_lanes
from loopwright.memo import IdentityMap

__all__ = ["CPrinter", "Origin"]


def _needs_team(stmt: Stmt) -> bool:
    """Whether a statement needs a team of threads: a barrier or a parallel loop."""
    return isinstance(stmt, Barrier) or (isinstance(stmt, For) and stmt.mark is Mark.PARALLEL)


def _is_single_loop(stmt: Stmt) -> bool:
    """Whether a nest is one parallel loop, perhaps with bindings and shared memory around it."""
    match stmt:
        case For(mark=Mark.PARALLEL):
            return not _is_single_thread(stmt)
        case Block(body=(only,)):
            return _is_single_loop(only)
        case Let(body=inner):
            # Inside the block one knows how many threads run it.
            return not stmt.parts and _is_single_loop(inner)
        case Alloc(buffer=buffer, body=inner):
            return buffer.space is Space.SCRATCH and _is_single_loop(inner)
    return False


def _is_single_thread(stmt: For) -> bool:
    """Whether a parallel loop has one iteration: one thread runs it."""
    return (stmt.start, stmt.stop) == (Const(0), Const(1))


def _is_innermost(stmt: Stmt) -> bool:
    """Whether a vector loop is innermost, as compilers need to vectorise it.

    Loops that they unroll whole are none by then.
    """
    return not any(
        isinstance(s, Copy) or (isinstance(s, For) and s.mark is not Mark.UNROLL)
        for s in statements(stmt)
    )


_MOST_UNROLL = 64  # what compilers unroll whole
Origin = Callable[[Store], str]  # where in the source a store comes from, in words


class CPrinter:
    """Writes the statements of a nest."""

    def __init__(
        self,
        dialect: Dialect,
        names: NamesInUse,
        *,
        from_c: bool = False,
        margin: str = "",
        origin: Origin | None = None,
    ) -> None:
        self.dialect = dialect
        self.expressions = CExpressions(dialect, from_c=from_c)
        self.vectors = VectorStatements(self.expressions)
        self.scopes = Scopes(names, self.expressions, self.vectors, margin)
        self.lines = self.scopes.lines
        self._origin = origin
        self._is_in_parallel_loop = False  # inside a parallel loop
        self._nest = LoopNest("", (), (), Block(()))  # that which is written
        self._has_whole_vectors = False  # whether its loops do
        # Vector loops of the nest that become vector statements, their lanes.
        self._lanes: IdentityMap[For, int | None] = IdentityMap()

    # -- the nest as a whole ----------------------------------------------------------------------

    def nest(self, nest: LoopNest) -> None:
        """All statements of a nest, whose arguments are declared."""
        body, scalars = nest.body, frozenset(nest.scalars)
        self._nest = nest
        self._has_whole_vectors = takes_whole_vectors(nest)
        contiguous = contiguous_buffers(nest, self.expressions.buffers)
        arguments = frozenset(buffer.name for buffer in nest.buffers)
        is_gnu, fuses = not self.dialect.has_vector_functions, not self.dialect.is_fused
        self.vectors.forms = VectorForms(contiguous, is_gnu, arguments, squares(nest), fuses)
        # Registers of a device hold one number each, those of cores with such functions vectors.
        if not self.dialect.is_device or self.dialect.has_vector_functions:
            self._lanes = IdentityMap()
            self.vectors.registers = register_lanes(nest, self.vectors.forms, self._lanes)
        has_team = any(_needs_team(s) for s in statements(body)) and bool(self.dialect.team)
        shared = self.scopes.hoist(body, scalars, Space.SCRATCH, has_team=has_team)
        if not has_team:
            private = self.scopes.hoist(body, scalars, Space.PRIVATE)
            self.statement(body)
            self.scopes.free(private)
        elif _is_single_loop(body) and not allocations(body, Space.PRIVATE):
            self._single_loop(body)
        else:
            self.scopes.pragma(self.dialect.team)
            with self.scopes.block():
                private = self.scopes.hoist(body, scalars, Space.PRIVATE)
                self.statement(body)
                self.scopes.free(private)
        self.scopes.free(shared)

    def _single_loop(self, stmt: Stmt) -> None:
        """A nest that is one parallel loop, perhaps with bindings around it."""
        match stmt:
            case Block(body=(only,)):
                self._single_loop(only)
            case Let(body=inner):
                with self.scopes.bound(stmt):
                    self._single_loop(inner)
            case Alloc(body=inner):
                with self.scopes.allocated(stmt):
                    self._single_loop(inner)
            case For():
                self.scopes.pragma(self.dialect.team_share)
                self._is_in_parallel_loop = True
                self._for(stmt)
                self._is_in_parallel_loop = False
            case _:
                raise AssertionError(f"not a single loop: {stmt}")

    # -- statements -------------------------------------------------------------------------------

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(body=body):
                self._sequence(body)
            case For(mark=Mark.PARALLEL) if not self._is_in_parallel_loop:
                self._worksharing_loop(stmt, waits=False)
            case For():
                self._loop(stmt)
            case If(cond=cond, body=Block(body=()), orelse=inner) if inner is not None:
                self.statement(If(Unary("not", cond), inner))
            case If(cond=cond, body=inner, orelse=orelse):
                self._branches(cond, inner, orelse)
            case Let(body=inner):
                self._find_far(stmt.value)
                with self.scopes.bound(stmt):
                    self.statement(inner)
            case Alloc() if (test := any_lane(stmt)) is not None and self.dialect.vector_any:
                print_any_lane(self.scopes, test, self.statement)
            case Alloc(body=inner):
                with self.scopes.allocated(stmt):
                    self.statement(inner)
            case Store():
                self._find_far(stmt.value)
                self._store(stmt)
            case Copy() if (
                self.dialect.get and {stmt.target, stmt.source} & self.scopes.boxes.keys()
            ):
                self._transfer(stmt)
            case Copy() if self._moves_runs(stmt):
                self._copy_runs(stmt)
            case Copy():
                self._copy(stmt, ())
            case MeshBroadcast():
                self._broadcast(stmt)
            case MeshMessage():
                self._message(stmt)
            case Commit():
                self.scopes.pragma(self.dialect.commit)  # copies of a processor are done at once
            case Wait(pending=pending):
                self.scopes.pragma(self.dialect.wait.format(pending=pending))
            case Barrier():
                self.scopes.pragma(self.dialect.barrier)
            case LabelledBlock(name=name, body=inner):
                self.statement(inner)
                self.lines.add(f"{name}: ;")
            case Leave(name=name):
                self.lines.add(f"goto {name};")
            case WarpMma():
                self._mma(stmt)
            case Prefetch() if self.dialect.is_device:
                pass
            case Prefetch(buffer=name, index=index, write=write, level=level):
                near = max(0, 4 - level)
                place = self.expressions.element(name, index)
                self.lines.add(f"__builtin_prefetch(&{place}, {int(write)}, {near});")
            case _:
                assert_never(stmt)

    def _sequence(self, body: tuple[Stmt, ...]) -> None:
        """Statements in order; a barrier behind a parallel loop is the implicit one of the loop."""
        skip = False
        for at, stmt in enumerate(body):
            if skip:
                skip = False
            elif (
                isinstance(stmt, For)
                and stmt.mark is Mark.PARALLEL
                and not self._is_in_parallel_loop
            ):
                skip = isinstance(body[at + 1] if at + 1 < len(body) else None, Barrier)
                self._worksharing_loop(stmt, waits=skip)
            else:
                self.statement(stmt)

    def _branches(self, cond: Expr, body: Stmt, orelse: Stmt | None) -> None:
        self.lines.add(f"if ({self.expressions.condition(cond, is_guard=True)}) {{")
        with self.scopes.inside():
            self.statement(body)
        if orelse is not None:
            self.lines.add("} else {")
            with self.scopes.inside():
                self.statement(orelse)
        self.lines.add("}")

    def _worksharing_loop(self, stmt: For, *, waits: bool) -> None:
        """A worksharing loop inside the block of a team."""
        suffix = "" if waits else self.dialect.no_wait
        self._is_in_parallel_loop = True
        if self.dialect.once and _is_single_thread(stmt):
            # The same thread every time: panels that stay packed are memory of its own.
            self.scopes.pragma(self.dialect.once)
            self.expressions.spelling[stmt.var] = CText("0", ATOM)
            with self.scopes.block():
                self.statement(stmt.body)
            if waits:
                self.scopes.pragma(self.dialect.barrier)
        else:
            if self.dialect.share:
                self.scopes.pragma(self.dialect.share + suffix)
            self._for(stmt)
        self._is_in_parallel_loop = False

    def _loop(self, stmt: For) -> None:
        if stmt.mark in (Mark.BLOCK, Mark.THREAD):
            raise InternalError(f"loop {stmt.var} is for a GPU, not for {self.dialect.name}")
        # Without register tiles, loops read better and leave the lanes to the compiler.
        lanes = None
        if self.vectors.registers and stmt.mark is Mark.VECTOR:
            is_known = stmt in self._lanes
            lanes = self._lanes[stmt] if is_known else vector_lanes(stmt, self.vectors.forms)
        if lanes is not None:
            for store in lane_stores(stmt) or ():
                self._add_store(self.vectors.store(store, stmt, lanes), store)
            return
        trips = constant_trips(stmt)
        if trips == 1 and isinstance(stmt.start, Const):
            with self.scopes.constant(stmt.var, stmt.start):
                self.statement(stmt.body)
            return
        nest = self._nest
        # Both are told of machines alone whose vectors are as long as lines.
        is_wide = bool(nest.vector_bits or nest.to_lines)
        if nest.reassoc and (self.dialect.reduction or is_wide):
            updates = reductions(stmt)
            if updates is not None and (self.dialect.reduction or len(updates) == 1):
                self._reduction_loop(stmt, updates)
                return
        match stmt.mark:
            case Mark.VECTOR | Mark.SIMD if _is_innermost(stmt.body):
                if stmt.copies != 1 or not self.dialect.single:
                    self._vector_loop(stmt)
                    return
                self.scopes.pragma(self.dialect.single)
            case Mark.UNROLL if trips is not None and 1 < trips <= _MOST_UNROLL:
                self.scopes.pragma(self.dialect.unroll.format(count=trips))
                if isinstance(stmt.body, Alloc) and stmt.body.buffer.space is Space.REGISTER:
                    self._for(stmt, self.dialect.apart)
                    return
            case Mark.SERIAL if stmt.copies == 1 and self.dialect.singly:
                self._for(stmt, self.dialect.singly)
                return
            case Mark.SERIAL if stmt.copies and self.dialect.copies:
                self.scopes.pragma(self.dialect.copies.format(count=stmt.copies))
        self._for(stmt)

    def _vector_loop(self, stmt: For) -> None:
        """A loop of vectors, with the functions that are lines of ours.

        Where these have numbers that are far, it runs as if all were near, and again if not.
        """
        self.expressions.functions = taken_in_vectors(stmt, self._nest.functions)
        far = far_type(stmt, self._nest.functions)
        if far is None:
            if leave_to_estimate(stmt):
                self._for(stmt)
            else:
                self._simd_loop(stmt)
        else:
            with self.scopes.block():
                self.lines.add(f"{c_type(DTYPES[f'uint{far.bits}'])} {FAR_FLAG} = 0;")
                self.scopes.pragma(self.dialect.vector_far)
                self.expressions.is_near = True
                self._for(stmt)
                self.expressions.is_near = False
                with self.scopes.block(f"if ({FAR_FLAG})"):
                    self._for(stmt)
        self.expressions.functions = ()

    def _simd_loop(self, stmt: For) -> None:
        """A loop of independent iterations, by whole vectors and from lines on where that pays."""
        is_told = self._has_whole_vectors and bool(self.dialect.vector)
        lanes = whole_vector_lanes(stmt, self._nest) if is_told else None
        independent_loop(self.scopes, stmt, self._nest, lanes, self._for)

    def _find_far(self, value: Expr) -> None:
        """Lines that find whether arguments of functions are far, where these are taken as near."""
        if self.expressions.is_near:
            for call in dict.fromkeys(far_calls(value, self.expressions.functions)):
                self.lines.add(f"{FAR_FLAG} |= {self.expressions.is_far(call.args[0])};")

    def _reduction_loop(self, stmt: For, updates: list[ReductionUpdate]) -> None:
        """A loop of reductions into variables, which the compiler may split into lanes.

        A loop without iterations must not touch the elements: they need not exist.
        """
        some = Binary("lt", stmt.start, stmt.stop)
        with self.scopes.block(f"if ({self.expressions.condition(some, is_guard=True)})"):
            names: list[str] = []
            for update in updates:
                name = self.scopes.names.declare(f"{update.target.array}_sum")
                element = self.expressions.element(update.target.array, update.target.index)
                self.lines.add(f"{c_type(update.target.dtype)} {name} = {element};")
                names.append(name)
            if not self.dialect.reduction:
                stmt = sum_of_parts(self.scopes, stmt, updates[0], names[0], self._nest.near)
            pairs = list(zip(names, updates, strict=True))
            clauses = "".join(f" reduction({u.sign}:{n})" for n, u in pairs)
            self.scopes.pragma(self.dialect.reduction and self.dialect.reduction + clauses)
            with self.scopes.loop(stmt):
                for name, update in pairs:
                    text = updated(name, update.op, self.expressions.value(update.value))
                    self._add_store(text, update.store)
            for name, update in pairs:
                element = self.expressions.element(update.target.array, update.target.index)
                self.lines.add(f"{element} = {name};")

    def _for(self, stmt: For, end: str = "") -> None:
        with self.scopes.loop(stmt):
            if not self.dialect.is_device:
                self.expressions.by_bits = choices_by_bits(stmt)
            self.statement(stmt.body)
            self.expressions.by_bits = no_choices
            if end:
                self.lines.add(end)

    def _store(self, stmt: Store) -> None:
        target = self.expressions.element(stmt.buffer, stmt.index)
        if stmt.is_atomic:
            self._add_store(self._update(target, stmt.value), stmt)
            return
        text = f"{target} = {self.expressions.value(stmt.value)};"
        match stmt.value:
            case Binary(op="add" | "sub" | "mul" as op, x=Load(array=array, index=index), y=y) if (
                array,
                index,
            ) == (stmt.buffer, stmt.index) and (
                (stmt.value.dtype.is_float and stmt.value.dtype.bits > 16)
                or self.expressions.buffers[array].is_unsigned
            ):
                text = updated(target, op, self.expressions.value(y))
        self._add_store(text, stmt)

    def _update(self, target: str, value: Expr) -> str:
        """The call that updates an element atomically."""
        if not isinstance(value, Binary):
            raise InternalError("an atomic store is no operation", expr_text(value))
        name, kind = atomic_name(value.op, value.dtype), c_type(value.dtype)
        if name not in self.dialect.helpers:
            raise UsageError(
                f"{self.dialect.name} has no atomic '{value.op}' of {value.dtype}",
                hint="a plan without atomics, which joins blocks by a second launch",
            )
        self.expressions.helpers[name] = Helper(name, kind, (kind,) * 2, (), "")
        return f"{name}(&{target}, {self.expressions.value(value.y)});"

    def _add_store(self, text: str, stmt: Store) -> None:
        """A store, with its origin in the source where that changes."""
        origin = "" if self._origin is None else self._origin(stmt)
        self.lines.add(text, origin if origin != self.scopes.last_origin else "")
        self.scopes.last_origin = origin

    def _copy(self, stmt: Copy, offset: tuple[Expr, ...]) -> None:
        """One loop per dimension around an assignment."""
        if len(offset) < len(stmt.shape):
            with self._loop_of_copy(stmt, len(offset)) as index:
                self._copy(stmt, (*offset, index))
            return
        to, origin = stmt.places(offset)
        target = self.expressions.element(stmt.target, to)
        source = self.expressions.element(stmt.source, origin)
        self.lines.add(f"{target} = {source};")

    @contextmanager
    def _loop_of_copy(self, stmt: Copy, at: int) -> Iterator[Expr]:
        """A loop over a dimension of a copy; its variable."""
        variable = Var(f"x{at} of copy")
        with self.scopes.names.block():
            name = self.scopes.names.declare(f"x{at}")
            self.expressions.spelling[variable.name] = CText(name, ATOM, Width.LONG)
            bound = self.expressions.index(stmt.shape[at])
            loop = f"for ({self.dialect.index} {name} = 0; {name} < {bound}; {name}++)"
            with self.scopes.braces(loop):
                yield variable

    def _transfer(self, stmt: Copy) -> None:
        """DMA requests of rows, in a loop over each of the other dimensions."""
        is_put = stmt.source in self.scopes.boxes
        pair = (stmt.target, stmt.source) if is_put else (stmt.source, stmt.target)
        far, near = (self.expressions.buffers[name] for name in pair)
        assert far.strides is not None, "arrays of main memory have strides"
        assert near.strides is not None, "and so have boxes"
        form = request_shape(stmt.shape, far.strides, near.strides)
        if stmt.after_puts:
            self.lines.add(self.dialect.after_puts)
        self._requests(stmt, form, is_put, (Const(0),) * len(stmt.shape), form.around)
        if form.around and not stmt.is_async:
            self.lines.add(self.dialect.end_parts)
        if stmt.lands:
            self.lines.add(self.dialect.landed)

    def _requests(
        self,
        stmt: Copy,
        form: RequestShape,
        is_put: bool,
        offset: tuple[Expr, ...],
        around: tuple[int, ...],
    ) -> None:
        """The requests at an offset, with loops over the dimensions `around` that are left."""
        if around:
            at, *left = around
            with self._loop_of_copy(stmt, at) as index:
                moved = (*offset[:at], index, *offset[at + 1 :])
                self._requests(stmt, form, is_put, moved, tuple(left))
            return
        to, origin = stmt.places(offset)
        size = self.expressions.buffers[stmt.target].dtype.bytes
        gap = Const(0) if form.rows == Const(1) else (form.pitch - form.width) * size
        text = self.dialect.put if is_put else self.dialect.get
        if form.around:
            text = self.dialect.put_part if is_put else self.dialect.get_part
        if stmt.is_async:
            text = self.dialect.put_ahead if is_put else self.dialect.get_ahead
        self.lines.add(
            text.format(
                target=f"&{self.expressions.element(stmt.target, to)}",
                source=f"&{self.expressions.element(stmt.source, origin)}",
                rows=self.expressions.index(form.rows),
                width=self.expressions.index(form.width * size),
                gap=self.expressions.index(gap),
            )
        )

    def _broadcast(self, stmt: MeshBroadcast) -> None:
        if not self.dialect.broadcast or len(stmt.shape) > 2:
            raise InternalError(f"{self.dialect.name} has no such broadcast", stmt.target)
        target, source = (self.expressions.buffers[name] for name in (stmt.target, stmt.source))
        assert target.strides is not None
        assert source.strides is not None
        size = target.dtype.bytes
        rows = stmt.shape[0] if len(stmt.shape) > 1 else Const(1)
        pitches = [
            self.expressions.index(buffer.strides[-2] * size if len(stmt.shape) > 1 else Const(0))
            for buffer in (target, source)
            if buffer.strides is not None
        ]
        text = self.dialect.broadcast.format(
            word="give" if stmt.is_kept else "broadcast",
            axis=stmt.axis.value,
            target=f"&{self.expressions.element(stmt.target, stmt.target_start)}",
            target_pitch=pitches[0],
            source=f"&{self.expressions.element(stmt.source, stmt.source_start)}",
            source_pitch=pitches[1],
            rows=self.expressions.index(rows),
            width=self.expressions.index(stmt.shape[-1] * size),
            root=self.expressions.index(stmt.root),
        )
        self.lines.add(text)

    def _message(self, stmt: MeshMessage) -> None:
        if not self.dialect.message:
            raise InternalError(f"{self.dialect.name} has no messages between cores", stmt.buffer)
        size = self.expressions.buffers[stmt.buffer].dtype.bytes
        text = self.dialect.message.format(
            word="hand_on" if stmt.is_sent else "take_over",
            place=f"&{self.expressions.element(stmt.buffer, stmt.start)}",
            width=self.expressions.index(stmt.shape[-1] * size),
            rows=stmt.cores[0],
            columns=stmt.cores[1],
        )
        self.lines.add(text)

    def _mma(self, stmt: WarpMma) -> None:
        if not self.dialect.mma:
            raise InternalError(f"{self.dialect.name} has no matrix unit")
        row, column = stmt.sums_start
        rows = [(row + r, column + c) for r in (0, 1) for c in (0, 1)]
        sums = [self.expressions.element(stmt.sums, place) for place in rows]
        left = [self.expressions.element(stmt.left, (stmt.left_start[0] + r,)) for r in (0, 1)]
        right = self.expressions.element(stmt.right, stmt.right_start)
        text = self.dialect.mma.format(sums=", ".join(sums), left=", ".join(left), right=right)
        self.lines.add(text)

    def _moves_runs(self, stmt: Copy) -> bool:
        """Whether a copy goes in runs; a dialect without asynchronous ones copies at once."""
        if stmt.is_async and self.dialect.run_async:
            return True
        is_pair = self.expressions.buffers[stmt.target].dtype.is_complex
        can_run = bool(self.dialect.run) and (self.dialect.has_runs_of_pairs or not is_pair)
        return can_run and stmt.width > 1

    def _copy_runs(self, stmt: Copy) -> None:
        """A copy of a device in runs of elements that move at once; its shape is constant."""
        extents: list[int] = []
        for extent in stmt.shape:
            if not isinstance(extent, Const) or not isinstance(extent.value, int):
                raise InternalError("a copy in runs has no constant shape")
            extents.append(extent.value)
        dtype = self.expressions.buffers[stmt.target].dtype
        *outer, last = extents
        runs = [*map(range, outer), range(0, last, stmt.width)]
        form = self.dialect.run
        if stmt.is_async and self.dialect.run_async:
            form = self.dialect.run_async
        for offset in itertools.product(*runs):
            to, origin = stmt.places([Const(at) for at in offset])
            target = self.expressions.element(stmt.target, to)
            source = self.expressions.element(stmt.source, origin)
            # A complex number is two real ones.
            parts = stmt.width * (1 + dtype.is_complex)
            count, kind = "" if parts == 1 else str(parts), c_type(dtype.real)
            text = form.format(
                type=self.dialect.vectors.get(dtype.name, kind) if count else kind,
                count=count,
                target=target,
                source=source,
                bytes=stmt.width * dtype.bytes,
            )
            self.lines.add(text)
