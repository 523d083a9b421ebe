"""What is tuned: a contraction, or the loops of a function, for the sizes of one call.

A task is data that a child process can be sent. It names its records, gives the construction (the
plan of the machine model) and the plans around another, and lays out a bench: arrays, and the code
of any plan on them. Code is made by the road that calls take, so that every plan is proven there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.faults import FAULTS
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.extract import program_of
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.islkit import ISL_QUOTA, bounded
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.kernels import contraction_kernel, nest_kernel, thread_pool
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.buffers import stride_name
from loopwright.lower.contraction_nests.launch import launch
from loopwright.pipeline import compile_einsum, compile_program
from loopwright.planner.contraction_plans.analytical import choose
from loopwright.planner.contraction_plans.contraction_cost import choice_seconds
from loopwright.planner.contraction_plans.given_choice import given_choice, plan_of
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.planners import given_planner, model_planner
from loopwright.runtime.array_arguments import Array, element_strides, made_for
from loopwright.transform.plan import Plan, apply_plan
from loopwright.tuning.candidates import contraction_neighbours
from loopwright.tuning.loop_candidates import loop_neighbours
from loopwright.tuning.records import Key, contraction_key, program_key

__all__ = [
    "Bench",
    "ContractionBench",
    "ContractionTask",
    "Measurable",
    "ProgramTask",
    "Run",
    "Task",
]

Run = Callable[[], None]

# Measured over predicted times of plans around a construction, in terms of the construction's, have
# standard deviations of 0.14 (contractions) and 0.45 (loops) in log2. The best prediction of a
# hundred is wrong by more than three of them: of 120 contractions the model would change five with
# 1.4, and two of these were slower, at predicted gains of 1.46 and 1.63 (Neoverse N1).
_CONTRACTION_ERROR = 1.8
_LOOPS_ERROR = 2.8
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NO_TABLE = np.zeros(0, dtype=np.int64)


class Bench(Protocol):
    """Arrays of one task, in the process that measures."""

    def build(self, plan: Plan) -> Run:
        """The code of a plan on the arrays; raises where it is refused."""

    def restore(self) -> None:
        """Give the arrays that are written the values they began with."""

    def results(self) -> list[Array]:
        """The arrays that are written."""

    def arrays(self) -> list[Array]:
        """All arrays that a run reads or writes."""

    @property
    def terms(self) -> int:
        """How many roundings may lie between two orders of summation."""


class Measurable(Protocol):
    """What a child process can measure plans of."""

    def bench(self) -> Bench:
        """Arrays to measure on."""


class Task(Measurable, Protocol):
    """What is tuned."""

    @property
    def key(self) -> Key: ...

    def construction(self) -> Plan:
        """The plan of the machine model."""

    def neighbours(self, plan: Plan) -> Iterator[Plan]:
        """Plans that differ from `plan` in one decision, likely ones first."""

    def fits(self, plan: Plan) -> bool:
        """Whether a plan, from a record say, is legal for this task."""

    def predict(self, plan: Plan) -> float:
        """Seconds of a run by the closed form; NaN where it has none, or the plan does not fit."""

    @property
    def prediction_error(self) -> float:
        """The factor by which a prediction must be better before it is believed unmeasured."""

    @property
    def looks_ahead(self) -> int:
        """Plans that are predicted at a time, before the best of them is measured."""


# -- contractions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContractionTask:
    """A contraction of given extents and strides."""

    algebra: Algebra
    shape: ContractionShape  # not arranged
    machine: Machine
    threads: int
    reassoc: bool = True

    @property
    def key(self) -> Key:
        given = self.algebra, self.shape, self.machine, self.threads
        return contraction_key(*given, reassoc=self.reassoc)

    def construction(self) -> Plan:
        given = self.shape, self.algebra, self.machine, self.threads
        return plan_of(choose(*given, reassoc=self.reassoc))

    def neighbours(self, plan: Plan) -> Iterator[Plan]:
        given = self.shape, self.algebra, self.machine, self.threads
        return contraction_neighbours(plan, *given, reassoc=self.reassoc)

    def fits(self, plan: Plan) -> bool:
        given = self.shape, self.algebra, self.machine, self.threads
        try:
            given_choice(plan, *given, reassoc=self.reassoc)
        except UsageError:
            return False
        return True

    def predict(self, plan: Plan) -> float:
        given = self.shape, self.algebra, self.machine, self.threads
        try:
            return choice_seconds(given_choice(plan, *given, reassoc=self.reassoc), self.machine)
        except UsageError:
            return math.nan

    @property
    def prediction_error(self) -> float:
        return _CONTRACTION_ERROR

    @property
    def looks_ahead(self) -> int:
        return 64

    def bench(self) -> ContractionBench:
        return ContractionBench(self)

    @property
    def letters(self) -> str:
        """A letter for every loop, in the order of the bundles."""
        return _LETTERS[: sum(map(len, self.shape.bundles))]

    @property
    def names(self) -> EinsumSubscripts:
        """An einsum with these loops, of which the kernel is proven."""
        letters = iter(_LETTERS)
        batch, i, j, p = ("".join(next(letters) for _ in dims) for dims in self.shape.bundles)
        left, right = batch + i + p, batch + p + j
        operands = (left,) if self.algebra.times == "first" else (left, right)
        return EinsumSubscripts(operands, batch + i + j)


class ContractionBench:
    """Operands and result of a contraction, in memory of their own."""

    def __init__(self, task: ContractionTask) -> None:
        self._task = task
        algebra, bundles = task.algebra, task.shape.bundles
        types = (algebra.left, algebra.right, algebra.out)
        arrays = []
        for k, (operand, dtype) in enumerate(zip(("left", "right", "out"), types, strict=True)):
            dims = [d for bundle in bundles for d in bundle]
            arrays.append(_filled(dims, operand, task.shape.bases[k], dtype.numpy))
        (_, self._left), (_, self._right), (self._memory, self._out) = arrays
        if algebra.times == "first":
            self._right = self._left
        self._first = self._memory.copy()
        if algebra.initial is Initial.ZERO:
            self._first[...] = 0  # a kernel that writes nothing is noticed
        one = np.ones((), dtype=algebra.accumulator.numpy)
        self._extra = [one] * (algebra.scaled + (algebra.initial is Initial.SCALED))

    @property
    def terms(self) -> int:
        return self._task.shape.sizes[3]

    def build(self, plan: Plan) -> Run:
        task = self._task
        given = task.shape, task.algebra, task.machine, task.threads
        choice = given_choice(plan, *given, reassoc=task.reassoc)
        names = task.names
        kernel = contraction_kernel(
            choice.kernel, lambda: compile_einsum(names, choice, is_given=True)
        )
        values = launch(choice.variant, choice.blocks, choice.shape)
        bound = kernel.bind(values.values, values.table, choice.threads, thread_pool)
        left, right = self._left, self._right
        if choice.variant.swapped:
            left, right = right, left
        arrays = (self._out, left, right, *self._extra)
        return lambda: bound(*arrays)

    def restore(self) -> None:
        self._memory[...] = self._first

    def results(self) -> list[Array]:
        return [self._memory]

    def arrays(self) -> list[Array]:
        return [self._memory, self._left, self._right]

    def operands(self) -> dict[str, Array]:
        """Views with a dimension for every loop, by the names of the program of `names`."""
        task = self._task
        batch, i, j, p = task.shape.bundles
        parts = {
            "left": (self._left, 0, (*batch, *i, *p)),
            "right": (self._right, 1, (*batch, *p, *j)),
            "out": (self._out, 2, (*batch, *i, *j)),
        }
        if task.algebra.times == "first":
            del parts["right"]
        found = {
            name: np.lib.stride_tricks.as_strided(
                array[task.shape.bases[k] :],
                [d.extent for d in dims],
                [getattr(d, name) * array.itemsize for d in dims],
            )
            for name, (array, k, dims) in parts.items()
        }
        scalars = ["alpha"] * task.algebra.scaled
        scalars += ["beta"] * (task.algebra.initial is Initial.SCALED)
        return found | dict(zip(scalars, self._extra, strict=True))


def _filled(dims: list[Dim], operand: str, base: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Memory with elements near 1, and an array that begins where the shape counts from."""
    strides = [getattr(d, operand) for d in dims]
    ends = [(d.extent - 1) * s for d, s in zip(dims, strides, strict=True)]
    before = -sum(end for end in ends if end < 0) + max(0, -base)
    size = before + base + sum(end for end in ends if end > 0) + 1
    generator = np.random.default_rng(0)
    if dtype.kind in "fc":
        memory = (1 + generator.random(size, dtype=np.float32) / 2).astype(dtype)
    else:
        memory = generator.integers(0, 2 if dtype.kind == "b" else 4, size).astype(dtype)
    return memory, memory[before:]


