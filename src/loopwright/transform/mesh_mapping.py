"""MapToMesh: the iterations of a loop are dealt out to the cores of a mesh.

All cores run the whole program. Of a mapped loop each takes every R-th iteration, where R is the
number of rows, of columns, or of cores; what stands in no mapped loop is done by the first core.
Between nests that depend on each other all cores wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, with_mark
from loopwright.transform.step import Step, refuse

__all__ = ["MapToMesh"]

AXES = ("row", "column", "mesh")
SHAPE = (2, 2)  # what `candidates` offers; `apply` takes any numbers


@dataclass(frozen=True, slots=True)
class MapToMesh(Step):
    """Deal out the iterations of a loop to the rows, the columns, or all cores of a mesh.

    rewrite:  for i_t in [0, n) step T: S(i_t)
              ->  core (r, c): for i_t in [r * T, n) step R * T: S(i_t)
    needs:    no dependence between different iterations; of two mapped loops, one along rows and
              one along columns, the outer one holds nothing but the inner one
    refuses:  IllegalStep with the dependence the loop carries
    """

    kind: ClassVar[str] = "map_to_mesh"

    loop: str
    axis: str  # row, column, or mesh: all cores, row by row
    rows: int  # cores that take part
    columns: int

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise UsageError("map_to_mesh takes an axis of row, column and mesh", str(self))
        if self.rows < 1 or self.columns < 1:
            raise UsageError("map_to_mesh takes one or more rows and columns", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        shape = self.rows, self.columns
        if schedule.mesh is not None and schedule.mesh != shape:
            refuse(self, "the mesh has {} rows and {} columns already".format(*schedule.mesh))
        if schedule.mesh is None and (schedule.marks or schedule.contractions):
            refuse(self, "loops are marked, or belong to contractions, for another machine")
        band = find_band(self, schedule, nodes_of(schedule), self.loop)
        self._require_nested(schedule, band)
        cores = {"row": self.rows, "column": self.columns}.get(self.axis, self.rows * self.columns)
        found = with_mark(self, schedule, self.loop, Mark.THREAD, cores)
        axes = (*found.axes, (self.loop, Axis(self.axis)))
        return replace(found, axes=axes, mesh=shape)

    def _require_nested(self, schedule: Schedule, band: Band) -> None:
        """Refuse where another mapped loop stands around or inside, unless directly."""
        root = nodes_of(schedule)
        near = [*path_to(root, self.loop)[:-1], *bands(band.child)]
        mapped = [other for other in near if schedule.mark(other.loop) is Mark.THREAD]
        for other in mapped:
            axes = {self.axis, (schedule.axis(other.loop) or Axis.MESH).value}
            if axes != {"row", "column"}:
                refuse(self, f"loop '{other.loop}' is mapped to the mesh already")
            if other.child is not band and band.child is not other:
                refuse(self, f"loop '{other.loop}' is mapped, and not directly nested")

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapToMesh]:
        if schedule.mesh is None and (schedule.marks or schedule.contractions):
            return
        for band in open_bands(schedule):
            if schedule.mark(band.loop) is Mark.SERIAL:
                yield from (cls(band.loop, axis, *SHAPE) for axis in AXES)
