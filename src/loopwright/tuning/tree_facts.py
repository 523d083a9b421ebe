"""Facts about a tree that observations are made of: strides, footprints, groups of dimensions.

Those of a statement are computed once and remembered: agents look at thousands of trees of the same
statements.
"""

from __future__ import annotations

from functools import lru_cache

from loopwright.ir.expr import Load
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Array
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache
from loopwright.tuning.access_moves import access_moves
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement

__all__ = [
    "REDUCED",
    "AccessFacts",
    "bound_seconds",
    "footprints",
    "peak_per_second",
    "statement_facts",
]

REDUCED = 2  # group of the dimensions that are summed over
_FREQUENCY = 2.5e9  # where only cycles are known: ratios of times do not depend on it


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """The accesses of a statement: the write first, then the operands."""

    moves: tuple[dict[str, int], ...]  # elements per point of each dimension
    element_bytes: tuple[int, ...]
    groups: dict[str, int]  # of dimensions: 0 M (write, a), 1 N (write, b), 2 K (reduced), 3 batch
    strides: dict[str, tuple[int, int, int]]  # bytes per point of the write, a and b; 0: it stays


def statement_facts(tree: LoopTree, statement: TreeStatement) -> AccessFacts:
    """The facts of a statement of `tree`."""
    # Edits keep statements and arrays, so these are known by identity, which takes no hash of them.
    key = id(statement), id(tree.arrays)
    known = _known.get(key)
    if known is None:
        found = _facts(statement, tree.arrays)
        known = _known[key] = found, (statement, tree.arrays)
    return known[0]


# The second item of a value keeps what the key is made of alive.
_known: BoundedCache[tuple[int, int], tuple[AccessFacts, object]] = BoundedCache(4096)


@lru_cache(maxsize=4096)
def _facts(statement: TreeStatement, arrays: tuple[Array, ...]) -> AccessFacts:
    by_name = {array.name: array for array in arrays}
    accesses: tuple[Access | Load, ...] = (statement.write, *statement.operands)
    moves = tuple(access_moves(a, by_name[a.array], statement) for a in accesses)
    reduced = statement.reduced
    groups = {}
    for name, _ in statement.dims:
        in_a = len(moves) > 1 and moves[1][name] != 0
        in_b = len(moves) > 2 and moves[2][name] != 0
        groups[name] = REDUCED if name in reduced else 3 if in_a == in_b else 0 if in_a else 1
    sizes = tuple(a.dtype.bytes for a in accesses)
    strides = {}
    for name, _ in statement.dims:
        own = [abs(m[name]) * size for m, size in zip(moves[:3], sizes, strict=False)]
        write, a, b = *own, *[0] * (3 - len(own))
        strides[name] = write, a, b
    return AccessFacts(moves, sizes, groups, strides)


def footprints(nest: TreeNest, facts: AccessFacts) -> list[int]:
    """Bytes that one run of each loop touches, all accesses together; the outermost loop first.

    An access touches the product of the points of the dimensions that it moves with: exact for
    subscripts of one dimension, too much for sums of several.
    """
    sizes = list(facts.element_bytes)
    points: dict[str, int] = {}
    found = []
    for loop in reversed(nest.loops):
        before = points.get(loop.dim, 1)
        after = before * loop.size + loop.tail
        points[loop.dim] = after
        for at, moves in enumerate(facts.moves):
            if moves[loop.dim]:
                sizes[at] = sizes[at] // before * after
        found.append(sum(sizes))
    return found[::-1]


def peak_per_second(tree: LoopTree, machine: Machine, threads: int = 1) -> float:
    """Operations per second that no code of the tree's element type can exceed."""
    write = max(tree.nests, key=lambda nest: nest.statement.plus is not None).statement.write
    plus, times = ("add", "mul") if write.dtype.is_float else ("max", "add")
    rate = machine.peak_ops_per_cycle(plus, times, write.dtype.name)
    return rate * (machine.frequency_hz or _FREQUENCY) * threads


def bound_seconds(tree: LoopTree, machine: Machine, threads: int = 1) -> float:
    """Seconds that no code of the tree can go below: operations at the peak rate."""
    return max(tree.operations, 1) / peak_per_second(tree, machine, threads)
