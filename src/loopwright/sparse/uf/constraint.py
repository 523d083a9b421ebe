"""Constraints on terms: an equality or an inequality of integers, in one canonical form.

A Constraint says `term = 0` or `term >= 0`. Coefficients have no common divisor; an inequality is
tightened to the integers (2*x >= 1 is x >= 1); the first coefficient of an equality is positive;
whatever is true or false for all values is TRUE or FALSE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from loopwright.remembered import remembered
from loopwright.sparse.uf.terms import Atom, Linear
from loopwright.sparse.uf.visit import substitute

__all__ = ["FALSE", "TRUE", "Constraint", "Operand"]

Operand: TypeAlias = Linear | Atom | int


@dataclass(frozen=True)
class Constraint:
    """`term = 0` or `term >= 0`; made by eq, ge, gt, le and lt."""

    term: Linear
    is_equality: bool

    @classmethod
    def eq(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x = y"""
        term = Linear.of(x) - Linear.of(y)
        common = math.gcd(*(factor for _, factor in term.terms))
        if not term.terms or term.constant % common:
            return TRUE if term == Linear() else FALSE
        return cls(_over(term, common if term.terms[0][1] > 0 else -common), True)

    @classmethod
    def ge(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x >= y"""
        term = Linear.of(x) - Linear.of(y)
        if not term.terms:
            return TRUE if term.constant >= 0 else FALSE
        return cls(_over(term, math.gcd(*(factor for _, factor in term.terms))), False)

    @classmethod
    def gt(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x > y"""
        return cls.ge(Linear.of(x) - 1, y)

    @classmethod
    def le(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x <= y"""
        return cls.ge(y, x)

    @classmethod
    def lt(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x < y"""
        return cls.gt(y, x)

    @property
    def is_false(self) -> bool:
        return self == FALSE

    @property
    def is_true(self) -> bool:
        return self == TRUE

    def of_term(self, term: Linear) -> Constraint:
        """The constraint of the same kind on another term."""
        return Constraint.eq(term) if self.is_equality else Constraint.ge(term)

    def substitute(self, values: Mapping[Atom, Linear]) -> Constraint:
        """This constraint with atoms replaced by terms, all at once."""
        term = substitute(self.term, values)
        return self if term is self.term else self.of_term(term)

    def negated(self) -> tuple[Constraint, ...]:
        """Constraints of which one holds exactly where this one does not."""
        below = Constraint.lt(self.term)
        return (below, Constraint.gt(self.term)) if self.is_equality else (below,)

    def __str__(self) -> str:
        return self._text

    @remembered
    def _text(self) -> str:
        if not self.term.terms:
            return "true" if self.term.constant >= 0 else "false"
        is_strict = not self.is_equality and self.term.constant == -1
        left, right = _sides(self.term + 1 if is_strict else self.term)
        relation = "=" if self.is_equality else ">" if is_strict else ">="
        if self.term.terms[0][1] < 0:
            left, right = right, left
            relation = {"=": "=", ">=": "<=", ">": "<"}[relation]
        return f"{left} {relation} {right}"


def _over(term: Linear, divisor: int) -> Linear:
    """term / divisor; a constant is rounded down, which is right for term >= 0."""
    return Linear(tuple((a, f // divisor) for a, f in term.terms), term.constant // divisor)


def _sides(term: Linear) -> tuple[Linear, Linear]:
    """left and right with term = left - right and no negative coefficient."""
    left = Linear(tuple((a, f) for a, f in term.terms if f > 0), max(term.constant, 0))
    right = Linear(tuple((a, -f) for a, f in term.terms if f < 0), max(-term.constant, 0))
    return left, right


TRUE = Constraint(Linear.of(0), False)
FALSE = Constraint(Linear.of(-1), False)
