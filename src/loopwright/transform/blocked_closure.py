"""BlockClosure: compute an algebraic closure block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.find_closures import find_closure
from loopwright.diagnostics import UsageError
from loopwright.ir.closure import BlockedClosure
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.step import Step, refuse

__all__ = [
    "BlockClosure",
]


_RESERVED = "closure_"  # the names of lower/lower_closure


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
        found = find_closure(schedule.program)
        if isinstance(found, str):
            refuse(self, found)
        if found.statement != self.statement:
            refuse(self, f"statement '{self.statement}' is no closure")
        names = (*schedule.program.params, *(a.name for a in schedule.program.arrays))
        if any(name.startswith(_RESERVED) for name in names):
            refuse(self, f"names that begin with '{_RESERVED}' are in use")
        if schedule.marks or schedule.closure is not None:
            refuse(self, "the loops are mapped already")
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
