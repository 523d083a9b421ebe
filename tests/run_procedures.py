"""Run a Procedure as NumPy calls, as an interpreted nest and as machine code, and compare bits."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from loopwright.ir.check import check_nest
from loopwright.ir.check_procedure import check_procedure
from loopwright.ir.evaluate import evaluate
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.interpret_procedure import interpret_procedure
from loopwright.ir.procedure import STATUS, ArrayRole, Procedure, ReturnedArray, ReturnedTuple
from loopwright.kernels import nest_kernel
from loopwright.lower.buffers import stride_name
from loopwright.lower.procedure_nests.lower_procedure import checks_of, lower_procedure
from loopwright.machines.host import host
from loopwright.planner.contraction_plans.inner_product import planned_product

Array = np.ndarray[Any, np.dtype[Any]]


def memory_of(
    procedure: Procedure, arrays: Mapping[str, Array], integers: Mapping[str, int], way: str
) -> dict[str, Array] | Exception:
    """All arrays after a run by "calls", "nest" or "code"; the exception that a check raises."""
    given = {name: np.array(array, order="K") for name, array in arrays.items()}
    for array in procedure.arrays:
        if array.role is ArrayRole.RESULT:
            shape = [int(evaluate(extent, integers)) for extent in array.shape]
            given[array.name] = np.full(shape, 7).astype(array.dtype.numpy)
    if way == "calls":
        return _by_calls(procedure, given, integers)
    nest = lower_procedure(procedure, plan=partial(planned_product, machine=host()))
    check_nest(nest)
    scalars = dict(integers)
    for array in procedure.arrays:
        if array.role is ArrayRole.ARGUMENT:
            strides = [s // given[array.name].itemsize for s in given[array.name].strides]
            scalars |= {stride_name(array.name, d): s for d, s in enumerate(strides)}
    status = np.zeros(8, np.int64)
    used = {b.name: status if b.name == STATUS else given[b.name] for b in nest.buffers}
    if way == "nest":
        interpret_nest(nest, used, scalars)
    else:
        kernel = nest_kernel(f"test {nest!r}", lambda: nest)
        bound = kernel.bind(scalars, np.zeros(0, np.int64))
        bound(*[used[name] for name in kernel.buffers])
    if status[0]:
        check = checks_of(procedure)[status[0] - 1]
        values = map(int, status[1 : 1 + len(check.values)])
        found: Exception = getattr(builtins, check.exception)(check.text.format(*values))
        return found
    return given


def _by_calls(
    procedure: Procedure, given: dict[str, Array], integers: Mapping[str, int]
) -> dict[str, Array] | Exception:
    # The interpreter makes results of its own, which are returned.
    results = [a.name for a in procedure.arrays if a.role is ArrayRole.RESULT]
    everything = ReturnedTuple(tuple(map(ReturnedArray, results)))
    given = {name: array for name, array in given.items() if name not in results}
    try:
        found = interpret_procedure(replace(procedure, returned=everything), given, integers)
    except (ValueError, IndexError, ZeroDivisionError) as error:
        return error
    return {**given, **dict(zip(results, found, strict=True))}


def check_ways(
    procedure: Procedure, arrays: Mapping[str, Array], integers: Mapping[str, int]
) -> dict[str, Array]:
    """The arrays after a run, which are the same in all ways; {} where a check fails in all."""
    check_procedure(procedure)
    one, *others = (memory_of(procedure, arrays, integers, w) for w in ("calls", "nest", "code"))
    for other in others:
        if isinstance(one, Exception):
            assert isinstance(other, Exception)
            assert (type(one), str(one)) == (type(other), str(other))
            continue
        assert isinstance(other, dict)
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name, strict=True)
    return {} if isinstance(one, Exception) else one
