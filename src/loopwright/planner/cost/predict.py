"""The least time a program can take on one thread: what it computes, and what it moves.

    cycles >= max( sum over operations of instances / (lanes * operations started per cycle),
                   bytes of all arrays / bytes that memory gives per cycle )

An operation on values that some loops do not change counts once for all their iterations. No order
of the loops goes below this bound; how near a plan comes is for a run to tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from loopwright.analysis.size_estimates import average_trips, bytes_of, likely_sizes
from loopwright.ir.expr import COMPARISONS, Binary, Call, Expr, Unary
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program, Role, Statement
from loopwright.ir.visit import loads, names, walk

__all__ = ["predicted"]

_SLOW = 8.0  # cycles of one vector of quotients, roots and the like, where nothing is known


def predicted(program: Program, machine: Machine) -> str:
    """The bound at likely sizes, in words."""
    sizes = likely_sizes(program)
    computed = _computation(program, machine, sizes)
    moved = _movement(program, machine, sizes)
    parts = [f"{_time(computed, machine)} of operations in vectors"]
    if moved is not None:
        parts.append(f"{_time(moved, machine)} of memory traffic")
    least = max(computed, moved or 0.0)
    shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    where = f" at {shown}" if shown else ""
    return f"{_time(least, machine)} at least, one thread{where}: {', '.join(parts)}"


def _computation(program: Program, machine: Machine, sizes: Mapping[str, int]) -> float:
    trips = average_trips(program, sizes)
    written = frozenset(statement.write.array for statement in program.statements)
    return sum(
        _instances(expr, statement, trips[statement.name], written) * _cycles(expr, machine)
        for statement in program.statements
        for expr in _operations(statement.value)
    )


def _instances(
    expr: Expr, statement: Statement, trips: Mapping[str, float], written: frozenset[str]
) -> float:
    """How often an operation must be done at the least."""
    varies = expr is statement.value or any(load.array in written for load in loads(expr))
    loops = trips.keys() if varies else trips.keys() & names(expr)
    return math.prod(trips[loop] for loop in loops)


def _cycles(expr: Binary | Unary | Call, machine: Machine) -> float:
    """Cycles of one operation when all lanes of all units are busy."""
    dtype = expr.x.dtype if isinstance(expr, Binary) else expr.dtype
    lanes = machine.lanes(dtype.bits)
    if isinstance(expr, Call) or expr.op in ("div", "floordiv", "mod", "pow"):
        return _SLOW / lanes
    word = "max" if expr.op in COMPARISONS or expr.op == "min" else expr.op
    known = word if word in ("add", "sub", "mul", "max", "and", "or", "xor") else "add"
    return 1 / (lanes * machine.cost(known, dtype.name).per_cycle)


def _operations(value: Expr) -> Iterator[Binary | Unary | Call]:
    """Operations on data; a product that is added at once costs nothing beyond the sum."""
    fused = {
        id(part)
        for expr in walk(value)
        if isinstance(expr, Binary) and expr.op in ("add", "sub") and expr.dtype.is_float
        for part in (expr.x, expr.y)
        if isinstance(part, Binary) and part.op == "mul"
    }
    for expr in walk(value):
        is_data = not expr.dtype.is_integer or expr.dtype.bits < 64
        if isinstance(expr, Binary | Unary | Call) and is_data and id(expr) not in fused:
            yield expr


def _movement(program: Program, machine: Machine, sizes: Mapping[str, int]) -> float | None:
    """Cycles to read every array once, and to write those that are written."""
    total = 0.0
    for array in program.arrays:
        if array.role is not Role.LOCAL:
            crossings = 1 if array.role is Role.IN else 2
            total += crossings * bytes_of(array, dict(sizes))
    last = machine.caches[-1] if machine.caches else None
    rate = machine.memory_bytes_per_cycle
    if last is not None and total <= last.size:
        rate = last.bytes_per_cycle
    return None if not rate else total / rate


def _time(cycles: float, machine: Machine) -> str:
    if machine.frequency_hz is None:
        return f"{cycles:.3g} cycles"
    return f"{1e3 * cycles / machine.frequency_hz:.3g} ms"
