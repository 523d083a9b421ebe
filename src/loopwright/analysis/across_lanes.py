"""Which operands of a sum lie across the lanes: results go along their first dimension.

C[i][j] += X[i][k] * A[j][k]        A lies across the lanes j, its rows along the sum
"""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.ir.access_names import NamedAccess
from loopwright.ir.program import Program
from loopwright.ir.visit import names

__all__ = ["is_across_lanes"]

_RANK = 2


def is_across_lanes(program: Program, accesses: Iterable[NamedAccess]) -> bool:
    """Whether all of the accesses read operands of sums across the lanes of their results."""
    found = list(accesses)
    return bool(found) and all(_is_across(program, one) for one in found)


def _is_across(program: Program, one: NamedAccess) -> bool:
    if one.is_write or len(one.access.index) != _RANK:
        return False
    written = program.statement(one.statement).write.index
    first, last = map(names, one.access.index)
    if not written or last & set().union(*map(names, written)):
        return False  # nothing is summed up along its rows
    return bool(last) and bool(names(written[-1]) & first)
