"""Comparison with the meaning of a program: the same arrays, interpreted and lowered."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loopwright.ir.check import check_nest
from loopwright.ir.interpret import (
    Memory,
    element_strides,
    evaluate,
    interpret_nest,
    interpret_program,
)
from loopwright.ir.loops import For, LoopNest, Mark
from loopwright.ir.program import Program, Role
from loopwright.ir.visit import statements
from loopwright.lower.buffers import stride_name

Arrays = dict[str, np.ndarray]


def arrays_of(program: Program, params: Mapping[str, int], seed: int = 0) -> Arrays:
    """Arguments with contents small enough that sums and products of them stay exact."""
    random = np.random.default_rng(seed)
    found: Arrays = {}
    for array in program.arrays:
        if array.role is not Role.LOCAL:
            shape = tuple(max(0, int(evaluate(extent, params))) for extent in array.shape)
            found[array.name] = np.asarray(random.integers(-3, 4, shape), array.dtype.name)
    return found


def run_nest(nest: LoopNest, arrays: Arrays, params: Mapping[str, int], threads: int = 1) -> None:
    """Interpret a nest that `lower_schedule` made, in place.

    A nest without parallel loops is entered by one thread, whatever `threads` says.
    """
    marks = {stmt.mark for stmt in statements(nest.body) if isinstance(stmt, For)}
    threads = threads if Mark.PARALLEL in marks else 1
    strides = {
        stride_name(name, k): stride
        for name, data in arrays.items()
        for k, stride in enumerate(element_strides(data))
    }
    memory = {
        name: Memory.of(data.reshape(1) if data.ndim == 0 else data)
        for name, data in arrays.items()
    }
    interpret_nest(nest, memory, {**params, **strides}, threads=threads, seed=threads)


def assert_same(program: Program, nest: LoopNest, params: Mapping[str, int], threads: int = 1):
    """The nest leaves bit for bit what the program leaves."""
    assert_same_on(arrays_of(program, params), program, nest, params, threads)


def assert_same_on(
    arrays: Arrays, program: Program, nest: LoopNest, params: Mapping[str, int], threads: int = 1
):
    """As assert_same, for the given arrays, which are changed as the program says."""
    check_nest(nest)
    found = {name: data.copy() for name, data in arrays.items()}
    interpret_program(program, arrays, params)
    run_nest(nest, found, params, threads)
    for name, data in arrays.items():
        np.testing.assert_array_equal(found[name], data, err_msg=name)