# -- loops ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ProgramTask:
    """The loops of a function with the arguments of one call."""

    source: SourceTree | Program
    reassoc: bool
    program: str  # what names the function in records
    params: dict[str, int]
    arrays: dict[str, Array]  # by name, with the values that the call begins with
    written: tuple[str, ...]  # arrays that the function writes
    machine: Machine
    threads: int

    @property
    def key(self) -> Key:
        strides = {name: element_strides(array) for name, array in self.arrays.items()}
        dtype = str(self.arrays[self.written[0]].dtype) if self.written else ""
        where = self.machine, self.threads
        return program_key(self.program, self.params, strides, dtype, *where)

    def made(self) -> Program:
        """The function in the polyhedral model, for the calling thread."""
        if isinstance(self.source, Program):
            return self.source
        return program_of(self.source, reassoc=self.reassoc)

    def construction(self) -> Plan:
        return model_planner(self.made(), self.machine, self.threads)[0]

    def neighbours(self, plan: Plan) -> Iterator[Plan]:
        return loop_neighbours(plan, self.made(), self.machine, self.threads)

    def fits(self, plan: Plan) -> bool:
        try:
            apply_plan(self.made(), plan)
        except (IllegalStep, UsageError):
            return False
        return True

    def predict(self, plan: Plan) -> float:
        program = self.made()

        def predicted() -> float:
            schedule = apply_plan(program, plan)
            return schedule_seconds(schedule, self.machine, self.params, self.threads)

        try:
            return bounded(predicted, lambda _: math.nan, ISL_QUOTA)
        except (IllegalStep, UsageError, *FAULTS):
            return math.nan

    @property
    def prediction_error(self) -> float:
        return _LOOPS_ERROR

    @property
    def looks_ahead(self) -> int:
        return 8

    def bench(self) -> Bench:
        return _ProgramBench(self)


