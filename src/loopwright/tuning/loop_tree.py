"""LoopTree: loops with a cursor, edited one step at a time, as LoopTool has them.

A tree is a sequence of perfect nests over one set of arrays. A nest runs one statement for every
point of its dimensions; each of its loops belongs to a dimension. The loops of a dimension, outside
in, are a mixed radix: with E the points of the dimension that one iteration covers,

    for x in SIZE, tail T     SIZE iterations of E points each, then one of T points (T < E)

and the loop itself covers SIZE * E + T points. An iteration that a loop further out has cut short
runs as far as its points go. Loops of one dimension keep their order; those of different dimensions
may change places, which never changes which points run. This is LoopTool's meaning of split, merge
and swap (mutate.cpp); strip-mining in `transform` differs: there the point loop keeps the whole
index.

Edits are pure functions that return a new tree. The cursor stands on a loop and follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Array
from loopwright.ir.visit import loads
from loopwright.ir.visit import names as names_in
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache

__all__ = ["LoopTree", "TreeLoop", "TreeNest", "TreeStatement", "identity_of", "shape_of"]

# Operators that a nest may accumulate with.
PLUS = ("add", "mul", "min", "max", "and", "or", "xor")


@dataclass(frozen=True, slots=True)
class TreeLoop:
    """A loop of a dimension: `size` whole iterations and, where `tail` is not 0, a shorter one."""

    dim: str
    size: int
    tail: int = 0  # points of the last iteration, less than a whole one covers
    mark: Mark = Mark.SERIAL  # or PARALLEL, VECTOR, UNROLL
    packs: tuple[int, ...] = ()  # operands of the nest that are packed before this loop begins

    @property
    def trips(self) -> int:
        """Iterations, with the shorter one."""
        return self.size + (self.tail > 0)


@dataclass(frozen=True, slots=True)
class TreeStatement:
    """What a nest does at a point: `write = value`, or `write = write plus value`.

    Where it accumulates, elements start from the identity of `plus`.
    """

    dims: tuple[tuple[str, int], ...]  # names and extents, outermost first in the source
    write: Access  # subscripts affine in the dimensions
    value: Expr  # over loads, whose subscripts are affine in the dimensions
    plus: str | None = None  # operator of PLUS; None: each element is written once

    @property
    def operands(self) -> tuple[Load, ...]:
        """The loads of the value, each once, in order of appearance: a, b, ..."""
        return tuple(dict.fromkeys(loads(self.value)))

    @property
    def reduced(self) -> tuple[str, ...]:
        """The dimensions that the written element does not vary with."""
        kept = frozenset().union(*map(names_in, self.write.index))
        return tuple(name for name, _ in self.dims if name not in kept)


@dataclass(frozen=True, slots=True)
class TreeNest:
    """The loops around one statement, outermost first."""

    statement: TreeStatement
    loops: tuple[TreeLoop, ...]
    accumulators: int = 0  # partial results of an element at a time; 0: as code likes

    def covered(self, depth: int) -> int:
        """Points of its dimension that one iteration of a loop covers."""
        dim, points = self.loops[depth].dim, 1
        for loop in reversed(self.loops[depth + 1 :]):
            if loop.dim == dim:
                points = points * loop.size + loop.tail
        return points

    @property
    def steps(self) -> tuple[int, ...]:
        """`covered` of every loop."""
        points: dict[str, int] = {}
        found = []
        for loop in reversed(self.loops):
            step = points.get(loop.dim, 1)
            found.append(step)
            points[loop.dim] = step * loop.size + loop.tail
        return tuple(reversed(found))

    @property
    def extents(self) -> dict[str, int]:
        """Points of each dimension that the loops cover."""
        points = dict.fromkeys((name for name, _ in self.statement.dims), 1)
        for loop in reversed(self.loops):
            points[loop.dim] = points[loop.dim] * loop.size + loop.tail
        return points


@dataclass(frozen=True, slots=True)
class LoopTree:
    """Nests that run one after the other, and a cursor on one of their loops."""

    name: str
    arrays: tuple[Array, ...]  # of constant shape
    nests: tuple[TreeNest, ...]
    reassoc: bool = False  # floating sums and products may be reassociated
    cursor: int = 0  # number of a loop, counted through all nests

    def __post_init__(self) -> None:
        _check(self)

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)

    @property
    def count(self) -> int:
        """Loops of all nests."""
        return sum(len(nest.loops) for nest in self.nests)

    @property
    def place(self) -> tuple[int, int]:
        """The nest of the cursor and the depth of its loop there."""
        return self.place_of(self.cursor)

    def place_of(self, number: int) -> tuple[int, int]:
        """The nest and depth of a loop, by its number."""
        for at, nest in enumerate(self.nests):
            if number < len(nest.loops):
                return at, number
            number -= len(nest.loops)
        raise UsageError("no such loop", str(number))

    @property
    def nest(self) -> TreeNest:
        """The nest of the cursor."""
        return self.nests[self.place[0]]

    @property
    def loop(self) -> TreeLoop:
        """The loop of the cursor."""
        at, depth = self.place
        return self.nests[at].loops[depth]

    @property
    def operations(self) -> int:
        """Arithmetic operations of all statements, a product and a sum being two."""
        return sum(_points(nest.statement) * _work(nest.statement) for nest in self.nests)

    # -- edits ------------------------------------------------------------------------------------

    def at(self, cursor: int) -> LoopTree:
        """The cursor on another loop."""
        return LoopTree(self.name, self.arrays, self.nests, self.reassoc, cursor)

    def split(self, size: int) -> LoopTree:
        """Split the loop of the cursor, which stays on the outer one.

        rewrite:  for x in N, tail T                      each iteration E points
                  ->  for x in (N*E + T) // (size*E), tail (N*E + T) % (size*E)
                          for x in size
        needs:    1 <= size <= N
        """
        at, depth = self.place
        loop, step = self.loop, self.nest.covered(depth)
        if not 1 <= size <= loop.size:
            raise UsageError(f"a loop of {loop.size} cannot be split by {size}")
        outer, tail = divmod(loop.size * step + loop.tail, size * step)
        inner_mark = Mark.SERIAL if loop.mark is Mark.PARALLEL else loop.mark
        outer_mark = loop.mark if loop.mark is Mark.PARALLEL else Mark.SERIAL
        split = (
            replace(loop, size=outer, tail=tail, mark=outer_mark),
            TreeLoop(loop.dim, size, 0, inner_mark),
        )
        return self._with_loops(at, _spliced(self.nest.loops, depth, depth + 1, split))

    def merge(self) -> LoopTree:
        """Merge the loop of the cursor into the nearest loop outside of the same dimension.

        rewrite:  for x in M, tail U: ... for x in N, tail T      the inner one E points each
                  ->  for x in (M*(N*E + T) + U) // E, tail (M*(N*E + T) + U) % E: ...
        The cursor goes to the loop that is left, which stands where the outer one stood.
        """
        at, depth = self.place
        loops = self.nest.loops
        loop = loops[depth]
        outside = [k for k in range(depth) if loops[k].dim == loop.dim]
        if not outside:
            raise UsageError(f"no loop of {loop.dim} stands outside this one")
        up, step = outside[-1], self.nest.covered(depth)
        outer = loops[up]
        total = outer.size * (loop.size * step + loop.tail) + outer.tail
        size, tail = divmod(total, step)
        mark = outer.mark if outer.mark is Mark.PARALLEL else Mark.SERIAL
        merged = TreeLoop(loop.dim, size, tail, mark, _union(outer.packs, loop.packs))
        rest = (*loops[:up], merged, *loops[up + 1 : depth], *loops[depth + 1 :])
        return self._with_loops(at, rest, self.cursor - (depth - up))

    def swap(self, distance: int) -> LoopTree:
        """Swap the loop of the cursor with the next one inside (1) or outside (-1); follow it."""
        at, depth = self.place
        loops, other = self.nest.loops, depth + distance
        if abs(distance) != 1 or not 0 <= other < len(loops):
            raise UsageError("there is no loop to swap with in this nest")
        if loops[depth].dim == loops[other].dim:
            raise UsageError(f"loops of one dimension, {loops[depth].dim}, keep their order")
        changed = list(loops)
        changed[depth], changed[other] = changed[other], changed[depth]
        return self._with_loops(at, tuple(changed), self.cursor + distance)

    def mark(self, mark: Mark) -> LoopTree:
        """Mark the loop of the cursor."""
        return self._with_loop(replace(self.loop, mark=mark))

    def pack(self, operand: int) -> LoopTree:
        """Pack an operand of the nest before the loop of the cursor begins.

        The elements that the loop and those inside it use are copied to a buffer, in the order in
        which these loops come by them.
        """
        if operand >= len(self.nest.statement.operands):
            raise UsageError(f"the nest has no operand {'ab'[operand]}")
        return self._with_loop(replace(self.loop, packs=_union(self.loop.packs, (operand,))))

    def accumulate(self, accumulators: int) -> LoopTree:
        """Keep so many partial results of each element of the cursor's nest."""
        at, _ = self.place
        nest = replace(self.nest, accumulators=accumulators)
        return replace(self, nests=_spliced(self.nests, at, at + 1, (nest,)))

    def _with_loop(self, loop: TreeLoop) -> LoopTree:
        at, depth = self.place
        return self._with_loops(at, _spliced(self.nest.loops, depth, depth + 1, (loop,)))

    def _with_loops(
        self, at: int, loops: tuple[TreeLoop, ...], cursor: int | None = None
    ) -> LoopTree:
        # Written out: searches edit trees by the thousand, and `replace` takes twice as long.
        before = self.nests[at]
        nest = TreeNest(before.statement, loops, before.accumulators)
        nests = _spliced(self.nests, at, at + 1, (nest,))
        cursor = self.cursor if cursor is None else cursor
        return LoopTree(self.name, self.arrays, nests, self.reassoc, cursor)


