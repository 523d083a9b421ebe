"""Closure: the algebraic path problem, a statement that closes a matrix under an operator pair."""

from __future__ import annotations

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.grid_kernel import GridVariant
from loopwright.lazy_dataclass import dataclass

__all__ = ["BlockedClosure", "Closure", "GridClosure"]


@dataclass(frozen=True, slots=True)
class Closure:
    """`for k, i, j in [start, stop): a[i, j] = a[i, j] plus (a[i, k] times a[k, j])`.

    plus is idempotent and times distributes over it: Warshall's and Floyd's algorithms, bottleneck
    paths and their kin.
    """

    statement: str
    array: str
    dtype: DType
    plus: str  # "min", "max" or "or"
    times: str  # "add", "min", "max" or "and"
    start: Expr
    stop: Expr

    @property
    def needs_guard(self) -> bool:
        """Whether steps through k itself may improve an element: sums along a cycle can."""
        return self.times == "add"


@dataclass(frozen=True, slots=True)
class BlockedClosure:
    """A closure taken in blocks of k, and the register tile of its products."""

    closure: Closure
    block: int  # values of k taken together
    rows: int
    vectors: int
    lanes: int
    is_parallel: bool


@dataclass(frozen=True, slots=True)
class GridClosure:
    """A closure taken in blocks of k on a GPU, and the tiles of its products."""

    closure: Closure
    block: int
    variant: GridVariant
