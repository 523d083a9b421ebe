"""StageBox: what an iteration of a loop of a core accesses of an array, in its scratchpad.

Unlike the shared memory of a GPU's block (`transform/stage`), a scratchpad belongs to one core and
takes what is written, too. So a box is about some accesses, not about all of an array: what they
write must be seen by no other access before it is put back, and putting back must change nothing
that another core writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar

from loopwright.analysis.scratchpad_boxes import (
    accesses_in,
    are_apart,
    box_around,
    box_extents,
    elements_of,
    kernel_of_loop,
    largest_extents,
    loop_values,
    merged_loop,
    needs_old_values,
    read_later,
    variables_of,
    whole_rows,
)
from loopwright.diagnostics import UsageError
from loopwright.ir.access_names import NamedAccess
from loopwright.ir.expr import Const
from loopwright.ir.islkit import isl, isl_integer
from loopwright.ir.loops import Mark
from loopwright.ir.program import Array, Role
from loopwright.ir.schedule import Schedule, StagedBox, outer_ones
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands
from loopwright.transform.step import Step, refuse

__all__ = ["StageBox", "elements_inside"]

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set
_UNIT = 4  # bytes: what DMA moves is a multiple
_MOST_BYTES = 256 << 10  # of a box: no scratchpad is larger
BUFFERS = (1, 2)  # what `candidates` offers


@dataclass(frozen=True, slots=True)
class StageBox(Step):
    """Let accesses in a loop go to a box in the scratchpad of the core.

    rewrite:  core: for k_t: for k: C[i][j] += A[i][k]
              ->  core: for k_t: A_box = A[i_t : i_t + 32][k_t : k_t + 32]
                                 for k: C[i][j] += A_box[i - i_t][k - k_t]
    needs:    a loop that is dealt out to cores or stands inside of one; extents of the box that
              are bounded by constants; no other access of an iteration to what the box writes, and
              none that writes what it reads. A box that is put back holds elements only that the
              iteration writes, or is read first and shares no element with other cores. Two boxes
              at a time: nobody writes the array in the loop, or the loop is the innermost one that
              is dealt out, where no other iteration has an element of what one writes
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "stage_box"

    array: str
    loop: str
    accesses: tuple[str, ...]  # S_0: the write of S, S_1: its first read; (): all to the array
    buffers: int  # 2: the next box comes, and the last one goes, while one is used

    def __post_init__(self) -> None:
        if self.buffers not in BUFFERS:
            raise UsageError("stage_box takes 1 or 2 buffers", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        return replace(schedule, boxes=(*schedule.boxes, self.staged(schedule)))

    def staged(self, schedule: Schedule, parts: int = 1) -> StagedBox:
        """The box, of which a core has one of some parts."""
        path, kernel = self._place(schedule)
        chosen = self._chosen(schedule, path[-1])
        elements = elements_of(schedule, self.loop, path, chosen)
        if elements.is_empty():
            refuse(self, f"loop '{self.loop}' accesses nothing of '{self.array}'")
        merged = merged_loop(schedule, self.loop)
        if merged is not None:
            refuse(self, f"statements run at different iterations of loop '{merged}' in turn")
        variables = variables_of(schedule, self.loop)
        bounds = self._bounds(schedule, elements, [name for name, _ in variables])
        is_array_wide = bounds is None
        if bounds is None:
            bounds = largest_extents(elements, schedule.program.array(self.array))
        extents = self._small(schedule, bounds, parts)
        written = [one for one in chosen if one.is_write]
        is_written = any(one.is_write for one in accesses_in(schedule.program, kernel, self.array))
        here = accesses_in(schedule.program, path[-1], self.array)
        is_dealt_out = schedule.mark(self.loop) is Mark.THREAD
        handed_on = self._handed_on(schedule, kernel, chosen)
        if self.buffers > 1 and not is_dealt_out and any(one.is_write for one in here):
            refuse(self, f"the next box does not come early: '{self.array}' is written meanwhile")
        is_brought_in, is_put_back, kept, box = True, False, None, None
        if is_written:
            box = box_around(schedule, elements)
            self._require_coherent(schedule, path, chosen, box)
            is_brought_in = needs_old_values(schedule, self.loop, chosen)
        if written:
            made = elements_of(schedule, self.loop, path, written)
            assert box is not None, "the array is written"
            kept = self._kept(schedule, chosen)
            is_put_back = kept is None or not kept.is_empty()
            # Elements that nobody makes are put back as they were.
            is_brought_in = is_brought_in or (is_put_back and not box.is_subset(made))
        if handed_on:
            is_brought_in, is_put_back, kept = True, True, None
        staged = StagedBox(
            self.array,
            self.loop,
            tuple(one.name for one in chosen),
            variables,
            elements,
            loop_values(schedule, self.loop),
            extents,
            is_brought_in,
            is_put_back,
            is_full_width=self.buffers > 1 and not is_dealt_out and len(extents) > 1,
            buffers=self.buffers,
            kept=kept if is_put_back else None,
            is_array_wide=is_array_wide,
            whole=box,
            handed_on=handed_on,
        )
        if is_written and not handed_on:
            self._require_apart(schedule, kernel, staged)
        return staged

    def _handed_on(self, schedule: Schedule, kernel: Band, chosen: Sequence[NamedAccess]) -> str:
        """The mapped loop along which the box is handed on; "" where it is an array of no such."""
        for array, loop, mapped in schedule.handed_on:
            if array != self.array or mapped != kernel.loop:
                continue
            everything = accesses_in(schedule.program, kernel, self.array)
            if loop != self.loop or len(chosen) < len(everything) or self.buffers > 1:
                refuse(self, f"'{array}' is handed on along '{mapped}' by the boxes of '{loop}'")
            return mapped
        return ""

    def _kept(self, schedule: Schedule, chosen: Sequence[NamedAccess]) -> isl.Set | None:
        """The iterations whose box must be put back; None for all."""
        if schedule.program.array(self.array).role is not Role.LOCAL:
            return None
        return read_later(schedule, self.loop, chosen)

    def _place(self, schedule: Schedule) -> tuple[tuple[Band, ...], Band]:
        """The loops from the root to the loop, and the outermost one that cores share out."""
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        kernel = kernel_of_loop(schedule, self.loop)
        if schedule.mesh is None or kernel is None:
            refuse(self, f"loop '{self.loop}' and the loops around it are not dealt out to cores")
        for inner in bands(band.child):
            if schedule.mark(inner.loop) is Mark.THREAD:
                refuse(self, f"loop '{inner.loop}' inside of it is dealt out to cores")
        mark = schedule.mark(self.loop)
        if mark not in (Mark.SERIAL, Mark.THREAD):
            refuse(self, f"loop '{self.loop}' is marked {mark.value}")
        here = accesses_in(schedule.program, band, self.array)
        is_written = any(one.is_write for one in here)
        if self.buffers > 1 and mark is Mark.THREAD and not is_written:
            refuse(self, f"the next iteration of '{self.loop}' belongs to another core")
        return path_to(root, self.loop), kernel

    def _chosen(self, schedule: Schedule, band: Band) -> tuple[NamedAccess, ...]:
        program = schedule.program
        array = next((a for a in program.arrays if a.name == self.array), None)
        if array is None:
            refuse(self, f"there is no array '{self.array}'")
        if not array.rank:
            refuse(self, f"'{self.array}' is one element")
        if self.array in dict(schedule.private):
            refuse(self, f"every iteration has its own copy of '{self.array}'")
        if array.dtype.bytes % _UNIT:
            refuse(self, f"elements of {array.dtype.bytes} bytes are not moved by DMA")
        known = accesses_in(program, band, self.array)
        names = {one.name for one in known}
        for name in self.accesses:
            if name not in names:
                have = ", ".join(sorted(names)) or "none"
                refuse(self, f"there is no access '{name}'; those to '{self.array}' are {have}")
        chosen = tuple(one for one in known if not self.accesses or one.name in self.accesses)
        if not chosen:
            refuse(self, f"loop '{self.loop}' accesses nothing of '{self.array}'")
        for box in schedule.boxes:
            for one in chosen:
                if one.name in box.accesses:
                    refuse(self, f"loop '{box.loop}' stages {one.name} already")
        return chosen

    def extents_of(
        self, schedule: Schedule, elements: isl.Map, variables: Sequence[str], parts: int = 1
    ) -> tuple[int, ...]:
        """Constants that no box of these elements exceeds, whatever the array."""
        return self._small(schedule, self._bounds(schedule, elements, variables), parts)

    def _bounds(
        self, schedule: Schedule, elements: isl.Map, variables: Sequence[str]
    ) -> tuple[int, ...] | None:
        """The extents of a box by what loops say of them, and no more than the array has."""
        if box_extents(schedule, elements, variables) is None:
            return None
        inside = elements_inside(schedule.program.array(self.array), elements)
        return box_extents(schedule, elements.intersect_range(inside), variables)

    def _small(
        self, schedule: Schedule, extents: tuple[int, ...] | None, parts: int
    ) -> tuple[int, ...]:
        """Extents that are known, of a box that some scratchpad has room for."""
        if extents is None:
            told = f"what loop '{self.loop}' accesses of '{self.array}'"
            refuse(self, f"{told} has no constant extents")
        first, *rest = extents[outer_ones(extents) :]
        memory = prod((-(-first // parts), *rest))
        size = schedule.program.array(self.array).dtype.bytes * self.buffers * memory
        if size > _MOST_BYTES:
            refuse(self, f"boxes of {size} bytes fit no scratchpad")
        return extents

    def _require_coherent(
        self, schedule: Schedule, path: Sequence[Band], chosen: Sequence[NamedAccess], box: isl.Map
    ) -> None:
        """Refuse where other accesses of an iteration miss what the box holds, or change it."""
        others = [
            one for one in accesses_in(schedule.program, path[-1], self.array) if one not in chosen
        ]
        has_write = any(one.is_write for one in chosen)
        for one in others:
            if not has_write and not one.is_write:
                continue
            theirs = elements_of(schedule, self.loop, path, [one])
            # All of a box is put back; of one that is read, the elements that are used count.
            ours = box
            if not (has_write and one.is_write):
                parts = [x for x in chosen if x.is_write or one.is_write]
                ours = elements_of(schedule, self.loop, path, parts)
            if not ours.is_disjoint(theirs):
                what = "writes" if one.is_write else "reads"
                refuse(self, f"in the same iteration {one.name} {what} elements of the box")

    def _require_apart(self, schedule: Schedule, kernel: Band, staged: StagedBox) -> None:
        """Refuse where one core moves elements that another one writes or puts back."""
        root, program = nodes_of(schedule), schedule.program
        around = path_to(root, kernel.loop)
        mapped = [b for b in bands(kernel) if schedule.mark(b.loop) is Mark.THREAD]
        by = [*around[:-1], *mapped]
        all_ = accesses_in(program, kernel, self.array)
        written = [one for one in all_ if one.is_write]
        out = [elements_of(schedule, kernel.loop, by, written)]
        moved = [elements_of(schedule, kernel.loop, by, all_)]
        inside = {band.loop for band in bands(kernel)}
        for box in (*schedule.boxes, staged):
            if box.array != self.array or box.loop not in inside:
                continue
            whole = box_around(schedule, box.elements)
            if box.is_full_width:
                whole = whole_rows(whole)
            whole = whole.project_out(_IN, len(by), len(box.variables) - len(by))
            moved.append(whole)
            if box.is_put_back:
                out.append(whole)
        for one, other in product(out, moved):
            if not are_apart(schedule, one, other, len(around) - 1):
                refuse(self, f"two cores would move the same elements of '{self.array}'")

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[StageBox]:
        """Every array that a loop of a core accesses, whole."""
        if schedule.mesh is None:
            return
        program = schedule.program
        for band in open_bands(schedule):
            if kernel_of_loop(schedule, band.loop) is None:
                continue
            for array in program.arrays:
                if array.rank and accesses_in(program, band, array.name):
                    yield from (cls(array.name, band.loop, (), count) for count in BUFFERS)


def elements_inside(array: Array, elements: isl.Map) -> isl.Set:
    """The elements whose subscripts are below constant extents, but for the first dimension.

    No program accesses others: rows follow each other in memory. Of a parameter in C the first
    extent says nothing.
    """
    found = isl.Set.universe(elements.get_space().range())
    for at, extent in enumerate(array.shape[1:], 1):
        if isinstance(extent, Const) and isinstance(extent.value, int):
            found = found.upper_bound_val(_SET, at, isl_integer(extent.value - 1))
    return found
