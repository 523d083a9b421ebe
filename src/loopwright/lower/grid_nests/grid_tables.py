"""Operands of a product on a GPU as memory: strides, offset tables, and the kernel's arguments."""

from __future__ import annotations

from loopwright.ir.dtypes import DTYPES, INT64, DType
from loopwright.ir.expr import Cast, Const, Expr, Load, Var
from loopwright.ir.grid_kernel import GridKernel
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import Buffer
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.contraction_nests.operand_layout import Clip, Place, StepClip, divided

__all__ = ["FIRST_STEP", "GridTables", "product_arguments"]

FIRST_STEP = Var("first_step")  # of a part of a reduction that is split
_ONE = Const(1)


@dataclass(frozen=True, slots=True)
class GridTables:
    """Operands as memory: a stride for each bundle that has one, offset tables for the others."""

    kernel: GridKernel
    clips: tuple[Clip, ...] = ()
    step_clips: tuple[StepClip, ...] = ()

    def buffer(self, operand: str) -> str:
        return operand

    def base(self, operand: str) -> Place:
        return Place((Var(f"{operand}_base"),))

    def at(self, operand: str, bundle: str, index: Expr) -> Place:
        variant = self.kernel.variant
        loops = variant.strided.count(bundle)
        if bundle == "p" and variant.is_split and loops != 1:  # else the operand begins there
            index = FIRST_STEP + index
        if loops:
            return Place((divided(operand, bundle, loops, index),))
        return self._found(Var(f"{operand}_{bundle}") + index)

    def inside(self, operand: str, step: Expr) -> Place:
        """How far a step leads from the first one of its tile, where that is so in all tiles."""
        return self._found(Var(f"{operand}_p") + step)

    def tile(self, operand: str, number: Expr) -> Place:
        """How far the first step of a tile leads, where all tiles are alike.

        The table has the steps of a tile first, then the tiles.
        """
        v = self.kernel.variant
        if number == Const(0) and not v.is_split:
            return Place((Const(0),))
        value: Expr = Var(f"{operand}_p") + v.depth
        return self._found((value + FIRST_STEP // v.depth if v.is_split else value) + number)

    def _found(self, index: Expr) -> Place:
        found = Load("table", (index,), _table_type(self.kernel))
        return Place((found if found.dtype == INT64 else Cast(found, INT64),))

    def onward(self, operand: str, steps: Expr) -> Place:
        return self.at(operand, "p", steps)

    def value(self, operand: str, place: Place, dtype: DType) -> Expr:
        return Load(operand, place.index, dtype)

    def visit(self, operand: str) -> None:
        """Tiles are filled by all threads at once."""


def product_arguments(kernel: GridKernel) -> tuple[Buffer, ...]:
    """out, left, right, offset tables where there are any, alpha and beta where they are in use."""
    algebra, one = kernel.algebra, (_ONE,)
    found = [
        Buffer("out", algebra.out, one, writable=True),
        Buffer("left", kernel.left, one),
        Buffer("right", kernel.right, one),
    ]
    if kernel.variant.looked_up:
        found.append(Buffer("table", _table_type(kernel), one))
    if algebra.scaled:
        found.append(Buffer("alpha", algebra.accumulator, ()))
    if algebra.initial is Initial.SCALED:
        found.append(Buffer("beta", algebra.accumulator, ()))
    return tuple(found)


def _table_type(kernel: GridKernel) -> DType:
    return DTYPES["int64" if kernel.variant.is_wide else "int32"]