def _spliced(items: tuple[Any, ...], first: int, last: int, others: tuple[Any, ...]) -> Any:
    return (*items[:first], *others, *items[last:])


def _union(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({*first, *second}))


def shape_of(array: Array) -> tuple[int, ...]:
    """The constant extents of an array of a tree."""
    return tuple(_integer(extent) for extent in array.shape)


def _integer(extent: Expr) -> int:
    if not isinstance(extent, Const):
        raise UsageError("arrays of a loop tree have constant extents", str(extent))
    return int(extent.value.real)


def identity_of(plus: str, dtype: DType) -> bool | int | float:
    """The value that `plus` leaves every other as it is with."""
    if plus in ("min", "max") and dtype.is_float:
        return float("inf") if plus == "min" else float("-inf")
    return {
        "add": 0,
        "mul": 1,
        "or": 0,
        "xor": 0,
        "and": dtype.greatest if dtype.kind in "bu" else -1,
        "min": dtype.greatest if dtype.is_exact else 0,
        "max": dtype.least if dtype.is_exact else 0,
    }[plus]


def _points(statement: TreeStatement) -> int:
    total = 1
    for _, extent in statement.dims:
        total *= extent
    return total


def _work(statement: TreeStatement) -> int:
    """Operations at a point: those of the value and the accumulation."""
    known = _works.get(id(statement))
    if known is None:
        found = _operators(statement.value) + (statement.plus is not None)
        known = _works[id(statement)] = found, statement
    return known[0]


