"""What the cores of a mesh would do for a program at given sizes: their events, without data.

Every core's part of the nest is walked: its requests, waits and barriers, with the slots of the
work in between (mesh_plans/mesh_work). A loop whose iterations do the same is one `Repeated` part;
where it begins and ends is found by bisection, since extents of boxes are minima and maxima of
affine expressions. `machines/mesh_timeline` plays the events, as it plays those of recorded runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, TypeAlias

from loopwright.ir.device import is_by_value
from loopwright.ir.expr import Binary, Expr
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    MeshBroadcast,
    MeshMessage,
    Space,
    Stmt,
    Wait,
)
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.mesh_program import MeshProgram
from loopwright.ir.request_shape import request_shape
from loopwright.ir.visit import names, statements, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest
from loopwright.machines.mesh_timeline import (
    FROM_BEFORE,
    OWN_COLUMN,
    OWN_ROW,
    TO_NEXT,
    CoreEvent,
    CoreEventKind,
    CoreWork,
    Repeated,
    TeamRun,
)
from loopwright.planner.mesh_plans.mesh_work import (
    NO_SLOTS,
    Costs,
    Env,
    Slots,
    WorkSignature,
    integer_function,
    trips,
)

__all__ = ["ARGUMENTS", "dry_run"]

ARGUMENTS = "arguments"  # the place of the first request of a core
_OWN, _AHEAD = -1, -2  # counters of requests: those that are waited for at once, and others
_FAR_ROW = 1 << 40  # of cores that take no part: their loops have no iteration
# Slots of the second pipeline around events: arguments, counters, the calls (emulated runs).
_REQUEST_SLOTS, _WAIT_SLOTS, _BARRIER_SLOTS = 6, 3, 4
# Of a core that gives a vector: load, send, a quarter of a branch; its own copy.
_GIVE_SLOTS, _STORE_SLOTS = 2.25, 1.0
_MESSAGE_SLOTS = 16.0  # of a call: who the neighbour is, and less than four vectors at the end
_ROW_SLOTS, _REST_SLOTS = 1.0, 2.0  # of each row; where it is no multiple of four vectors
_Events: TypeAlias = tuple[CoreEvent | Repeated, ...]
_Function: TypeAlias = Callable[[Env], Any]


def dry_run(program: MeshProgram, scalars: Mapping[str, int], machine: MeshMachine) -> TeamRun:
    """The events of all cores for one call; `scalars` are the integers that they are given.

    Raises DataDependent where they depend on the contents of arrays.
    """
    walker = _Compiler(machine, Costs(machine, {b.name: b for b in _arguments(program)}))
    body = walker.of(program.body)
    known: dict[_Events, _Events] = {}
    cores: dict[int, _Events] = {}
    first = DmaRequest(1, _argument_bytes(program))
    for core in range(machine.cores):
        row, column = divmod(core, program.columns)
        env: Env = {**scalars, "thread.row": row, "thread.column": column}
        if core >= program.rows * program.columns:
            env["thread.row"] = _FAR_ROW
        events = _Recorder(known)
        events.request(_OWN, first, ARGUMENTS)
        events.wait(_OWN, ARGUMENTS)
        body.walk(env, events)
        events.event(CoreEventKind.END, "")
        cores[core] = events.close()
    return TeamRun(program.name, cores)


def _arguments(program: MeshProgram) -> tuple[Buffer, ...]:
    return (*program.buffers, *(memory for memory, _ in program.memory))


def _argument_bytes(program: MeshProgram) -> int:
    """Bytes of the structure that all cores get first, as C lays it out."""
    size = 8 * len(program.scalars)
    most = 8 if program.scalars else 4
    for buffer in _arguments(program):
        part = buffer.dtype.bytes if is_by_value(buffer) else 8
        aligned = min(part, 8)
        size = -(-size // aligned) * aligned + part
        most = max(most, aligned)
    return -(-size // most) * most


class _Recorder:
    """Events of a core in the order of its program, with the work before each."""

    def __init__(self, known: dict[_Events, _Events]) -> None:
        self.known = known  # equal lists of events are one object
        self._events: list[CoreEvent | Repeated] = []
        self._work = NO_SLOTS

    def work(self, slots: Slots) -> None:
        self._work = self._work.plus(slots)

    def event(self, kind: CoreEventKind, place: str, **more: Any) -> None:
        self._events.append(CoreEvent(kind, self._taken(), place, **more))

    def request(self, counter: int, request: DmaRequest, place: str) -> None:
        self.work(Slots(0.0, _REQUEST_SLOTS, 0, 0, float(_REQUEST_SLOTS)))
        self.event(CoreEventKind.REQUEST, place, key=counter, request=request)

    def wait(self, counter: int, place: str) -> None:
        self.work(Slots(0.0, _WAIT_SLOTS, 0, 0, float(_WAIT_SLOTS)))
        self.event(CoreEventKind.WAIT, place, key=counter)

    def repeat(self, count: int, events: _Events) -> None:
        """Events that happen so many times from here on; work alone is no event."""
        if not count:
            return
        if count > 1 and not all(_is_work(event) for event in events):
            if any(self._work):
                self.event(CoreEventKind.WORK, "")
            self._events.append(Repeated(count, events))
            return
        for event in events:
            if isinstance(event, Repeated):
                self.repeat(event.rounds, event.events)
            elif event.kind is CoreEventKind.WORK:
                self.work(_slots(event.work).times(count))
            elif any(self._work):
                self.work(_slots(event.work))
                self._events.append(event._replace(work=self._taken()))
            else:
                self._events.append(event)

    def _taken(self) -> CoreWork:
        """The work since the last event, which the next one has."""
        vector, memory, direct, flops, cycles = self._work
        self._work = NO_SLOTS
        stall = max(0.0, float(cycles) - max(float(vector), float(memory)))
        return CoreWork(float(vector), int(memory), int(direct), int(flops), stall)

    def close(self) -> _Events:
        """All events; work after the last one is one more."""
        if any(self._work):
            self.event(CoreEventKind.WORK, "")
        found = tuple(self._events)
        return self.known.setdefault(found, found)


def _is_work(event: CoreEvent | Repeated) -> bool:
    return isinstance(event, CoreEvent) and event.kind is CoreEventKind.WORK


def _slots(work: CoreWork) -> Slots:
    cycles = max(work.vector_slots, float(work.memory_slots)) + work.stall_cycles
    return Slots(work.vector_slots, work.memory_slots, work.global_accesses, work.flops, cycles)


# -- statements with events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Computed:
    """Statements without events."""

    cost: Callable[[Env], Slots]
    signature: WorkSignature
    known: dict[tuple[Any, ...], Slots] = field(default_factory=dict)

    def walk(self, env: Env, events: _Recorder) -> None:
        key = self.signature(env)
        if key not in self.known:
            self.known[key] = self.cost(env)
        events.work(self.known[key])


@dataclass(frozen=True, slots=True)
class _InOrder:
    parts: tuple[_Step, ...]

    def walk(self, env: Env, events: _Recorder) -> None:
        for part in self.parts:
            part.walk(env, events)


@dataclass(frozen=True, slots=True)
class _Bound:
    name: str
    value: _Function
    body: _Step

    def walk(self, env: Env, events: _Recorder) -> None:
        self.body.walk({**env, self.name: self.value(env)}, events)


@dataclass(frozen=True, slots=True)
class _Chosen:
    cond: _Function
    body: _Step
    other: _Step | None

    def walk(self, env: Env, events: _Recorder) -> None:
        events.work(Slots(0.0, 1, 0, 0, 1.0))
        taken = self.body if self.cond(env) else self.other
        if taken is not None:
            taken.walk(env, events)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop with events; iterations with equal ones are repeated."""

    var: str
    bounds: tuple[_Function, ...]
    body: _Step
    is_regular: bool  # extents inside are monotonous pieces of its variable
    signature: WorkSignature
    known: dict[tuple[Any, ...], list[tuple[int, _Events]]] = field(default_factory=dict)

    def walk(self, env: Env, events: _Recorder) -> None:
        events.work(Slots(0.0, 2, 0, 0, 2.0))
        key = self.signature(env)
        if key not in self.known:
            self.known[key] = self._rounds(env, events)
        for count, part in self.known[key]:
            events.repeat(count, part)

    def _rounds(self, env: Env, events: _Recorder) -> list[tuple[int, _Events]]:
        """The events of equal iterations, with how many there are in turn."""
        start, stop, step = (bound(env) for bound in self.bounds)
        count = trips(start, stop, step)
        known: dict[int, _Events] = {}

        def at(number: int) -> _Events:
            if number not in known:
                inner = _Recorder(events.known)
                inner.work(Slots(0.0, 1, 0, 0, 1.0))
                self.body.walk({**env, self.var: start + step * number}, inner)
                known[number] = inner.close()
            return known[number]

        if not self.is_regular or count < 4:
            ends = [(number, number) for number in range(count)]
        else:
            ends = _equal_parts(at, 0, count - 1)
        found: list[tuple[int, _Events]] = []
        for first, last in ends:
            before = 0
            if found and found[-1][1] is at(first):
                before, _ = found.pop()
            found.append((before + last - first + 1, at(first)))
        return found


