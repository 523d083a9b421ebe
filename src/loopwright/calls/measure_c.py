"""How long a function of C takes: compiled by us, and by the system's C compiler as it stands."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.calls.compile import compile
from loopwright.calls.splice import region_program
from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.frontends.c import CFile, CVariable, Origin, VariableKind
from loopwright.ir.expr import Expr, Var
from loopwright.machines.machine_argument import target_machine
from loopwright.planner.contraction_plans.call_shape import value_of
from loopwright.planner.source_order import source_order
from loopwright.runtime.address import data_address
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import num_threads
from loopwright.runtime.toolchain import build_library, find_compiler, load_library, tuning_flags
from loopwright.tuning.tasks import Run
from loopwright.tuning.time_comparison import (
    FEWEST_PAIRS,
    LEAST_RACE_GAIN,
    TimeComparison,
    compared,
)
from loopwright.tuning.worker_process import timed_pair

__all__ = ["example_arguments", "example_numbers", "measure_function"]

_SECONDS = 0.3  # to spend on each contestant, at the least one call
_ROUNDS = 15  # of the plan and the source order in turns
_FRACTIONS = 64  # of 1: products of two stay exact, and so do sums of a few thousand in float
_OPEN = 1024  # elements of an array whose extent C leaves open


def measure_function(
    file: CFile,
    path: Path,
    name: str,
    sizes: Mapping[str, int],
    *,
    default: int,
    reassoc: bool,
    threads: int | None,
    cpp_args: Sequence[str],
) -> list[str]:
    """Lines on the time of one call with arrays of small numbers: by the plan, in source order.

    `sizes` are the integer parameters by name, `default` the value of those it leaves out.
    """
    variables = _parameters(file, name)
    parameters = next(r.parameters for r in file.regions if r.function == name)
    values = example_arguments(file, name, sizes, default)
    count = num_threads() if threads is None else threads
    given: dict[str, Any] = {"function": name, "reassoc": reassoc, "threads": count}
    ours = compile(path, race=False, cpp_args=cpp_args, **given)[name]
    shown = ", ".join(f"{n} = {v}" for n, v in values.items() if isinstance(v, int))
    arguments = list(values.values())
    plans = [
        source_order(region_program(region, reassoc=reassoc), target_machine(), count)[0]
        for region in file.regions
        if region.function == name
    ]
    source = compile(path, plan=plans, cpp_args=cpp_args, **given)[name]
    raced = _raced(lambda: source(*arguments), lambda: ours(*arguments), arguments)
    seconds = raced.seconds
    lines = [f"  measured at {shown or 'the sizes of the file'}: {_verdict(raced)}"]
    theirs = _original(path, name, variables, parameters, cpp_args)
    if theirs is not None:
        original = _best(lambda: theirs(arguments))
        ratio = f"{original / seconds:.2f} times as long"
        lines.append(f"  the C compiler alone: {1e3 * original:.3g} ms, {ratio}")
    return lines


def example_arguments(
    file: CFile, name: str, sizes: Mapping[str, int], default: int
) -> dict[str, Any]:
    """Arguments of a function by name: integers of `sizes` or `default`, arrays near 1."""
    parameters = next(r.parameters for r in file.regions if r.function == name)
    unknown = sorted(set(sizes) - set(parameters))
    if unknown:
        raise UsageError(f"{name} has no parameter '{unknown[0]}'", hint=", ".join(parameters))
    return _values(_parameters(file, name), parameters, sizes, default)


def _parameters(file: CFile, name: str) -> dict[str, CVariable]:
    return {
        v.name: v
        for region in file.regions
        if region.function == name
        for v in region.variables
        if v.origin is Origin.PARAMETER
    }


def _values(
    variables: Mapping[str, CVariable],
    parameters: Sequence[str],
    sizes: Mapping[str, int],
    default: int,
) -> dict[str, Any]:
    integers = {
        name: sizes.get(name, default)
        for name in parameters
        if name not in variables
        or variables[name].kind in (VariableKind.INTEGER, VariableKind.ITERATOR)
    }
    by_tree = {v.tree_name: integers[v.name] for v in variables.values() if v.name in integers}
    random = np.random.default_rng(0)
    values: dict[str, Any] = {}
    for name in parameters:
        variable = variables.get(name)
        if variable is None or name in integers:
            values[name] = integers[name]
        elif variable.kind is VariableKind.SCALAR:
            values[name] = 1.0 if variable.dtype.is_float else 1
        else:
            shape = tuple(_extent(e, by_tree) for e in variable.shape)
            if variable.rows and variable.shape == variable.rows[:1]:  # no length is declared
                shape = (prod(_extent(e, by_tree) for e in variable.rows),)
            dtype = variable.dtype.numpy
            values[name] = example_numbers(random, shape, dtype)
    return values


def example_numbers(
    random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Numbers for an array nobody has given: real ones from 1 up to 2, whole ones from 1 to 4.

    They keep long computations finite and divisions defined. Branches on data go both ways: real
    numbers are seldom equal, whole ones in one of four comparisons.
    """
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(1, 5, shape).astype(dtype)
    return (1 + random.integers(0, _FRACTIONS, shape) / _FRACTIONS).astype(dtype)


