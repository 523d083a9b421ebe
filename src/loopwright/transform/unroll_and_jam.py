"""UnrollAndJam: unroll an outer loop and fuse the copies of its body into the innermost loops."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar, assert_never

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    bands,
    map_bands,
    nodes_of,
    rename_band,
    sequence,
)
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    find_band,
    open_bands,
    reordered,
    require_unmarked,
)
from loopwright.transform.step import Step, refuse
from loopwright.transform.tiling import strips_of

__all__ = [
    "UnrollAndJam",
    "sink_loop",
]


# What `candidates` offers; `apply` takes any number from 2.
COPIES = (2, 4)


@dataclass(frozen=True, slots=True)
class UnrollAndJam(Step):
    """Unroll an outer loop and fuse the copies of its body in the innermost loops.

    rewrite:  for i in [0, n): for j in [0, m): S(i, j)
              ->  for i_t in [0, n) step F: for j in [0, m): S(i_t, j); ... S(i_t + F - 1, j)
    needs:    a loop around others
    refuses:  IllegalStep with the reversed dependence

    Copies of a statement follow each other, S(i_t, j); S(i_t + 1, j); T(i_t, j); T(i_t + 1, j),
    where that is legal; else copies of the body, S(i_t, j); T(i_t, j); S(i_t + 1, j); ..., which
    asks for no more than that the loops may be interchanged.
    """

    kind: ClassVar[str] = "unroll_and_jam"

    loop: str
    factor: int  # copies of the body

    def __post_init__(self) -> None:
        if self.factor < 2:
            raise UsageError("unroll_and_jam takes a factor of at least 2", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        require_unmarked(self, schedule, [self.loop])
        if not any(True for _ in bands(band.child)):
            refuse(self, f"no loop stands inside '{self.loop}'")
        try:
            return self._jammed(schedule, root, band, by_statement=True)
        except IllegalStep:
            if not any(map(_is_body, bands(band.child))):
                raise
        return self._jammed(schedule, root, band, by_statement=False)

    def _jammed(
        self, schedule: Schedule, root: Node, band: Band, *, by_statement: bool
    ) -> Schedule:
        taken = {other.loop for other in bands(root)}
        tiles = strips_of(band, self.factor, taken)
        body, copies = sink_loop(
            band,
            band.child,
            band.partial.domain(),
            taken | {tiles.loop},
            by_statement=by_statement,
        )
        jammed = replace(tiles, child=body)
        changed = map_bands(root, lambda b: jammed if b.loop == self.loop else b)
        marks = tuple((name, Mark.UNROLL) for name in copies)
        factors = tuple((name, self.factor) for name in copies)
        after = reordered(self, schedule, changed)
        return replace(after, marks=(*after.marks, *marks), factors=(*after.factors, *factors))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[UnrollAndJam]:
        for band in open_bands(schedule):
            has_loops = any(True for _ in bands(band.child))
            if has_loops and schedule.mark(band.loop) is Mark.SERIAL:
                yield from (cls(band.loop, factor) for factor in COPIES)


def _is_body(band: Band) -> bool:
    """Whether a loop holds several statements and nothing else."""
    return isinstance(band.child, Sequence) and _has_leaves_alone(band.child)


def _has_leaves_alone(node: Sequence) -> bool:
    return all(isinstance(part.child, Leaf) for part in node.filters)


def sink_loop(
    band: Band,
    node: Node,
    domain: isl.UnionSet,
    taken: Collection[str],
    *,
    by_statement: bool = True,
) -> tuple[Node, tuple[str, ...]]:
    """`node` with the loop `band` moved to every innermost position, and the names of its copies.

    `domain` are the instances that reach `node`. Statements that follow each other there have a
    copy each, or one for all of them.
    """
    used, copies = set(taken) - {band.loop}, list[str]()

    def placed(node: Node, here: isl.UnionSet) -> Node:
        copies.append(fresh_name(band.loop, used))
        used.add(copies[-1])
        own = band.partial.intersect_domain(here.universe())
        return rename_band(Band(band.loop, own, node), copies[-1])

    def visit(node: Node, here: isl.UnionSet) -> Node:
        match node:
            case Leaf():
                return placed(node, here)
            case Sequence() if not by_statement and _has_leaves_alone(node):
                return placed(node, here)
            case Band(child=child):
                return replace(node, child=visit(child, here))
            case Sequence(filters=filters):
                return sequence(
                    Filter(b.instances, visit(b.child, here.intersect(b.instances)))
                    for b in filters
                )
            case _:
                assert_never(node)

    return visit(node, domain), tuple(copies)
