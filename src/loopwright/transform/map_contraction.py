"""Contractions as kernels of a GPU: three nested loops of a program, or the whole of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

from loopwright.analysis.find_contractions import find_contractions
from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction import LOOP_P, InnerContraction
from loopwright.ir.grid_check import kernel_fault, tile_fault
from loopwright.ir.grid_kernel import ElementsVariant, GridKernel, GridVariant
from loopwright.ir.grid_registers import fitted
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import Leaf, nodes_of, path_to, perfect_nest
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = ["MapContraction", "MapWholeContraction"]

_MOST_THREADS = 1024  # of a block
_MOST_PARTS = 1 << 16


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
        if schedule.mesh is not None:
            refuse(self, "loops are dealt out to a mesh, not to a grid")
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
        variant = replace(self._variant(found), in_registers=schedule.in_registers)
        kernel = GridKernel(found.algebra(found.products[0]), variant)
        told = kernel_fault(kernel)
        if told is not None:
            raise UsageError(f"map_contraction: {told}", str(self))
        made = ScheduledContraction(found, (), (0, 0, 0), self.loops, grid=fitted(kernel))
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


@dataclass(frozen=True, slots=True)
class MapWholeContraction(Step):
    """Run a program that is one contraction by a kernel of a GPU, as einsum does on a device.

    rewrite:  for i: for j: for p: C[i, j] += A[i, p] * B[p, j]
              ->  kernel: tiles, or element by element; of several parts of the reduction, sums
                  that a second kernel adds up
    needs:    the program is one contraction of any number of loops, in source order; several parts,
              slices or lanes need reassociation
    refuses:  IllegalStep with the reason
    """

    kind: ClassVar[str] = "map_whole_contraction"

    variants: tuple[GridVariant | ElementsVariant, ...]  # one
    parts: int  # of the reduction

    def __post_init__(self) -> None:
        told = self._fault()
        if told is not None:
            raise UsageError(f"map_whole_contraction: {told}", str(self))

    def _turned_fault(self) -> str | None:
        """What is wrong with a kernel by elements that turns operands."""
        (variant,) = self.variants
        assert isinstance(variant, ElementsVariant)
        if variant.turned not in ("", "left", "right", "both"):
            return "operands that are turned are left, right or both"
        plain = replace(variant, free=2, turned="")
        if variant.turned and (
            plain != ElementsVariant(2, 0) or variant.free < 2 or self.parts > 1
        ):
            return "operands are turned in two loops or more, with no reduction, by 256 threads"
        return None

    def _fault(self) -> str | None:
        if len(self.variants) != 1 or not 1 <= self.parts <= _MOST_PARTS:
            return f"it takes one variant, and from 1 to {_MOST_PARTS} parts"
        match self.variants:
            case (ElementsVariant(lanes=lanes, threads=threads),):
                is_power = lanes > 0 and lanes & (lanes - 1) == 0
                if not is_power or not 1 <= threads <= _MOST_THREADS or threads % lanes:
                    return f"lanes are a power of two that divides up to {_MOST_THREADS} threads"
                return self._turned_fault()
            case (GridVariant() as tile,):
                if tile.is_split != (self.parts > 1):
                    return "a kernel of parts is one that is split"
                return tile_fault(tile)
        raise AssertionError(self.variants)

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        found = schedule.analyses.get(find_contractions)
        if len(found) != 1 or len(found[0].covers) != len(program.statements):
            refuse(self, f"'{program.name}' as a whole is no contraction")
        if schedule.contractions or schedule.marks or not schedule.in_registers:
            refuse(self, f"the loops of '{program.name}' were changed by an earlier step")
        (variant,) = self.variants
        groups = variant.slices if isinstance(variant, GridVariant) else variant.lanes
        if max(self.parts, groups) > 1 and not found[0].reassoc:
            refuse(self, f"the reduction of {found[0].statement} keeps its order without reassoc")
        algebra = found[0].algebra
        if isinstance(variant, GridVariant) and algebra is not None:
            told = kernel_fault(GridKernel(algebra, variant))
            if told is not None:
                refuse(self, told)
        made = ScheduledContraction(found[0], (), (0, 0, 0), grid=variant)
        return replace(schedule, contractions=(*schedule.contractions, made))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapWholeContraction]:
        """None: kernels of a whole contraction take their launches from arrays of a device."""
        return iter(())

    def __str__(self) -> str:
        parts = f", {self.parts} parts" if self.parts > 1 else ""
        return f"{self.kind}({', '.join(map(str, self.variants))}{parts})"


def _is_plain(found: InnerContraction) -> bool:
    """Whether elements go to shared memory as they are."""
    (product,) = found.products
    sides = (product.left, product.right)
    return all(side.value is None and side.load.dtype.bytes >= 4 for side in sides)
