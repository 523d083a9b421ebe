"""How statements walk through memory: strides, and how much of an array some loops touch.

Numbers are estimates for decisions, never for proofs. A subscript is a sum of c_x * x over the
iterators x; of an array seen by loops with t_x iterations each, about

    product over the subscripts of  1 + sum of |c_x| * (t_x - 1)

elements are touched, an iterator counted in the first subscript that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from loopwright.ir.expr import Binary, Cast, Const, Expr, Unary, Var
from loopwright.ir.islkit import context
from loopwright.ir.program import Access, Program, Statement

__all__ = ["Reference", "average_trips", "coefficients", "references"]

_FAR = 1 << 20  # elements between neighbours in a dimension that is not the last


@dataclass(frozen=True, slots=True)
class Reference:
    """One way in which a statement reads or writes an array."""

    array: str
    element: int  # bytes
    subscripts: tuple[tuple[tuple[str, int], ...], ...]  # coefficients of iterators, by dimension
    reads: int  # different elements that one instance reads so
    is_written: bool

    def stride(self, iterator: str) -> int:
        """Elements between two neighbouring iterations; a very large number across rows."""
        total = 0
        for dimension, subscript in enumerate(reversed(self.subscripts)):
            total += dict(subscript).get(iterator, 0) * (_FAR if dimension else 1)
        return total

    def elements(self, trips: Mapping[str, float]) -> tuple[float, float]:
        """Rows touched, and elements of each, by loops over the iterators in `trips`."""
        rows = elements = 1.0
        seen: set[str] = set()
        for subscript in self.subscripts:
            rows *= elements
            # A diagonal is no square: an iterator counts where it first occurs.
            elements = _count([(x, c) for x, c in subscript if x not in seen], trips)
            seen.update(x for x, _ in subscript)
        return rows, elements

    def lines(self, trips: Mapping[str, float], line: int) -> float:
        """Cache lines of `line` bytes touched by loops over the iterators in `trips`."""
        rows, elements = self.elements(trips)
        return rows * max(1.0, min(elements, elements * self.element / line * self._step()))

    def _step(self) -> int:
        """The least stride along the last dimension: 1 where neighbours are visited."""
        factors = [abs(c) for _, c in self.subscripts[-1]] if self.subscripts else []
        return min(factors, default=1)


def _count(subscript: Sequence[tuple[str, int]], trips: Mapping[str, float]) -> float:
    return 1.0 + sum(abs(c) * max(0.0, trips.get(x, 1.0) - 1.0) for x, c in subscript)


def references(statement: Statement) -> tuple[Reference, ...]:
    """The different ways in which a statement walks through arrays; constants are left out."""
    found: dict[tuple[object, ...], Reference] = {}
    accesses: list[tuple[Access, bool]] = [(access, False) for access in statement.reads]
    for access, is_write in [*accesses, (statement.write, True)]:
        subscripts = tuple(coefficients(entry) for entry in access.index)
        key = access.array, subscripts
        reads = found[key].reads if key in found else 0
        count = reads + (not is_write)
        found[key] = Reference(access.array, access.dtype.bytes, subscripts, count, is_write)
    return tuple(found.values())


def coefficients(expr: Expr) -> tuple[tuple[str, int], ...]:
    """The coefficient of every variable in an affine expression, sorted by name.

    Of divisions, remainders and extrema the operands count: an estimate of how far they reach.
    """
    total: dict[str, int] = {}

    def add(node: Expr, factor: int) -> None:
        match node:
            case Var(name=name):
                total[name] = total.get(name, 0) + factor
            case Unary(op="neg", x=x):
                add(x, -factor)
            case Cast(x=x):
                add(x, factor)
            case Binary(op="mul", x=x, y=Const(value=int(value))):
                add(x, factor * value)
            case Binary(op="mul", x=Const(value=int(value)), y=y):
                add(y, factor * value)
            case Binary(op="sub", x=x, y=y):
                add(x, factor)
                add(y, -factor)
            case Binary(op="floordiv" | "mod", x=x):
                add(x, factor)
            case Binary(x=x, y=y):
                add(x, factor)
                add(y, factor)

    add(expr, 1)
    return tuple(sorted((name, c) for name, c in total.items() if c))


def average_trips(program: Program, sizes: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Iterations of every loop of every statement when the loops around it stand in their middle.

    Statement -> iterator -> iterations, for parameters of the given sizes. The product over a
    statement is near its number of instances; of a triangle n * n/2.
    """
    return {s.name: _trips(s, sizes) for s in program.statements}


def _trips(statement: Statement, sizes: Mapping[str, int]) -> dict[str, float]:
    domain = statement.domain
    for at in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, at)
        value = isl.Val.int_from_si(context(), sizes.get(name or "", 1))
        domain = domain.fix_val(isl.dim_type.param, at, value)
    trips: dict[str, float] = {}
    for at, iterator in enumerate(statement.iterators):
        low, high = domain.dim_min_val(at), domain.dim_max_val(at)
        if domain.is_empty() or not (low.is_int() and high.is_int()):
            trips[iterator] = 1.0
            continue
        first, last = low.to_python(), high.to_python()
        trips[iterator] = float(last - first + 1)
        # The middle itself may be no point of a strided loop: take the nearest one above.
        middle = isl.Val.int_from_si(context(), (first + last) // 2)
        above = domain.lower_bound_val(isl.dim_type.set, at, middle)
        if not above.is_empty():
            domain = domain.fix_val(isl.dim_type.set, at, above.dim_min_val(at))
    return trips