# By identity of the statement, which edits keep; the second item keeps it alive.
_works: BoundedCache[int, tuple[int, TreeStatement]] = BoundedCache(4096)


def _operators(value: Expr) -> int:
    children = [getattr(value, name) for name in ("x", "y", "cond") if hasattr(value, name)]
    if isinstance(value, Load):
        return 0
    arguments = list(getattr(value, "args", ()))
    return bool(children or arguments) + sum(map(_operators, (*children, *arguments)))


# Nests that were found right, by identity; the value keeps the nest alive.
_checked: BoundedCache[int, TreeNest] = BoundedCache(4096)


def _check(tree: LoopTree) -> None:
    """Raise UsageError unless the loops of every nest cover its dimensions."""
    if not 0 <= tree.cursor < max(tree.count, 1):
        raise UsageError("the cursor stands on no loop", str(tree.cursor))
    for nest in tree.nests:
        if id(nest) in _checked:  # edits keep the nests that they do not change
            continue
        if nest.statement.plus is not None and nest.statement.plus not in PLUS:
            raise UsageError("cannot accumulate", nest.statement.plus, ", ".join(PLUS))
        if nest.extents != dict(nest.statement.dims):
            raise UsageError(
                "the loops of a nest do not cover its dimensions",
                found=_sizes(nest.extents),
                hint=_sizes(dict(nest.statement.dims)),
            )
        for loop, step in zip(nest.loops, nest.steps, strict=True):
            if loop.size < 1 or not 0 <= loop.tail < max(step, 1):
                raise UsageError(f"loop of {loop.dim}: {loop.size} iterations, tail {loop.tail}")
        _checked[id(nest)] = nest


def _sizes(extents: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {extent}" for name, extent in extents.items())
