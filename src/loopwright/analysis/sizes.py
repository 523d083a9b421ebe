"""Sizes for decisions at compile time: what a program's extents will probably be."""

from __future__ import annotations

import islpy as isl

from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.islparts import pieces_in
from loopwright.ir.program import Array, Program, Statement
from loopwright.ir.visit import walk

__all__ = ["bytes_of", "likely_sizes", "row_bytes"]

# Where nothing is known, arrays are taken to be too large for caches near to a core.
_ELEMENTS = 1 << 22


def likely_sizes(program: Program) -> dict[str, int]:
    """A value for every parameter: its largest one where it is bounded, else a guess.

    The context bounds it, or arrays of constant extents that loops up to it must stay inside. The
    guess makes the arrays of highest rank whose extents use the parameter 2^22 elements large.
    """
    found: dict[str, int] = {}
    inside = _largest_inside(program)
    known = program.context
    for name in program.params:
        at = known.find_dim_by_name(isl.dim_type.param, name)
        most = None
        if at >= 0:
            as_set = known.move_dims(isl.dim_type.set, 0, isl.dim_type.param, at, 1)
            value = as_set.dim_max_val(0)
            most = value.to_python() if value.is_int() else None
        if most is None:
            most = inside.get(name)
        ranks = [a.rank for a in program.arrays if _uses(a, name)]
        found[name] = most if most is not None else round(_ELEMENTS ** (1 / max(ranks, default=2)))
    return found


def _largest_inside(program: Program) -> dict[str, int]:
    """For parameters that end loops: the largest value with which subscripts stay inside arrays.

    Of a loop whose last value is a parameter plus a number, and a subscript that is its iterator
    plus a number, in a dimension of constant extent.
    """
    found: dict[str, int] = {}
    for statement in program.statements:
        ends: dict[str, list[tuple[str, int]]] = {}
        for access in (statement.write, *statement.reads):
            for entry, extent in zip(access.index, program.array(access.array).shape, strict=True):
                iterator, shift = _shifted(entry)
                if iterator not in statement.iterators or not isinstance(extent, Const):
                    continue
                if iterator not in ends:
                    ends[iterator] = _last_values(statement, iterator)
                for param, offset in ends[iterator]:
                    limit = int(extent.value.real) - 1 - offset - shift
                    found[param] = min(found.get(param, limit), limit)
    return {param: limit for param, limit in found.items() if limit > 0}


def _shifted(entry: Expr) -> tuple[str, int]:
    """The variable and the number whose sum a subscript is; no variable for others."""
    match entry:
        case Var(name=name):
            return name, 0
        case Binary(op="add", x=Var(name=name), y=Const(value=int(shift))):
            return name, shift
        case Binary(op="add", x=Const(value=int(shift)), y=Var(name=name)):
            return name, shift
        case Binary(op="sub", x=Var(name=name), y=Const(value=int(shift))):
            return name, -shift
    return "", 0


def _last_values(statement: Statement, iterator: str) -> list[tuple[str, int]]:
    """The parameters and numbers whose sums are the last values of a loop."""
    at = statement.iterators.index(iterator)
    found: list[tuple[str, int]] = []
    for _, piece in pieces_in(statement.domain.dim_max(at)):
        count = piece.dim(isl.dim_type.param)
        factors = [piece.get_coefficient_val(isl.dim_type.param, k) for k in range(count)]
        used = [(k, f) for k, f in enumerate(factors) if not f.is_zero()]
        if len(used) == 1 and used[0][1].is_one() and piece.get_constant_val().is_int():
            name = piece.get_dim_name(isl.dim_type.param, used[0][0])
            found.append((name or "", piece.get_constant_val().to_python()))
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
