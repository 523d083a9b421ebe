"""An einsum as a SourceTree, which is compiled like any other program.

for every index of out:          out[...] = zero
for every index:                 out[...] = out[...] plus left[...] times right[...] times ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

from loopwright.diagnostics import Span
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.source_tree import ArrayParam, Assign, ForLoop, Node, SourceTree
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Cast, Const, Expr, Var
from loopwright.ir.program import Access

__all__ = ["FIRST_OPERAND", "einsum_tree"]

FIRST_OPERAND = "left"  # the array of the first of one or two operands

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
    product = reduce(times, [_as(access.load(), sums) for access in accesses])
    body: list[Node] = []
    if zero is not None:
        start = Assign(_renamed(out), Const(zero, sums), span)
        body.append(_nest(start, [_first(c) for c in names.out], sizes, span))
    update = Assign(out, plus(out.load(), product), span)
    body.append(_nest(update, list(letters), sizes, span))
    return SourceTree("einsum", params, tuple(sizes.values()), (), tuple(body), None, (), span)


def _argument_names(names: EinsumSubscripts) -> tuple[str, ...]:
    count = len(names.operands)
    operands = (
        (FIRST_OPERAND, "right") if count <= 2 else tuple(f"operand{k}" for k in range(count))
    )
    return (*operands[:count], "out")


def _first(letter: str) -> str:
    """The loop variable of a letter in the nest that zeroes `out`: names are unique in a tree."""
    return f"{letter}_0"


def _renamed(out: Access) -> Access:
    return Access(out.array, tuple(Var(_first(x.name)) for x in out.index), out.dtype)  # type: ignore[union-attr]


def _nest(body: Node, loops: list[str], sizes: dict[str, str], span: Span) -> Node:
    for loop in reversed(loops):
        body = ForLoop(loop, Const(0), Var(sizes[loop[0]]), 1, (body,), span)
    return body


def _as(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype)
