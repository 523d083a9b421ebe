"""Boxes of arrays in shared memory of a GPU's blocks, copied by all threads of the block.

A barrier needs all threads. What stands around a loop that stages is distributed over its parts:
conditions that only some threads meet go inside, so that all of them run the loop, copy, and wait;
so do bounds of the loop that differ between threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
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
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.program import Array
from loopwright.ir.schedule import StagedArray
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    loads,
    names,
    operands,
    rebuild,
    rewrite,
    statements,
    substitute,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, is_straight_line, loop, seq, unrolled
from loopwright.lower.grid_nests.map_to_grid import (
    NoBound,
    Ranges,
    coordinate,
    is_mapped,
    largest,
    smallest,
)
from loopwright.lower.linear_forms import LinearForm, linear, normal

__all__ = ["stage_arrays"]

_TRUE = Const(True, BOOL)
_MEET = Barrier(BarrierScope.BLOCK)
_MOST_COPIES = 32  # of one statement, that whole strips become: their loads begin together


def stage_arrays(
    nest: LoopNest, staged: Sequence[StagedArray], arrays: Sequence[Array]
) -> LoopNest:
    """Bring boxes of arrays into shared memory at the head of every iteration of a loop.

        block x for block.x: thread x for thread.x in range(4):
            if i < n: for k in range(0, m, 4): S(A[i, k])
    ->  block x for block.x: alloc shared A_box[4, 4]: thread x for thread.x in range(4):
            for k in range(0, m, 4):
                barrier
                for r in range(4): A_box[r, thread.x] = A[i_t + r, k + thread.x]
                barrier
                if i < n: S(A_box[i - i_t, 0])

    With several buffers boxes are copied asynchronously, all but one of them ahead. Elements beyond
    the array are not copied. Loops and variables of `staged` are named as in the nest; where a
    variable is not in scope, or the threads do not all run a loop, arrays are read where they are.
    """
    if not staged:
        return nest
    shapes = {array.name: array.shape for array in arrays}
    pass_ = _Staging(nest, tuple(staged), shapes, bound_names(nest))
    known = frozenset(nest.scalars)
    return replace(nest, body=pass_.host(nest.body, known))


class _NotStaged(Exception):  # noqa: N818, names what was found
    """Raised where a kernel cannot be rewritten: it stays as it is."""


@dataclass(slots=True)
class _Staging:
    nest: LoopNest
    staged: tuple[StagedArray, ...]
    shapes: Mapping[str, tuple[Expr, ...]]
    taken: set[str]

    def host(self, stmt: Stmt, known: frozenset[str]) -> Stmt:
        """A statement that the host runs; the outermost mapped loops in it are kernels."""
        match stmt:
            case For() if is_mapped(stmt):
                kernel = _Kernel(self, known)
                try:
                    return kernel.rewritten(stmt)
                except (_NotStaged, NoBound):
                    return stmt
            case For(var=name, body=body) | Let(name=name, body=body):
                return replace(stmt, body=self.host(body, known | {name}))
            case Alloc(body=body):
                return replace(stmt, body=self.host(body, known))
            case Block(body=children):
                return Block(tuple(self.host(child, known) for child in children))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else self.host(orelse, known)
                return replace(stmt, body=self.host(body, known), orelse=other)
        return stmt

    def at(self, var: str) -> list[StagedArray]:
        """What a loop stages."""
        return [one for one in self.staged if one.loop == var]

    def holds(self, stmt: Stmt) -> bool:
        """Whether some loop in a statement stages an array that it reads."""
        return any(self.boxes_of(inner) for inner in statements(stmt))

    def boxes_of(self, stmt: Stmt) -> list[StagedArray]:
        """What is staged by a statement itself: boxes of arrays that are read in the loop."""
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL:
            return []
        found = self.at(stmt.var)
        if not found:
            return []
        read = {
            load.array
            for inner in statements(stmt.body)
            for expr in expressions(inner)
            for load in loads(expr)
        }
        return [one for one in found if one.array in read]

    def name(self, wish: str) -> str:
        found = fresh_name(wish, self.taken)
        self.taken.add(found)
        return found


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a statement of a kernel, of which all threads run what stages."""

    cond: Expr  # where the thread runs the statement itself
    known: frozenset[str]  # variables in scope
    ranges: Ranges  # of those in which threads may differ

    def where(self, cond: Expr) -> _Around:
        return replace(self, cond=_and(self.cond, cond))

    def bind(self, name: str) -> _Around:
        return replace(self, known=self.known | {name})

    def varies(self, expr: Expr) -> bool:
        return bool(names(expr) & self.ranges.keys())


