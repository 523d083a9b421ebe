"""The time that generated code for a mesh would take at given sizes, without running it."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.backends.athread.athread_module import MeshFunction
from loopwright.diagnostics import UsageError
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.mesh_timeline import TeamRun
from loopwright.planner.mesh_plans.mesh_dry_run import dry_run
from loopwright.planner.mesh_plans.mesh_work import index_function

__all__ = ["team_of_function"]


def team_of_function(
    function: MeshFunction, sizes: Mapping[str, int], machine: MeshMachine
) -> TeamRun:
    """What all cores do in one call of a function, given the integers that the caller passes.

    Raises UsageError where an integer is missing, DataDependent where work depends on data.
    """
    host, program = function.host, function.program
    missing = [name for name in host.given if name not in sizes]
    if missing:
        given = ", ".join(host.given)
        raise UsageError(f"the value of '{missing[0]}' is missing", hint=f"values of {given}")
    scalars = {name: sizes[name] for name in host.given}
    for name, value in host.computed.items():
        scalars[name] = index_function(value)(scalars)
    return dry_run(program, {name: scalars[name] for name in program.scalars}, machine)
