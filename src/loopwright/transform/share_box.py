"""ShareBox: a box that is the same for all cores of a row, column or mesh is brought in once.

Each core brings in a part of a panel, the box of a loop around, ahead of time. Where a box of an
inner loop is needed, its parts go from core to core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from loopwright.analysis.across_lanes import is_across_lanes
from loopwright.analysis.scratchpad_boxes import (
    accesses_in,
    begins_alike,
    begins_together,
    has_one_value,
    kernel_of_loop,
    of_all_values,
)
from loopwright.analysis.size_estimates import sizes_inside_rows
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.access_names import named_access
from loopwright.ir.islkit import isl, isl_integer
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.ir.schedule_tree import bands, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step, refuse

__all__ = ["ShareBox"]

_PARAM, _SET = isl.dim_type.param, isl.dim_type.set
AXES = ("row", "column", "mesh")
_VECTOR = 32  # bytes
_MOST_RANK = 2  # a broadcast has rows of bytes


@dataclass(frozen=True, slots=True)
class ShareBox(Step):
    """Let accesses in a loop go to a box that cores of a row, column or mesh give to each other.

    rewrite:  core (r, c): for k_t: for k_s: for k: C[i][j] += A[i][k]
              ->  core (r, c): for k_t: part c of the panel A[i_t : i_t + 64][k_t : k_t + 64]
                                 for k_s: A_box = A[i_t : i_t + 64][k_s : k_s + 8], of all parts
                                   for k: C[i][j] += A_box[i - i_t][k - k_s]
    needs:    what stage_box needs of the box in both loops; loops around that are dealt out to rows
              and to columns; the box does not depend on the loop that is dealt out along the axis,
              of a mesh on neither; strips of the loops inside of the panel's begin at multiples of
              their size, or with the same one on all cores that share the box; cores run the same
              iterations of the box's own loop, or it needs the same elements in each of them;
              nobody writes the array in the mapped loops; one or two dimensions with more
              than one element
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "share_box"

    array: str
    # Of the panels, of which the next one comes while one is used; where it is dealt out itself,
    # there is one panel, which stays.
    loop: str
    window: str  # the loop whose iterations use the box: the same, or one inside of it
    accesses: tuple[str, ...]  # as for stage_box; (): all to the array
    axis: str  # row: the cores of a row have the box in common; or column, or mesh: all cores

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise UsageError("share_box takes an axis of row, column and mesh", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        stays = schedule.mark(self.loop) is Mark.THREAD
        panel = self._box(schedule, self.loop, 1 if stays else 2)
        panel = replace(panel, is_full_width=len(panel.extents) > 1)
        window = self._box(schedule, self.window, 1)
        if self.loop not in {name for _, name in window.variables}:
            refuse(self, f"loop '{self.window}' does not stand in '{self.loop}'")
        kernel = kernel_of_loop(schedule, self.loop)
        assert kernel is not None, "stage_box asks for one"
        if any(one.is_write for one in accesses_in(schedule.program, kernel, self.array)):
            refuse(self, f"'{self.array}' is written in the mapped loop '{kernel.loop}'")
        if len(panel.sides) > _MOST_RANK:
            refuse(self, f"panels of '{self.array}' have more than {_MOST_RANK} dimensions")
        at = next(k for k, (_, loop) in enumerate(panel.variables) if loop == panel.loop)
        if not begins_together(schedule, panel.reached, at):
            refuse(self, f"strips of loop '{self.loop}' begin elsewhere in each tile")
        for other in self._others(schedule):
            self._require_in_step(schedule, window, other)
            panel, window = (self._without(schedule, box, other) for box in (panel, window))
        assert schedule.mesh is not None
        rows, columns = schedule.mesh
        axis = Axis(self.axis)
        cores = columns if axis is Axis.ROW else rows
        parts = self._parts(schedule)
        # Cores transpose parts that lie across the lanes (`lower/mesh_nests/transpose_parts`).
        read = [named_access(schedule.program, name) for name in self.accesses]
        is_turned = axis is not Axis.MESH and is_across_lanes(schedule.program, read)
        unit = self._lanes(schedule) if is_turned else 1
        panel = replace(panel, accesses=(), axis=axis, parts=parts, cores=cores, unit=unit)
        window = replace(window, axis=axis, panel=panel)
        window = replace(window, extents=self._padded(schedule, window, unit))
        return replace(schedule, boxes=(*schedule.boxes, window))

    def _padded(self, schedule: Schedule, box: StagedBox, unit: int) -> tuple[int, ...]:
        """The extents of a box whose rows are whole vectors; columns where it is transposed."""
        first, *outer = box.sides
        *outer, last = (-(-first // unit) * unit, *outer)
        lanes = self._lanes(schedule)
        return (*box.extents[: box.fixed], *outer, -(-last // lanes) * lanes)

    def _lanes(self, schedule: Schedule) -> int:
        return max(1, _VECTOR // schedule.program.array(self.array).dtype.bytes)

    def _box(self, schedule: Schedule, loop: str, buffers: int) -> StagedBox:
        """The box of a core alone, in one of the two loops."""
        parts = self._parts(schedule) if schedule.mark(loop) is Mark.THREAD else 1
        try:
            staged = StageBox(self.array, loop, self.accesses, buffers).staged(schedule, parts)
        except IllegalStep as error:
            refuse(self, error.reason)
        if staged.is_array_wide and schedule.mark(loop) is not Mark.THREAD:
            refuse(self, f"what loop '{loop}' accesses of '{self.array}' has no constant extents")
        return staged

    def _parts(self, schedule: Schedule) -> int:
        """How many cores have parts of a panel."""
        if schedule.mesh is None:
            return 1
        rows, columns = schedule.mesh
        return {"row": columns, "column": rows}.get(self.axis, rows * columns)

    def _others(self, schedule: Schedule) -> tuple[str, ...]:
        """The loops whose iterations the cores that share the box have each their own of."""
        path = path_to(nodes_of(schedule), self.loop)
        found = {
            schedule.axis(band.loop): band.loop
            for band in path
            if schedule.mark(band.loop) is Mark.THREAD
        }
        if found.keys() != {Axis.ROW, Axis.COLUMN}:
            refuse(self, "no two loops around it are dealt out to rows and to columns")
        if self.axis == "mesh":
            return found[Axis.ROW], found[Axis.COLUMN]
        return (found[Axis.COLUMN if self.axis == "row" else Axis.ROW],)

    def _require_in_step(self, schedule: Schedule, window: StagedBox, other: str) -> None:
        """Refuse where the cores that share the box meet at different iterations.

        They run a loop together from the first strip of any of them on, where all strips begin at
        multiples of their size, or each from its own first one on, where all begin alike.
        """
        reached, loops = window.reached, [name for _, name in window.variables]
        is_alone = partial(has_one_value, schedule, reached)
        for at, name in enumerate(loops):
            if name == self.loop or schedule.mark(name) is Mark.THREAD or other not in loops[:at]:
                continue
            if begins_together(schedule, reached, at) or is_alone(at):
                continue
            dims = tuple(k for k in range(at) if loops[k] == other or is_alone(k))
            if not begins_alike(schedule, reached, at, dims):
                refuse(
                    self,
                    f"cores begin loop '{name}' at different iterations of '{other}', and its "
                    "strips begin with each tile: their size has to divide that of the tiles",
                )

    def _without(self, schedule: Schedule, box: StagedBox, loop: str) -> StagedBox:
        """A box around what all cores of the row or column access."""
        dims = tuple(
            at
            for at, (_, name) in enumerate(box.variables)
            if name == loop or (name != box.loop and has_one_value(schedule, box.reached, at))
        )
        elements = of_all_values(schedule, box.elements, dims)
        reached = box.reached
        for at in dims:
            reached = reached.project_out(_SET, at, 1).insert_dims(_SET, at, 1)
        names = [name for name, _ in box.variables]
        own = next(at for at, (_, name) in enumerate(box.variables) if name == box.loop)
        is_followed = own not in dims and has_one_value(schedule, box.reached, own)
        if is_followed and not has_one_value(schedule, reached, own):
            # Each core runs its own iteration of the box's loop: it must need the same elements.
            every = of_all_values(schedule, elements, (own,))
            if not every.intersect_domain(elements.domain()).is_equal(elements):
                refuse(self, f"each core runs another iteration of loop '{box.loop}'")
        step = StageBox(self.array, box.loop, self.accesses, box.buffers)
        try:
            known = _within_rows(schedule, elements) if box.is_array_wide else elements
            parts = self._parts(schedule) if box.loop == self.loop else 1
            extents = step.extents_of(schedule, known, names, parts)
        except IllegalStep:
            refuse(self, f"the box is another one in each iteration of '{loop}'")
        return replace(box, elements=elements, reached=reached, extents=extents)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ShareBox]:
        """Every array that is used in two loops inside each other, or in one."""
        if schedule.mesh is None:
            return
        program = schedule.program
        for band in open_bands(schedule):
            if kernel_of_loop(schedule, band.loop) is None:
                continue
            for inner in bands(band):
                for array in program.arrays:
                    if array.rank and accesses_in(program, inner, array.name):
                        for axis in AXES:
                            yield cls(array.name, band.loop, inner.loop, (), axis)


def _within_rows(schedule: Schedule, elements: isl.Map) -> isl.Map:
    """Elements for values of parameters that inner dimensions of arrays bound."""
    sizes = sizes_inside_rows(schedule.program)
    for name, most in sizes.items():
        at = elements.find_dim_by_name(_PARAM, name)
        if at >= 0:
            bound = isl_integer(most)
            elements = elements.upper_bound_val(_PARAM, at, bound)
    return elements
