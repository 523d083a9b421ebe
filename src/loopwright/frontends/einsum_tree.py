"""An einsum as a SourceTree, which is compiled like any other program.

for every index of out:          out[...] = zero
for every index:                 out[...] = out[...] plus left[...] times right[...] times ...

`contraction_tree` is the program of one or two operands as kernels compute it: with scalars alpha
and beta, sums of another type than out, and the operators of a user's semiring as declared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

from loopwright.diagnostics import Span
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    Local,
    Node,
    Param,
    ScalarParam,
    SourceTree,
)
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.program import Access, DeclaredReduction

__all__ = ["contraction_tree", "einsum_tree"]

Combine: TypeAlias = Callable[[Expr, Expr], Expr]


def einsum_tree(
    names: EinsumSubscripts,
    operands: tuple[DType, ...],
    sums: DType,
    plus: Combine,
    times: Combine,
    zero: bool | int | float | complex | None,
) -> SourceTree:
    """The loops that sum products of the operands into `out`; without `zero`, onto its elements.

    Factors are combined from left to right, in the type of the sums.
    """
    span = Span("<einsum>", 1, 1, 1, len(names.text) + 1, names.text)
    letters = dict.fromkeys("".join(names.operands) + names.out)
    sizes = {c: f"n_{c}" for c in letters}
    terms = (*names.operands, names.out)
    params = tuple(
        ArrayParam(name, dtype, tuple(Var(sizes[c]) for c in term), span)
        for name, dtype, term in zip(_argument_names(names), (*operands, sums), terms, strict=True)
    )
    accesses = [
        Access(param.name, tuple(Var(c) for c in term), param.dtype)
        for param, term in zip(params, terms, strict=True)
    ]
    out = accesses.pop()
    product = reduce(times, [cast(access.load(), sums) for access in accesses])
    body: list[Node] = []
    if zero is not None:
        start = Assign(_renamed(out, _first), Const(zero, sums), span)
        body.append(_nest(start, [_first(c) for c in names.out], sizes, span))
    update = Assign(out, plus(out.load(), product), span)
    body.append(_nest(update, list(letters), sizes, span))
    return SourceTree("einsum", params, tuple(sizes.values()), (), tuple(body), None, (), span)


def contraction_tree(names: EinsumSubscripts, algebra: Algebra) -> SourceTree:
    """The loops of one or two operands in an algebra, their reduction declared.

        sums[...] = beta * out[...]
        sums[...] = sums[...] plus alpha * (left[...] times right[...])
        out[...] = sums[...]

    where out serves for the sums if it has their type.
    """
    span = Span("<einsum>", 1, 1, 1, len(names.text) + 1, names.text)
    letters = dict.fromkeys("".join(names.operands) + names.out)
    sizes = {c: f"n_{c}" for c in letters}
    dtype = algebra.accumulator
    terms = (*names.operands, names.out)
    dtypes = (*(algebra.left, algebra.right)[: len(names.operands)], algebra.out)
    arrays = [
        ArrayParam(name, of, tuple(Var(sizes[c]) for c in term), span)
        for name, of, term in zip(_argument_names(names), dtypes, terms, strict=True)
    ]
    *factors, out = (
        Access(param.name, tuple(Var(c) for c in term), param.dtype)
        for param, term in zip(arrays, terms, strict=True)
    )
    is_apart = algebra.out != dtype
    sums = Access("sums", out.index, dtype) if is_apart else out
    alpha = Load("alpha", (), dtype) if algebra.scaled else None
    reduction = DeclaredReduction(
        algebra.plus,
        algebra.times,
        algebra.zero,
        tuple(cast(factor.load(), dtype) for factor in factors),
        alpha,
    )
    start, stop = _renamed(sums, _first), _renamed(out, _last)
    old = cast(_renamed(out, _first).load(), dtype)
    first: Expr = {
        Initial.ZERO: Const(algebra.zero, dtype),
        Initial.OUT: old,
        Initial.SCALED: Binary("mul", Load("beta", (), dtype), old),
    }[algebra.initial]
    body: list[Node] = []
    if first != start.load():
        body.append(_nest(Assign(start, first, span), [_first(c) for c in names.out], sizes, span))
    update = Assign(sums, reduction.value(sums.load()), span, reduction)
    body.append(_nest(update, list(letters), sizes, span))
    if is_apart:
        total = Cast(_renamed(sums, _last).load(), algebra.out)
        body.append(_nest(Assign(stop, total, span), [_last(c) for c in names.out], sizes, span))
    params: list[Param] = list(arrays)
    if alpha is not None:
        params.append(ScalarParam("alpha", dtype, span))
    if algebra.initial is Initial.SCALED:
        params.append(ScalarParam("beta", dtype, span))
    extents = tuple(Var(sizes[c]) for c in names.out)
    own = (Local("sums", dtype, extents, span),) if is_apart else ()
    return SourceTree(
        "einsum", tuple(params), tuple(sizes.values()), own, tuple(body), None, (), span
    )


def _argument_names(names: EinsumSubscripts) -> tuple[str, ...]:
    count = len(names.operands)
    operands = ("left", "right") if count <= 2 else tuple(f"operand{k}" for k in range(count))
    return (*operands[:count], "out")


def _first(letter: str) -> str:
    """The loop variable of a letter in the nest that zeroes `out`: names are unique in a tree."""
    return f"{letter}_0"


def _last(letter: str) -> str:
    """The same in the nest that converts the sums."""
    return f"{letter}_1"


def _renamed(out: Access, name: Callable[[str], str]) -> Access:
    return Access(out.array, tuple(Var(name(x.name)) for x in out.index), out.dtype)  # type: ignore[union-attr]


def _nest(body: Node, loops: list[str], sizes: dict[str, str], span: Span) -> Node:
    for loop in reversed(loops):
        body = ForLoop(loop, Const(0), Var(sizes[loop[0]]), 1, (body,), span)
    return body
