"""A contraction as a product that a kernel computes alone, and the loops before and after it.

    left_value[b, i, p] = prologue(A[...])             before
    sums[b, i, j] = SUM_p left_value times B           the bare contraction
    out[b, i, j] = epilogue(sums[b, i, j])             after

What the kernel's algebra cannot express goes through temporaries: an operand with a prologue is
computed into one, an epilogue is applied to the finished sums. Both cost a pass over data that the
product reads or writes many times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopwright.ir.contraction import (
    ACCUMULATOR,
    Contraction,
    LoopRange,
    Operand,
    is_same_number,
)
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Cast, Const, Expr, Var, cast
from loopwright.ir.kernel_variant import Algebra
from loopwright.ir.program import Access, Array, Role
from loopwright.ir.visit import substitute, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import linear

__all__ = ["ContractionParts", "Fill", "split_contraction"]


@dataclass(frozen=True, slots=True)
class Fill:
    """`target = value` over loops, before or after the product."""

    loops: tuple[LoopRange, ...]
    target: Access
    value: Expr


@dataclass(frozen=True, slots=True)
class ContractionParts:
    """What runs for a contraction, in order."""

    before: tuple[Fill, ...]
    bare: Contraction  # computed by a kernel alone
    after: tuple[Fill, ...]
    temporaries: tuple[Array, ...]

    @property
    def algebra(self) -> Algebra:
        """What the kernel computes."""
        algebra = self.bare.algebra
        assert algebra is not None, "what a kernel cannot compute has loops of its own"
        return algebra

    @property
    def empty(self) -> Fill:
        """The sums of nothing."""
        found = self.bare
        zero = Const(found.zero, found.dtype)
        return Fill((*found.batch, *found.i, *found.j), found.out, zero)


def split_contraction(
    found: Contraction, arrays: Sequence[Array], params: Sequence[str]
) -> ContractionParts:
    """The parts of a contraction over `arrays` of sizes given by `params`."""
    if found.is_declared:
        return ContractionParts((), found, (), ())
    splitter = _Splitter(found, {*(a.name for a in arrays), *params})
    bare = splitter.bare()
    return ContractionParts(
        tuple(splitter.before), bare, tuple(splitter.after), tuple(splitter.temporaries)
    )


class _Splitter:
    """Takes prologues, initial values and epilogues out of one contraction."""

    def __init__(self, found: Contraction, taken: set[str]) -> None:
        self._found = found
        self._loops = {loop.name for loop in (*found.batch, *found.i, *found.j, *found.p)}
        self._taken = taken | self._loops
        self.before: list[Fill] = []
        self.after: list[Fill] = []
        self.temporaries: list[Array] = []

    def bare(self) -> Contraction:
        """What is left, over temporaries where need be."""
        c = self._found
        left = self._operand(c.left, (*c.batch, *c.i, *c.p), "left_value")
        right = None
        if c.right is not None:
            right = self._operand(c.right, (*c.batch, *c.p, *c.j), "right_value")
        out = self._result()
        initial = self._initial(out)
        final = Var(ACCUMULATOR, c.dtype)
        return replace(c, left=left, right=right, out=out, initial=initial, final=final)

    def _operand(self, operand: Operand, loops: tuple[LoopRange, ...], name: str) -> Operand:
        """Where the kernel reads an operand: in place, or where its prologue put it."""
        value = operand.value
        if isinstance(value, Cast) and value.dtype == self._found.dtype:
            value = value.x  # the kernel converts elements to the type of its sums
        if value == operand.access.load() and self._has_strides(operand.access):
            return Operand(operand.access, value)
        used = {x.name for x in walk(operand.value) if isinstance(x, Var)}
        needed = tuple(loop for loop in loops if loop.name in used)
        place = self._temporary(name, needed, operand.value.dtype)
        self.before.append(Fill(needed, place, operand.value))
        return Operand(place, place.load())

    def _result(self) -> Access:
        """Where the kernel leaves its sums: in place, or where the epilogue takes them from."""
        c = self._found
        outer = (*c.batch, *c.i, *c.j)
        is_plain = c.final == Var(ACCUMULATOR, c.dtype) and c.out.dtype == c.dtype
        if is_plain and self._has_strides(c.out):
            return c.out
        sums = self._temporary("sums", outer, c.dtype)
        value = substitute(c.final, {ACCUMULATOR: sums.load()})
        self.after.append(Fill(outer, c.out, cast(value, c.out.dtype)))
        return sums

    def _has_strides(self, access: Access) -> bool:
        """Whether the element moves by a fixed step with each loop: not so in `A[i // 2]`."""
        atoms = (atom for entry in access.index for atom, _ in linear(entry).terms)
        return not any(
            isinstance(x, Var) and x.name in self._loops
            for atom in atoms
            if not isinstance(atom, Var)
            for x in walk(atom)
        )

    def _initial(self, out: Access) -> Expr:
        """What the sums start from; a value other than zero is put in their place first."""
        c = self._found
        zero = Const(c.zero, c.dtype)
        match c.initial:
            case Const(value=value, dtype=dtype) if dtype == c.dtype:
                if is_same_number(value, c.zero):
                    return zero
        if c.initial != out.load():
            outer = (*c.batch, *c.i, *c.j)
            self.before.append(Fill(outer, out, cast(c.initial, out.dtype)))
        return out.load()

    def _temporary(self, wish: str, loops: tuple[LoopRange, ...], dtype: DType) -> Access:
        name = wish
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        shape = tuple((loop.stop - loop.start).max(0) for loop in loops)
        index = tuple(Var(loop.name) - loop.start for loop in loops)
        self.temporaries.append(Array(name, dtype, shape, Role.LOCAL))
        return Access(name, index, dtype)