def _equal_parts(at: Callable[[int], _Events], low: int, high: int) -> list[tuple[int, int]]:
    """Ranges of iterations that do the same: equal at both ends and in between.

    Often it is the last iteration alone that differs.
    """
    if high - low < 2:
        return [(number, number) for number in range(low, high + 1)]
    for last in (high, high - 1):
        middle = (low + last) // 2
        probed = (last, middle, (low + middle) // 2, (middle + last) // 2)
        if all(at(number) is at(low) for number in probed):
            return [(low, last), *([(high, high)] if last < high else [])]
    return [*_equal_parts(at, low, middle), *_equal_parts(at, middle + 1, high)]


@dataclass(frozen=True, slots=True)
class _Moved:
    """A box that a request moves; of three dimensions and more several, waited for together."""

    array: str
    around: tuple[_Function, ...]  # extents of dimensions that take a request for each index
    form: tuple[_Function, ...]  # rows, the elements of one, and from one to the next
    element: int
    is_put: bool
    is_async: bool
    offset: _Function | None  # of the first byte in main memory; None where it does not matter

    def walk(self, env: Env, events: _Recorder) -> None:
        many = prod(max(0, extent(env)) for extent in self.around)
        rows, elements, pitch = (value(env) for value in self.form)
        if min(many, rows, elements) <= 0:
            return
        width = elements * self.element
        gap = (pitch - elements) * self.element if rows > 1 else 0
        if rows == 1 or gap == 0:
            width, rows, gap = width * rows, 1, 0
        offset = 0 if self.offset is None else self.offset(env) * self.element % 4096
        request = DmaRequest(rows, width, gap, self.is_put, offset)
        counter = _AHEAD if self.is_async else _OWN
        if many == 1:
            events.request(counter, request, self.array)
        else:
            one = _Recorder(events.known)
            one.request(counter, request, self.array)
            events.repeat(many, one.close())
        if not self.is_async:
            events.wait(_OWN, self.array)


@dataclass(frozen=True, slots=True)
class _Waited:
    def walk(self, env: Env, events: _Recorder) -> None:
        events.wait(_AHEAD, "")


@dataclass(frozen=True, slots=True)
class _Met:
    cores: int

    def walk(self, env: Env, events: _Recorder) -> None:
        events.work(Slots(0.0, _BARRIER_SLOTS, 0, 0, float(_BARRIER_SLOTS)))
        events.event(CoreEventKind.BARRIER, "", key=0, members=self.cores)


@dataclass(frozen=True, slots=True)
class _Given:
    """A block that one core of a row or column gives to the others, vector by vector."""

    shape: tuple[_Function, ...]
    element: int
    vector: int  # bytes
    key: tuple[int, int]
    cores: int
    is_kept: bool  # the root has its own copy

    def walk(self, env: Env, events: _Recorder) -> None:
        extents = [extent(env) for extent in self.shape]
        if min(extents) <= 0:
            return
        events.work(Slots(0.0, _BARRIER_SLOTS, 0, 0, float(_BARRIER_SLOTS)))
        events.event(CoreEventKind.BARRIER, "", key=self.key, members=self.cores)
        rows = prod(extents[:-1])
        vectors = rows * -(-extents[-1] * self.element // self.vector)
        each = _GIVE_SLOTS if self.is_kept else _GIVE_SLOTS + _STORE_SLOTS
        width = extents[-1] * self.element
        is_even = width % (4 * self.vector) == 0
        if any(width == n * self.vector and rows % (4 // n) == 0 for n in (1, 2)):
            rows, is_even = rows * width // (4 * self.vector), True  # several short ones at once
        slots = each * vectors + rows * (_ROW_SLOTS if is_even else _ROW_SLOTS + _REST_SLOTS)
        events.work(Slots(0.0, slots, 0, 0, float(slots)))
        events.event(CoreEventKind.EXCHANGE, "", key=self.key, members=self.cores)


@dataclass(frozen=True, slots=True)
class _HandedOn:
    """Elements that a core sends to the next one of a circle, who takes them at the same time."""

    extent: _Function
    element: int
    vector: int  # bytes
    key: tuple[int, int]

    def walk(self, env: Env, events: _Recorder) -> None:
        count = self.extent(env)
        if count <= 0:
            return
        vectors = -(-count * self.element // self.vector)
        slots = _GIVE_SLOTS * vectors + _MESSAGE_SLOTS
        events.work(Slots(0.0, slots, 0, 0, float(slots)))
        events.event(CoreEventKind.EXCHANGE, "", key=self.key, members=2)


_Step: TypeAlias = (
    _Computed | _InOrder | _Bound | _Chosen | _Loop | _Moved | _Waited | _Met | _Given | _HandedOn
)


@dataclass(slots=True)
class _Compiler:
    """Writes statements down as steps of a walk. A new statement with events has its case here."""

    machine: MeshMachine
    costs: Costs

    def of(self, stmt: Stmt) -> _Step:
        if not self._holds_event(stmt):
            return _Computed(self.costs.of(stmt).cost, WorkSignature(stmt))
        match stmt:
            case Block(body=body):
                return _InOrder(tuple(self.of(child) for child in body))
            case For(var=var, body=body):
                bounds = tuple(integer_function(e) for e in (stmt.start, stmt.stop, stmt.step))
                is_regular = not _has_remainder(body, {var}, self._has_offsets)
                signature = WorkSignature(stmt, has_offsets=self._has_offsets)
                return _Loop(var, bounds, self.of(body), is_regular, signature)
            case If(cond=cond, body=body, orelse=orelse):
                other = None if orelse is None else self.of(orelse)
                return _Chosen(integer_function(cond), self.of(body), other)
            case Let(name=name, value=value, body=body):
                return _Bound(name, integer_function(value), self.of(body))
            case Alloc(buffer=buffer, body=body):
                inner = _Compiler(self.machine, self.costs.with_buffer(buffer))
                return inner.of(body)
            case Copy():
                return self._moved(stmt)
            case Wait():
                return _Waited()
            case Barrier():
                return _Met(self.machine.cores)
            case MeshBroadcast(shape=shape, axis=axis):
                return _Given(
                    tuple(integer_function(extent) for extent in shape),
                    self.costs.buffers[stmt.target].dtype.bytes,
                    self.machine.vector_bytes,
                    OWN_ROW if axis is Axis.ROW else OWN_COLUMN,
                    self.machine.columns if axis is Axis.ROW else self.machine.rows,
                    stmt.is_kept,
                )
            case MeshMessage(shape=shape, cores=(rows, columns), is_sent=is_sent):
                return _HandedOn(
                    integer_function(shape[-1]),
                    self.costs.buffers[stmt.buffer].dtype.bytes,
                    self.machine.vector_bytes,
                    (TO_NEXT if is_sent else FROM_BEFORE, rows * columns),
                )
        raise AssertionError(f"{type(stmt).__name__} is no event of a core")

    def _holds_event(self, stmt: Stmt) -> bool:
        return any(
            isinstance(s, Wait | Barrier | MeshBroadcast | MeshMessage)
            or (isinstance(s, Copy) and self._is_transfer(s, stmt))
            for s in statements(stmt)
        )

    def _is_transfer(self, copy: Copy, around: Stmt) -> bool:
        """Whether a copy is to or from a scratchpad."""
        boxes = {
            s.buffer.name
            for s in statements(around)
            if isinstance(s, Alloc) and s.buffer.space is Space.SCRATCHPAD
        }
        boxes |= {n for n, b in self.costs.buffers.items() if b.space is Space.SCRATCHPAD}
        return bool({copy.target, copy.source} & boxes)

    @property
    def _has_offsets(self) -> bool:
        """Whether it matters where in its line a block begins."""
        machine = self.machine
        return bool(machine.partial_line_get_cycles or machine.partial_line_put_cycles)

    def _moved(self, stmt: Copy) -> _Moved:
        buffers = self.costs.buffers
        is_put = buffers[stmt.source].space is Space.SCRATCHPAD
        pair = (stmt.target, stmt.source) if is_put else (stmt.source, stmt.target)
        far, near = (buffers[name] for name in pair)
        form = request_shape(stmt.shape, far.strides, near.strides)
        start = stmt.target_start if is_put else stmt.source_start
        offset = None
        if self._has_offsets:
            terms = [at * stride for at, stride in zip(start, far.strides, strict=True)]
            offset = integer_function(sum(terms[1:], terms[0]))
        return _Moved(
            far.name,
            tuple(integer_function(stmt.shape[at]) for at in form.around),
            tuple(map(integer_function, (form.rows, form.width, form.pitch))),
            far.dtype.bytes,
            is_put,
            stmt.is_async,
            offset,
        )


def _has_remainder(stmt: Stmt, moving: set[str], has_offsets: bool) -> bool:
    """Whether a remainder of something that moves decides how much is done or requested."""

    def has(exprs: Sequence[Expr], ops: Sequence[str] = ("mod",)) -> bool:
        return any(
            isinstance(node, Binary) and node.op in ops and moving & names(node)
            for expr in exprs
            for node in walk(expr)
        )

    match stmt:
        case For(start=start, stop=stop, step=step, body=body):
            return has((start, stop, step)) or _has_remainder(body, moving, has_offsets)
        case If(cond=cond, body=body, orelse=orelse):
            below = (body,) if orelse is None else (body, orelse)
            # One iteration in the middle of others is found by nobody who looks at the ends.
            is_event = any(isinstance(s, Wait) for s in statements(body))
            is_odd = has((cond,), ("mod", "eq") if is_event else ("mod",))
            return is_odd or any(_has_remainder(b, moving, has_offsets) for b in below)
        case Let(name=name, value=value, body=body):
            # The slot of a box is a remainder that nothing but subscripts uses.
            is_moved = bool(moving & names(value))
            if has((value,)):
                return _uses(body, name) or _has_remainder(body, moving, has_offsets)
            return _has_remainder(body, moving | {name} if is_moved else moving, has_offsets)
        case Alloc(body=body):
            return _has_remainder(body, moving, has_offsets)
        case Block(body=children):
            return any(_has_remainder(child, moving, has_offsets) for child in children)
        case Copy(shape=shape, source_start=source, target_start=target):
            return has(shape) or (has_offsets and has((*source, *target)))
        case MeshBroadcast(shape=shape) | MeshMessage(shape=shape):
            return has(shape)
    return False


def _uses(stmt: Stmt, name: str) -> bool:
    """Whether bounds, conditions or extents use a variable."""
    for inner in statements(stmt):
        match inner:
            case For(start=start, stop=stop, step=step):
                exprs: tuple[Expr, ...] = (start, stop, step)
            case If(cond=cond):
                exprs = (cond,)
            case Copy(shape=shape) | MeshBroadcast(shape=shape) | MeshMessage(shape=shape):
                exprs = shape
            case Let(value=value):
                exprs = (value,)
            case _:
                continue
        if any(name in names(expr) for expr in exprs):
            return True
    return False
