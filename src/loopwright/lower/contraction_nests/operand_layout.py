"""Where the elements of a product's operands lie: by strides and tables, or by affine subscripts.

The loops of algorithm 6 count through bundles: i, j, p. A layout says where that leads in each
operand. Kernels of whole contractions see operands as memory: a bundle of one loop has a stride,
the offsets of several loops are looked up in tables of the launch. So tensors of any rank are read
as matrices. Kernels inside a nest see the program's own arrays, whose subscripts grow by a fixed
amount with each loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.kernel_variant import ContractionKernel
from loopwright.ir.visit import rewrite
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Affine",
    "AffineOperand",
    "Clip",
    "InMemory",
    "Layout",
    "Place",
    "StepClip",
    "base_bindings",
    "bind",
    "divided",
    "inner_scalars",
    "offset_of",
    "place_scalars",
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


def offset_of(kernel: ContractionKernel, operand: str, bundle: str, index: Expr) -> Expr:
    """How far index `index` of a bundle leads in an operand.

    The launch value `left_i` is the stride of left along i, or where the table of its offsets
    begins. Of several loops without a table it is the stride along the outermost one; `left_i1` is
    that along the next one, of extent `i1`.
    """
    name = f"{operand}_{bundle}"
    loops = kernel.variant.strided.count(bundle)
    return divided(operand, bundle, loops, index) if loops else table(name, index)


def divided(operand: str, bundle: str, loops: int, index: Expr) -> Expr:
    """How far index `index` of a bundle leads by strides: the numbers of its loops by division."""
    name = f"{operand}_{bundle}"
    inner: list[Expr] = []
    for loop in range(loops - 1, 0, -1):
        extent = Var(f"{bundle}{loop}")
        inner.append(index % extent * Var(f"{name}{loop}"))
        index = index // extent
    return sum(inner, index * Var(name))


def place_scalars(kernel: ContractionKernel, names: Sequence[str]) -> tuple[str, ...]:
    """The launch values that `offset_of` reads for operands along bundles, such as "left_i"."""
    found = dict.fromkeys(f"{operand}_first" for operand in ("left", "right", "out"))
    found |= dict.fromkeys((*names, *inner_scalars(kernel.variant.strided, names)))
    return tuple(found)


def inner_scalars(strided: str, names: Sequence[str]) -> tuple[str, ...]:
    """The extents and strides of inner loops that `divided` reads beside `names`."""
    found: dict[str, None] = {}
    for name in names:
        bundle = name[-1]
        for loop in range(1, strided.count(bundle)):
            found |= {f"{bundle}{loop}": None, f"{name}{loop}": None}
    return tuple(found)


def base_bindings(kernel: ContractionKernel) -> list[tuple[Var, Expr]]:
    """Where the operands begin at iteration g of the batch: `left_base` and its kin."""
    return [
        (Var(f"{x}_base"), Var(f"{x}_first") + offset_of(kernel, x, "g", Var("g")))
        for x in ("left", "right", "out")
    ]


@dataclass(frozen=True, slots=True)
class InMemory:
    """Operands as memory: a stride for each bundle that has one, offset tables for the others."""

    kernel: ContractionKernel
    clips: tuple[Clip, ...] = ()
    step_clips: tuple[StepClip, ...] = ()

    def buffer(self, operand: str) -> str:
        return operand

    def base(self, operand: str) -> Place:
        return Place((Var(f"{operand}_base"),))

    def at(self, operand: str, bundle: str, index: Expr) -> Place:
        return Place((offset_of(self.kernel, operand, bundle, index),))

    def onward(self, operand: str, steps: Expr) -> Place:
        return Place((steps * Var(f"{operand}_step"),))

    def value(self, operand: str, place: Place, dtype: DType) -> Expr:
        return Load(operand, place.index, dtype)

    def visit(self, operand: str) -> Expr:
        return Var(f"{operand}_v")


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