@dataclass(slots=True)
class _Kernel:
    """Rewrites one kernel."""

    staging: _Staging
    known: frozenset[str]  # variables of the host around the launch
    threads: dict[Axis, int] = field(default_factory=dict)
    boxes: dict[tuple[str, str], _Box] = field(default_factory=dict)  # by array and loop

    def rewritten(self, stmt: Stmt) -> Stmt:
        if not self.staging.holds(stmt):
            return stmt
        return self._outside(stmt, self.known)

    def _outside(self, stmt: Stmt, known: frozenset[str]) -> Stmt:
        """Loops over blocks, and memory of them, down to the first loop over threads."""
        match stmt:
            case For(mark=Mark.BLOCK, var=var, body=body):
                return replace(stmt, body=self._outside(body, known | {var}))
            case Alloc(body=body):
                return replace(stmt, body=self._outside(body, known))
            case For(mark=Mark.THREAD):
                inner = self._threads(stmt, known)
                for box in reversed(self.boxes.values()):
                    inner = box.around(inner)
                return inner
        raise _NotStaged

    def _threads(self, stmt: Stmt, known: frozenset[str]) -> Stmt:
        match stmt:
            case For(mark=Mark.THREAD, stop=Const(value=int(count)), axis=Axis() as axis):
                self.threads[axis] = count
                return replace(stmt, body=self._threads(stmt.body, known | {stmt.var}))
        ranges: dict[str, tuple[Expr, Expr]] = {
            coordinate(Mark.THREAD, axis): (Const(0), Const(count - 1))
            for axis, count in self.threads.items()
        }
        return self._lifted(stmt, _Around(_TRUE, known, ranges))

    # -- conditions go inside ---------------------------------------------------------------------

    def _lifted(self, stmt: Stmt, around: _Around) -> Stmt:
        """A statement under the condition around it, with all that stages run by every thread."""
        if not self.staging.holds(stmt):
            return _guarded(around.cond, stmt)
        match stmt:
            case Let(name=name, value=value, body=body) if loads(value):
                return self._loaded(name, value, body, around)
            case Let(name=name, value=value, body=body):
                inside = around.bind(name)
                if around.varies(value):
                    if value.dtype != INT64:
                        raise _NotStaged
                    ends = smallest(value, around.ranges), largest(value, around.ranges)
                    own = normal(ends[0]), normal(ends[1])
                    inside = replace(inside, ranges={**around.ranges, name: own})
                return replace(stmt, body=self._lifted(body, inside))
            case Alloc(body=body):
                return replace(stmt, body=self._lifted(body, around))
            case Block(body=children):
                return seq(*(self._lifted(child, around) for child in children))
            case If(cond=own, body=body, orelse=orelse):
                return self._branches(own, body, orelse, around)
            case For(mark=Mark.SERIAL, until=None):
                return self._loop(stmt, around)
        raise _NotStaged

    def _loaded(self, name: str, value: Expr, body: Stmt, around: _Around) -> Stmt:
        """A binding of what memory holds: a thread that does not meet the condition has none."""
        register = Load(name, (), value.dtype)

        def change(node: Expr) -> Expr:
            return register if isinstance(node, Var) and node.name == name else node

        inner = rebuild(body, expression=lambda expr: rewrite(expr, change))
        first = _guarded(around.cond, Store(name, (), value))
        memory = Buffer(name, value.dtype, (), Space.STACK, writable=True)
        return Alloc(memory, (), seq(first, self._lifted(inner, around)))

    def _branches(self, own: Expr, body: Stmt, orelse: Stmt | None, around: _Around) -> Stmt:
        if loads(own):
            raise _NotStaged
        if not around.varies(own):
            other = None if orelse is None else self._lifted(orelse, around)
            return If(own, self._lifted(body, around), other)
        parts = [self._lifted(body, around.where(own))]
        if orelse is not None:
            parts.append(self._lifted(orelse, around.where(Unary("not", own))))
        return seq(*parts)

    def _loop(self, stmt: For, around: _Around) -> Stmt:
        """A loop that all threads go through together, from the first iteration to the last."""
        if any(loads(bound) for bound in (stmt.start, stmt.stop, stmt.step)):
            raise _NotStaged
        inside = around.bind(stmt.var)
        var, same = Var(stmt.var), stmt
        if around.varies(stmt.start):
            step = stmt.step.value if isinstance(stmt.step, Const) else 0
            if not isinstance(step, int) or not step or not _is_aligned(stmt.start, step):
                raise _NotStaged
            inside = inside.where(Binary("ge", var, stmt.start))
            first = smallest(stmt.start, around.ranges)
            same = replace(same, start=normal(first if step == 1 else first // step * step))
        if around.varies(stmt.stop):
            inside = inside.where(Binary("lt", var, stmt.stop))
            same = replace(same, stop=normal(largest(stmt.stop, around.ranges)))
        boxes = [self._box(one, stmt.var) for one in self.staging.boxes_of(stmt)]
        if any(not box.uses <= inside.known for box in boxes):
            raise _NotStaged
        if not boxes:
            return replace(same, body=self._lifted(stmt.body, inside))
        if boxes[0].staged.buffers == 1:
            return self._in_turns(same, boxes, inside)
        return self._ahead(same, boxes, inside)

    def _box(self, staged: StagedArray, var: str) -> _Box:
        key = staged.array, var
        if key not in self.boxes:
            dtype = next(b.dtype for b in self._buffers() if b.name == staged.array)
            name = self.staging.name(f"{staged.array}_box")
            shape = self.staging.shapes[staged.array]
            memory = Buffer(name, dtype, _strides(staged), Space.SHARED, writable=True)
            self.boxes[key] = _Box(staged, memory, shape, self.staging.name("r"))
        return self.boxes[key]

    def _buffers(self) -> list[Buffer]:
        nest = self.staging.nest
        inner = (s.buffer for s in statements(nest.body) if isinstance(s, Alloc))
        return [*nest.buffers, *inner]

    # -- loops that stage -------------------------------------------------------------------------

    def _in_turns(self, stmt: For, boxes: Sequence[_Box], inside: _Around) -> Stmt:
        """Boxes are copied, then used."""
        body = self._with_boxes(stmt.body, boxes, ())
        copies = [box.copied(self.threads, stmt.var, Var(stmt.var), ()) for box in boxes]
        return replace(stmt, body=seq(_MEET, *copies, _MEET, self._lifted(body, inside)))

    def _ahead(self, stmt: For, boxes: Sequence[_Box], inside: _Around) -> Stmt:
        """A ring of boxes, all but one of them under way.

        At the barrier of an iteration all threads have its boxes, and are done with those of the
        iteration before, in whose place the next ones come.
        """
        count, var = boxes[0].staged.buffers, Var(stmt.var)

        def brought(value: Expr, slot: Expr) -> Stmt:
            copies = [box.copied(self.threads, stmt.var, value, (slot,)) for box in boxes]
            return If(Binary("lt", value, stmt.stop), seq(*copies))

        first, slot = Var(self.staging.name("first")), Var(self.staging.name("slot"))
        ahead = brought(normal(stmt.start + stmt.step * first), first)
        head = loop(first, 0, count - 1, seq(ahead, Commit()))
        turn = normal((var - stmt.start) // stmt.step % count)
        coming = normal(var + stmt.step * (count - 1))
        body = self._with_boxes(stmt.body, boxes, (slot,))
        inner = seq(
            Wait(count - 2),
            _MEET,
            brought(coming, normal((slot + (count - 1)) % count)),
            Commit(),
            self._lifted(body, inside.bind(slot.name)),
        )
        return seq(_MEET, head, replace(stmt, body=Let(slot.name, turn, inner)))

    def _with_boxes(self, body: Stmt, boxes: Sequence[_Box], slot: tuple[Expr, ...]) -> Stmt:
        """`body` with the elements of boxes in place of those of arrays."""
        by_array = {box.staged.array: box for box in boxes}

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.array in by_array:
                return by_array[node.array].element(node, slot)
            return node

        for inner in statements(body):
            if isinstance(inner, Copy) and inner.source in by_array:
                raise _NotStaged
        return rebuild(body, _with_full_strips, lambda expr: rewrite(expr, change))


def _with_full_strips(stmt: Stmt) -> Stmt:
    """A loop over a strip; whole strips have a constant number of iterations.

        for j in range(k, min(n, k + 32)): S
    ->  if k + 32 <= n: unroll for j in range(k, k + 32): S
        else: for j in range(k, min(n, k + 32)): S
    """
    if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL or not is_straight_line(stmt.body):
        return stmt
    ends = operands("min", stmt.stop)
    for end in ends:
        extent = linear(end) - linear(stmt.start)
        if len(ends) > 1 and not extent.terms:
            is_whole: Expr = _TRUE
            for other in ends:
                if other != end:
                    is_whole = _and(is_whole, Binary("le", end, other))
            is_small = isinstance(stmt.body, Store) and extent.constant <= _MOST_COPIES
            mark = Mark.UNROLL if is_small and stmt.step == Const(1) else Mark.SERIAL
            return If(is_whole, replace(stmt, stop=end, mark=mark), stmt)
    return stmt


@dataclass(frozen=True, slots=True)
class _Box:
    """The memory of a staged array, and how it is filled."""

    staged: StagedArray
    memory: Buffer
    shape: tuple[Expr, ...]  # of the array
    turn: str  # a variable that counts the elements that one thread copies

    @property
    def uses(self) -> set[str]:
        """The variables that say where the box lies."""
        return set().union(*map(names, (*self.staged.lower, *self.shape)))

    def around(self, body: Stmt) -> Stmt:
        ring = (self.staged.buffers,) if self.staged.buffers > 1 else ()
        return Alloc(self.memory, tuple(map(Const, (*ring, *self.staged.shape))), body)

    def element(self, load: Load, slot: tuple[Expr, ...]) -> Load:
        """An element of the array, in the box."""
        staged = self.staged
        index = [
            normal((at - low) // by)
            for at, low, by in zip(load.index, staged.lower, staged.strides, strict=True)
        ]
        return Load(self.memory.name, (*slot, *index), load.dtype)

    def copied(
        self, threads: Mapping[Axis, int], var: str, value: Expr, slot: tuple[Expr, ...]
    ) -> Stmt:
        """The copy of the box of an iteration, element by element by the threads of the block.

        Neighbouring threads copy neighbouring elements. Where the whole box is inside the array
        nothing is tested.
        """
        lower = [normal(substitute(low, {var: value})) for low in self.staged.lower]
        is_inside: Expr = _TRUE
        sides = zip(lower, self.staged.extents, self.staged.strides, self.shape, strict=True)
        for low, extent, by, whole in sides:
            is_inside = _and(is_inside, _at_least(low, Const(0)))
            is_inside = _and(is_inside, Binary("lt", normal(low + by * (extent - 1)), whole))
        plain = self._rounds(threads, lower, slot, is_tested=False)
        if is_inside == _TRUE:
            return plain
        return If(is_inside, plain, self._rounds(threads, lower, slot, is_tested=True))

    def _rounds(
        self,
        threads: Mapping[Axis, int],
        lower: Sequence[Expr],
        slot: tuple[Expr, ...],
        *,
        is_tested: bool,
    ) -> Stmt:
        total, number = 1, _number(threads)
        for extent in self.staged.extents:
            total *= extent
        count = 1
        for extent in threads.values():
            count *= extent
        whole, rest = divmod(total, count)
        parts: list[Stmt] = []
        if whole == 1:
            first = self._offset(number, count, Const(0))
            parts.append(self._copy(first, lower, slot, is_tested=is_tested))
        elif whole:
            turn = Var(self.turn)
            body = self._copy(self._offset(number, count, turn), lower, slot, is_tested=is_tested)
            parts.append(unrolled(turn, whole, body))
        if rest:
            last = self._copy(
                self._offset(number, count, Const(whole)), lower, slot, is_tested=is_tested
            )
            parts.append(If(Binary("lt", number, Const(rest)), last))
        return seq(*parts)

    def _is_never_negative(self, at: Expr) -> bool:
        """Whether a subscript has coordinates of threads, which count from zero, only."""
        form = linear(at)
        counted = {coordinate(Mark.THREAD, axis) for axis in Axis} | {self.turn}
        return form.constant >= 0 and all(
            count > 0 and isinstance(atom, Var) and atom.name in counted
            for atom, count in form.terms
        )

    def _offset(self, number: Expr, count: int, turn: Expr) -> list[Expr]:
        """The element of the box, by dimension, that a thread copies in its turn."""
        *outer, last = self.staged.extents
        if count % last == 0 and count > last:
            along, across = number % last, number // last + turn * (count // last)
        elif last % count == 0:
            along = number + turn % (last // count) * count
            across = turn // (last // count)
        else:
            place = number + turn * count
            along, across = place % last, place // last
        found = [along]
        for at, extent in reversed(list(enumerate(outer))):
            found.append(across if at == 0 else across % extent)
            across = across // extent
        return [normal(index) for index in reversed(found)]

    def _copy(
        self,
        offset: Sequence[Expr],
        lower: Sequence[Expr],
        slot: tuple[Expr, ...],
        *,
        is_tested: bool,
    ) -> Stmt:
        place = tuple(
            normal(low + by * x)
            for low, by, x in zip(lower, self.staged.strides, offset, strict=True)
        )
        is_async = self.staged.buffers > 1
        shape = (Const(1),) if is_async else ()
        made = Copy(
            self.memory.name, (*slot, *offset), self.staged.array, place, shape, is_async=is_async
        )
        if not is_tested:
            return made
        is_there: Expr = _TRUE
        for at, whole in zip(place, self.shape, strict=True):
            if not self._is_never_negative(at):
                is_there = _and(is_there, _at_least(at, Const(0)))
            is_there = _and(is_there, Binary("lt", at, whole))
        return _guarded(is_there, made)


def _strides(staged: StagedArray) -> tuple[Expr, ...]:
    found: list[Expr] = []
    step = 1
    for extent in reversed(staged.shape):
        found.insert(0, Const(step))
        step *= extent
    return (Const(step), *found) if staged.buffers > 1 else tuple(found)


def _number(threads: Mapping[Axis, int]) -> Expr:
    """The number of a thread in its block, along x first."""
    total: Expr = Const(0)
    step = 1
    for axis in (Axis.X, Axis.Y, Axis.Z):
        if axis in threads:
            total = total + Var(coordinate(Mark.THREAD, axis)) * step
            step *= threads[axis]
    return normal(total)


def _is_aligned(start: Expr, step: int) -> bool:
    """Whether all values that a loop may begin at are multiples of its step."""
    return all(_is_multiple(linear(bound), step) for bound in operands("max", start))


def _is_multiple(form: LinearForm, step: int) -> bool:
    rest = form
    for atom, count in form.terms:
        match atom:
            # Up to multiples of the divisor a remainder is what is divided.
            case Binary(op="mod", x=x, y=Const(value=int(by))) if by > 0 and count * by % step == 0:
                rest = rest - LinearForm(((atom, count),), 0) + linear(x) * count
    return not any(count % step for _, count in rest.terms) and rest.constant % step == 0


def _at_least(x: Expr, y: Expr) -> Expr:
    gap = linear(x) - linear(y)
    if not gap.terms:
        return Const(gap.constant >= 0, BOOL)
    return Binary("ge", x, y)


def _and(x: Expr, y: Expr) -> Expr:
    return normal(Binary("and", x, y))


def _guarded(cond: Expr, body: Stmt) -> Stmt:
    return body if cond == _TRUE else If(cond, body)