def _extent(extent: Expr, integers: Mapping[str, int]) -> int:
    if isinstance(extent, Var) and extent.name not in integers:
        return _OPEN
    return max(0, value_of(extent, integers))


def _number_type(name: str) -> Any:
    return np.ctypeslib.as_ctypes_type(np.dtype(name))


def _raced(source: Run, plan: Run, arguments: Sequence[Any]) -> TimeComparison:
    """The plan beside the source order, on the same values, in turns; the first calls compile."""
    arrays = [x for x in arguments if isinstance(x, np.ndarray)]
    first = [x.copy() for x in arrays]

    def restore() -> None:
        for array, value in zip(arrays, first, strict=True):
            array[...] = value

    once: list[float] = []
    for run in (source, plan, source, plan):
        restore()
        start = time.perf_counter()
        run()
        once.append(time.perf_counter() - start)
    most = max(2 * _SECONDS, 3 * FEWEST_PAIRS * max(once[2:]))
    found = compared(*timed_pair(source, plan, restore, _ROUNDS, most), LEAST_RACE_GAIN)
    restore()
    if found is None:
        raise UsageError("the clock of this machine stood still", hint="greater sizes")
    return found


def _verdict(raced: TimeComparison) -> str:
    times = f"{1e3 * raced.seconds:.3g} ms by the plan, {1e3 * raced.base_seconds:.3g} ms in "
    is_faster = raced.is_faster or raced.is_far_faster
    kept = "the plan is" if is_faster else "no gain beyond the noise, the source order is"
    return f"{times}source order: {kept} kept"


def _best(call: Callable[[], object]) -> float:
    """The shortest of several calls, the first, which compiles, left out."""
    call()
    best, spent = float("inf"), 0.0
    while best == float("inf") or spent < _SECONDS:
        start = time.perf_counter()
        call()
        seconds = max(time.perf_counter() - start, 1e-6)
        best, spent = min(best, seconds), spent + seconds
    return best


def _original(
    path: Path,
    name: str,
    variables: Mapping[str, CVariable],
    parameters: Sequence[str],
    cpp_args: Sequence[str],
) -> Callable[[list[Any]], None] | None:
    """The function as the C compiler makes it; None when it cannot be called from here."""
    if any(parameter not in variables for parameter in parameters):
        return None  # of a type that no region tells
    try:
        compiler = find_compiler()
        flags = (*tuning_flags(compiler, openmp=False), *cpp_args, "-iquote", str(path.parent))
        library = load_library(build_library(path.read_text(encoding="latin-1"), flags, compiler))
        function = getattr(library, name)
    except (ToolchainError, AttributeError):
        return None  # does not compile alone, or is static
    kinds = [variables[parameter] for parameter in parameters]
    function.restype = None
    function.argtypes = [
        ctypes.c_void_p if v.kind is VariableKind.ARRAY else _number_type(v.dtype.name)
        for v in kinds
    ]

    def call(values: list[Any]) -> None:
        function(*(data_address(x) if isinstance(x, np.ndarray) else x for x in values))

    return call
