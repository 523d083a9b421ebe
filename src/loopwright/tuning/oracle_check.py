"""Candidates against the oracle: the code of a plan on few elements, beside the interpreter.

A result that agrees with the construction's may share its fault; the interpreter (`ir/interpret`)
shares none, but takes a second for what kernels do in a millisecond. So the same code runs on a
small instance: the corner of the arrays, or fewer steps of every loop.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from loopwright.analysis.size_estimates import average_trips
from loopwright.analysis.subscript_bounds import find_violation
from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.faults import FAULTS
from loopwright.frontends.einsum_tree import contraction_tree
from loopwright.frontends.extract import program_of
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.evaluate import evaluate
from loopwright.ir.interpret import interpret_program
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, bounded, holds
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.contraction_plans.choice import lanes_of
from loopwright.runtime.array_arguments import Array, element_strides
from loopwright.transform.plan import Plan
from loopwright.tuning.tasks import Bench, ContractionTask, Measurable, ProgramTask

__all__ = ["Oracle", "oracle_of"]

_FEW = 9  # iterations of a loop with a symbolic bound, at least
_ALONE, _LAST, _NEXT = 11, 8, 2  # extents: of a bundle's only loop, its last, the one before
_FEWEST = 3  # terms of a sum, where vectors are long
_MOST_INSTANCES = 6000  # that the interpreter executes in about half a second


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """A small instance of a task, and what the interpreter says of it."""

    bench: Bench
    expected: tuple[Array, ...]

    def found(self, plan: Plan) -> list[Array] | None:
        """What the code of a plan makes of it; None where the plan does not fit so few elements."""
        try:
            run = self.bench.build(plan)
        except UsageError:
            return None
        self.bench.restore()
        run()
        return [array.copy() for array in self.bench.results()]


def oracle_of(task: Measurable) -> Oracle | None:
    """The oracle for a task; None where nothing small is found, or it is too hard."""

    def made() -> Oracle | None:
        match task:
            case ContractionTask():
                return _of_contraction(task)
            case ProgramTask():
                return _of_program(task)
            case _:
                return None

    try:
        return bounded(made, _none, ISL_QUOTA)
    except (LoopwrightError, *FAULTS):
        return None


def _none(error: GaveUp) -> None:
    return None


# -- contractions ---------------------------------------------------------------------------------


def _of_contraction(task: ContractionTask) -> Oracle | None:
    small = replace(task, shape=_small_shape(task.shape, lanes_of(task.algebra, task.machine)))
    batch, m, n, k = small.shape.sizes
    if batch * m * n * k > _MOST_INSTANCES:
        return None
    algebra, names = task.algebra, task.names
    program = program_of(contraction_tree(names, algebra), reassoc=True)
    bench = small.bench()
    bench.restore()
    dims = [d for bundle in small.shape.bundles for d in bundle]
    params = {f"n_{c}": d.extent for c, d in zip(small.letters, dims, strict=True)}
    arrays = {name: array.copy() for name, array in bench.operands().items()}
    interpret_program(program, arrays, params)
    # The memory of the result is compared whole: what lies between its elements keeps its values.
    view = bench.operands()["out"]
    before = view.copy()
    view[...] = arrays["out"]
    expected = tuple(array.copy() for array in bench.results())
    view[...] = before
    return Oracle(bench, expected)


def _small_shape(shape: ContractionShape, lanes: int) -> ContractionShape:
    """The first elements along every loop; vectors that lay in runs still do, and fit."""

    def small(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        if len(dims) < 2:
            most = [_ALONE] * len(dims)
        else:
            most = [1] * (len(dims) - 2) + [_NEXT, _LAST]
        if dims and dims[-1].out == 1:  # vectors are stored along it: a whole one, and a rest
            most[-1] = max(most[-1], lanes + 1)
        return tuple(replace(d, extent=min(d.extent, x)) for d, x in zip(dims, most, strict=True))

    i, j, p = (small(dims) for dims in (shape.i, shape.j, shape.p))
    batch = tuple(replace(d, extent=min(d.extent, _NEXT)) for d in shape.batch)
    found = replace(shape, batch=batch, i=i, j=j, p=p)
    terms = max(_FEWEST, _MOST_INSTANCES // max(1, math.prod(found.sizes[:3])))
    return replace(found, p=tuple(replace(d, extent=min(d.extent, terms)) for d in p))


# -- loops ----------------------------------------------------------------------------------------


def _of_program(task: ProgramTask) -> Oracle | None:
    program = task.made()
    params = {
        name: min(value, _FEW + number) for number, (name, value) in enumerate(task.params.items())
    }
    trips = average_trips(program, params)
    count = sum(float(np.prod([max(1.0, x) for x in own.values()])) for own in trips.values())
    if count > _MOST_INSTANCES or not holds(program.context, params):
        return None
    if find_violation(program, params) is not None:
        return None
    arrays: dict[str, Array] = {}
    for array in program.arrays:
        given = task.arrays.get(array.name)
        if given is None:
            continue
        shape = tuple(int(evaluate(extent, params)) for extent in array.shape)
        if len(shape) != given.ndim or any(x > y for x, y in zip(shape, given.shape, strict=True)):
            return None
        # A part of an array without dimensions is a number, which no kernel can be given.
        part = given[tuple(slice(0, n) for n in shape)]
        arrays[array.name] = np.array(part, order="K")
    if arrays.keys() != task.arrays.keys() or not _is_laid_out_alike(arrays, task.arrays):
        return None
    results: dict[str, Any] = {name: array.copy() for name, array in arrays.items()}
    interpret_program(program, results, params)
    small = replace(task, params=params, arrays=arrays)
    return Oracle(small.bench(), tuple(results[name] for name in task.written))


def _is_laid_out_alike(small: dict[str, Array], given: dict[str, Array]) -> bool:
    """Whether the same strides are 1: code is made for them."""
    return all(
        [x == 1 for x in element_strides(small[name])]
        == [x == 1 for x in element_strides(given[name])]
        for name in given
    )
