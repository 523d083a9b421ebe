"""HandOn: cores in a circle take the iterations of a loop in turn and hand vectors on.

Sums along a loop that cores take in turn have an order: every iteration adds to what the one before
has left. With the sums in parts, from core to core, all cores are busy at once: while one adds to
the second part, the next one adds to the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.scratchpad_boxes import (
    accesses_in,
    are_apart,
    box_around,
    elements_of,
    loop_values,
)
from loopwright.analysis.size_estimates import sizes_inside_rows
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context, isl, isl_integer
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, with_mark
from loopwright.transform.step import Step, refuse

__all__ = ["HandOn"]

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set
_PARAM = isl.dim_type.param
ROW = 8  # cores of a row of the machine: messages go along its rows and columns


@dataclass(frozen=True, slots=True)
class HandOn(Step):
    """Deal out the iterations of a loop to cores in a circle, which hand parts of vectors on.

    rewrite:  for i_t in [0, n) step T: for j_t: S(y[j_t : j_t + 256])
              ->  core c: for i_t in [c * T, n) step C * T:
                            for j_t: y_box = y[j_t : j_t + 256] of core c - 1; S(y_box)
                                     y_box to core c + 1
    needs:    iterations that depend on each other through the vectors alone; of each vector a loop
              directly inside, whose iterations access elements of their own, the same ones in every
              iteration of the mapped loop; less parts than cores, else all of them wait; then
              stage_box of these loops
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "hand_on"

    loop: str
    arrays: tuple[str, ...]
    loops: tuple[str, ...]  # of the parts of each
    rows: int  # cores that take part: one row, or an even number of whole ones
    columns: int

    def __post_init__(self) -> None:
        if not self.arrays or len(self.arrays) != len(self.loops):
            raise UsageError("hand_on takes one or more arrays, and a loop for each", str(self))
        is_row = self.rows == 1 and 1 < self.columns <= ROW
        if not is_row and (self.rows < 2 or self.rows % 2 or self.columns != ROW):
            raise UsageError(
                f"hand_on takes 2 to {ROW} cores of a row, or an even number of whole rows",
                str(self),
            )

    def apply(self, schedule: Schedule) -> Schedule:
        shape = self.rows, self.columns
        if schedule.mesh is not None and schedule.mesh != shape:
            refuse(self, "the mesh has {} rows and {} columns already".format(*schedule.mesh))
        if schedule.mesh is None and (schedule.marks or schedule.contractions):
            refuse(self, "loops are marked, or belong to contractions, for another machine")
        root = nodes_of(schedule)
        mapped = find_band(self, schedule, root, self.loop)
        for other in (*path_to(root, self.loop)[:-1], *bands(mapped.child)):
            if schedule.mark(other.loop) is Mark.THREAD:
                refuse(self, f"loop '{other.loop}' is mapped to the mesh already")
        parts = sum(
            self._parts(schedule, mapped, array, loop)
            for array, loop in zip(self.arrays, self.loops, strict=True)
        )
        cores = self.rows * self.columns
        if parts >= cores:
            refuse(self, f"{parts} parts of vectors are not less than {cores} cores")
        found = with_mark(
            self, schedule, self.loop, Mark.THREAD, cores, handed_on=frozenset(self.arrays)
        )
        handed = [(a, loop, self.loop) for a, loop in zip(self.arrays, self.loops, strict=True)]
        return replace(
            found,
            axes=(*found.axes, (self.loop, Axis.CIRCLE)),
            mesh=shape,
            handed_on=(*found.handed_on, *handed),
        )

    def _parts(self, schedule: Schedule, mapped: Band, array: str, loop: str) -> int:
        """How many parts of a vector there are; refuses where they are no parts."""
        program = schedule.program
        if all(one.name != array for one in program.arrays) or program.array(array).rank != 1:
            refuse(self, f"there is no vector '{array}'")
        if array in dict(schedule.private):
            refuse(self, f"every iteration has its own copy of '{array}'")
        inner = find_band(self, schedule, nodes_of(schedule), loop)
        path = path_to(nodes_of(schedule), loop)
        if len(path) < 2 or path[-2].loop != self.loop:
            refuse(self, f"loop '{loop}' does not stand directly in '{self.loop}'")
        used = accesses_in(program, inner, array)
        if not used or len(used) < len(accesses_in(program, mapped, array)):
            refuse(self, f"'{array}' is accessed in '{self.loop}' beside '{loop}'")
        elements = elements_of(schedule, loop, path, used).intersect_params(program.context)
        at = len(path) - 2  # of the mapped loop; the values before it are those of loops around
        if not self._are_same(schedule, elements, at, loop):
            refuse(self, f"iterations of '{self.loop}' access different parts of '{array}'")
        each = elements.project_out(_IN, at, 1)
        if not are_apart(schedule, each, each, at) or not box_around(schedule, each).is_equal(each):
            refuse(self, f"parts of '{array}' are not apart, or have gaps")
        return self._count(program, each.domain(), at, array)

    def _are_same(self, schedule: Schedule, elements: isl.Map, at: int, loop: str) -> bool:
        """Whether every iteration of the mapped loop accesses the same parts, and there is no gap.

        The next iteration is that of the next core.
        """
        known = schedule.program.context
        turns = loop_values(schedule, self.loop).intersect_params(known).coalesce()
        reached = loop_values(schedule, loop).intersect_params(known)
        parts = reached.project_out(_SET, at, 1).insert_dims(_SET, at, 1)
        whole = turns.add_dims(_SET, 1)
        if not reached.is_equal(parts.intersect(whole)) or not reached.is_equal(elements.domain()):
            return False
        wide = elements.project_out(_IN, at, 1).insert_dims(_IN, at, 1)
        if not wide.intersect_domain(reached).is_equal(elements):
            return False
        return _follow_each_other(turns, at)

    def _count(self, program: Program, parts: isl.Set, at: int, array: str) -> int:
        """The most parts of a vector in one iteration, `{ [around, part] }`."""
        for name, most in sizes_inside_rows(program).items():
            param = parts.find_dim_by_name(_PARAM, name)
            if param >= 0:
                parts = parts.upper_bound_val(_PARAM, param, isl_integer(most))
        stride = parts.get_stride(at).to_python()
        space = parts.get_space()
        pairs = isl.Map.universe(isl.Space.map_from_domain_and_range(space, space))
        for k in range(at):
            pairs = pairs.equate(_IN, k, _OUT, k)
        apart = pairs.intersect_domain(parts).intersect_range(parts).deltas().dim_max_val(at)
        if not apart.is_int():
            refuse(self, f"nobody knows how many parts '{array}' has")
        count: int = apart.to_python() // max(1, stride) + 1
        return count

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[HandOn]:
        """None: parts are made for it, and their boxes belong to it."""
        yield from ()


def _follow_each_other(turns: isl.Set, at: int) -> bool:
    """Whether iterations `{ [around, mapped] }` follow each other by steps of one length."""
    stride = max(1, turns.get_stride(at).to_python())
    each = isl.Map.from_range(turns).move_dims(_IN, 0, _OUT, 0, at)
    before = isl.Map.read_from_str(context(), f"{{ [m] -> [m - {stride}] }}")
    ends = each.subtract(each.apply_range(before))
    return bool(ends.is_subset(each.lexmax()))
