"""EinsumCall: one call of einsum, its arguments checked and converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwright import semirings
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import Var
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array, element_strides

if TYPE_CHECKING:
    from loopwright.transform.plan import Plan

__all__ = ["EinsumCall", "Scaling", "extents_of", "is_one"]


@dataclass(frozen=True, slots=True)
class Scaling:
    """out = beta * out plus alpha * products; kept apart from the operands' algebra."""

    alpha: Any = 1
    beta: Any = 0

    @property
    def initial(self) -> Initial:
        if isinstance(self.beta, int | float | complex) and self.beta in (0, 1):
            return Initial.OUT if self.beta else Initial.ZERO
        return Initial.SCALED


@dataclass(frozen=True, slots=True, eq=False)
class EinsumCall:
    """`out = beta * out plus alpha * products` of the arrays, over a semiring."""

    names: EinsumSubscripts
    arrays: tuple[Array, ...]
    out: Array  # has the result's dtype
    ring: semirings.Semiring
    accumulator: DType
    scaling: Scaling
    threads: int
    machine: Machine
    plan: Plan | None = None  # of the user; None: what the model decides

    @property
    def algebra(self) -> Algebra:
        """What is computed, of one or two operands."""
        times = self.ring.times_on(self.accumulator)
        is_unary = len(self.arrays) == 1
        return Algebra(
            _operator(self.ring.plus, self.ring, self.accumulator, plus=True),
            "first" if is_unary else _operator(times, self.ring, self.accumulator, plus=False),
            self.ring.zero(self.accumulator),
            dtype_of(self.arrays[0].dtype),
            dtype_of(self.arrays[-1].dtype),
            dtype_of(self.out.dtype),
            self.accumulator,
            self.scaling.initial,
            not is_one(self.scaling.alpha),
        )

    @property
    def shape(self) -> ContractionShape:
        """The loops of the bundles, of one or two operands.

        A repeated letter walks along a diagonal, size 1 stands still.
        """
        names, arrays = self.names, self.arrays
        extents = extents_of(names, arrays)
        left, right = names.operands[0], names.operands[-1] if len(arrays) > 1 else ""
        terms = (left, arrays[0]), (right, arrays[-1]), (names.out, self.out)
        strides = [_letter_strides(term, array, extents) for term, array in terms]
        bundles: dict[str, list[Dim]] = {"batch": [], "i": [], "j": [], "p": []}
        for c, extent in extents.items():
            dim = Dim(extent, *(s.get(c, 0) for s in strides))
            if c not in names.out:
                bundle = "p"
            elif c in left and c in right:
                bundle = "batch"
            else:
                bundle = "i" if c in left else "j"
            bundles[bundle].append(dim)
        batch, i, j, p = (tuple(dims) for dims in bundles.values())
        return ContractionShape(batch, i, j, p)


def _operator(operator: Any, ring: semirings.Semiring, dtype: DType, *, plus: bool) -> Any:
    """The name of a known operator; the traced expression of a user's function."""
    if isinstance(operator, str):
        return operator
    make = ring.plus_expr if plus else ring.times_expr
    return make(dtype, Var("x", dtype), Var("y", dtype))


def is_one(value: Any) -> bool:
    return isinstance(value, int | float | complex) and value == 1


def _letter_strides(term: str, array: Array, extents: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for c, stride, extent in zip(term, element_strides(array), array.shape, strict=False):
        moves = stride if extent == extents[c] else 0
        found[c] = found.get(c, 0) + moves
    return found


def extents_of(names: EinsumSubscripts, arrays: tuple[Array, ...]) -> dict[str, int]:
    """Size of every letter; a size of 1 broadcasts."""
    found: dict[str, int] = {}
    where: dict[str, int] = {}
    for number, (term, array) in enumerate(zip(names.operands, arrays, strict=True), 1):
        here = dict(zip(term, array.shape, strict=True))
        for c, extent in zip(term, array.shape, strict=True):
            known = found.get(c, 1)
            if here[c] != extent:
                raise UsageError(
                    f"einsum '{names.text}': index '{c}' has two sizes",
                    found=f"{extent} and {here[c]} in operand {number}",
                    hint="a diagonal of equal sizes",
                )
            if extent != known and extent != 1 and known != 1:
                raise UsageError(
                    f"einsum '{names.text}': index '{c}' has two sizes",
                    found=f"{known} in operand {where[c]}, {extent} in operand {number}",
                    hint="operands that agree, or a size of 1",
                )
            if c not in found or extent != 1:
                found[c], where[c] = extent, number
    return found
