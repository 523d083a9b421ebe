"""What programs and loop nests mean: slow and plain, the oracle every backend is compared with.

Nests run in `interpret_nest`, expressions in `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import INT64
from loopwright.ir.evaluate import NUMBERS, Rules, compiled, evaluate, literal, quiet
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.islkit import IslSchedule, holds, ordered_points
from loopwright.ir.memory import Cells, Memory, element_strides, poisoned
from loopwright.ir.program import Array, Program, Role, Statement
from loopwright.ir.schedule import Schedule

__all__ = [
    "Memory",
    "element_strides",
    "evaluate",
    "interpret_nest",
    "interpret_program",
    "interpret_schedule",
]


# -------------------------------------------------------------------------------------------------
# The meaning of a Program: its statements, point by point, in the order of a schedule tree.


Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]


def interpret_program(
    program: Program, arrays: Arrays, params: Mapping[str, int], rules: Rules = NUMBERS
) -> None:
    """Execute `program` in its source order, in place on `arrays`.

    `arrays` holds every array that is not local. Elements of out and local arrays must be written
    before they are read; a read that comes first raises InternalError, as does one out of bounds.
    `rules` say what values are.
    """
    _run(program, program.schedule, arrays, params, rules)


def interpret_schedule(schedule: Schedule, arrays: Arrays, params: Mapping[str, int]) -> None:
    """Execute the program of `schedule` in the order of its tree; marks play no part."""
    _run(schedule.program, schedule.tree, arrays, params, NUMBERS)


def _run(
    program: Program, tree: IslSchedule, arrays: Arrays, params: Mapping[str, int], rules: Rules
) -> None:
    _check_params(program, params)
    cells = {a.name: _cells(a, arrays, params, rules) for a in program.arrays}
    try:
        points = ordered_points(tree, params)
    except ValueError as error:
        raise InternalError(f"program {program.name}: {error}") from error
    frame = _Frame({name: literal(value, INT64) for name, value in params.items()}, cells)
    with quiet():
        actions = {s.name: _action(s, frame, rules) for s in program.statements}
        for name, point in points:
            rules.begin(name, point)
            actions[name](point)


def _check_params(program: Program, params: Mapping[str, int]) -> None:
    if set(params) != set(program.params):
        raise UsageError(
            f"program {program.name} takes the parameters {', '.join(program.params) or '(none)'}",
            found=", ".join(params) or "(none)",
        )
    if not holds(program.context, params):
        given = ", ".join(f"{name} = {value}" for name, value in params.items())
        raise UsageError(f"program {program.name} is not made for these parameters", found=given)


def _cells(array: Array, arrays: Arrays, params: Mapping[str, int], rules: Rules) -> Cells:
    """The array as the caller gave it, or fresh memory for a local one."""
    shape = tuple(int(evaluate(extent, params)) for extent in array.shape)
    data = arrays.get(array.name)
    if data is None:
        if array.role is not Role.LOCAL:
            raise UsageError(f"array {array.name} is missing")
        data = poisoned(shape, array.dtype)
    if data.shape != shape or data.dtype != array.dtype.numpy:
        raise UsageError(
            f"array {array.name} should be {array.dtype} of shape {list(shape)}",
            found=f"{data.dtype} of shape {list(data.shape)}",
        )
    return rules.cells(array.name, data, is_defined=array.role in (Role.IN, Role.INOUT))


class _Frame:
    """Variables and arrays of the running program."""

    def __init__(self, variables: dict[str, np.generic], cells: dict[str, Cells]) -> None:
        self.variables = variables
        self.cells = cells

    def load(self, array: str, index: tuple[int, ...]) -> np.generic:
        return self.cells[array].read(index)


def _action(statement: Statement, frame: _Frame, rules: Rules) -> Callable[[tuple[int, ...]], None]:
    """What happens at one point of the statement's domain."""
    target = frame.cells[statement.write.array]
    index = tuple(compiled(entry, rules) for entry in statement.write.index)
    value = compiled(statement.value, rules)

    def act(point: tuple[int, ...]) -> None:
        frame.variables.update(zip(statement.iterators, map(np.int64, point), strict=True))
        target.write(tuple([int(at(frame)) for at in index]), value(frame))

    return act
