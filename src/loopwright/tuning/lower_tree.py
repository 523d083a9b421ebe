"""LoopTree -> LoopNest: what a tree means, in loops that the interpreter and every backend take.

Loops keep the order of the tree exactly. A loop of a dimension runs until its points are used up:

    for x.1 in range(ceil(limit / E)):              E: points of x that an iteration covers
        limit of the loops inside = min(E, limit - x.1 * E)

Where sizes divide, all bounds are constants. Packed operands have buffers of their own, one
dimension for every loop that the operand varies with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    For,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.program import Array, Role
from loopwright.ir.visit import names, rewrite, substitute
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement, identity_of, shape_of
from loopwright.tuning.tree_legality import carries_dependence

__all__ = ["lower_tree", "packed_depths", "row_major"]


def lower_tree(tree: LoopTree) -> LoopNest:
    """The loops of a tree, for LLVM's whole pipeline to optimise."""
    is_parallel = any(loop.mark is Mark.PARALLEL for nest in tree.nests for loop in nest.loops)
    parts: list[Stmt] = []
    for number, nest in enumerate(tree.nests):
        for part in (_start(nest, number), _Lowering(tree, nest, number).body()):
            if part is None:
                continue
            if parts and is_parallel:
                parts.append(Barrier())
            parts.append(_alone(part, len(parts)) if is_parallel and not _shared(part) else part)
    body: Stmt = Block(tuple(parts))
    for array in tree.arrays:
        if array.role is Role.LOCAL:
            body = Alloc(_buffer(array, Space.SCRATCH), array.shape, body)
    arguments = tuple(_buffer(a) for a in tree.arrays if a.role is not Role.LOCAL)
    return LoopNest(tree.name, arguments, (), body, leave_to_llvm=True, reassoc=tree.reassoc)


def packed_depths(nest: TreeNest, depth: int, load: Load) -> list[int]:
    """The loops from `depth` on that an operand varies with: the dimensions of its buffer."""
    used = names(load)
    return [k for k in range(depth, len(nest.loops)) if nest.loops[k].dim in used]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _buffer(array: Array, space: Space = Space.GLOBAL) -> Buffer:
    strides = tuple(map(Const, row_major(shape_of(array))))
    return Buffer(array.name, array.dtype, strides, space, writable=array.role is not Role.IN)


def _alone(stmt: Stmt, number: int) -> Stmt:
    """A statement that one thread of a team runs."""
    return For(f"alone.{number}", Const(0), Const(1), stmt, Const(1), Mark.PARALLEL)


def _shared(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.mark is Mark.PARALLEL


def _start(nest: TreeNest, number: int) -> Stmt | None:
    """Elements that are accumulated start from the identity of plus."""
    statement = nest.statement
    if statement.plus is None:
        return None
    write = statement.write
    here = {name: Var(f"{name}.start{number}") for name, _ in statement.dims}
    zero = Const(identity_of(statement.plus, write.dtype), write.dtype)
    body: Stmt = Store(write.array, tuple(substitute(x, here) for x in write.index), zero)
    used = frozenset().union(*map(names, write.index))
    for name, extent in reversed(statement.dims):
        if name in used:
            body = For(here[name].name, Const(0), Const(extent), body, Const(1))
    return body


class _Lowering:
    """Writes the loops of one nest."""

    def __init__(self, tree: LoopTree, nest: TreeNest, number: int) -> None:
        self.tree = tree
        self.nest = nest
        self.steps = nest.steps
        self.variables = [
            Var(f"{loop.dim}.{number}.{depth}") for depth, loop in enumerate(nest.loops)
        ]
        self.packed: dict[Load, Load] = {}  # operand -> element of its buffer

    def body(self) -> Stmt:
        limits: dict[str, Expr] = {name: Const(n) for name, n in self.nest.statement.dims}
        return self._loops(0, limits, dict.fromkeys(limits, Const(0)))

    def _loops(self, depth: int, limits: dict[str, Expr], index: dict[str, Expr]) -> Stmt:
        """The loops from `depth` on: for each dimension the points left and the first of them."""
        if depth == len(self.nest.loops):
            return self._statement(self.nest.statement, index)
        for operand in self.nest.loops[depth].packs:
            load = self.nest.statement.operands[operand]
            if load not in self.packed:
                return self._pack(depth, load, limits, index)
        return self._loop(depth, limits, index, self._loops)

    def _loop(
        self,
        depth: int,
        limits: dict[str, Expr],
        index: dict[str, Expr],
        inner: Callable[[int, dict[str, Expr], dict[str, Expr]], Stmt],
        suffix: str = "",
    ) -> For:
        """One loop around what `inner` gives; those that fill a buffer have names with a suffix."""
        loop, step = self.nest.loops[depth], self.steps[depth]
        var = Var(self.variables[depth].name + suffix)
        limit = limits[loop.dim]
        trips = (limit + (step - 1)) // step
        rest: Expr = (limit - var * step).min(step)
        if isinstance(limit, Const) and int(limit.value.real) % step == 0:
            rest = Const(step)
        first = index[loop.dim] + var * step
        body = inner(depth + 1, {**limits, loop.dim: rest}, {**index, loop.dim: first})
        mark = Mark.SERIAL if suffix else self._mark(depth)
        return For(var.name, Const(0), trips, body, Const(1), mark)

    def _mark(self, depth: int) -> Mark:
        mark = self.nest.loops[depth].mark
        if mark is Mark.VECTOR and not carries_dependence(self.tree, self.nest, depth):
            return Mark.SIMD
        return mark if mark is Mark.PARALLEL else Mark.SERIAL

    def _pack(
        self, depth: int, load: Load, limits: dict[str, Expr], index: dict[str, Expr]
    ) -> Stmt:
        """Fill the buffer of an operand, then run the loops from `depth` on with it."""
        depths = packed_depths(self.nest, depth, load)
        shape = [self.nest.loops[k].trips for k in depths]
        name = f"packed.{self.variables[depth].name}.{len(self.packed)}"
        strides = tuple(map(Const, row_major(shape)))
        buffer = Buffer(name, load.dtype, strides, Space.PRIVATE, writable=True)
        suffix = f".{name}"

        def copied(at: int, limits: dict[str, Expr], index: dict[str, Expr]) -> Stmt:
            following = next((k for k in depths if k >= at), None)
            if following is not None:
                return self._loop(following, limits, index, copied, suffix)
            value = Load(load.array, _at(load.index, index), load.dtype)
            place = tuple(Var(self.variables[k].name + suffix) for k in depths)
            return Store(name, place, value)

        fill = copied(depth, limits, index)
        self.packed[load] = Load(name, tuple(self.variables[k] for k in depths), load.dtype)
        body = Block((fill, self._loops(depth, limits, index)))
        del self.packed[load]
        return Alloc(buffer, tuple(map(Const, shape)), body)

    def _statement(self, statement: TreeStatement, index: dict[str, Expr]) -> Stmt:
        def change(expr: Expr) -> Expr:
            if not isinstance(expr, Load):
                return expr
            return self.packed.get(expr) or Load(expr.array, _at(expr.index, index), expr.dtype)

        write = statement.write
        place = _at(write.index, index)
        value = rewrite(statement.value, change)
        if statement.plus is not None:
            value = Binary(statement.plus, Load(write.array, place, write.dtype), value)
        return Store(write.array, place, value)


def _at(subscripts: tuple[Expr, ...], index: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple(substitute(x, index) for x in subscripts)
