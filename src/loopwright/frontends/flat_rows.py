"""Subscripts of flat arrays as rows and places in them: delinearisation.

    a[i*m + j]            is  a[i][j]     of rows of m elements,     where 0 <= j < m
    a[(i*m + j)*k + l]    is  a[i][j][l]  of m rows of k elements,   where 0 <= j < m, 0 <= l < k

A subscript is a polynomial of loop variables and sizes. Division by the last size leaves the place
in a row; its quotient is the subscript of all other dimensions. Quotient and remainder are no more
than an equation, place = e1*m + e2: they are the subscripts of a row and of an element in it only
where 0 <= e2 < m is proved. Then two places are the same if and only if both subscripts are, which
is what an array of two dimensions says.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from loopwright.frontends.affine_check import why_not_affine, why_not_piecewise
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Unary
from loopwright.ir.visit import names, walk

__all__ = ["Prove", "Sizes", "exact_rows", "is_product", "row_sizes", "size_factors", "split_rows"]

Prove: TypeAlias = Callable[[Expr], bool]  # whether an affine condition always holds here
Sizes: TypeAlias = tuple[Expr, ...]  # extents of all dimensions but the first

_Product: TypeAlias = tuple[Expr, ...]  # factors in a fixed order
_Polynomial: TypeAlias = Mapping[_Product, int]

_MOST_SIZES = 3  # arrays of four dimensions
_MOST_FACTORS = 4  # sizes that are tried in one subscript
_MOST_TERMS = 64  # of one polynomial
_SHIFTS = (0, 1, -1)  # `i*m + m - 1` is (i + 1)*m - 1 after division


def row_sizes(places: Sequence[tuple[Expr, Prove]], factors: Sequence[Expr]) -> Sizes | None:
    """The fewest extents by which all places of an array are rows by proof; None: there are none.

    Each place comes with the proofs that hold where it is accessed.
    """
    found = factors[:_MOST_FACTORS]
    for count in range(1, _MOST_SIZES + 1):
        for sizes in product(found, repeat=count):
            if all(split_rows(place, sizes, prove) is not None for place, prove in places):
                return sizes
    return None


def size_factors(place: Expr, fixed: Container[str]) -> Iterator[Expr]:
    """What may be an extent in `place`: factors that are numbers, or sums of `fixed` names."""
    for part in walk(place):
        match part:
            case Binary(op="mul", x=x, y=y) if part.dtype == INT64:
                for factor in (y, x):
                    match factor:
                        case Const(value=int() as value) if value > 1:
                            yield factor
                        case Const():
                            pass
                        case _ if why_not_affine(factor) is None and all(
                            name in fixed for name in names(factor)
                        ):
                            yield factor


def split_rows(place: Expr, sizes: Sizes, prove: Prove) -> tuple[Expr, ...] | None:
    """The subscripts of the element at `place` of rows of these extents; None without a proof."""
    left = _polynomial(place)
    inner: list[Expr] = []
    for size in reversed(sizes):
        divisor = _polynomial(size)
        if left is None or divisor is None:
            return None
        quotient, rest = _divided(left, divisor)
        if _why_not(rest):
            return None
        for shift in _SHIFTS:
            entry = _summed(_added(rest, divisor, shift))
            if prove(entry >= 0) and prove(entry < size):
                inner.insert(0, entry)
                left = _added(quotient, {(): 1}, -shift)
                break
        else:
            return None
    if left is None or _why_not(left):
        return None
    return (_summed(left), *inner)


def exact_rows(length: Expr, sizes: Sizes) -> Expr | None:
    """The number of rows in so many elements; None where it is no affine function of sizes."""
    left = _polynomial(length)
    for size in reversed(sizes):
        divisor = _polynomial(size)
        if left is None or divisor is None:
            return None
        left, rest = _divided(left, divisor)
        if rest:
            return None
    return None if left is None or _why_not(left) else _summed(left)


def is_product(place: Expr) -> bool:
    """Whether an index is a polynomial of piecewise affine functions."""
    terms = _polynomial(place)
    return terms is not None and not any(
        map(why_not_piecewise, {x for part in terms for x in part})
    )


# -- polynomials ----------------------------------------------------------------------------------


def _polynomial(expr: Expr) -> _Polynomial | None:
    """`expr` as a sum of products; parts such as `i // 2` are factors. None: of too many terms."""
    match expr:
        case Const(value=int() as value):
            return {(): value} if value else {}
        case Unary(op="neg", x=x):
            return _scaled(_polynomial(x), -1)
        case Binary(op="add" | "sub" as op, x=x, y=y):
            left, right = _polynomial(x), _polynomial(y)
            if left is None or right is None:
                return None
            return _few(_added(left, right, 1 if op == "add" else -1))
        case Binary(op="mul", x=x, y=y):
            left, right = _polynomial(x), _polynomial(y)
            if left is None or right is None or len(left) * len(right) > _MOST_TERMS:
                return None
            return _multiplied(left, right)
        case _:
            return {(expr,): 1}


def _few(terms: _Polynomial) -> _Polynomial | None:
    return terms if len(terms) <= _MOST_TERMS else None


def _scaled(terms: _Polynomial | None, factor: int) -> _Polynomial | None:
    return None if terms is None else {part: factor * count for part, count in terms.items()}


def _added(x: _Polynomial, y: _Polynomial, factor: int) -> _Polynomial:
    """x + factor*y."""
    total = dict(x)
    for part, count in y.items():
        total[part] = total.get(part, 0) + factor * count
    return {part: count for part, count in total.items() if count}


def _multiplied(x: _Polynomial, y: _Polynomial) -> _Polynomial:
    total: dict[_Product, int] = {}
    for (one, a), (other, b) in product(x.items(), y.items()):
        part = tuple(sorted((*one, *other), key=repr))
        total[part] = total.get(part, 0) + a * b
    return {part: count for part, count in total.items() if count}


def _divided(x: _Polynomial, divisor: _Polynomial) -> tuple[_Polynomial, _Polynomial]:
    """(q, r) with x = q*divisor + r: r is left with what its leading term does not divide.

    Each round takes a product with that term's variable away and brings others with fewer of it,
    for the divisor is affine.
    """
    lead, count = min(
        divisor.items(), key=lambda term: (not term[0], abs(term[1])), default=((), 0)
    )
    quotient: _Polynomial = {}
    if not count:
        return quotient, x
    while True:
        found = next((p for p, k in x.items() if k % count == 0 and _holds(p, lead)), None)
        if found is None:
            return quotient, x
        step = {_without(found, lead): x[found] // count}
        quotient = _added(quotient, step, 1)
        x = _added(x, _multiplied(step, divisor), -1)


def _holds(part: _Product, lead: _Product) -> bool:
    return all(factor in part for factor in lead)


def _without(part: _Product, lead: _Product) -> _Product:
    left = list(part)
    for factor in lead:
        left.remove(factor)
    return tuple(left)


def _why_not(terms: _Polynomial) -> bool:
    """Whether a polynomial is no piecewise affine function."""
    return any(len(part) > 1 or any(map(why_not_piecewise, part)) for part in terms)


def _summed(terms: _Polynomial) -> Expr:
    """The expression of an affine sum, positive terms first, the constant last."""
    total: Expr = Const(0)
    for part, count in sorted(terms.items(), key=lambda term: (not term[0], term[1] < 0)):
        if not part:
            total = total + count if count > 0 else total - -count
        else:
            total = total + part[0] * count if count > 0 else total - part[0] * -count
    return total
