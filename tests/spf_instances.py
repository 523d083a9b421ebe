"""Computations run by definition: all instances, sorted by time. Slow, and nothing like a scanner.

`traced` makes a computation whose only output is a number that depends on which instances are
executed and in which order: trace = 31*trace + (number of the statement and values of variables).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import INT64
from loopwright.ir.evaluate import evaluate as evaluate_expr
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.program import Role
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.spf.scan_pieces import call_depth
from loopwright.sparse.uf import (
    NO_FACTS,
    Conj,
    Facts,
    IntegerSet,
    evaluate,
    holds,
    parse_set,
    variables,
)

Arrays = Mapping[str, np.ndarray]
Point = dict[str, int]


def points(
    domain: IntegerSet, values: Mapping[str, int], arrays: Arrays, box: range
) -> list[Point]:
    """The points of a set with coordinates in a box."""
    found: dict[tuple[int, ...], None] = {}
    for conj in domain.conjs:
        names = (*domain.variables, *conj.exists)
        for point in _extended(conj, names, dict(values), arrays, box):
            found[tuple(point[name] for name in domain.variables)] = None
    return [dict(zip(domain.variables, entries, strict=True)) for entries in sorted(found)]


def _extended(
    conj: Conj, names: tuple[str, ...], values: Point, arrays: Arrays, box: range
) -> Iterator[Point]:
    """Every way to give values in the box to the names that follow."""
    missing = next((name for name in names if name not in values), None)
    ready = [c for c in conj.constraints if variables(c.term) <= values.keys()]
    for constraint in sorted(ready, key=lambda c: call_depth(c.term)):
        try:
            if not holds(constraint, values, arrays):
                return
        except UsageError:
            # An index array is read outside; constraints on further variables may forbid the point.
            if missing is None:
                return
            break
    if missing is None:
        yield values
        return
    for entry in box:
        yield from _extended(conj, names, {**values, missing: entry}, arrays, box)


def instances(
    computation: Computation, symbols: Mapping[str, int], arrays: Arrays, box: range
) -> list[tuple[Stmt, Point]]:
    """Every instance of every statement in the order of execution."""
    longest = max(len(stmt.schedule) for stmt in computation.statements)
    found = []
    for number, stmt in enumerate(computation.statements):
        for point in points(stmt.domain, symbols, arrays, box):
            time = [evaluate(e, {**symbols, **point}, arrays) for e in stmt.schedule]
            time += [0] * (longest - len(time))
            found.append((time, number, stmt, point))
    found.sort(key=lambda entry: entry[:2])
    return [(stmt, point) for _, _, stmt, point in found]


def stages(computation: Computation) -> Iterator[Computation]:
    """The computation cut at the first entries of its schedules, which must be constants."""
    starts = sorted({stmt.schedule[0].constant for stmt in computation.statements})
    for start in starts:
        yield computation.with_statements(
            s for s in computation.statements if s.schedule[0].constant == start
        )


def run(
    computation: Computation, arrays: Arrays, symbols: Mapping[str, int], box: range
) -> dict[str, np.ndarray]:
    """The arrays after running all instances; domains are read at the start of each stage."""
    memory = {name: array.copy() for name, array in arrays.items()}
    for space in computation.spaces:
        if space.role is Role.LOCAL:
            shape = [evaluate(extent, symbols, {}) for extent in space.shape]
            memory[space.name] = np.zeros(shape, space.dtype.numpy)
    for stage in stages(computation):
        for stmt, point in instances(stage, symbols, memory, box):
            values = {**symbols, **point}
            index = tuple(evaluate(entry, values, memory) for entry in stmt.index)
            memory[stmt.target][index] = evaluate_expr(stmt.value, values, memory)
    return {name: memory[name] for name in arrays}


def interpreted(
    computation: Computation, arrays: Arrays, symbols: Mapping[str, int], seed: int = 0
) -> dict[str, np.ndarray]:
    """The arrays after running the scanned nest on checked memory."""
    memory = {name: array.copy() for name, array in arrays.items()}
    interpret_nest(scan(computation), memory, symbols, seed=seed)
    return memory


def traced(
    domains: Sequence[str],
    schedules: Sequence[Sequence[int | str]],
    spaces: Sequence[DataSpace] = (),
    symbols: Sequence[str] = (),
    facts: Facts = NO_FACTS,
) -> Computation:
    """Statements S0, S1, ... that leave a trace of their instances."""
    trace = DataSpace.of("trace", INT64, (), Role.INOUT)
    statements = []
    for number, (text, schedule) in enumerate(zip(domains, schedules, strict=True)):
        domain = parse_set(text)
        value: ir.Expr = ir.Load("trace", (), INT64) * 31 + (1000 + 7 * number)
        for at, name in enumerate(domain.variables):
            value = value + ir.Var(name) * (11 + 13 * at)
        statements.append(Stmt.of(f"S{number}", domain, schedule, "trace()", value))
    return Computation("traced", (*spaces, trace), tuple(statements), tuple(symbols), facts)


def assert_traces_equal(
    computation: Computation, arrays: Arrays, symbols: Mapping[str, int], box: range = range(-1, 13)
) -> None:
    """The nest executes exactly the instances, in order, and reads no array outside."""
    given = {**arrays, "trace": np.array(1, np.int64)}
    expected = np.int64(1)
    with np.errstate(over="ignore"):
        for stmt, point in instances(computation, symbols, arrays, box):
            values = {**symbols, **point}
            value = evaluate_expr(stmt.value, values, {"trace": np.array(expected)})
            expected = np.int64(value)
    found = interpreted(computation, given, symbols)
    assert found["trace"] == expected
