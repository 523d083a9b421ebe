"""BlockClosure: compute an algebraic closure block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.find_closures import find_closure
from loopwright.diagnostics import UsageError
from loopwright.ir.closure import BlockedClosure, Closure, GridClosure
from loopwright.ir.grid_check import tile_fault
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.grid_registers import fitted
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.step import Step, refuse

__all__ = [
    "BlockClosure",
    "MapClosure",
]


_RESERVED = "closure_"  # the names of lower/tiles/lower_closure


@dataclass(frozen=True, slots=True)
class BlockClosure(Step):
    """Compute a closure in blocks of k: first the diagonal block, then its rows and columns, then
    all other elements as one matrix product.

    rewrite:  for k: for i: for j: a[i, j] = min(a[i, j], a[i, k] + a[k, j])
              ->  for K: close a[K, K]; a[K, :] and a[:, K] with it; a = min(a, a[:, K] + a[K, :])
    needs:    the program is a closure (analysis/find_closures)
    refuses:  IllegalStep with the reason why it is none

    The new order is not one that dependences allow: it is right by the laws of the semiring, where
    no step through k itself improves a[k, k]. The code tests that on every square and goes on in
    the order of the source where it fails.
    """

    kind: ClassVar[str] = "block_closure"

    statement: str
    block: int
    rows: int  # of the register tile
    vectors: int
    lanes: int
    shared: int  # 1 when threads share the rows

    def __post_init__(self) -> None:
        if min(self.block, self.rows, self.vectors, self.lanes) < 1 or self.shared not in (0, 1):
            raise UsageError("block_closure takes a block and a tile of at least 1", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        found = _closure(self, schedule, self.statement)
        if not schedule.in_registers:
            refuse(self, "its products have sums in registers, and elements are kept in memory")
        tile = (self.rows, self.vectors, self.lanes)
        return replace(
            schedule,
            closure=BlockedClosure(found, self.block, *tile, is_parallel=bool(self.shared)),
        )

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[BlockClosure]:
        found = find_closure(schedule.program)
        if not isinstance(found, str) and schedule.closure is None:
            yield cls(found.statement, 4, 2, 2, 2, 0)
            yield cls(found.statement, 3, 1, 1, 4, 1)


@dataclass(frozen=True, slots=True)
class MapClosure(Step):
    """Compute a closure in blocks of k on a GPU, as block_closure does on a processor.

    rewrite:  as block_closure; the square by one block of threads, rows and columns of the block by
              a thread each, all other elements as a product in tiles
    needs:    the program is a closure (analysis/find_closures)
    refuses:  IllegalStep with the reason why it is none
    """

    kind: ClassVar[str] = "map_closure"

    statement: str
    block: int
    rows: int  # of a tile of the product, and so on: see ir/grid_kernel
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    resident: int

    def __post_init__(self) -> None:
        told = _closure_fault(self)
        if told is not None:
            raise UsageError(f"map_closure: {told}", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        found = _closure(self, schedule, self.statement)
        piece = 4 if found.dtype.bytes <= 4 else 2
        variant = replace(_tile(self), piece=piece, in_registers=schedule.in_registers)
        algebra = Algebra(
            found.plus, found.times, 0, *(found.dtype,) * 4, Initial.OUT, scaled=False
        )
        variant = fitted(GridKernel(algebra, variant))
        return replace(schedule, closure=GridClosure(found, self.block, variant))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapClosure]:
        found = find_closure(schedule.program)
        if not isinstance(found, str) and schedule.closure is None:
            yield cls(found.statement, 16, 32, 32, 4, 4, 4, 1)


_SUB = 16  # of lower/grid_nests/grid_closure


def _tile(step: MapClosure) -> GridVariant:
    """The product of a closure, as far as the step decides it."""
    return GridVariant(
        step.rows,
        step.columns,
        step.depth,
        step.thread_rows,
        step.thread_columns,
        left_along_p=True,
        right_along_p=False,
        resident=step.resident,
    )


def _closure_fault(step: MapClosure) -> str | None:
    """Why threads cannot share out the work; None where they can."""
    if not 1 <= step.block <= 1024 or step.block % _SUB:
        return f"a block is a multiple of {_SUB} of at most 1024"
    return tile_fault(_tile(step))


def _closure(step: Step, schedule: Schedule, statement: str) -> Closure:
    """The closure that a program is; refuses where it is none, or mapped already."""
    found = find_closure(schedule.program)
    if isinstance(found, str):
        refuse(step, found)
    if found.statement != statement:
        refuse(step, f"statement '{statement}' is no closure")
    names = (*schedule.program.params, *(a.name for a in schedule.program.arrays))
    if any(name.startswith(_RESERVED) for name in names):
        refuse(step, f"names that begin with '{_RESERVED}' are in use")
    if schedule.marks or schedule.closure is not None:
        refuse(step, "the loops are mapped already")
    return found
