"""The meaning of a LoopNest, on checked memory, with its marks taken at their word.

Iterations of parallel and vector loops run in a shuffled order, block and thread iterations too.
Elements shared by several iterations (one thread) or threads (several) are watched: a result that
could depend on who comes first raises InternalError. With several threads every thread runs the
whole nest and the iterations of an outermost parallel loop are dealt out in contiguous parts;
everything outside such loops is executed by each thread. A store that only one thread should make
stands in a parallel loop of one iteration.

A barrier orders the threads of the team, or those of the GPU block it stands in. Blocks do not wait
for each other: what two of them do is not ordered before the outermost block loop ends. Thread t of
two thread loops in a block is the same thread; the end of such a loop is no barrier. The lanes of a
warp exchange their registers at a WarpMma, which orders nothing else. So do the cores of a row at a
MeshBroadcast; at one along columns all cores of the mesh meet. A MeshMessage orders what its sender
did before it and what its receiver does behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from random import Random
from typing import Any, assert_never

import numpy as np

from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import INT64
from loopwright.ir.evaluate import NUMBERS, Evaluator, Rules, compiled, literal, quiet
from loopwright.ir.evaluate_index import as_index
from loopwright.ir.expr import Expr
from loopwright.ir.loops import (
    Alloc,
    Axis,
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
from loopwright.ir.memory import (
    AROUND,
    Cells,
    Heard,
    Memory,
    Races,
    Turn,
    Turns,
    flow_of,
    poisoned,
)
from loopwright.memo import IdentityMap

__all__ = ["interpret_nest"]

_WARP = 32  # lanes, neighbours among the iterations of a thread loop


class _Pause(Enum):
    """Where a running statement waits for others."""

    BARRIER = "a barrier"
    LANES = "a product of a warp"
    ROW = "a broadcast along a row"
    COLUMN = "a broadcast along columns"
    MESSAGE = "a message"


Flow = Iterator[_Pause]  # a running statement


def interpret_nest(
    nest: LoopNest,
    arrays: Mapping[str, Memory | np.ndarray[Any, np.dtype[Any]]],
    scalars: Mapping[str, int],
    *,
    threads: int = 1,
    seed: int = 0,
    rules: Rules = NUMBERS,
) -> None:
    """Execute `nest` in place on the memory of its arguments.

    An ndarray stands for its own memory; the strides the nest uses come from `scalars` all the
    same; `rules` say what values are. Raises InternalError on an access outside a buffer, a read of
    undefined memory, a race, or barriers that not all threads reach.
    """
    if set(scalars) != set(nest.scalars) or set(arrays) != {b.name for b in nest.buffers}:
        raise UsageError(
            f"nest {nest.name} takes buffers {', '.join(b.name for b in nest.buffers)} "
            f"and scalars {', '.join(nest.scalars)}",
            found=f"buffers {', '.join(arrays)} and scalars {', '.join(scalars)}",
        )
    machine = _Machine(threads, Random(seed), rules)
    root = _Frame({name: literal(value, INT64) for name, value in scalars.items()}, {}, machine)
    with quiet():
        for buffer in nest.buffers:
            given = arrays[buffer.name]
            memory = given if isinstance(given, Memory) else Memory.of(given)
            if memory.data.dtype != buffer.dtype.numpy:
                raise UsageError(f"buffer {buffer.name} is {buffer.dtype}", f"{memory.data.dtype}")
            strides = machine.integers(buffer.strides, root)
            root.cells[buffer.name] = rules.cells(
                buffer.name, memory.data, strides=strides, base=memory.base, is_shared=True
            )
        team = machine.group(())
        frames = [root.fork(team, number) for number in range(threads)]
        for frame in frames:
            frame.is_concurrent = threads > 1
        for pause in machine.in_step(team, [machine.run(nest.body, frame) for frame in frames]):
            if pause is _Pause.MESSAGE:
                raise InternalError("cores wait for messages that nobody sends")
            machine.races.clear()
        if any(machine.messages.values()):
            raise InternalError("a message is left that nobody takes")


class _Left(Exception):  # noqa: N818, no error
    """Raised by a Leave, caught by its scope."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Group:
    """Flows that run side by side: the team, or the iterations of concurrent loops in one flow."""

    __slots__ = ("number", "phase")

    def __init__(self, number: int) -> None:
        self.number = number
        self.phase = 0  # barriers that all of them passed


