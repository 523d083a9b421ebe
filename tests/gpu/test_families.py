"""Programs of other families than the corpus, on the road to a GPU: they compute what they say.

Neural networks, image filters, dynamic programming, electromagnetics, bodies, chemistry, stencils.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from drawn import HUNTS, drawn
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
SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 1_000

# Kernels of one thread: what stands in no parallel loop.
ONE_THREAD = {
    "edit_distance": 1,
    "potential": 1,  # the start of the sum of all
}


@cache
def planned() -> dict[str, tuple[Program, LoopNest]]:
    """Programs and their nests; in the usual run half of them, every other pair of neighbours."""
    found: dict[str, tuple[Program, LoopNest]] = {}
    numbered = list(enumerate(NAMES))
    for number, name in dict(drawn(numbered, 4) + drawn(numbered, 4, first=1)).items():
        (region,) = read_c(FOLDER / f"{name}.c").regions
        program = program_of(region.tree, reassoc=number % 2 == 0)
        found[name] = program, lower_schedule(gpu_planner(program, load_gpu("sm_90"))[1])
    return found


@cache
def runners() -> dict[str, Runner]:
    """One run of the compiler serves all programs."""
    nests = [nest for _, nest in planned().values()]
    return dict(zip(planned(), shim_runners(nests), strict=True))


def test_there_are_thirty() -> None:
    assert len(NAMES) >= 30


def test_kernels_of_one_thread() -> None:
    found: dict[str, int] = {}
    for name, (_, nest) in planned().items():
        single = [k for k in split_kernels(nest).kernels if k.block == (1, 1, 1)]
        if single:
            found[name] = len(single)
    assert found == ONE_THREAD


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_results() -> None:
    for name, (program, nest) in planned().items():
        count = 6 if HUNTS else 2
        sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=count, seed=1)
        assert sizes, name
        checked = gpu_differences(program, nest, sizes, runners()[name])
        assert [str(difference) for difference in checked] == [], name
