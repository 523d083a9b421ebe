"""Where the elements of a product's operands lie: by offset tables, or by affine subscripts.

The loops of algorithm 6 count through bundles: i, j, p. A layout says where that leads in each
operand. Kernels of whole contractions see operands as memory and look offsets up in tables of the
launch, so tensors of any rank are read as matrices; those inside a nest see the program's own
arrays, whose subscripts grow by a fixed amount with each loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.visit import rewrite
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "TABLES",
    "Affine",
    "AffineOperand",
    "Clip",
    "Layout",
    "Place",
    "StepClip",
    "bind",
    "table",
]


@dataclass(frozen=True, slots=True)
class Place:
    """An element of a buffer: one subscript for each of its dimensions."""

    index: tuple[Expr, ...]

    def __add__(self, other: Place) -> Place:
        return Place(tuple(x + y for x, y in zip(self.index, other.index, strict=True)))

    def along(self, steps: Expr | int) -> Place:
        """The element some steps further along the last dimension, where vectors run."""
        return Place((*self.index[:-1], self.index[-1] + steps))


@dataclass(frozen=True, slots=True)
class Clip:
    """Elements of out that count: `i * x + j * y + rest >= 0` at the indices x and y."""

    i: int
    j: int
    rest: Expr

    def holds(self, x: Expr, y: Expr) -> Expr:
        """Whether one element counts."""
        return (x * self.i + y * self.j + self.rest) >= 0

    def holds_for_all(self, rows: tuple[Expr, Expr], columns: tuple[Expr, Expr]) -> Expr:
        """Whether all elements count whose indices lie between the first and the last ones."""
        return self.holds(rows[self.i < 0], columns[self.j < 0])

    def holds_for_some(self, rows: tuple[Expr, Expr], columns: tuple[Expr, Expr]) -> Expr:
        """Whether any of them does."""
        return self.holds(rows[self.i > 0], columns[self.j > 0])


@dataclass(frozen=True, slots=True)
class StepClip:
    """Steps that count in a row: `i * x + p * z + rest >= 0` at the indices x and z, p = 1 or -1.

    Steps count from `bound` on where p is 1, and before `bound` where p is -1.
    """

    i: int
    p: int
    rest: Expr

    def holds(self, x: Expr, z: Expr) -> Expr:
        """Whether one step counts in one row."""
        return (x * self.i + z * self.p + self.rest) >= 0

    def bound(self, x: Expr) -> Expr:
        """The first step of row x that counts, or the first behind those that do."""
        value = x * self.i + self.rest
        return Const(0) - value if self.p > 0 else value + 1

    def in_all(self, rows: tuple[Expr, Expr]) -> Expr:
        """The bound of steps that count in all rows from the first to the last one."""
        return self.bound(rows[self.i < 0])

    def in_some(self, rows: tuple[Expr, Expr]) -> Expr:
        """The bound of steps that count in any of them."""
        return self.bound(rows[self.i > 0])


class Layout(Protocol):
    """How the operands "left", "right" and "out" are found in memory."""

    @property
    def clips(self) -> tuple[Clip, ...]:
        """Which elements of out count: those for which all of these hold."""

    @property
    def step_clips(self) -> tuple[StepClip, ...]:
        """Which steps count in which rows: those for which all of these hold."""

    def buffer(self, operand: str) -> str:
        """The name of an operand's buffer."""

    def base(self, operand: str) -> Place:
        """Where the first element of an operand lies."""

    def at(self, operand: str, bundle: str, index: Expr) -> Place:
        """How far index `index` of a bundle leads from there."""

    def onward(self, operand: str, steps: Expr) -> Place:
        """As `at` for the bundle p, in the innermost loop, where it must cost next to nothing."""

    def value(self, operand: str, place: Place, dtype: DType) -> Expr:
        """The factor that the element at `place` stands for."""

    def visit(self, operand: str) -> Expr | None:
        """Steps with which a panel of single elements is filled at a visit; None: with all."""


def table(name: str, index: Expr) -> Expr:
    """Entry `index` of an offset table."""
    return Load("table", (Var(name) + index,), INT64)


class _Tables:
    """Operands as memory: offsets are looked up, the launch value `left_i` says where."""

    clips: tuple[Clip, ...] = ()
    step_clips: tuple[StepClip, ...] = ()

    def buffer(self, operand: str) -> str:
        return operand

    def base(self, operand: str) -> Place:
        return Place((Var(f"{operand}_base"),))

    def at(self, operand: str, bundle: str, index: Expr) -> Place:
        return Place((table(f"{operand}_{bundle}", index),))

    def onward(self, operand: str, steps: Expr) -> Place:
        return Place((steps * Var(f"{operand}_step"),))

    def value(self, operand: str, place: Place, dtype: DType) -> Expr:
        return Load(operand, place.index, dtype)

    def visit(self, operand: str) -> Expr:
        return Var(f"{operand}_v")


TABLES: Layout = _Tables()


@dataclass(frozen=True, slots=True)
class AffineOperand:
    """An operand as an array of the program."""

    dtype: DType  # of its elements in memory
    base: tuple[Expr, ...]  # subscripts where all bundles are at 0
    steps: Mapping[str, tuple[int, ...]]  # bundle -> growth of each subscript from index to index
    value: Expr | None = None  # over `hole` and scalars; None: the element itself
    hole: Var | None = None  # stands for the element


@dataclass(frozen=True, slots=True)
class Affine:
    """Operands as arrays of the program, by subscripts that are affine in the bundles."""

    operands: Mapping[str, AffineOperand]
    clips: tuple[Clip, ...] = ()
    step_clips: tuple[StepClip, ...] = ()

    def buffer(self, operand: str) -> str:
        return operand

    def base(self, operand: str) -> Place:
        return Place(self.operands[operand].base)

    def at(self, operand: str, bundle: str, index: Expr) -> Place:
        return Place(tuple(index * step for step in self.operands[operand].steps[bundle]))

    def onward(self, operand: str, steps: Expr) -> Place:
        return self.at(operand, "p", steps)

    def value(self, operand: str, place: Place, dtype: DType) -> Expr:
        found = self.operands[operand]
        element = Load(operand, place.index, found.dtype)
        if found.value is None:
            return element
        return rewrite(found.value, lambda x: element if x == found.hole else x)

    def visit(self, operand: str) -> None:
        """All steps: a contraction does not know which loop has the nearest elements."""


def bind(name: str, place: Place) -> tuple[Place, list[tuple[Var, Expr]]]:
    """A place by variables called after `name`, and the bindings that give them their values.

    Subscripts that are plain already are used as they are.
    """
    if len(place.index) == 1:
        return Place((Var(name),)), [(Var(name), place.index[0])]
    index: list[Expr] = []
    bindings: list[tuple[Var, Expr]] = []
    for dimension, entry in enumerate(place.index):
        if isinstance(entry, Const | Var):
            index.append(entry)
        else:
            index.append(Var(f"{name}_{dimension}"))
            bindings.append((Var(f"{name}_{dimension}"), entry))
    return Place(tuple(index)), bindings
