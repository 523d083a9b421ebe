"""Kernels whose lanes walk rows: what is staged, and CUDA text on the shim at many strips."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawn import taken
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import shim_runners
from kernels.corpus import KERNELS, SYMBOLIC, write_source
from loopwright.backends.c_text.c_dialect import OPENCL
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.validate.check_data import check_data
from loopwright.validate.reference_run import run_reference

# Arrays whose rows are staged, kernel by kernel.
STAGED = {
    "atax": "A",
    "bicg": "A",
    "mvt": "A",
    "gemver": "A",
    "gesummv": "AB",
    "gemm": "",
    "jacobi-2d": "",
}
SIZES = ((70,), (37, 135))  # of programs with one parameter, and with two


def planned(name: str, folder: Path, machine: str = "sm_90") -> tuple[Program, Schedule]:
    kernel = KERNELS[name]
    extents = dict.fromkeys(kernel.sizes, 13)
    source = write_source(kernel, folder, dtype=kernel.dtypes[0], mode=SYMBOLIC, extents=extents)
    (region,) = read_c(source).regions
    program = program_of(region.tree, reassoc=False)
    return program, gpu_planner(program, load_gpu(machine))[1]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", STAGED)
def test_rows_that_lanes_walk_are_staged(name: str, tmp_path: Path) -> None:
    schedule = planned(name, tmp_path)[1]
    assert [staged.array for staged in schedule.staged] == list(STAGED[name])
    for staged in schedule.staged:
        assert (staged.extents, staged.padding, staged.buffers) == ((32, 32), 1, 4)


def test_machines_without_asynchronous_copies(tmp_path: Path) -> None:
    (staged,) = planned("atax", tmp_path, "sm_75")[1].staged
    assert staged.buffers == 1


def test_opencl_copies_at_once(tmp_path: Path) -> None:
    """A dialect without asynchronous copies makes plain ones."""
    nest = lower_schedule(planned("atax", tmp_path)[1])
    text = emit_kernels([split_kernels(nest)], OPENCL)
    assert "__local double A_box[4][32][33];" in text
    copies = [line.strip() for line in text.splitlines() if line.strip().startswith("A_box[")]
    assert len(copies) == 4  # ahead of the loop and in it, inside of A and at its border


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_results_of_many_strips(tmp_path: Path) -> None:
    cases: list[tuple[Program, LoopNest]] = []
    names = [name for name, arrays in STAGED.items() if arrays]
    for number, name in taken(list(enumerate(names)), 4):
        machine = "sm_75" if number % 2 else "sm_90"
        program, schedule = planned(name, tmp_path, machine)
        nest = lower_schedule(schedule)
        check_nest(nest)
        cases.append((program, nest))
    runners = shim_runners([nest for _, nest in cases])
    for number, ((program, _), run) in enumerate(zip(cases, runners, strict=True)):
        values = SIZES[len(program.params) - 1]
        sizes = dict(zip(program.params, values, strict=True))
        reference = run_reference(program, sizes, seed=number)
        told = check_data(reference, run, "shim")
        assert [str(difference) for difference in told] == [], program.name
