"""Stencils whose planes stream, as generated Athread code: the emulator computes what C computes.

Bits are compared, all checks of the emulator are on. Plans are the planner's, and ones by hand
whose tiles are small, so that small grids have many of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from athread.emulated import Emulated, Job, of_cores
from athread.test_generated_kernels import MACHINES, SHAPES, machine_of
from drawn import HUNTS, combined, drawn
from loopwright.backends.c_text.c_dialect import C
from loopwright.diagnostics import UsageError
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from loopwright.transform.plan import Plan, apply_plan
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.stream_time import StreamTime
from loopwright.validate.check_data import first_difference
from loopwright.validate.reference_run import draw_inputs
from loopwright.validate.runners import c_runners
from mesh.streamed_programs import PLANE, SPACE
from needed_tools import needs_compiler

pytestmark = needs_compiler

PLAIN = ("-O1", "-ffp-contract=off", "-w")
EXTENTS = ((3, 0, 5), (1, 1, 1), (4, 7, 5), (13, 17, 19), (33, 20, 23), (24, 24, 32))
EXTENTS = EXTENTS if HUNTS else EXTENTS[:4]
SLAVE = "programs_slave.c"


def jobs_of(programs: Mapping[str, Program], steps: int) -> list[tuple[Job, Job]]:
    """Calls of all programs, each with the arrays that their loops in source order leave."""
    loops = [lower_schedule(initial_schedule(program)) for program in programs.values()]
    found: list[tuple[Job, Job]] = []
    for (name, program), run in zip(programs.items(), c_runners(loops, PLAIN, C), strict=True):
        for at, extents in enumerate(EXTENTS):
            params = dict(zip("abc", extents, strict=True)) | {"m": at % (steps + 3)}
            params = {key: params[key] for key in program.params}
            inputs = draw_inputs(program, params, seed=at)
            right = {key: data.copy() for key, data in inputs.items()}
            run(right, params)
            found.append(((name, inputs, params), (name, right, params)))
    return found


def require_equal(found: list[tuple[Job, Job]]) -> None:
    for (name, arrays, params), (_, right, _) in found:
        for array, data in right.items():
            place = first_difference(arrays[array], data, 0.0, signed_zeros=True)
            assert place is None, f"{name}: {array}{place} at {dict(params)}"


ALL = SPACE | PLANE


def plan_that_fits(name: str, machine: MeshMachine, shape: tuple[int, int], steps: int) -> Plan:
    """A stream of so many time steps, or of the most that the scratchpad has room for."""
    for many in range(steps, 0, -1):
        plan = Plan((StreamTime(many, (11, 5, 9) if name in SPACE else (11, 9), *shape),))
        schedule = apply_plan(ALL[name], plan)
        try:
            of_cores(ALL[name], lower_schedule(schedule), machine, name, schedule.program)
        except UsageError:
            continue
        return plan
    raise AssertionError(f"one step of {name} has no room on {machine.name}")


@pytest.mark.parametrize(
    ("names", "machine", "shape", "steps"),
    combined(
        [tuple(SPACE), tuple(PLANE)], MACHINES[:2], SHAPES, (1, 2, 5), one_in=1 if HUNTS else 11
    ),
)
def test_plans_by_hand(
    names: tuple[str, ...], machine: str, shape: tuple[int, int], steps: int, tmp_path: Path
) -> None:
    chosen = {name: ALL[name] for name in (names if HUNTS else names[steps % 3 :: 3])}
    plans = {name: plan_that_fits(name, machine_of(machine), shape, steps) for name in chosen}
    build = Emulated(chosen, machine_of(machine), shape, tmp_path, plans=plans)
    found = jobs_of(chosen, steps)
    done = build.run([job for job, _ in found], seed=steps, profile=True)
    require_equal(found)
    assert done.trace is not None
    assert done.trace.ldm_bytes <= machine_of(machine).scratchpad_bytes


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "machine"), drawn([(n, m) for n in ALL for m in MACHINES], 1 if HUNTS else 10, 2)
)
def test_plans_of_the_planner(name: str, machine: str, tmp_path: Path) -> None:
    shape = SHAPES[list(ALL).index(name) % len(SHAPES)]
    build = Emulated({name: ALL[name]}, machine_of(machine), shape, tmp_path)
    found = jobs_of({name: ALL[name]}, 4)
    done = build.run([job for job, _ in found], profile=True)
    require_equal(found)
    assert done.trace is not None
    assert done.trace.ldm_bytes <= machine_of(machine).scratchpad_bytes


def test_a_window_that_is_too_short_is_found(tmp_path: Path) -> None:
    """The next plane would come to the slot of one that is still used."""

    def changed(path: str, text: str) -> str:
        assert path != SLAVE or "_plane - A_at0, 6);" in text
        return text.replace(", 6);", ", 5);") if path == SLAVE else text

    plans = {"cube": Plan((StreamTime(2, (11, 5, 9), 8, 8),))}
    build = Emulated(
        {"cube": SPACE["cube"]}, machine_of("sw26010"), (8, 8), tmp_path, plans=plans, edit=changed
    )
    with pytest.raises(AthreadFault, match="under transfer by the athread_get"):
        build.run([job for job, _ in jobs_of({"cube": SPACE["cube"]}, 2)][3:4])
