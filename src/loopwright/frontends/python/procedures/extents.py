"""Integer expressions of extents and subscripts: normal forms, ranges of variables, proofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select, Unary, Var
from loopwright.ir.visit import linear_terms, names, substitute

__all__ = ["Ranges", "always", "clamped", "difference", "nonnegative_parts", "normal"]

_MOST_STEPS = 24  # variables that are replaced by an end of their range


def normal(expr: Expr) -> Expr:
    """The same integer as a sum of different terms, a constant last."""
    if isinstance(expr, Const | Var):
        return expr
    terms = linear_terms(expr, 1)
    total: Expr | None = None
    for term, factor in terms.items():
        if term is None or not factor:
            continue
        part = term * abs(factor)
        if total is None:
            total = part if factor > 0 else Const(0) - part
        else:
            total = total + part if factor > 0 else total - part
    last = terms[None]
    if total is None:
        return Const(last)
    return total + last if last >= 0 else total - -last


def difference(x: Expr, y: Expr) -> Expr:
    """`x - y` in normal form: a constant where that is known."""
    return normal(Binary("sub", x, y))


class Ranges:
    """The ends that integer variables have, and conditions that hold where reading is."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[Expr | None, Expr | None]] = {}  # inclusive
        self.sizes: set[str] = set()  # variables known at entry that are at least zero
        self.facts: list[Expr] = []  # integers that are at least zero here

    def set(self, name: str, least: Expr | None, most: Expr | None) -> None:
        self._ends[name] = least, most

    def least(self, expr: Expr) -> Expr:
        """A lower bound of an expression, with variables replaced by ends of their ranges."""
        return self._end(expr, is_most=False)

    def most(self, expr: Expr) -> Expr:
        """An upper bound of an expression."""
        return self._end(expr, is_most=True)

    def _end(self, expr: Expr, *, is_most: bool) -> Expr:
        """Replace variables, those known last first, by the end that makes the sum extreme."""
        order = [name for name in self._ends if name not in self.sizes]
        for _ in range(_MOST_STEPS):
            terms = linear_terms(expr, 1)
            inside = set().union(*(names(t) for t in terms if t is not None and _is_deep(t)))
            for name in reversed(order):
                factor = terms.get(Var(name), 0)
                if not factor or name in inside:
                    continue
                end = self._ends[name][(factor > 0) is is_most]
                if end is None:
                    continue
                expr = normal(substitute(normal(expr), {name: end}))
                break
            else:
                return expr
        return expr

    def is_positive(self, expr: Expr) -> bool:
        """Whether an integer is proven to be at least zero."""
        return any(_is_nonnegative(found) for found in self._lower(expr))

    def _lower(self, expr: Expr) -> Iterator[Expr]:
        expr = normal(expr)
        yield expr
        yield self._sizes(self.least(expr))
        for fact in reversed(self.facts):
            rest = difference(expr, fact)
            yield rest
            yield self._sizes(self.least(rest))

    def _sizes(self, expr: Expr) -> Expr:
        """Sizes are at least zero: drop those that only make a sum greater."""
        terms = linear_terms(expr, 1)
        kept: Counter[Expr | None] = Counter()
        for term, factor in terms.items():
            is_size = isinstance(term, Var) and term.name in self.sizes
            if not (is_size and factor > 0):
                kept[term] += factor
        if any(factor for term, factor in kept.items() if term is not None):
            return expr
        return Const(kept[None])


def _is_deep(term: Expr) -> bool:
    return not isinstance(term, Var | Const)


def _is_nonnegative(expr: Expr) -> bool:
    match expr:
        case Const(value=int(value)):
            return value >= 0
    return False


def nonnegative_parts(cond: Expr) -> Iterator[Expr]:
    """Integers that are at least zero where a condition holds."""
    match cond:
        case Binary(op="and", x=x, y=y):
            yield from nonnegative_parts(x)
            yield from nonnegative_parts(y)
        case Binary(op="lt", x=x, y=y) if x.dtype.name == "int64":
            yield difference(y, x) - 1
        case Binary(op="le", x=x, y=y) if x.dtype.name == "int64":
            yield difference(y, x)
        case Binary(op="gt", x=x, y=y) if x.dtype.name == "int64":
            yield difference(x, y) - 1
        case Binary(op="ge", x=x, y=y) if x.dtype.name == "int64":
            yield difference(x, y)
        case Binary(op="eq", x=x, y=y) if x.dtype.name == "int64":
            yield difference(x, y)
            yield difference(y, x)
        case Unary(op="not", x=Binary(op="lt" | "le" | "gt" | "ge" as op, x=x, y=y)):
            turned = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[op]
            yield from nonnegative_parts(Binary(turned, x, y))


def clamped(bound: Expr, extent: Expr, low: Expr, reach: Expr) -> Expr:
    """NumPy's end of a slice: negative bounds count from the end, then clamp to low..extent+reach.

    low, reach: 0, 0 of rising slices; -1, -1 of falling ones.
    """
    from_end = Select(bound < 0, bound + extent, bound)
    return from_end.max(low).min(extent + reach)


def always(value: bool) -> Const:
    """A constant condition."""
    return Const(value, BOOL)
