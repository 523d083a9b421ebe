"""Sizes for decisions at compile time: what a program's extents will probably be."""

from __future__ import annotations

import islpy as isl

from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Var
from loopwright.ir.program import Array, Program
from loopwright.ir.visit import walk

__all__ = ["bytes_of", "likely_sizes", "row_bytes"]

# Where nothing is known, arrays are taken to be too large for caches near to a core.
_ELEMENTS = 1 << 22


def likely_sizes(program: Program) -> dict[str, int]:
    """A value for every parameter: its largest one where the context bounds it, else a guess.

    The guess makes the arrays of highest rank whose extents use the parameter 2^22 elements large.
    """
    found: dict[str, int] = {}
    known = program.context
    for name in program.params:
        at = known.find_dim_by_name(isl.dim_type.param, name)
        most = None
        if at >= 0:
            as_set = known.move_dims(isl.dim_type.set, 0, isl.dim_type.param, at, 1)
            value = as_set.dim_max_val(0)
            most = value.to_python() if value.is_int() else None
        ranks = [a.rank for a in program.arrays if _uses(a, name)]
        found[name] = most if most is not None else round(_ELEMENTS ** (1 / max(ranks, default=2)))
    return found


def bytes_of(array: Array, sizes: dict[str, int]) -> int:
    """Bytes of an array when the parameters have the given values."""
    return _product(array, sizes, 0)


def row_bytes(array: Array, sizes: dict[str, int]) -> int:
    """Bytes of one row of an array: all but its first extent."""
    return _product(array, sizes, 1)


def _product(array: Array, sizes: dict[str, int], first: int) -> int:
    total = array.dtype.bytes
    for extent in array.shape[first:]:
        total *= max(0, int(evaluate(extent, sizes, {})))
    return total


def _uses(array: Array, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for e in array.shape for x in walk(e))
