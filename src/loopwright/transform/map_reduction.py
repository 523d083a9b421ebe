"""MapReduction: the threads of a block share the terms of a reduction and join their sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.footprints import box_hull, elements_by_loops
from loopwright.analysis.reductions import Reduction, reductions
from loopwright.diagnostics import UsageError
from loopwright.ir.atomics import has_atomic
from loopwright.ir.gpu_machine import MOST_BLOCKS
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.schedule import JoinedReduction, Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = ["MapReduction"]

_MOST_THREADS = 1024
# What `candidates` offers; `apply` takes any power of two.
THREADS = 32


@dataclass(frozen=True, slots=True)
class MapReduction(Step):
    """Share the terms of a reduction among the threads of a block, and join their sums.

    rewrite:  block x for i: for j: for k: y[i] = y[i] + e(i, j, k)
              ->  block x for i:
                    thread x for k: for j: sum = sum + e(i, j, k), each thread from the identity
                    y[i] = y[i] + the sums of all threads, joined pairwise in shared memory
    needs:    a reduction whose order is free, alone in the loop, which gathers into one element
              there; loops of blocks and of the host only around it; no other threads in its kernel
    refuses:  IllegalStep with the reason

    Threads are joined in a fixed order: a launch gives the same bits each time. With several
    `blocks`, each takes a part of the loop and updates y[i] atomically, in whatever order: then
    sums of floating-point numbers may differ from launch to launch. That needs an operation and
    a type that GPUs update in one piece, and a kernel of this reduction only.
    """

    kind: ClassVar[str] = "map_reduction"

    loop: str
    lanes: str  # the loop whose iterations threads take in turns: the same, or one inside of it
    threads: int  # of a block; a power of two
    blocks: int = 1  # for each element; several update it atomically

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= MOST_BLOCKS:
            what = f"map_reduction takes from 1 to {MOST_BLOCKS} blocks for an element"
            raise UsageError(what, str(self))
        if not 2 <= self.threads <= _MOST_THREADS or self.threads & (self.threads - 1):
            what = f"map_reduction takes a power of two of threads, at most {_MOST_THREADS}"
            raise UsageError(what, str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        if self.lanes not in {inner.loop for inner in bands(band)}:
            refuse(self, f"there is no loop '{self.lanes}' in loop '{self.loop}'")
        require_unmarked(self, schedule, [inner.loop for inner in bands(band)])
        found = self._reduction(schedule, band)
        path = path_to(root, self.loop)
        kernel = self._require_block(schedule, path)
        if self.blocks > 1:
            self._require_atomic(schedule, found, kernel or band)
        if schedule.staged or schedule.promoted:
            refuse(self, "arrays are staged or in registers; marks come before")
        joined = self._joined(schedule, found, path[:-1])
        return replace(
            schedule,
            marks=(*schedule.marks, (self.lanes, Mark.THREAD)),
            factors=(*schedule.factors, (self.lanes, self.threads)),
            axes=(*schedule.axes, (self.lanes, Axis.X)),
            joined=(*schedule.joined, joined),
        )

    def _reduction(self, schedule: Schedule, band: Band) -> Reduction:
        """The one reduction that the loop runs."""
        if len(band.statements) > 1:
            refuse(self, f"loop '{self.loop}' holds {', '.join(sorted(band.statements))}")
        (name,) = band.statements
        found = schedule.analyses.get(reductions)
        known = next((r for r in found if r.statement == name), None)
        if known is None or not known.is_reorderable:
            refuse(self, f"'{name}' is no reduction whose order is free")
        return known

    def _require_block(self, schedule: Schedule, path: tuple[Band, ...]) -> Band | None:
        """The outermost loop of blocks around; None where there is none.

        Refuses where a loop around is neither of blocks nor of the host, or threads are there.
        """
        kernel: Band | None = None
        for band in path[:-1]:
            mark = schedule.mark(band.loop)
            if mark is Mark.BLOCK:
                kernel = kernel or band
            elif mark is not Mark.SERIAL:
                refuse(self, f"loop '{band.loop}' around it is marked {mark.value}")
            elif kernel is not None:
                refuse(self, f"loop '{band.loop}' stands between it and its block")
        for inner in () if kernel is None else bands(kernel):
            if schedule.mark(inner.loop) is Mark.THREAD:
                refuse(self, f"loop '{inner.loop}' of its kernel is mapped to threads")
        return kernel

    def _require_atomic(self, schedule: Schedule, found: Reduction, kernel: Band) -> None:
        """Refuse where blocks cannot update the element together."""
        dtype = schedule.program.statement(found.statement).write.dtype
        if not has_atomic(found.op, dtype):
            refuse(self, f"GPUs have no atomic '{found.op}' of {dtype}")
        if len(kernel.statements) > 1:
            others = ", ".join(sorted(kernel.statements - {found.statement}))
            refuse(self, f"its kernel has {others} as well, which every block would run")
        mapped = [b for b in bands(kernel) if schedule.mark(b.loop) is Mark.BLOCK]
        if len(mapped) >= len(Axis):
            refuse(self, "all axes of the grid are taken")

    def _joined(
        self, schedule: Schedule, found: Reduction, around: tuple[Band, ...]
    ) -> JoinedReduction:
        """The element as a function of the loops around."""
        array = found.element.array
        taken = set(schedule.program.params)
        variables: list[str] = []
        for band in around:
            variables.append(fresh_name(band.loop, taken))
            taken.add(variables[-1])
        written = elements_by_loops(schedule, array, self.loop, around, is_write=True)
        for at, name in enumerate(variables):
            written = written.set_dim_name(isl.dim_type.in_, at, name)
        hull = box_hull(written, variables)
        if hull is None or any(extent != 1 for extent in hull.extents):
            if written.is_single_valued():
                refuse(self, f"the element of '{array}' is no affine function of the loops around")
            refuse(self, f"loop '{self.loop}' gathers into several elements of '{array}'")
        return JoinedReduction(
            found.statement,
            found.op,
            array,
            self.loop,
            self.lanes,
            tuple(zip(variables, (band.loop for band in around), strict=True)),
            hull.lower,
            self.blocks,
        )

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapReduction]:
        free = {r.statement for r in schedule.analyses.get(reductions) if r.is_reorderable}
        for band in open_bands(schedule):
            if len(band.statements) == 1 and band.statements <= free:
                yield from (cls(band.loop, inner.loop, THREADS) for inner in bands(band))
