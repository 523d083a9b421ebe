"""Neighbouring loops of one dimension as one loop, where code does not need them apart.

    for m in 3, tail 16 (by 32):  for m in 32      ->      for m in 112

The points come in the same order. Code gets shorter: a tail costs a copy of all loops inside, and
vectors do not end where an inner loop ends. Loops stay apart where the inner one is unrolled and
the outer one is not (that is how a tile of registers is asked for), or packs operands.
"""

from __future__ import annotations

from loopwright.ir.loops import Mark
from loopwright.tuning.loop_tree import TreeLoop, TreeNest

__all__ = ["joined_nest"]

_UNROLLED = (Mark.VECTOR, Mark.UNROLL)


def joined_nest(nest: TreeNest, lanes: int, most: int) -> TreeNest:
    """The nest whose code is written.

    `most` is the number of vector operations of straight-line code: the inner loops that it has
    room for stay as they are, but for a chain of loops of one dimension at the very inside.
    """
    loops = list(nest.loops)
    unrolled = _straight_line_depth(loops, lanes, most)
    depth = len(loops) - 2
    is_innermost = True
    while depth >= 0:
        outer, inner = loops[depth], loops[depth + 1]
        if outer.dim != inner.dim:
            is_innermost = False
        elif _can_join(outer, inner, depth + 1 < unrolled or is_innermost):
            step = TreeNest(nest.statement, tuple(loops)).covered(depth + 1)
            loops[depth : depth + 2] = [_joined(outer, inner, step)]
            unrolled -= unrolled > depth
        depth -= 1
    return TreeNest(nest.statement, tuple(loops), nest.accumulators)


def _can_join(outer: TreeLoop, inner: TreeLoop, is_rolled: bool) -> bool:
    # A tail of the inner loop comes once for every iteration of the outer one.
    if inner.packs or inner.tail:
        return False
    if outer.mark in _UNROLLED:  # then the inner one is unrolled too
        return True
    return inner.mark is Mark.SERIAL and is_rolled


def _joined(outer: TreeLoop, inner: TreeLoop, step: int) -> TreeLoop:
    total = outer.size * (inner.size * step + inner.tail) + outer.tail
    size, tail = divmod(total, step)
    marks = (outer.mark, inner.mark)
    mark = next((m for m in _UNROLLED if m in marks), outer.mark)
    return TreeLoop(outer.dim, size, tail, mark, outer.packs)


def _straight_line_depth(loops: list[TreeLoop], lanes: int, most: int) -> int:
    """The depth from which on loops have at most so many vector operations."""
    operations, depth = 1, len(loops)
    for at in reversed(range(len(loops))):
        trips = loops[at].trips
        operations *= -(-trips // lanes) if at == len(loops) - 1 else trips
        if operations > most:
            break
        depth = at
    marked = [k for k, loop in enumerate(loops) if loop.mark in _UNROLLED]
    return min([depth, *marked])
