"""Validation of an optimised region with bounded effort.

A region whose literal sizes ask for more work than a check may take is checked as a smaller
problem: the same loops with smaller sizes, by the same steps.
"""

from __future__ import annotations

from functools import partial

from loopwright.calls.splice import Optimised
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.frontends.extract import program_of
from loopwright.frontends.tree_rewrites import shrink_sizes
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.loops import LoopNest
from loopwright.ir.machine import Machine
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.planner.planners import Planner, given_planner
from loopwright.validate import Report, check_translation
from loopwright.validate.problem_sizes import can_run, pick_sizes
from loopwright.validate.translation import validate_with_c

__all__ = ["check_region"]

_FACTORS = tuple(2**k for k in range(1, 16))
_NOT_RUN = (
    "the code at its literal sizes, which ask for more work than a check may take",
    "smaller problems: none keeps inside its arrays; define the sizes smaller with -D to check",
)


def check_region(
    found: Optimised,
    planner: Planner,
    machine: Machine | GpuMachine | MeshMachine,
    threads: int,
    *,
    reassoc: bool,
) -> tuple[Report, str]:
    """Compare the new code with the old; a note tells of a smaller problem in its place.

    Loops for a GPU or a mesh are interpreted: there may be none here that runs its code.
    """
    assert found.nest is not None, "only code that was made can be checked"
    compare = _interpreted if isinstance(machine, GpuMachine | MeshMachine) else validate_with_c
    if _is_affordable(found.program):
        return compare(found.program, found.nest), ""
    for factor in _FACTORS:
        smaller = shrink_sizes(found.region.tree, factor)
        if smaller is None:
            break
        program = bounded(partial(program_of, smaller.tree, reassoc=reassoc), lambda _: None)
        if program is None:
            continue
        made = _made(program, found, planner, machine, threads) if _is_affordable(program) else None
        if made is None:
            continue
        nest, steps = made
        sizes = ", ".join(f"{new} for {old}" for old, new in smaller.sizes.items())
        note = f"note: too large to be run; checked as a smaller problem by {steps}, with {sizes}"
        return compare(program, nest), note
    return Report((), (), _NOT_RUN), ""


def _interpreted(program: Program, nest: LoopNest) -> Report:
    def none(error: GaveUp) -> tuple[dict[str, int], ...]:
        return ()

    sizes = bounded(lambda: tuple(pick_sizes(program)), none)
    if not sizes:
        return Report((), (), ("small sizes: the program allows none",))
    told = check_translation(program, nest, sizes)
    places = "; ".join(", ".join(f"{n} = {v}" for n, v in size.items()) for size in sizes)
    return Report(told, (f"order against the interpreter at {places or 'the only size'}",), ())


def _is_affordable(program: Program) -> bool:
    # Of a program that is too hard the validation tells what it leaves out.
    return bounded(lambda: can_run(program), lambda _: True)


def _made(
    program: Program,
    found: Optimised,
    planner: Planner,
    machine: Machine | GpuMachine | MeshMachine,
    threads: int,
) -> tuple[LoopNest, str] | None:
    """The smaller program by the steps that were taken, or as it is planned by itself."""
    for way, steps in ((given_planner(found.plan), "the same steps"), (planner, "its own steps")):
        try:
            _, schedule = way(program, machine, threads)
        except (IllegalStep, UsageError):
            continue
        nest = bounded(partial(lower_schedule, schedule), lambda _: None)
        if nest is not None:
            return nest, steps
    return None