# An element that an asynchronous copy will move: where to, and where from.
_Element = tuple[Cells, tuple[int, ...], Cells, tuple[int, ...]]
# What a core says at a broadcast: the root, the shape, and as the root its buffer and place.
_Given = tuple[int, tuple[int, ...], tuple[Cells, tuple[int, ...]] | None]


class _Frame:
    """What one flow of control sees: its variables, its buffers, and who it is."""

    def __init__(
        self, variables: dict[str, np.generic], cells: dict[str, Cells], machine: _Machine
    ) -> None:
        self.variables = variables
        self.cells = cells
        self.machine = machine
        # The thread, then the concurrent iterations around.
        self.owner: tuple[tuple[_Group, int], ...] = ()
        self._turns: tuple[int, Turns] = (-1, ())  # of the owner, and the age they are from
        self.is_concurrent = False  # others may run at the same time
        self.is_shared_out = False  # inside a parallel loop: iterations are no longer dealt out
        # scratch allocation -> how often this thread made it
        self.visits: IdentityMap[Alloc, int] = IdentityMap()
        self.copies: list[list[_Element]] = [[]]  # asynchronous ones by group, the last one open
        self.products = 0  # of its warp, that it took part in
        self.updated: tuple[Cells, tuple[int, ...]] | None = None  # an element, in one piece
        self.broadcasts = {Axis.ROW: 0, Axis.COLUMN: 0}  # that it took part in
        self.sent = 0  # messages
        self.heard: Heard = {}  # of other flows, how many of their messages happened before

    def fork(self, group: _Group, number: int) -> _Frame:
        """A frame of its own for a concurrent iteration or thread."""
        child = _Frame(dict(self.variables), dict(self.cells), self.machine)
        child.owner = (*self.owner, (group, number))
        child.is_concurrent = True
        child.is_shared_out = self.is_shared_out
        child.visits = self.visits if self.owner else IdentityMap()
        return child

    def buffer(self, name: str) -> Cells:
        if name not in self.cells:
            raise InternalError(f"buffer {name} does not exist here")
        return self.cells[name]

    def load(self, array: str, index: tuple[int, ...]) -> np.generic:
        cells = self.buffer(array)
        if self.is_concurrent and cells.is_shared and self.updated != (cells, index):
            self.machine.races.read(cells, index, self.turns(), self.heard)
        return cells.read(index)

    def will_update(self, cells: Cells, index: tuple[int, ...]) -> None:
        """Note that an element is read and written in one piece."""
        self.updated = cells, index
        if self.is_concurrent and cells.is_shared:
            self.machine.races.update(cells, index, self.turns())

    def will_write(self, cells: Cells, index: tuple[int, ...]) -> None:
        if self.is_concurrent and cells.is_shared:
            self.machine.races.write(cells, index, self.turns(), self.heard)

    def turns(self) -> Turns:
        """Who this flow is now; made anew where a group has passed a barrier."""
        age, turns = self._turns
        if age != self.machine.age:
            inner = self.machine.group(self.owner)
            outer = (Turn(group.number, at, group.phase) for group, at in self.owner)
            turns = (*outer, Turn(inner.number, AROUND, inner.phase, self.sent))
            self._turns = self.machine.age, turns
        return turns


