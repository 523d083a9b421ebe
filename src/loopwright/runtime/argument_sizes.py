"""The scalars of a program from its arrays: sizes from their shapes, strides from their strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceProgram
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Expr, Var
from loopwright.ir.loops import Buffer

__all__ = ["Shaped", "scalars_from_arrays"]


class Shaped(Protocol):
    """An array's shape, and its strides in elements."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]: ...


def scalars_from_arrays(
    program: DeviceProgram,
    shapes: Mapping[str, tuple[Expr, ...]],
    arrays: Sequence[Shaped],
    given: Mapping[str, int] | None = None,
) -> tuple[int, ...]:
    """The scalars of a call. `shapes` tells what shape each array has, over the scalars.

    A scalar that is an extent or a stride is what the arrays say; the others must be given. Raises
    UsageError where arrays or given values contradict one another.
    """
    known: dict[str, tuple[int, str]] = {}  # with where it was found
    for name, value in (given or {}).items():
        if name not in program.scalars:
            raise UsageError(
                f"'{program.name}' has no scalar '{name}'", hint=", ".join(program.scalars)
            )
        known[name] = value, "as given"
    pairs = list(zip(program.buffers, arrays, strict=True))
    for buffer, array in pairs:
        for axis, extent in enumerate(shapes.get(buffer.name, ())):
            if isinstance(extent, Var):
                where = f"extent {axis} of '{buffer.name}'"
                _learn(known, extent.name, array.shape[axis], where)
        for axis, stride in enumerate(buffer.strides):
            if isinstance(stride, Var):
                where = f"stride {axis} of '{buffer.name}'"
                _learn(known, stride.name, array.strides[axis], where)
    missing = [name for name in program.scalars if name not in known]
    if missing:
        raise UsageError(
            f"arrays do not tell '{missing[0]}' of '{program.name}'", hint=f"{missing[0]}=..."
        )
    values = {name: value for name, (value, _) in known.items()}
    for buffer, array in pairs:
        _check(buffer, array, shapes.get(buffer.name, ()), values)
    return tuple(values[name] for name in program.scalars)


def _learn(known: dict[str, tuple[int, str]], name: str, value: int, where: str) -> None:
    before = known.setdefault(name, (value, where))
    if before[0] != value:
        raise UsageError(
            f"'{name}' would have two values", found=f"{before[0]} {before[1]}, {value} as {where}"
        )


def _check(
    buffer: Buffer, array: Shaped, shape: tuple[Expr, ...], values: Mapping[str, int]
) -> None:
    """Hold what expressions say of shape and strides against the array."""
    for axis, extent in enumerate(shape):
        wanted = int(evaluate(extent, values))
        if array.shape[axis] != wanted:
            raise UsageError(
                f"'{buffer.name}' has extent {array.shape[axis]} in dimension {axis}",
                hint=f"extent {wanted}",
            )
    for axis, stride in enumerate(buffer.strides):
        wanted = int(evaluate(stride, values))
        if array.shape[axis] > 1 and array.strides[axis] != wanted:
            raise UsageError(
                f"'{buffer.name}' has stride {array.strides[axis]} in dimension {axis}",
                hint=f"the program was made for stride {wanted}, in elements",
            )
