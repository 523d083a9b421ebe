"""ContractLoops: run three nested loops that are a matrix product by algorithm 6."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import ClassVar

from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction import LOOPS, Factor, InnerContraction, InnerProduct
from loopwright.ir.dtypes import DType
from loopwright.ir.form import Feed, Form, Initial, Kind, Packing
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import LoopCore, Schedule
from loopwright.ir.schedule_tree import Leaf, bands, nodes_of, perfect_nest
from loopwright.semirings import identity
from loopwright.transform.schedule_legality import find_band, open_bands, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = ["ContractLoops"]

# The loop along which a packing needs runs of unit stride, for left and for right.
_RUNS: dict[Packing, tuple[str | None, str | None]] = {
    Packing.ALONG_TILE: (LOOPS[0], LOOPS[1]),
    Packing.BY_PANEL: (LOOPS[0], LOOPS[1]),
    Packing.ALONG_P: (LOOPS[2], LOOPS[2]),
    Packing.GATHER: (None, None),
}
_PACKINGS = {packing.value: packing for packing in _RUNS}
_FEEDS = {feed.value: feed for feed in Feed}
# What `candidates` offers; `apply` takes any sizes.
_TILE = (4, 4, 2, 1, 0)
_BLOCKS = (64, 256, 256)


@dataclass(frozen=True, slots=True)
class ContractLoops(Step):
    """Run three directly nested loops around one statement as a contraction core.

    rewrite:  for i: for j: for p: S: C[i, j] += A[i, p] * B[p, j]
              ->  core S(i, j, p)
    needs:    the loops run over a box whatever the loops around hold; S adds a product of two array
              elements to an element of i and j; nothing that the loops read is written by them
    refuses:  IllegalStep with the reason
    """

    kind: ClassVar[str] = "contract_loops"

    i: str  # loop of left and out
    j: str  # loop of right and out, along which vectors run
    p: str  # loop of the reduction
    tile: tuple[int, ...]  # M_r, vectors of N_r, lanes of a vector, steps at a time, prefetch ahead
    blocks: tuple[int, ...]  # M_c, N_c, K_c at most
    packing: tuple[str, ...]  # of left and right, for every product of the update
    feed: str  # how an element of left meets a vector of right
    shares: int  # parts of i or j for threads, as sizes tell; 1: the core is serial

    def __post_init__(self) -> None:
        sizes = (*self.tile, *self.blocks)
        if (len(self.tile), len(self.blocks)) != (5, 3) or self.shares < 1:
            raise UsageError("contract_loops takes five sizes of the tile, three blocks", str(self))
        if min((*self.tile[:4], *self.blocks)) < 1 or min(sizes) < 0:
            raise UsageError("contract_loops takes sizes of at least 1", str(self))
        if not set(self.packing) <= set(_PACKINGS) or self.feed not in _FEEDS:
            hint = f"{', '.join(_PACKINGS)}; {', '.join(_FEEDS)}"
            raise UsageError("unknown packing or feed", f"{self.packing}, {self.feed}", hint)

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        for loop in self._loops:
            find_band(self, schedule, root, loop)
        require_unmarked(self, schedule, self._loops)
        around = {b.loop for b in bands(root) if self.i in {x.loop for x in bands(b.child)}}
        for loop, mark in schedule.marks:
            if self.shares > 1 and mark is Mark.PARALLEL and loop in around:
                refuse(self, f"loop '{loop}' is parallel already; threads are shared out once")
        found = inner_contraction(schedule.program, schedule.tree, self._loops)
        if isinstance(found, str):
            refuse(self, found)
        blocks = (self.blocks[0], self.blocks[1], self.blocks[2])
        core = LoopCore(found, self._loops, self._forms(found), blocks, self.shares)
        return replace(schedule, loop_cores=(*schedule.loop_cores, core))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ContractLoops]:
        """Every way to see a nest of three loops as a product, packed element by element."""
        for band in open_bands(schedule):
            loops = perfect_nest(band)
            if len(loops) != 3 or not isinstance(loops[-1].child, Leaf):
                continue
            for i, j, p in permutations(inner.loop for inner in loops):
                found = inner_contraction(schedule.program, schedule.tree, (i, j, p))
                if not isinstance(found, str):
                    packing = ("gather", "gather") * len(found.products)
                    yield cls(i, j, p, _TILE, _BLOCKS, packing, "broadcast", 1)

    @property
    def _loops(self) -> tuple[str, str, str]:
        return self.i, self.j, self.p

    def _forms(self, found: InnerContraction) -> tuple[Form, ...]:
        if len(self.packing) != 2 * len(found.products):
            refuse(self, f"{len(found.products)} products have two operands each to be packed")
        pairs = zip(self.packing[::2], self.packing[1::2], strict=True)
        return tuple(
            self._form(found, product, (_PACKINGS[left], _PACKINGS[right]))
            for product, (left, right) in zip(found.products, pairs, strict=True)
        )

    def _form(
        self, found: InnerContraction, product: InnerProduct, packing: tuple[Packing, Packing]
    ) -> Form:
        sides = (product.left, product.right)
        for side, (factor, chosen) in enumerate(zip(sides, packing, strict=True)):
            along = _RUNS[chosen][side]
            if along is not None and not _is_run(factor.subscripts.steps[along]):
                place = self._loops[LOOPS.index(along)]
                refuse(self, f"'{factor.load.array}' has no runs along loop '{place}'")
        rows, vectors, lanes, unroll, ahead = self.tile
        dtype = found.out.dtype
        return Form(
            Kind.PRODUCT,
            found.plus,
            product.times,
            product.swapped,
            _dtype(product.left),
            _dtype(product.right),
            dtype,
            dtype,
            identity(found.plus, dtype),
            rows,
            vectors,
            lanes,
            unroll,
            *packing,
            _FEEDS[self.feed],
            Initial.OUT,
            ahead,
            scaled=False,
            parallel="j" if self.shares > 1 else "none",
            runs=_is_run(found.subscripts.steps[LOOPS[1]]),
        )


def _is_run(steps: tuple[int, ...]) -> bool:
    """Whether neighbours along a loop are neighbours along an array's last dimension."""
    return bool(steps) and steps[-1] == 1 and not any(steps[:-1])


def _dtype(factor: Factor) -> DType:
    """The type of an operand as packing finds it."""
    return factor.load.dtype if factor.value is None else factor.value.dtype
