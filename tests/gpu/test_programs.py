"""Whole programs planned for a GPU: their texts compute what they say, and compilers take them.

Kernels of the corpus, programs of other families (neural networks, image filters, dynamic
programming, electromagnetics, bodies, chemistry, stencils) and random ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from drawn import HUNTS, taken
from gpu.nvcc import QUICK, require_compiled
from gpu.shim_runner import gpu_differences
from gpu.ways import WAYS, needs_compiler, require_same, runners_of
from kernels.corpus import KERNELS, LITERAL, SYMBOLIC, write_source
from loopwright.backends.c_text.c_dialect import OPENCL
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.validate.check_data import check_data
from loopwright.validate.check_order import check_order
from loopwright.validate.problem_sizes import pick_sizes
from needed_tools import needs_nvcc
from property.random_translations import ISL_QUOTA, Translation, draw_case, has_facts

FOLDER = Path(__file__).parent / "families"
FAMILIES = sorted(path.stem for path in FOLDER.glob("*.c"))
NAMES = [*KERNELS, *FAMILIES]
# Drivers of OpenCL that compile for processors take minutes for a block that is unrolled whole.
SLOW = {"opencl": {"floyd-warshall"}}
SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 1_000
AT_ONCE = 25  # random programs in one file
SEEDS = range(200) if HUNTS else taken(range(3, 200, 20), 2)

# Kernels of one thread: what stands in no parallel loop.
ONE_THREAD = {
    "edit_distance": 1,
    "potential": 1,  # the start of the sum of all
}


@cache
def regions(name: str) -> list[Program]:
    """The regions of a program; types, kinds of sizes and orders of sums take turns."""
    if name in FAMILIES:
        (region,) = read_c(FOLDER / f"{name}.c").regions
        return [program_of(region.tree, reassoc=FAMILIES.index(name) % 2 == 0)]
    kernel, number = KERNELS[name], list(KERNELS).index(name)
    mode = LITERAL if number % 5 == 4 else SYMBOLIC
    dtype = kernel.dtypes[number % len(kernel.dtypes)]
    extents = dict.fromkeys(kernel.sizes, 4 if mode is LITERAL else 13)
    with TemporaryDirectory() as folder:
        source = write_source(kernel, Path(folder), dtype=dtype, mode=mode, extents=extents)
        return [program_of(r.tree, reassoc=number % 2 == 0) for r in read_c(source).regions]


@cache
def nests(name: str) -> list[LoopNest]:
    machine = load_gpu("sm_90")
    return [lower_schedule(gpu_planner(program, machine)[1]) for program in regions(name)]


def draw(seeds: Sequence[int]) -> list[Translation]:
    """Random programs under the plan of the model; without those that are too hard."""
    found: list[Translation] = []
    for seed in seeds:
        case = draw_case(seed)
        if case is None or not has_facts(case.program):
            continue
        plan, schedule = gpu_planner(case.program, load_gpu("sm_90"))
        try:
            with attempt(4 * ISL_QUOTA):
                found.append(Translation(case, plan, lower_schedule(schedule)))
        except GaveUp:
            continue
    return found


@pytest.mark.parametrize("way", WAYS)
def test_programs(way: str) -> None:
    """One run of the compiler serves all of them."""
    chosen = [
        name
        for name in (*taken(list(KERNELS), 11), *taken(FAMILIES, 5))
        if HUNTS or name not in SLOW.get(way, ())
    ]
    pairs = [pair for name in chosen for pair in zip(regions(name), nests(name), strict=True)]
    count = 6 if HUNTS else 2
    runs = runners_of([nest for _, nest in pairs], way)
    for (program, nest), run in zip(pairs, runs, strict=True):
        sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=count, seed=1)
        assert sizes, program.name
        told = gpu_differences(program, nest, sizes, run)
        assert [str(difference) for difference in told] == [], program.name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_random_programs(first: int, way: str) -> None:
    drawn = draw(SEEDS[first : first + AT_ONCE])
    assert drawn
    runs = runners_of([one.nest for one in drawn], way)
    for translation, run in zip(drawn, runs, strict=True):
        check_nest(translation.nest)
        for at, reference in enumerate(translation.case.references):
            told = [
                *check_order(reference, translation.nest, seed=at),
                *check_data(reference, run, way),
            ]
            assert [str(difference) for difference in told] == [], str(translation)


def test_kernels_of_one_thread() -> None:
    assert len(FAMILIES) >= 30
    for name in sorted({*taken(FAMILIES, 5), *ONE_THREAD}):
        kernels = [kernel for nest in nests(name) for kernel in split_kernels(nest).kernels]
        single = [kernel for kernel in kernels if kernel.block == (1, 1, 1)]
        assert len(single) == ONE_THREAD.get(name, 0), name


@needs_nvcc
def test_nvcc_takes_them(tmp_path: Path) -> None:
    """Without a warning; more of them in longer runs."""
    chosen = NAMES if HUNTS else taken(NAMES, 32)
    require_compiled([nest for name in chosen for nest in nests(name)], tmp_path, QUICK)


@needs_nvcc
@pytest.mark.only_in_all("nvcc takes programs of families in the usual run")
def test_nvcc_takes_random_programs(tmp_path: Path) -> None:
    """200 seeds in the hunt."""
    for first in range(0, 200, AT_ONCE) if HUNTS else [11]:
        drawn = draw(range(first, first + (AT_ONCE if HUNTS else 5)))
        require_compiled([translation.nest for translation in drawn], tmp_path, QUICK)


# -- rows that lanes walk -------------------------------------------------------------------------

# Arrays whose rows are staged, kernel by kernel.
STAGED = {"atax": "A", "mvt": "A", "gemver": "A", "gesummv": "AB", "gemm": "", "jacobi-2d": ""}


def rows_of(name: str, machine: str = "sm_90") -> tuple[Program, Schedule]:
    kernel = KERNELS[name]
    with TemporaryDirectory() as folder:
        source = write_source(kernel, Path(folder), dtype=kernel.dtypes[0], mode=SYMBOLIC)
        (region,) = read_c(source).regions
    program = program_of(region.tree, reassoc=False)
    return program, gpu_planner(program, load_gpu(machine))[1]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", STAGED)
def test_rows_that_lanes_walk_are_staged(name: str) -> None:
    schedule = rows_of(name)[1]
    assert [staged.array for staged in schedule.staged] == list(STAGED[name])
    for staged in schedule.staged:
        assert (staged.extents, staged.padding, staged.buffers) == ((32, 32), 1, 4)


@needs_compiler
def test_rows_of_many_strips() -> None:
    """Also on machines and in a dialect without asynchronous copies, which copy at once."""
    _, schedule = rows_of("atax", "sm_75")
    assert [staged.buffers for staged in schedule.staged] == [1]
    program, ahead = rows_of("atax")
    nest = lower_schedule(ahead)
    text = emit_kernels([split_kernels(nest)], OPENCL)
    assert "__local double A_box[4][32][33];" in text
    copies = [line.strip() for line in text.splitlines() if line.strip().startswith("A_box[")]
    assert len(copies) == 4  # ahead of the loop and in it, inside of A and at its border
    sizes = [dict(zip(program.params, (37, 135), strict=True))]
    require_same([(program, nest, sizes), (program, lower_schedule(schedule), sizes)], "shim")