class _Machine:
    """Runs statements; holds what all threads share."""

    def __init__(self, threads: int, random: Random, rules: Rules) -> None:
        self.threads = threads
        self.rules = rules
        self.random = random
        self.races = Races()
        self.groups: dict[tuple[tuple[int, int], ...], _Group] = {}  # by the flow that starts them
        self.age = 0  # barriers that any group has passed
        # What the lanes of a warp hold: by group of threads, warp, and number of the product.
        self.lanes: dict[tuple[int, int, int], dict[int, Any]] = {}
        self.given: dict[object, list[_Given]] = {}  # to a broadcast, by those who come there
        # On their way, by the core that takes them: the elements, and what its sender had heard.
        self.messages: dict[object, list[tuple[Cells, Heard]]] = {}
        self.messages_sent = 0
        # Both by identity: a nest may allocate or compute the same in several places.
        self.scratch: IdentityMap[Alloc, tuple[int, Cells]] = (
            IdentityMap()
        )  # allocation -> its last visit, memory
        self.code: IdentityMap[Expr, Evaluator] = IdentityMap()
        self.indices: IdentityMap[Expr, Callable[[_Frame], Any]] = IdentityMap()

    def value(self, expr: Expr, frame: _Frame) -> Any:
        code = self.code.get(expr)
        if code is None:
            code = self.code[expr] = compiled(expr, self.rules)
        return code(frame)

    def index(self, expr: Expr, frame: _Frame) -> Any:
        """A subscript, a bound or a guard."""
        code = self.indices.get(expr)
        if code is None:
            code = self.indices[expr] = as_index(expr, compiled(expr, self.rules))
        return code(frame)

    def integers(self, exprs: tuple[Expr, ...], frame: _Frame) -> tuple[int, ...]:
        return tuple([self.index(expr, frame) for expr in exprs])

    def group(self, owner: tuple[tuple[_Group, int], ...]) -> _Group:
        """The group that concurrent loops of one flow start, which is the same for all of them."""
        key = tuple((group.number, at) for group, at in owner)
        return self.groups.setdefault(key, _Group(len(self.groups)))

    def in_step(self, group: _Group, flows: list[Flow], *, are_rows: bool = False) -> Flow:
        """Run flows side by side; pause once for every barrier that all of them reached.

        A broadcast along columns is for all of a mesh: whose flows `are_rows` ends that pause.
        """
        while flows:
            order = list(range(len(flows)))
            self.random.shuffle(order)
            states: dict[int, _Pause | None] = dict.fromkeys(order, _Pause.MESSAGE)
            while late := [at for at in order if states[at] is _Pause.MESSAGE]:
                sent = self.messages_sent
                states |= {at: next(flows[at], None) for at in late}
                if _Pause.MESSAGE in states.values() and sent == self.messages_sent:
                    yield _Pause.MESSAGE  # others of the mesh may send one
            waiting = [pause for pause in states.values() if pause is not None]
            if not waiting:
                return
            if len(waiting) != len(flows):
                raise InternalError(
                    f"{waiting[0].value} is reached by some threads, others have ended"
                )
            if len(set(waiting)) > 1:
                some, others = sorted({pause.value for pause in waiting})[:2]
                raise InternalError(f"some threads wait at {some}, others at {others}")
            if waiting[0] in (_Pause.LANES, _Pause.ROW):
                continue  # they exchange registers: memory is as unordered as before
            if waiting[0] is _Pause.COLUMN:
                if not are_rows:
                    yield _Pause.COLUMN
                continue
            group.phase += 1
            self.age += 1
            yield _Pause.BARRIER

    def run(self, stmt: Stmt, frame: _Frame) -> Flow:
        match stmt:
            case Store(buffer=name, index=index, value=value):
                place = self.integers(index, frame)
                target = frame.buffer(name)
                if stmt.is_atomic:
                    frame.will_update(target, place)
                result = self.value(value, frame)
                frame.updated = None
                if not stmt.is_atomic:
                    frame.will_write(target, place)
                target.write(place, result)
            case Block(body=body):
                for child in body:
                    yield from self.run(child, frame)
            case For():
                yield from self.loop(stmt, frame)
            case If(cond=cond, body=inner, orelse=orelse):
                if self.index(cond, frame):
                    yield from self.run(inner, frame)
                elif orelse is not None:
                    yield from self.run(orelse, frame)
            case LabelledBlock():
                yield from self.scope(stmt, frame)
            case Leave(name=name):
                raise _Left(name)
            case Let(name=name, value=value, body=inner):
                frame.variables[name] = self.value(value, frame)
                yield from self.run(inner, frame)
                del frame.variables[name]
            case Alloc(buffer=buffer, body=inner):
                frame.cells[buffer.name] = self.allocate(stmt, frame)
                yield from self.run(inner, frame)
                del frame.cells[buffer.name]
            case Copy():
                self.copy(stmt, frame)
            case MeshBroadcast():
                yield from self.broadcast(stmt, frame)
            case MeshMessage():
                yield from self.message(stmt, frame)
            case Commit():
                frame.copies.append([])
            case Wait(pending=pending):
                self.wait(pending, frame)
            case Barrier():
                yield _Pause.BARRIER
            case WarpMma():
                yield from self.mma(stmt, frame)
            case Prefetch():
                pass
            case _:
                assert_never(stmt)

    def scope(self, stmt: LabelledBlock, frame: _Frame) -> Flow:
        variables, cells = set(frame.variables), set(frame.cells)
        try:
            yield from self.run(stmt.body, frame)
        except _Left as left:
            if left.name != stmt.name:
                raise
            # What the statements between have bound is out of scope.
            frame.variables = {x: frame.variables[x] for x in frame.variables if x in variables}
            frame.cells = {x: frame.cells[x] for x in frame.cells if x in cells}

    def loop(self, stmt: For, frame: _Frame) -> Flow:
        start, stop, step = self.integers((stmt.start, stmt.stop, stmt.step), frame)
        if step <= 0:
            raise InternalError(f"loop {stmt.var} has step {step}")
        iterations = range(start, stop, step)
        match stmt.mark:
            case Mark.SERIAL | Mark.UNROLL:
                yield from self.iterate(stmt, iterations, frame)
            case Mark.VECTOR | Mark.SIMD:
                yield from self.iterate(stmt, self.shuffled(iterations), frame)
            case Mark.PARALLEL if self.threads > 1:
                mine = iterations if frame.is_shared_out else self.share(iterations, frame)
                was_shared_out, frame.is_shared_out = frame.is_shared_out, True
                yield from self.iterate(stmt, self.shuffled(mine), frame)
                frame.is_shared_out = was_shared_out
            case Mark.PARALLEL | Mark.BLOCK:
                self.meet(frame)
                group = self.group(frame.owner)
                for number in self.shuffled(iterations):
                    # Blocks do not wait for each other: a barrier inside is their own affair.
                    for _ in self.iterate(stmt, [number], frame.fork(group, number)):
                        pass
                self.meet(frame)
            case Mark.THREAD:
                self.meet(frame)
                group = self.group(frame.owner)
                flows = [self.iterate(stmt, [n], frame.fork(group, n)) for n in iterations]
                yield from self.in_step(group, flows, are_rows=stmt.axis is Axis.ROW)
                self.meet(frame)
            case _:
                assert_never(stmt.mark)

    def iterate(self, stmt: For, numbers: range | list[int], frame: _Frame) -> Flow:
        is_own = stmt.mark in (Mark.BLOCK, Mark.THREAD)
        for number in numbers:
            frame.variables[stmt.var] = np.int64(number)
            if stmt.until is not None and self.value(stmt.until, frame):
                break
            yield from self.run(stmt.body, frame)
            if is_own and any(frame.copies):
                raise InternalError(f"loop {stmt.var} ends before copies that nobody waits for")
        frame.variables.pop(stmt.var, None)

    def shuffled(self, iterations: range | list[int]) -> list[int]:
        order = list(iterations)
        self.random.shuffle(order)
        return order

    def share(self, iterations: range, frame: _Frame) -> range:
        """The part of a parallel loop that falls to the thread of `frame`."""
        thread, count = frame.owner[0][1], len(iterations)
        first, last = thread * count // self.threads, (thread + 1) * count // self.threads
        return iterations[first:last]

    def meet(self, frame: _Frame) -> None:
        """Around an outermost concurrent loop nobody else runs: what happened before is ordered."""
        if not frame.is_concurrent:
            self.races.clear()

    def allocate(self, stmt: Alloc, frame: _Frame) -> Cells:
        if stmt.buffer.space is not Space.SCRATCH:
            return self.fresh(stmt, frame)
        # All threads get the same scratch memory, and the same again at the next visit: the first
        # thread to come back clears it under those that are still busy with the last visit.
        visit = frame.visits[stmt] = (frame.visits.get(stmt) or 0) + 1
        last, cells = self.scratch.get(stmt) or (0, None)
        if cells is not None and visit <= last:
            return cells
        if cells is not None and cells.shape == self.integers(stmt.shape, frame):
            cells.forget()
        else:
            cells = self.fresh(stmt, frame)
        self.scratch[stmt] = visit, cells
        return cells

    def fresh(self, stmt: Alloc, frame: _Frame) -> Cells:
        buffer, shape = stmt.buffer, self.integers(stmt.shape, frame)
        strides = self.integers(buffer.strides, frame)
        reach = (stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True))
        size = sum(reach) + 1  # less than nothing, where a row of a core has less than no elements
        return self.rules.cells(
            buffer.name,
            poisoned((max(0, size) if all(extent > 0 for extent in shape) else 0,), buffer.dtype),
            strides=strides,
            shape=shape,
            is_defined=False,
            is_shared=buffer.space in (Space.SCRATCH, Space.SHARED),  # a scratchpad is a core's own
        )

    def copy(self, stmt: Copy, frame: _Frame) -> None:
        target, source = frame.buffer(stmt.target), frame.buffer(stmt.source)
        to = self.integers(stmt.target_start, frame)
        start = self.integers(stmt.source_start, frame)
        shape = self.integers(stmt.shape, frame)
        if stmt.width > 1:
            self.require_aligned(stmt, target, to)
            self.require_aligned(stmt, source, start)
        for offset in itertools.product(*map(range, shape)):
            place, origin = _moved(to, offset), _moved(start, offset)
            if frame.is_concurrent and source.is_shared:
                self.races.read(source, origin, frame.turns(), frame.heard)
            frame.will_write(target, place)
            if stmt.is_async:
                target.undefine(place)
                frame.copies[-1].append((target, place, source, origin))
            else:
                target.copy_from(place, source, origin)

    def mma(self, stmt: WarpMma, frame: _Frame) -> Flow:
        """A product by all lanes of a warp, as WarpMma says."""
        (group, number), frame.products = frame.owner[-1], frame.products + 1
        lane, key = number % _WARP, (group.number, number // _WARP, frame.products)
        lanes = self.lanes.setdefault(key, {})
        left, right = (
            (frame.buffer(name), self.integers(start, frame))
            for name, start in ((stmt.left, stmt.left_start), (stmt.right, stmt.right_start))
        )
        both = tuple(left[0].read((left[1][0] + r,)) for r in (0, 1))
        lanes[lane] = (both, right[0].read(right[1]))
        yield _Pause.LANES
        if len(lanes) != _WARP:
            raise InternalError(f"{len(lanes)} lanes come to a matrix product of a warp")
        g, t = divmod(lane, 4)
        sums, start = frame.buffer(stmt.sums), self.integers(stmt.sums_start, frame)
        fma = self.rules.call("fma")
        for r, c in itertools.product((0, 1), repeat=2):
            place = (start[0] + r, start[1] + c)
            total = sums.read(place)
            for k in range(4):
                one, other = lanes[4 * g + k][0][r], lanes[4 * (2 * t + c) + k][1]
                total = fma(one, other, total)
            sums.write(place, total)
        if frame.products > 1:
            self.lanes.pop((*key[:2], frame.products - 1), None)  # all lanes have come further

    def broadcast(self, stmt: MeshBroadcast, frame: _Frame) -> Flow:
        """A block of one core's scratchpad for all cores of its row or column."""
        (_, row), (inner, column) = frame.owner[-2:]
        is_row = stmt.axis is Axis.ROW
        frame.broadcasts[stmt.axis] += 1
        where = inner.number if is_row else column
        key = stmt.axis, where, frame.broadcasts[stmt.axis]
        (root,) = self.integers((stmt.root,), frame)
        shape = self.integers(stmt.shape, frame)
        source = None
        if (column if is_row else row) == root:
            # What others take is what is there now: the root may change it before they come.
            start = self.integers(stmt.source_start, frame)
            source = frame.buffer(stmt.source).snapshot(), start
        given = self.given.setdefault(key, [])
        given.append((root, shape, source))
        yield _Pause.ROW if is_row else _Pause.COLUMN
        if any((a, b) != (root, shape) for a, b, _ in given):
            raise InternalError(f"cores of a {stmt.axis.value} take part in different broadcasts")
        found = next((one for _, _, one in given if one is not None), None)
        if found is None:
            raise InternalError(f"no core of the {stmt.axis.value} has number {root}")
        to = self.integers(stmt.target_start, frame)
        is_there = stmt.is_kept and source is not None
        for offset in () if is_there else itertools.product(*map(range, shape)):
            frame.buffer(stmt.target).copy_from(
                _moved(to, offset), found[0], _moved(found[1], offset)
            )
        self.given.pop((*key[:2], key[2] - 1), None)  # all cores have come further

    def message(self, stmt: MeshMessage, frame: _Frame) -> Flow:
        """Elements of a scratchpad that go to the next core of the circle, or come to this one."""
        (outer, row), (_, column) = frame.owner[-2:]
        rows, columns = stmt.cores
        number = row * columns + (columns - 1 - column if row % 2 else column)
        start, (count,) = self.integers(stmt.start, frame), self.integers(stmt.shape, frame)
        cells = frame.buffer(stmt.buffer)
        places = [(*start[:-1], start[-1] + k) for k in range(count)]
        if stmt.is_sent:
            frame.sent += 1
            self.messages_sent += 1
            self.age += 1  # what follows does not happen before the message
            block = self.fresh_block(cells, count)
            for k, place in enumerate(places):
                block.copy_from((k,), cells, place)
            heard = {**frame.heard, flow_of(frame.turns()): frame.sent}
            key = outer.number, (number + 1) % (rows * columns)
            self.messages.setdefault(key, []).append((block, heard))
            return
        own = outer.number, number
        while not self.messages.get(own):
            yield _Pause.MESSAGE
        block, heard = self.messages[own].pop(0)
        if block.size != count:
            raise InternalError(f"a message of {block.size} elements is taken as one of {count}")
        for k, place in enumerate(places):
            cells.copy_from(place, block, (k,))
        for flow, many in heard.items():
            frame.heard[flow] = max(many, frame.heard.get(flow, 0))

    def fresh_block(self, cells: Cells, count: int) -> Cells:
        """Memory for some elements of a buffer, on their way."""
        data = np.empty(max(0, count), cells.data.dtype)
        return self.rules.cells("a message", data, strides=(1,), shape=(count,), is_defined=False)

    def require_aligned(self, stmt: Copy, cells: Cells, start: tuple[int, ...]) -> None:
        """Raise unless a run of `width` elements begins at a multiple of it in memory."""
        offset = sum(at * stride for at, stride in zip(start, cells.strides or (), strict=True))
        if (cells.base + offset) % stmt.width:
            raise InternalError(f"a copy by {stmt.width} begins at {offset} of {cells.name}")

    def wait(self, pending: int, frame: _Frame) -> None:
        """Complete the groups of copies but the last `pending`, the open one not counted."""
        closed = frame.copies[:-1]
        done = closed[: max(0, len(closed) - pending)]
        for group in done:
            for target, place, source, origin in group:
                frame.will_write(target, place)
                target.copy_from(place, source, origin)
        frame.copies = frame.copies[len(done) :]


def _moved(start: tuple[int, ...], offset: tuple[int, ...]) -> tuple[int, ...]:
    """Subscripts with an offset added to the last ones."""
    fixed = len(start) - len(offset)
    return (*start[:fixed], *(a + x for a, x in zip(start[fixed:], offset, strict=True)))
