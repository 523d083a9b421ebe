"""What isl says of a function: its program, its limits, what it is, how to run it.

Loads isl and the compiler, so it is imported where a call finds nothing in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import NoReturn, assert_never

from loopwright.analysis.find_contractions import explain, whole_contraction
from loopwright.analysis.subscript_bounds import bounds_violation, find_violation, predicate_text
from loopwright.calls.function_summary import Argument, FunctionSummary, Result
from loopwright.diagnostics import Diagnostic, UsageError
from loopwright.faults import FAULTS, survive
from loopwright.frontends.extract import program_of
from loopwright.frontends.source_tree import ArrayParam, IntParam, Param, ScalarParam, SourceTree
from loopwright.ir.contraction import Contraction, LoopRange
from loopwright.ir.expr import Const, Var
from loopwright.ir.interpret import interpret_program
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.loops import LoopNest
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import program_text
from loopwright.pipeline import Compilation, compile_contraction, compile_program
from loopwright.planner.contraction_plans.analytical import Choice
from loopwright.planner.planners import given_planner, model_planner, repeated_planner
from loopwright.runtime.array_arguments import Array
from loopwright.time_limit import time_limit
from loopwright.transform.plan import Plan, apply_plan

__all__ = ["PolyhedralFunction", "unsafe_sizes"]

# What the contraction kernels combine factors by: operators the machine models have costs for.
_TIMES = frozenset({"add", "sub", "mul", "div", "min", "max", "and", "or", "xor"})

# Products of one matrix or vector in a batch, and elements of a matrix that many vectors meet, up
# to which loops are faster: 8 x 8 x 8, and 4 x 4.
_SMALL_PRODUCT, _SMALL_MATRIX = 512, 16


class PolyhedralFunction:
    """A function in the polyhedral model.

    isl objects belong to the thread that makes them, so this is made where it is needed and not
    kept.
    """

    def __init__(self, tree: SourceTree, *, reassoc: bool) -> None:
        self.tree = tree
        too_hard = partial(_refuse, f"the conditions of '{tree.name}' are too hard to analyse")
        with time_limit(tree.name):
            self.program = bounded(lambda: program_of(tree, reassoc=reassoc), too_hard)

    def summary(self) -> FunctionSummary:
        """What calls need to know."""
        program = self.program
        with time_limit(program.name):
            unsafe, contraction = unsafe_sizes(program), self._contraction()
        result = self.tree.result
        return FunctionSummary(
            self.tree.name,
            tuple(map(_argument, self.tree.params)),
            None if result is None else Result(result.names, result.is_tuple),
            program.params,
            program.arrays,
            unsafe,
            contraction,
        )

    def _contraction(self) -> Contraction | None:
        """The contraction that the program as a whole is, if there is a kernel for it."""
        try:
            found = bounded(lambda: whole_contraction(self.program), lambda _: None)
        except FAULTS as error:
            survive(error, f"the contractions of '{self.program.name}'")
            return None
        if found is None or found.times not in _TIMES:
            return None
        if self.program.array(found.out.array).role is Role.LOCAL:
            return None  # nobody sees the result, and no call brings memory for it
        if found.is_filter:
            return None  # kernels would take every window apart; loops share what they load
        if _is_written_out(found):
            return None  # offsets and edges of a tile would take longer than its products
        if _is_computed_for_one_use(found):
            return None  # kernels would store every value and load it once
        # `y[i] += a * x[i]` reduces and multiplies nothing: one loop does without temporaries.
        return found if found.p or found.right is not None else None

    def violation(self, params: Mapping[str, int]) -> Diagnostic:
        """What goes wrong for parameters that the summary calls unsafe."""
        found = find_violation(self.program, params)
        assert found is not None, f"{self.program.name} is safe for {params}"
        return found

    def compiled(
        self,
        machine: Machine,
        threads: int,
        plan: Plan | None,
        unit: Mapping[str, int],
        earlier: Plan | None = None,
    ) -> Compilation:
        """The loops of the function for arrays with these unit strides, by the model or a plan.

        `earlier` is what the model has decided before, where that is known.
        """
        planner = model_planner if earlier is None else repeated_planner(earlier)
        if plan is not None:
            planner = given_planner(plan)
        return compile_program(self.program, machine, threads, planner, unit=unit)

    def kernel_nest(self, choice: Choice, *, is_given: bool = False) -> LoopNest:
        """The loops of the function as the contraction it is; see `compile_contraction`."""
        return compile_contraction(self.program, choice, is_given=is_given)

    def run(self, arrays: Mapping[str, Array], params: Mapping[str, int]) -> None:
        """Execute the function by the oracle, statement by statement."""
        interpret_program(self.program, arrays, params)

    def text(self) -> str:
        """The statements and their order."""
        return program_text(self.program)

    def schedule(self, machine: Machine, threads: int, plan: Plan | None) -> Schedule:
        """The order of the loops, by the model or a plan."""
        if plan is not None:
            return apply_plan(self.program, plan)
        return model_planner(self.program, machine, threads)[1]

    def plan(self, machine: Machine, threads: int) -> Plan:
        """The steps of the model for the loops of the function."""
        return model_planner(self.program, machine, threads)[0]

    def explain(self) -> tuple[str, ...]:
        """What each statement is taken for."""
        return explain(self.program)


def _is_computed_for_one_use(found: Contraction) -> bool:
    """Whether a factor is more than an element, and every value of it is used in one product only.

    Values of left are used once for each iteration of j, those of right once for each of i.
    """
    sides = ((found.left, found.j), (found.right, found.i))
    return any(
        side is not None and not free and not side.is_element(found.dtype) for side, free in sides
    )


def _is_written_out(found: Contraction) -> bool:
    """Whether many products of constant sizes are so small that loops do better than kernels.

    Batches of them, or vectors times one small matrix.
    """
    sizes = [math.prod(map(_extent, bundle)) for bundle in (found.i, found.j, found.p)]
    if found.batch:
        return 0 < math.prod(sizes) <= _SMALL_PRODUCT
    fixed = [size for size in sizes if size]
    is_matrix = len(fixed) == 2 and bool(found.p) and sizes[2] > 0
    return is_matrix and math.prod(fixed) <= _SMALL_MATRIX


def _extent(loop: LoopRange) -> int:
    """The iterations of a loop where they are constant; else 0."""
    match loop:
        case LoopRange(start=Const(value=int(start)), stop=Const(value=int(stop))):
            return max(0, stop - start)
    return 0


def _argument(param: Param) -> Argument:
    match param:
        case ArrayParam(name=name, dtype=dtype, shape=shape):
            sizes = tuple(extent.name if isinstance(extent, Var) else "" for extent in shape)
            return Argument("array", name, dtype.name, sizes)
        case IntParam(name=name):
            return Argument("int", name, "int64", ())
        case ScalarParam(name=name, dtype=dtype):
            return Argument("scalar", name, dtype.name, ())
        case _:
            assert_never(param)


def unsafe_sizes(program: Program) -> str:
    """For which parameters some subscript leaves its array, as a Python expression."""
    too_hard = partial(_refuse, f"the subscripts of '{program.name}' are too hard to check")
    return bounded(lambda: predicate_text(bounds_violation(program)), too_hard)


def _refuse(what: str, _: GaveUp) -> NoReturn:
    raise UsageError(what, hint="simpler conditions, or several functions") from None
