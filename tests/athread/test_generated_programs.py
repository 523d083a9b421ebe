"""Programs of other families, and random ones, as generated Athread code on the emulator.

At small sizes they compute what the interpreter computes, at larger ones what their loops in source
order compute, compiled plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from athread.emulated import Emulated, Job
from athread.test_generated_kernels import MACHINES, SHAPES, machine_of
from drawn import HUNTS, drawn
from loopwright.backends.c_text.c_dialect import C
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.validate.check_data import compare_arrays, first_difference
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.reference_run import ReferenceRun, draw_inputs, run_reference
from loopwright.validate.runners import c_runners
from needed_tools import needs_compiler
from property.random_translations import ISL_QUOTA, draw_case, has_facts

pytestmark = needs_compiler

FAMILIES = Path(__file__).parent.parent / "gpu" / "families"
NAMES = sorted(path.stem for path in FAMILIES.glob("*.c"))
SMALL = (0, 1, 2, 3, 5, 7)
LARGE = (17, 33, 40)
PLAIN = ("-O1", "-ffp-contract=off", "-w")
SEEDS = range(1, 121)  # of random programs; of these some have no parallel loop
RANDOM_AT_ONCE = 10
# For the usual run, those that have found something: boxes of iterations that do nothing, loops
# that isl counts in other steps, a barrier in a loop without iterations.
FOUND = (5, 16, 21, 42)

# In circles of dependences, or along one loop only that carries a value.
SERIAL: set[str] = set()
NARROW: set[str] = set()  # that have no room in the 2.5 KiB that "small" has for boxes


@cache
def family(name: str) -> Program:
    (region,) = read_c(FAMILIES / f"{name}.c").regions
    return program_of(region.tree, reassoc=False)


def check(
    programs: Mapping[str, Program],
    references: Mapping[str, Sequence[ReferenceRun]],
    machine: str | MeshMachine,
    shape: tuple[int, int],
    folder: Path,
    *,
    large: Sequence[int] = LARGE,
    seed: int = 0,
) -> Emulated:
    """Build programs at once, run them at all sizes, and compare."""
    mesh = machine_of(machine) if isinstance(machine, str) else machine
    build = Emulated(programs, mesh, shape, folder)
    kept = {name: program for name, program in programs.items() if name in build}
    if not kept:
        return build
    small = [(name, run, run.fresh()) for name in kept for run in references[name]]
    compared: list[tuple[Job, Job]] = []  # to run, and to compare with
    loops = [lower_schedule(initial_schedule(program)) for program in kept.values()]
    for (name, program), run_plainly in zip(kept.items(), c_runners(loops, PLAIN, C), strict=True):
        sizes = pick_sizes(program, values=large, most=200_000, count=2 if HUNTS else 1, seed=2)
        for params in sizes:
            inputs = draw_inputs(program, params, seed=5)
            right = {key: data.copy() for key, data in inputs.items()}
            run_plainly(right, params)
            compared.append(((name, inputs, params), (name, right, params)))
    jobs: list[Job] = [(name, arrays, dict(run.params)) for name, run, arrays in small]
    done = build.run([*jobs, *(job for job, _ in compared)], seed=seed, profile=True)
    for name, run, arrays in small:
        told = compare_arrays(run, arrays, "emulator")
        assert [str(difference) for difference in told] == [], name
    for (name, arrays, params), (_, right, _) in compared:
        for array, data in right.items():
            place = first_difference(
                arrays[array], data, 0.0, signed_zeros=not programs[name].reassoc
            )
            assert place is None, f"{name}: {array}{place} at {dict(params)}"
    assert done.trace is not None
    assert done.trace.ldm_bytes <= mesh.scratchpad_bytes
    return build


FAMILY_GROUPS = [NAMES[at::8] for at in range(8)]


@pytest.mark.parametrize("number", drawn(range(8), 8, 2))
@pytest.mark.parametrize("machine", MACHINES if HUNTS else MACHINES[:1])
def test_families(number: int, machine: str, tmp_path: Path) -> None:
    names = FAMILY_GROUPS[number] if HUNTS else FAMILY_GROUPS[number][:2]
    shape = SHAPES[(number + MACHINES.index(machine)) % len(SHAPES)]
    programs = {name: family(name) for name in names}
    references = {}
    for name, program in programs.items():
        count = 5 if HUNTS else 3
        sizes = pick_sizes(program, values=SMALL, most=1_000, count=count, seed=1)
        references[name] = [run_reference(program, p, seed=at) for at, p in enumerate(sizes)]
    build = check(programs, references, machine, shape, tmp_path)
    left = SERIAL | (NARROW if machine == "small" else set())
    assert set(build.serial) == left & set(names)


RANDOM_STARTS = range(SEEDS.start, SEEDS.stop, RANDOM_AT_ONCE)


@pytest.mark.parametrize("first", drawn(RANDOM_STARTS, len(RANDOM_STARTS)))
def test_random_programs(first: int, tmp_path: Path) -> None:
    programs: dict[str, Program] = {}
    references: dict[str, Sequence[ReferenceRun]] = {}
    for seed in range(first, first + RANDOM_AT_ONCE) if HUNTS else FOUND:
        case = draw_case(seed)
        if case is None or not has_facts(case.program):
            continue
        try:
            with attempt(ISL_QUOTA):
                lower_schedule(initial_schedule(case.program))
        except GaveUp:
            continue
        programs[f"seed{seed}"] = case.program
        references[f"seed{seed}"] = case.references
    number = RANDOM_STARTS.index(first)
    machine = MACHINES[number % len(MACHINES)]
    shape = SHAPES[(number // 2) % len(SHAPES)]
    build = check(programs, references, machine, shape, tmp_path)
    # Enough of them run on cores that the hunt sees fifty.
    assert len(programs) - len(build.serial) >= (5 if HUNTS else 2)
