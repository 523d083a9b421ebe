"""Checks of subscripts that cost little: outside of loops where they can, and two in one compare.

A subscript that grows evenly with a loop is inside of its array in all iterations where it is in
the first and in the last one. So an innermost loop with such checks is written twice:

    for k in range(a, b): check x(k) >= 0; ...
    ->  if x(a) >= 0 and x(b - 1) >= 0: the loop without checks, else: the loop as it was

The loop without checks also leaves out that subscripts below zero count from the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from loopwright.ir.dtypes import DTYPES, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Select, Var
from loopwright.ir.procedure import (
    CheckThat,
    Choose,
    DefineName,
    EndlessLoop,
    Procedure,
    ProcedureStmt,
    RangeLoop,
)
from loopwright.ir.visit import linear_terms, substitute

__all__ = ["joined_checks", "never_negative", "with_checks_outside"]

Sum: TypeAlias = frozenset[tuple[Expr | None, int]]  # its terms, and how often each occurs

_ZERO = Const(0)
_UNSIGNED = DTYPES["uint64"]
_MOST = 12  # comparisons before a loop: more take longer than those of short loops


# -- outside of loops -----------------------------------------------------------------------------


def with_checks_outside(body: Sequence[ProcedureStmt]) -> tuple[ProcedureStmt, ...]:
    """The statements with checks taken out of their innermost loops."""
    return tuple(map(_lighter, body))


def _lighter(stmt: ProcedureStmt) -> ProcedureStmt:
    match stmt:
        case RangeLoop(body=body) | EndlessLoop(body=body) if any(map(_is_loop, _every(body))):
            return replace(stmt, body=with_checks_outside(body))
        case RangeLoop():
            return _twice(stmt)
        case Choose(body=body, orelse=orelse):
            other = with_checks_outside(orelse)
            return replace(stmt, body=with_checks_outside(body), orelse=other)
    return stmt


def _every(body: Sequence[ProcedureStmt]) -> Iterator[ProcedureStmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, Choose):
            yield from _every((*stmt.body, *stmt.orelse))


def _is_loop(stmt: ProcedureStmt) -> bool:
    return isinstance(stmt, RangeLoop | EndlessLoop)


def _twice(loop: RangeLoop) -> ProcedureStmt:
    """The loop with and without its checks, where some of them can be left out."""
    free = _FreeOfChecks(loop)
    body = free.body(loop.body, {})
    if not free.inside or len(free.inside) > _MOST:
        return loop
    conditions: list[Expr] = [Binary("ge", x, _ZERO) for x in free.inside]
    if not isinstance(loop.step, Const):
        conditions.insert(0, Binary("gt", loop.step, _ZERO))
    return Choose(reduce(_both, conditions), (replace(loop, body=body),), (loop,))


def _both(one: Expr, other: Expr) -> Expr:
    return Binary("and", one, other)


class _FreeOfChecks:
    """Writes the body of a loop without the checks that hold in all iterations if `inside` do."""

    def __init__(self, loop: RangeLoop) -> None:
        is_down = isinstance(loop.step, Const) and loop.step.value.real < 0
        self.var = loop.var
        self.least = loop.stop + 1 if is_down else loop.start
        self.greatest = loop.start if is_down else loop.stop - 1
        self.own = {x.name for x in _every(loop.body) if isinstance(x, DefineName)}
        self.inside: dict[Expr, None] = {}  # not below zero: all of the subscripts are inside

    def body(
        self, body: Sequence[ProcedureStmt], known: Mapping[str, Expr]
    ) -> tuple[ProcedureStmt, ...]:
        """The statements; `known` are the names that are even in the loop, and their values."""
        known = dict(known)
        found: list[ProcedureStmt] = []
        for stmt in body:
            match stmt:
                case DefineName(name=name, value=value):
                    value = self.unwrapped(substitute(value, known))
                    if self.is_even(value):
                        known[name] = value
                    found.append(replace(stmt, value=value))
                case CheckThat(cond=Binary(op="ge", x=x, y=Const(value=0))):
                    x = substitute(x, known)
                    if self.is_even(x):
                        self.require(x)
                    else:
                        found.append(stmt)
                case Choose(body=then, orelse=orelse):
                    other = self.body(orelse, known)
                    found.append(replace(stmt, body=self.body(then, known), orelse=other))
                case _:
                    found.append(stmt)
        return tuple(found)

    def unwrapped(self, value: Expr) -> Expr:
        """A subscript that is not below zero as it stands."""
        match value:
            case Select(cond=Binary(op="lt", x=x, y=Const(value=0)), y=other) if (
                x == other and self.is_even(x)
            ):
                self.require(x)
                return other
        return value

    def is_even(self, value: Expr) -> bool:
        """Whether a value grows by the same amount in all iterations."""
        terms = [term for term in linear_terms(value, 1) if term is not None]
        return value.dtype == INT64 and all(
            isinstance(term, Var) and term.name not in self.own for term in terms
        )

    def require(self, value: Expr) -> None:
        """Take note that a value is to be 0 or more wherever it is least."""
        factor = linear_terms(value, 1).get(Var(self.var), 0)
        end = self.least if factor > 0 else self.greatest
        self.inside[substitute(value, {self.var: end})] = None


# -- in one compare -------------------------------------------------------------------------------


def never_negative(procedure: Procedure) -> frozenset[Sum]:
    """The sums that are not below zero in every call: sizes, and what guards demand."""
    sums = [Var(name) for name in procedure.sizes]
    found = {_key(x) for x in sums}
    for guard in procedure.guards:
        match guard:
            case Binary(op="ge", x=x, y=Const(value=0)):
                found.add(_key(x))
    return frozenset(found)


def _key(value: Expr) -> Sum:
    return frozenset((term, factor) for term, factor in linear_terms(value, 1).items() if factor)


def joined_checks(
    body: Sequence[ProcedureStmt], positive: Collection[Sum]
) -> tuple[ProcedureStmt, ...]:
    """The statements with `x >= 0` and `n - x - 1 >= 0` as one comparison of unsigned numbers.

    `positive` are the sums that are not below zero, of which n must be one.
    """
    found: list[ProcedureStmt] = []
    for stmt in body:
        match found[-1:], stmt:
            case (
                [CheckThat(cond=Binary(op="ge", x=low, y=Const(value=0)))],
                CheckThat(cond=Binary(op="ge", x=up, y=Const(value=0))),
            ) if _is_same(found[-1], stmt):
                size = low + up + 1
                if isinstance(low, Var) and _key(size) in positive:
                    cond = Binary("lt", Cast(low, _UNSIGNED), Cast(_plain(size), _UNSIGNED))
                    found[-1] = replace(stmt, cond=cond)
                    continue
        found.append(stmt)
    return tuple(found)


def _is_same(one: ProcedureStmt, other: ProcedureStmt) -> bool:
    """Whether two checks raise the same exception."""
    assert isinstance(one, CheckThat)
    return isinstance(other, CheckThat) and replace(one, cond=other.cond) == other


def _plain(value: Expr) -> Expr:
    """A sum written with each of its terms once."""
    total: Expr = _ZERO
    for term, factor in linear_terms(value, 1).items():
        if factor:
            total = total + (Const(factor) if term is None else term * factor)
    return total
