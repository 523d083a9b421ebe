"""How much a program does at given sizes."""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl

from loopwright.ir.islkit import context
from loopwright.ir.program import Program

__all__ = ["count_accesses"]


def count_accesses(program: Program, params: Mapping[str, int], enough: int) -> int:
    """A bound of the number of accesses: those of a statement times the box around its domain.

    Counting ends where the sum is beyond `enough`: boxes of many dimensions are quickly too large.
    """
    total = 0
    for statement in program.statements:
        domain = statement.domain
        for name, value in params.items():
            at = domain.find_dim_by_name(isl.dim_type.param, name)
            if at >= 0:
                number = isl.Val.int_from_si(context(), value)
                domain = domain.fix_val(isl.dim_type.param, at, number)
        total += _box(domain, enough) * (1 + len(statement.reads))
        if total > enough:
            break
    return total


def _box(domain: isl.Set, enough: int) -> int:
    """The number of points of the smallest box around a set."""
    if domain.is_empty():
        return 0
    points = 1
    for at in range(domain.dim(isl.dim_type.set)):
        low, high = domain.dim_min_val(at), domain.dim_max_val(at)
        if not (low.is_int() and high.is_int()):
            return enough + 1
        points *= high.to_python() - low.to_python() + 1
        if points > enough:
            break
    return points
