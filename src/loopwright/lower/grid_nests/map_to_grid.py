"""The loops that are mapped to blocks and threads, as coordinates of a grid.

isl generates loops with bounds of their own; a GPU starts a box of blocks, each with a box of
threads. The box of a loop is the most iterations that it makes for any values of the block loops
around it; what lies in the box only is left out by a condition.

Along y and z a grid has at most 65,535 blocks. Where a loop may have more, its blocks go on along z
if that axis is free; otherwise a block takes several iterations in turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select, Unary, Var
from loopwright.ir.gpu_machine import MOST_BLOCKS
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Block,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
)
from loopwright.ir.schedule import JoinedReduction
from loopwright.ir.text import expr_text
from loopwright.ir.visit import expressions, names, operands, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.grid_nests.join_threads import join_threads
from loopwright.lower.linear_forms import linear, normal

__all__ = ["NoBound", "Ranges", "coordinate", "is_mapped", "largest", "map_to_grid", "smallest"]

_ONE = Const(1)
Ranges: TypeAlias = Mapping[str, tuple[Expr, Expr]]  # the least and the largest value, by name
_LAID = (Axis.Z, Axis.Y, Axis.X)  # the order of loops: neighbours along x are nearest


class NoBound(InternalError):  # noqa: N818, names what was found
    """An expression has no bound over a box of variables."""


def coordinate(mark: Mark, axis: Axis) -> str:
    """The variable that holds a coordinate of the block, or of the thread in its block."""
    return f"{mark.value}.{axis.value}"


def is_mapped(stmt: Stmt) -> bool:
    """Whether a statement is a loop over blocks or threads of a GPU."""
    return isinstance(stmt, For) and stmt.mark in (Mark.BLOCK, Mark.THREAD)


def map_to_grid(
    nest: LoopNest,
    threads: Mapping[str, int],
    most: int = MOST_BLOCKS,
    joined: Sequence[JoinedReduction] = (),
) -> LoopNest:
    """Loops over blocks and threads as boxes from zero, threads directly inside of blocks.

        block x for i_t in range(0, n, 32):
            thread x for i in range(i_t, min(i_t + 32, n)): S(i)
    ->  block x for block.x in range((n + 31) // 32):
            thread x for thread.x in range(32):
                let i_t = 32 * block.x
                let i = i_t + thread.x
                if i < n: S(i)

    `threads` is the number of threads along the axis of a loop, by its variable. Where the first
    iteration of a thread loop is not known, threads take iterations in turns. A grid has at most
    `most` blocks along y and z:

        block y for i in range(n): S(i)
    ->  block z for block.z in range((n + most - 1) // most):
            block y for block.y in range(min(n, most)):
                let number.y = block.y + block.z * most
                if number.y < n: let i = number.y; S(i)

    Threads join the sums of reductions `joined`, see join_threads.
    """
    nest = join_threads(nest, joined, threads)
    if not any(is_mapped(stmt) for stmt in statements(nest.body)):
        return nest
    return replace(nest, body=_host_part(nest.body, threads, most))


def _host_part(stmt: Stmt, threads: Mapping[str, int], most: int) -> Stmt:
    """A statement that the host runs; the outermost mapped loops in it are kernels."""

    def down(inner: Stmt) -> Stmt:
        return _host_part(inner, threads, most)

    match stmt:
        case For(var=var, mark=mark) if is_mapped(stmt):
            if stmt.axis is not None and var == coordinate(mark, stmt.axis):
                return stmt  # written down as a box
            return _Kernel(threads, most).loops(stmt)
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return replace(stmt, body=down(body))
        case Block(body=children):
            return Block(tuple(map(down, children)))
        case If(body=body, orelse=orelse):
            return replace(stmt, body=down(body), orelse=None if orelse is None else down(orelse))
    return stmt


@dataclass(slots=True)
class _Kernel:
    """Rewrites one outermost mapped loop."""

    threads: Mapping[str, int]
    most: int  # blocks along y and z
    grid: dict[Axis, Expr] = field(default_factory=dict)  # iterations of the box along each axis
    block: dict[Axis, int] = field(default_factory=dict)
    ranges: dict[str, tuple[Expr, Expr]] = field(default_factory=dict)  # of block variables
    shared: list[Alloc] = field(default_factory=list)

    def loops(self, stmt: Stmt) -> Stmt:
        """The kernel as loops over the box of blocks, memory of a block, loops over threads."""
        for inner in statements(stmt):
            if isinstance(inner, For) and inner.mark is Mark.THREAD:
                axis = inner.axis or Axis.X
                self.block[axis] = max(self.block.get(axis, 1), self.threads.get(inner.var, 1))
        self._measure(stmt)
        body, grid = self._within_bounds(self._by_one(self._inside(stmt)))
        for axis in reversed(_LAID):
            if axis in self.block:
                count, var = Const(self.block[axis]), coordinate(Mark.THREAD, axis)
                body = For(var, Const(0), count, body, _ONE, Mark.THREAD, axis=axis)
        for alloc in reversed(self.shared):
            body = replace(alloc, body=body)
        for axis in reversed(_LAID):
            if axis in grid:
                var = coordinate(Mark.BLOCK, axis)
                body = For(var, Const(0), grid[axis], body, _ONE, Mark.BLOCK, axis=axis)
        return body

    def _within_bounds(self, body: Stmt) -> tuple[Stmt, dict[Axis, Expr]]:
        """What a thread does for all iterations of its block, and the blocks along each axis."""
        grid = dict(self.grid)
        for axis in (Axis.Y, Axis.Z):
            if not self._is_folded(axis):
                continue
            count, number = self.grid[axis], self._number(axis)
            at: Expr = Var(coordinate(Mark.BLOCK, axis))
            grid[axis] = normal(count.min(self.most))
            if axis is Axis.Y and Axis.Z not in self.grid:
                grid[Axis.Z] = _parts(count, self.most)
                at = normal(at + Var(coordinate(Mark.BLOCK, Axis.Z)) * self.most)
                body = Let(number.name, at, If(Binary("lt", number, count), body))
                continue
            if self.shared:
                # What a block keeps for one iteration makes room for the next.
                body = Block((body, Barrier(BarrierScope.BLOCK)))
            # One iteration is the rule: copies of the body would do harm.
            body = For(number.name, at, count, body, Const(self.most), copies=1)
        return body, grid

    def _is_folded(self, axis: Axis) -> bool:
        """Whether an axis may have more iterations than a grid has blocks."""
        count = self.grid.get(axis)
        if count is None or axis is Axis.X:
            return False
        return not any(
            isinstance(part, Const) and isinstance(part.value, int) and part.value <= self.most
            for part in operands("min", count)
        )

    def _number(self, axis: Axis) -> Var:
        """The iteration of the box along an axis."""
        if self._is_folded(axis):
            return Var(f"number.{axis.value}")
        return Var(coordinate(Mark.BLOCK, axis))

    def _measure(self, stmt: Stmt) -> None:
        """Make the grid the box of all block loops: guards depend on what the others need."""
        match stmt:
            case For(mark=Mark.BLOCK):
                axis = stmt.axis or Axis.X
                trips = _ceiling(stmt.stop - stmt.start, stmt.step)
                most = normal(largest(trips, self.ranges))
                known = self.grid.get(axis, most)
                self.grid[axis] = most if known == most else normal(known.max(most))
                low = smallest(stmt.start, self.ranges)
                high = largest(stmt.stop, self.ranges)
                self.ranges[stmt.var] = normal(low), normal(high - 1)
                self._measure(stmt.body)
            case For(body=body) | Let(body=body) | Alloc(body=body):
                self._measure(body)
            case Block(body=children):
                for child in children:
                    self._measure(child)
            case If(body=body, orelse=orelse):
                self._measure(body)
                if orelse is not None:
                    self._measure(orelse)

    def _inside(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.BLOCK):
                return self._block_loop(stmt)
            case For(mark=Mark.THREAD):
                return self._thread_loop(stmt)
            case Alloc(buffer=buffer, body=body) if buffer.space is Space.SHARED:
                self.shared.append(stmt)
                return self._inside(body)
            case For(body=body) | Let(body=body) | Alloc(body=body):
                return replace(stmt, body=self._inside(body))
            case Block(body=children):
                return Block(tuple(map(self._inside, children)))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else self._inside(orelse)
                return replace(stmt, body=self._inside(body), orelse=other)
        return stmt

    def _block_loop(self, loop: For) -> Stmt:
        axis = loop.axis or Axis.X
        trips = _ceiling(loop.stop - loop.start, loop.step)
        at = normal(loop.start + self._number(axis) * loop.step)
        body = self._inside(loop.body)
        is_box = self.grid[axis] == normal(trips)
        if is_box and not _is_used(loop.var, body):
            return body
        guarded = body if is_box else If(Binary("lt", Var(loop.var), loop.stop), body)
        return Let(loop.var, at, guarded)

    def _thread_loop(self, loop: For) -> Stmt:
        axis = loop.axis or Axis.X
        count, number = self.threads.get(loop.var, 1), Var(coordinate(Mark.THREAD, axis))
        first = _first(loop, count)
        body = self._inside(loop.body)
        if first is None:
            stride = normal(loop.step * count)
            start = normal(loop.start + number * loop.step)
            own: Stmt = For(loop.var, start, loop.stop, body, stride)
        else:
            inside: Expr = Const(True, BOOL)
            for low in operands("max", loop.start):
                if low != first:
                    inside = normal(Binary("and", inside, Binary("ge", Var(loop.var), low)))
            last = first + loop.step * count
            for high in operands("min", loop.stop):
                if normal(high - last) != Const(0):
                    inside = normal(Binary("and", inside, Binary("lt", Var(loop.var), high)))
            own = Let(loop.var, normal(first + number * loop.step), _guarded(inside, body))
        is_all = count == self.block[axis]
        return own if is_all else If(Binary("lt", number, Const(count)), own)

    def _by_one(self, stmt: Stmt) -> Stmt:
        """Statements outside of thread loops, which the first thread of a block runs."""
        used = [coordinate(Mark.THREAD, axis) for axis in _LAID if axis in self.block]

        def visit(node: Stmt, seen: frozenset[str]) -> Stmt:
            match node:
                case For(body=body):
                    seen |= seen_in(node.start, node.stop)
                    return replace(node, body=visit(body, seen))
                case Let(value=value, body=body):
                    return replace(node, body=visit(body, seen | seen_in(value)))
                case Alloc(buffer=buffer, body=body):
                    if buffer.space is Space.REGISTER and any(map(_is_meeting, statements(body))):
                        return node  # sums that all threads join
                    return replace(node, body=visit(body, seen))
                case Block(body=children):
                    return Block(tuple(visit(child, seen) for child in children))
                case If(cond=cond, body=body, orelse=orelse):
                    other = None if orelse is None else visit(orelse, seen)
                    return replace(node, body=visit(body, seen | seen_in(cond)), orelse=other)
            first: Expr = Const(True, BOOL)
            for name in used:
                if name not in seen:
                    first = normal(Binary("and", first, Binary("eq", Var(name), Const(0))))
            return _guarded(first, node)

        def seen_in(*exprs: Expr) -> frozenset[str]:
            return frozenset(used) & frozenset().union(*map(names, exprs))

        return visit(stmt, frozenset())


def _is_used(name: str, stmt: Stmt) -> bool:
    return any(name in names(expr) for inner in statements(stmt) for expr in expressions(inner))


def _is_meeting(stmt: Stmt) -> bool:
    return isinstance(stmt, Barrier) and stmt.scope is BarrierScope.BLOCK


def _guarded(cond: Expr, body: Stmt) -> Stmt:
    return body if cond == Const(True, BOOL) else If(cond, body)


def _ceiling(extent: Expr, step: Expr) -> Expr:
    return extent if step == _ONE else (extent + (step - 1)) // step


def _parts(count: Expr, size: int) -> Expr:
    """How many parts of `size` a count has; of a quotient by one division."""
    match count:
        case Binary(op="floordiv", x=x, y=Const(value=int(divisor))) if divisor > 0:
            return normal((x + divisor * (size - 1)) // (divisor * size))
    return normal(_ceiling(count, Const(size)))


def _first(loop: For, count: int) -> Expr | None:
    """Where the iterations of a thread loop begin that has at most `count` of them.

    One of the lower bounds, `count` steps from which lies one of the upper bounds.
    """
    whole = linear(loop.step * count)
    for low in operands("max", loop.start):
        for high in operands("min", loop.stop):
            gap = linear(high) - linear(low) - whole
            if not gap.terms and -_step(loop) < gap.constant <= 0:
                return low
    return None


def _step(loop: For) -> int:
    return (
        loop.step.value if isinstance(loop.step, Const) and isinstance(loop.step.value, int) else 1
    )


# -- bounds of index expressions over a box of variables ------------------------------------------


def largest(expr: Expr, ranges: Ranges) -> Expr:
    """An upper bound of `expr` for all values of the variables in their ranges."""
    return _bound(normal(expr), ranges, is_upper=True)


def smallest(expr: Expr, ranges: Ranges) -> Expr:
    """A lower bound of `expr` for all values of the variables in their ranges."""
    return _bound(normal(expr), ranges, is_upper=False)


def _bound(expr: Expr, ranges: Ranges, *, is_upper: bool) -> Expr:
    def of(part: Expr, same: bool = True) -> Expr:
        return _bound(part, ranges, is_upper=is_upper if same else not is_upper)

    match expr:
        case Var(name=name) if name in ranges:
            return ranges[name][is_upper]
        case Binary(op="add" | "min" | "max" as op, x=x, y=y):
            return Binary(op, of(x), of(y))
        case Binary(op="sub", x=x, y=y):
            return of(x) - of(y, same=False)
        case Binary(op="mul", x=x, y=Const(value=int(factor)) as y):
            return of(x, factor >= 0) * y
        case Binary(op="mul", x=Const(value=int(factor)) as x, y=y):
            return x * of(y, factor >= 0)
        case Binary(op="floordiv", x=x, y=Const(value=int(divisor)) as y) if divisor > 0:
            return of(x) // y
        case Binary(op="mod", y=Const(value=int(divisor))) if divisor > 0 and _moves(expr, ranges):
            return Const(divisor - 1 if is_upper else 0)
        case Select(x=x, y=y) if _moves(expr, ranges):
            return Binary("max" if is_upper else "min", of(x), of(y))
        case Unary(op="neg", x=x):
            return Unary("neg", of(x, same=False))
    if _moves(expr, ranges):
        raise NoBound("a number of blocks has no bound", expr_text(expr))
    return expr


def _moves(expr: Expr, ranges: Ranges) -> bool:
    return bool(names(expr) & ranges.keys())
