"""StageArray: what an iteration of a loop reads of an array, in memory of the block.

What is brought in and why that is legal stands here; how the copy is written is up to the lowering
for the space (`lower/grid_nests/stage_arrays` for the shared memory of a GPU).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.footprints import (
    BoxHull,
    Footprint,
    box_hull,
    elements_by_loops,
    find_footprint,
)
from loopwright.analysis.size_estimates import coefficients
from loopwright.analysis.warp_access import WARP_LANES, row_padding
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Axis, Mark, Space
from loopwright.ir.schedule import Schedule, StagedArray
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands
from loopwright.transform.step import Step, refuse

__all__ = ["StageArray"]

_IN = isl.dim_type.in_

_SPACES = {"shared": Space.SHARED}
_MOST_BUFFERS = 8
_MOST_BYTES = 48 << 10  # of a block, which every GPU has
_ASYNC_BYTES = (4, 8, 16)  # of elements that are copied past the registers
BUFFERS = (1, 2)  # what `candidates` offers


@dataclass(frozen=True, slots=True)
class StageArray(Step):
    """Bring what an iteration of a loop reads of an array into memory of the block, at its head.

    rewrite:  block for i_t: thread for i: for j_t: for j: y[i] += A[i][j]
              ->  block for i_t: thread for i: for j_t:
                    A_box = A[i_t : i_t + 32][j_t : j_t + 32], by all threads of the block
                    for j: y[i] += A_box[i - i_t][j - j_t]
    needs:    a serial loop inside of those over threads; a box of constant extents around what it
              reads, that fits the memory and of which the kernel writes nothing. Threads of a block
              go through the loop together: who has fewer iterations waits
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "stage"

    array: str
    loop: str
    space: str  # shared: memory of the block
    # Boxes in memory at a time. 1: it is copied, then used; more: the next ones come meanwhile.
    buffers: int

    def __post_init__(self) -> None:
        if self.space not in _SPACES:
            raise UsageError("stage takes a space that blocks have", str(self), ", ".join(_SPACES))
        if not 1 <= self.buffers <= _MOST_BUFFERS:
            raise UsageError(f"stage takes 1 to {_MOST_BUFFERS} buffers", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        self._require_array(schedule)
        path = self._path(schedule)
        self._require_apart(schedule)
        found = find_footprint(schedule, self.array, self.loop)
        if found.reads.is_empty():
            refuse(self, f"loop '{self.loop}' reads nothing of '{self.array}'")
        hull = box_hull(found.reads, found.variables)
        if hull is None:
            refuse(self, f"what loop '{self.loop}' reads of '{self.array}' has no constant extents")
        self._require_unwritten(schedule, path, found, hull)
        staged = StagedArray(
            self.array,
            self.loop,
            _SPACES[self.space],
            tuple(zip(found.variables, found.loops, strict=True)),
            hull.lower,
            hull.extents,
            hull.strides,
            _padding(schedule, path, self.array, hull),
            self.buffers,
        )
        self._require_room(schedule, path, staged)
        return replace(schedule, staged=(*schedule.staged, staged))

    def _require_array(self, schedule: Schedule) -> None:
        program = schedule.program
        found = next((a for a in program.arrays if a.name == self.array), None)
        if found is None:
            refuse(self, f"there is no array '{self.array}'")
        if not found.rank:
            refuse(self, f"'{self.array}' is one element")
        if self.array in dict(schedule.private):
            refuse(self, f"every thread has its own copy of '{self.array}'")
        if self.buffers > 1 and found.dtype.bytes not in _ASYNC_BYTES:
            size = found.dtype.bytes
            refuse(self, f"elements of {size} bytes are not copied while others are used")

    def _path(self, schedule: Schedule) -> tuple[Band, ...]:
        """The loops from the root to the loop: of the host, blocks, threads, then serial ones."""
        root = nodes_of(schedule)
        find_band(self, schedule, root, self.loop)
        path = path_to(root, self.loop)
        marks = [schedule.mark(band.loop) for band in path]
        if marks[-1] is not Mark.SERIAL:
            refuse(self, f"loop '{self.loop}' is marked {marks[-1].value}")
        if any(band.loop == joined.loop for joined in schedule.joined for band in path):
            refuse(self, f"threads join their sums around loop '{self.loop}'")
        if Mark.THREAD not in marks:
            refuse(self, f"no loop around '{self.loop}' is mapped to threads")
        last = max(k for k, mark in enumerate(marks) if mark is Mark.THREAD)
        for band, mark in zip(path[last + 1 :], marks[last + 1 :], strict=True):
            if mark is not Mark.SERIAL:
                refuse(self, f"loop '{band.loop}' around it is marked {mark.value}")
        return path

    def _require_apart(self, schedule: Schedule) -> None:
        """Refuse where the array is staged by the loop, one around it or one inside of it."""
        root = nodes_of(schedule)
        for other in schedule.staged:
            if other.loop == self.loop and other.buffers != self.buffers:
                refuse(self, f"loop '{self.loop}' has {other.buffers} boxes of '{other.array}'")
            if other.array == self.array:
                near = {band.loop for band in path_to(root, self.loop)}
                inside = {band.loop for band in path_to(root, other.loop)}
                if other.loop in near or self.loop in inside:
                    refuse(self, f"loop '{other.loop}' stages '{self.array}' already")

    def _require_unwritten(
        self, schedule: Schedule, path: tuple[Band, ...], found: Footprint, hull: BoxHull
    ) -> None:
        """Refuse where some thread of the launch writes an element of a box."""
        first = next(k for k, b in enumerate(path) if schedule.mark(b.loop) is Mark.BLOCK)
        host, kernel = path[:first], path[first]
        written = elements_by_loops(schedule, self.array, kernel.loop, host, is_write=True)
        boxes = hull.elements.project_out(_IN, first, len(found.loops) - first)
        if not written.is_disjoint(boxes):
            program = schedule.program
            inside = sorted(kernel.statements)
            names = [s for s in inside if program.statement(s).write.array == self.array]
            refuse(self, f"the kernel writes '{self.array}' as well, in {', '.join(names)}")

    def _require_room(
        self, schedule: Schedule, path: tuple[Band, ...], staged: StagedArray
    ) -> None:
        """Refuse where the memory of a block does not hold the boxes that a kernel stages."""
        kernel = next(band for band in path if schedule.mark(band.loop) is Mark.BLOCK)
        inside = {band.loop for band in bands(kernel)}
        total = 0
        for one in (*schedule.staged, staged):
            if one.loop in inside:
                total += one.elements * schedule.program.array(one.array).dtype.bytes
        if total > _MOST_BYTES:
            refuse(self, f"boxes take {total} bytes of a block's {_MOST_BYTES}")

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[StageArray]:
        """Every array that a serial loop of a kernel reads."""
        program = schedule.program
        root = nodes_of(schedule)
        for band in open_bands(schedule):
            around = [schedule.mark(other.loop) for other in path_to(root, band.loop)]
            if Mark.THREAD not in around or around[-1] is not Mark.SERIAL:
                continue
            read = {
                access.array
                for name in band.statements
                for access in program.statement(name).reads
                if access.index
            }
            for array in sorted(read):
                yield from (cls(array, band.loop, "shared", count) for count in BUFFERS)


def _padding(schedule: Schedule, path: tuple[Band, ...], array: str, hull: BoxHull) -> int:
    """Elements behind each row of a box, with which lanes of a warp meet the fewest conflicts."""
    threads = [band for band in path if schedule.mark(band.loop) is Mark.THREAD]
    along_x = [band for band in threads if schedule.axis(band.loop) is Axis.X]
    lanes = (along_x or threads)[-1]
    count = min(WARP_LANES, dict(schedule.factors).get(lanes.loop, 1))
    program = schedule.program
    patterns: list[list[list[int]]] = []
    for name, iterator in moved_by(lanes, program).items():
        if name not in path[-1].statements:
            continue
        for access in program.statement(name).reads:
            step = [dict(coefficients(entry)).get(iterator, 0) for entry in access.index]
            if access.array != array or not any(step):
                continue
            apart = [s // by for s, by in zip(step, hull.strides, strict=True)]
            patterns.append(
                [
                    [s * lane % extent for s, extent in zip(apart, hull.extents, strict=True)]
                    for lane in range(count)
                ]
            )
    size = program.array(array).dtype.bytes
    is_rows = len(hull.extents) > 1 and bool(patterns)
    return row_padding(patterns, hull.extents, size) if is_rows else 0
