"""MapContraction: three nested loops that are a matrix product, as a kernel of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction import LOOP_P, InnerContraction
from loopwright.ir.grid_check import kernel_fault, tile_fault
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import Leaf, nodes_of, path_to, perfect_nest
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = ["MapContraction"]


@dataclass(frozen=True, slots=True)
class MapContraction(Step):
    """Run three directly nested loops that are a matrix product by a kernel of a GPU.

    rewrite:  for i: for j: for p: C[i, j] += A[i, p] * B[p, j]
              ->  kernel (i, j, p): tiles in shared memory, register tiles in threads
    needs:    the loops run over a box whatever the loops around hold, perhaps without a triangle of
              i and j; they add one product of two array elements, and write nothing that they read
    refuses:  IllegalStep with the reason

    Products of an element are added in the order of p: nothing is reassociated.
    """

    kind: ClassVar[str] = "map_contraction"

    loops: tuple[str, ...]  # i, j, p
    rows: int  # of the tile of a block, and so on: see ir/grid_kernel
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    stages: int
    resident: int

    def __post_init__(self) -> None:
        if len(self.loops) != 3:
            raise UsageError("map_contraction takes the three loops i, j, p", str(self))
        told = tile_fault(self._tile())
        if told is not None:
            raise UsageError(f"map_contraction: {told}", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        for loop in self.loops:
            find_band(self, schedule, root, loop)
        require_unmarked(self, schedule, self.loops)
        for band in path_to(root, self.loops[0]):
            if schedule.mark(band.loop) in (Mark.BLOCK, Mark.THREAD):
                refuse(self, f"loop '{band.loop}' around it is mapped to a grid")
        found = inner_contraction(schedule.program, schedule.tree, self.loops)
        if isinstance(found, str):
            refuse(self, found)
        if len(found.products) != 1:
            refuse(self, "the update adds several products")
        if found.is_in_place or any(guard.p for guard in found.guards):
            refuse(self, "rows end at different steps, or the result is a factor")
        variant = self._variant(found)
        told = kernel_fault(GridKernel(found.algebra(found.products[0]), variant))
        if told is not None:
            raise UsageError(f"map_contraction: {told}", str(self))
        made = ScheduledContraction(found, (), (0, 0, 0), self.loops, grid=variant)
        return replace(schedule, contractions=(*schedule.contractions, made))

    def _variant(self, found: InnerContraction) -> GridVariant:
        (product,) = found.products
        return replace(
            self._tile(),
            left_along_p=product.left.subscripts.is_run(LOOP_P),
            right_along_p=product.right.subscripts.is_run(LOOP_P),
            piece=4 if found.out.dtype.bytes <= 4 else 2,
            swapped=product.swapped,
            stages=self.stages if _is_plain(found) else 2,
        )

    def _tile(self) -> GridVariant:
        """The variant as far as the step decides it."""
        return GridVariant(
            self.rows,
            self.columns,
            self.depth,
            self.thread_rows,
            self.thread_columns,
            left_along_p=True,
            right_along_p=False,
            resident=self.resident,
            stages=self.stages,
        )

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapContraction]:
        for band in open_bands(schedule):
            loops = perfect_nest(band)
            if len(loops) != 3 or not isinstance(loops[-1].child, Leaf):
                continue
            for names in permutations(inner.loop for inner in loops):
                found = inner_contraction(schedule.program, schedule.tree, names)
                if not isinstance(found, str):
                    yield cls(names, 32, 32, 8, 4, 4, 2, 0)


def _is_plain(found: InnerContraction) -> bool:
    """Whether elements go to shared memory as they are."""
    (product,) = found.products
    sides = (product.left, product.right)
    return all(side.value is None and side.load.dtype.bytes >= 4 for side in sides)
