"""Where the elements of arrays and views lie, and lifted expressions at one index of their box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import gcd

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.procedure import ArrayView, ProcedureArray, ViewAxis, position_of
from loopwright.ir.visit import linear_terms, loads, names, rewrite
from loopwright.lazy_dataclass import dataclass

__all__ = ["ElementMap", "at_index", "may_clash"]

Index = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ElementMap:
    """The elements of an array or a view, as elements of memory."""

    base: str
    dtype: DType
    start: Index  # one per dimension of the base
    axes: tuple[ViewAxis, ...]
    most: Index  # upper bounds of the extents, known at entry
    order: tuple[int, ...]  # dimensions of the base, from the slowest to the fastest

    @classmethod
    def of_array(
        cls, array: ProcedureArray, most: Index, order: Sequence[int] | None = None
    ) -> ElementMap:
        """An array whose extents are at most `most`; `order` where it is the caller's memory."""
        axes = [ViewAxis(extent, ((d, Const(1)),)) for d, extent in enumerate(array.shape)]
        usual = array.order or tuple(range(array.rank))
        start = (Const(0),) * array.rank
        order = usual if order is None else tuple(order)
        return cls(array.name, array.dtype, start, tuple(axes), most, order)

    def view(self, view: ArrayView) -> ElementMap:
        """A view of this array."""
        most = []
        for axis in view.axes:
            bound = axis.extent
            if axis.steps:
                bound = self.most[axis.steps[0][0]]  # steps are not zero
            most.append(bound)
        return ElementMap(self.base, self.dtype, view.start, view.axes, tuple(most), self.order)

    @property
    def shape(self) -> Index:
        return tuple(axis.extent for axis in self.axes)

    def element(self, index: Sequence[Expr]) -> Index:
        """The subscripts in memory of an element."""
        found = list(self.start)
        for axis, at in zip(self.axes, index, strict=True):
            for dimension, step in axis.steps:
                found[dimension] = found[dimension] + at * step
        return tuple(found)

    def load(self, index: Sequence[Expr]) -> Load:
        return Load(self.base, self.element(index), self.dtype)

    def by_memory(self) -> tuple[int, ...]:
        """The axes from the slowest to the fastest, as far as dimensions tell."""

        def rank(axis: int) -> int:
            dimensions = (self.order.index(d) for d, _ in self.axes[axis].steps)
            return max(dimensions, default=-1)

        return tuple(sorted(range(len(self.axes)), key=rank))


def at_index(expr: Expr, index: Sequence[Expr], maps: Mapping[str, ElementMap]) -> Expr:
    """A lifted expression at one index of its box; operands broadcast by trailing axes."""

    def change(node: Expr) -> Expr:
        match node:
            case Load(array=name, index=()):
                found = maps[name]
                own = index[len(index) - len(found.axes) :]
                pairs = zip(found.axes, own, strict=True)
                return found.load([Const(0) if x.extent == Const(1) else at for x, at in pairs])
            case Load(array=name, index=at):
                return maps[name].load(at)
            case Var(name=name):
                last = position_of(name)
                return node if last is None else index[len(index) - last]
        return node

    return rewrite(expr, change)


def may_clash(value: Expr, target: ElementMap, index: Sequence[Expr]) -> bool:
    """Whether `value` at one index may read what is written at another one; `index` is of loops."""
    box = set().union(*map(names, index))
    written = target.element(index)
    read = [load.index for load in loads(value) if load.array == target.base]
    return any(x != written and not _are_disjoint(x, written, box) for x in read)


def _are_disjoint(one: Index, other: Index, box: set[str]) -> bool:
    """Whether two accesses meet at no two indices of the box."""
    return any(_never_equal(x, y, box) for x, y in zip(one, other, strict=True))


def _never_equal(x: Expr, y: Expr, box: set[str]) -> bool:
    """Whether no two indices give two subscripts the same value.

    Each depends on the variables of the box at an index of its own. What else they hold must be
    the same in both; then they differ by a constant and multiples of the greatest common divisor
    of the steps.
    """
    if loads(x) or loads(y):
        return False
    divisor = 0
    rest: Counter[Expr | None] = Counter()
    for sign, subscript in ((1, x), (-1, y)):
        for term, factor in linear_terms(subscript, sign).items():
            if term is None or not names(term) & box:
                rest[term] += factor
            elif isinstance(term, Var):
                divisor = gcd(divisor, factor)
            else:
                return False
    difference = rest.pop(None, 0)
    if any(rest.values()):
        return False
    return difference % divisor != 0 if divisor else difference != 0
