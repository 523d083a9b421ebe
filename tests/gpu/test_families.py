"""Programs of other families than the corpus, on the road to a GPU: they compute what they say.

Neural networks, image filters, dynamic programming, electromagnetics, bodies, chemistry, stencils.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from drawn import HUNTS, taken
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import gpu_differences, shim_runners
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.validate.check_data import Runner
from loopwright.validate.problem_sizes import pick_sizes

FOLDER = Path(__file__).parent / "families"
NAMES = sorted(path.stem for path in FOLDER.glob("*.c"))
TAKEN = taken(NAMES, 5)
SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 1_000

# Kernels of one thread: what stands in no parallel loop.
ONE_THREAD = {
    "edit_distance": 1,
    "potential": 1,  # the start of the sum of all
}


@cache
def planned(name: str) -> tuple[Program, LoopNest]:
    """A program and its nest; sums of every other one may be regrouped."""
    (region,) = read_c(FOLDER / f"{name}.c").regions
    program = program_of(region.tree, reassoc=NAMES.index(name) % 2 == 0)
    return program, lower_schedule(gpu_planner(program, load_gpu("sm_90"))[1])


@cache
def runners() -> dict[str, Runner]:
    """One run of the compiler serves all programs."""
    nests = [planned(name)[1] for name in TAKEN]
    return dict(zip(TAKEN, shim_runners(nests), strict=True))


def test_there_are_thirty() -> None:
    assert len(NAMES) >= 30


def test_kernels_of_one_thread() -> None:
    for name in sorted({*TAKEN, *ONE_THREAD}):
        kernels = split_kernels(planned(name)[1]).kernels
        single = [kernel for kernel in kernels if kernel.block == (1, 1, 1)]
        assert len(single) == ONE_THREAD.get(name, 0), name


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_results() -> None:
    for name in TAKEN:
        program, nest = planned(name)
        count = 6 if HUNTS else 2
        sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=count, seed=1)
        assert sizes, name
        checked = gpu_differences(program, nest, sizes, runners()[name])
        assert [str(difference) for difference in checked] == [], name
