"""Every kernel of the corpus as CUDA text, run by the shim: it computes what the program does."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawn import taken
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import gpu_differences, shim_runners
from kernels.corpus import KERNELS, LITERAL, SYMBOLIC, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.validate.check_data import Runner
from loopwright.validate.problem_sizes import pick_sizes

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")

SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 1_000


def translations(folder: Path) -> dict[str, list[tuple[Program, LoopNest, Runner]]]:
    """All regions of all kernels as nests for a GPU; one run of the compiler serves them."""
    named: list[tuple[str, Program, LoopNest]] = []
    for number, kernel in taken(list(enumerate(KERNELS.values())), one_in=11):
        mode = LITERAL if number % 5 == 4 else SYMBOLIC
        dtype = kernel.dtypes[number % len(kernel.dtypes)]
        extents = dict.fromkeys(kernel.sizes, 4 if mode is LITERAL else 13)
        source = write_source(kernel, folder, dtype=dtype, mode=mode, extents=extents)
        for region in read_c(source).regions:
            program = program_of(region.tree, reassoc=number % 2 == 0)
            schedule = gpu_planner(program, load_gpu("sm_90"))[1]
            named.append((kernel.name, program, lower_schedule(schedule)))
    runners = shim_runners([nest for _, _, nest in named])
    found: dict[str, list[tuple[Program, LoopNest, Runner]]] = {name: [] for name in KERNELS}
    for (name, program, nest), runner in zip(named, runners, strict=True):
        found[name].append((program, nest, runner))
    return found


def test_kernels(tmp_path: Path) -> None:
    for name, regions in translations(tmp_path).items():
        for program, nest, runner in regions:
            sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=2, seed=1)
            told = gpu_differences(program, nest, sizes, runner)
            assert [str(difference) for difference in told] == [], name