class _ProgramBench:
    terms = 64

    def __init__(self, task: ProgramTask) -> None:
        self._task = task
        self._arrays = task.arrays
        self._first = {name: task.arrays[name].copy() for name in task.written}
        self._program = task.made()
        self._strides = {
            stride_name(name, d): stride
            for name, array in task.arrays.items()
            for d, stride in enumerate(element_strides(array))
        }

    def build(self, plan: Plan) -> Run:
        task = self._task
        unit = made_for(self._strides)
        text = hashlib.sha256(plan.dumps().encode()).hexdigest()
        planner = given_planner(plan)
        kernel = nest_kernel(
            f"tuned {task.program} {sorted(unit.items())} {task.threads > 1} {text}",
            lambda: (
                compile_program(self._program, task.machine, task.threads, planner, unit=unit).nest
            ),
        )
        values = task.params | self._strides
        bound = kernel.bind(values, _NO_TABLE, task.threads, thread_pool)
        arrays = [self._arrays[name] for name in kernel.buffers]
        return lambda: bound(*arrays)

    def restore(self) -> None:
        for name, first in self._first.items():
            self._arrays[name][...] = first

    def results(self) -> list[Array]:
        return [self._arrays[name] for name in self._first]

    def arrays(self) -> list[Array]:
        return list(self._arrays.values())
