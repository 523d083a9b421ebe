"""What moves between the memories of host and device around a program: rows of its arguments."""

from __future__ import annotations

from collections.abc import Collection

from loopwright.analysis.live_arrays import arrays_brought_in, touched_rows
from loopwright.diagnostics import UsageError
from loopwright.ir.device import Transfer
from loopwright.ir.expr import Const, Expr
from loopwright.ir.islkit import bounded
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.visit import names
from loopwright.lower.ast_expressions import parameter_expr

__all__ = ["transfers"]

_NONE, _ONE = Const(0), Const(1)


def transfers(
    program: Program, live_out: Collection[str], unknown: Collection[str]
) -> tuple[Transfer, ...]:
    """The rows of each argument that its kernels touch, in the order of the arguments.

    Arrays of `live_out` are brought back where they are written. `unknown` are parameters that
    nobody passes: extents that the source leaves open. Raises UsageError where an array has such
    an extent and its rows cannot be told.
    """
    brought_in = arrays_brought_in(program, touched_only=True)
    return tuple(
        _transfer(program, array, array.name in brought_in, array.name in live_out, unknown)
        for array in program.arrays
        if array.role is not Role.LOCAL
    )


def _transfer(
    program: Program, array: Array, is_in: bool, is_live: bool, unknown: Collection[str]
) -> Transfer:
    is_back = is_live and array.role is not Role.IN
    if not array.rank:
        return Transfer(array.name, _NONE, _ONE, _ONE, is_in, is_back)
    first, stop = _rows(program, array, unknown)
    if isinstance(first, Const) and first.value.real < 0:
        raise UsageError(
            f"'{array.name}' is used from row {first.value} on",
            hint="a pointer to the first element: memory of a device has no row below zero",
        )
    row: Expr = _ONE
    for extent in array.shape[1:]:
        row = row * extent
    return Transfer(array.name, first, stop, row, is_in, is_back)


def _rows(program: Program, array: Array, unknown: Collection[str]) -> tuple[Expr, Expr]:
    def touched() -> tuple[Expr, Expr] | None:
        first, stop = touched_rows(program, array)
        return parameter_expr(first, program.context), parameter_expr(stop, program.context)

    found = bounded(touched, lambda _: None)
    if found is not None and not (names(found[0]) | names(found[1])) & set(unknown):
        return found
    if names(array.shape[0]) & set(unknown):
        hint = "declare the array with its first extent"
        raise UsageError(f"how many rows of '{array.name}' are used cannot be told", hint=hint)
    return _NONE, array.shape[0]
