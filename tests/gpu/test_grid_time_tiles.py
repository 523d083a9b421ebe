"""Stencils in overlapped tiles in blocks of a GPU: right at ragged sizes, planned where it pays."""

from __future__ import annotations

from math import prod
from textwrap import dedent
from typing import Any

import pytest

from drawn import in_all
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import shim_runners
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.planner.grid_plans.grid_stencils import plan_grid_stencil
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.time_tiles import TileTimeInBlocks
from loopwright.validate import check_translation
from loopwright.validate.check_data import check_data
from loopwright.validate.reference_run import run_reference
from mesh.test_time_tiles import source, stencil
from programs import Do, For, program

GPU = load_gpu("sm_90")
SIZES = {"jacobi-1d": (7,), "jacobi-2d": (5, 4), "heat-3d": (4, 5, 4), "fdtd-2d": (4, 5)}
SHAPES = ((1, 2, 1), (2, 3, 1), (2, 2, 2), (1, 4, 3))  # rows and columns of threads, neighbours


@pytest.mark.drawn(16)
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_compute_what_they_say(name: str, steps: int, shape: tuple[int, int, int]) -> None:
    wanted = source(name)
    rows, columns, each = shape if len(SIZES[name]) > 1 else (1, *shape[1:])
    step = TileTimeInBlocks(steps, SIZES[name], rows, columns, each)
    nest = lower_schedule(apply_plan(wanted, [step]))
    check_nest(nest)
    most = 5 if name == "heat-3d" else 9
    sizes = [
        {p: time if "step" in p else n + k for k, p in enumerate(wanted.params)}
        for n, time in ((0, 1), (1, 1), (3, 0), (5, 1), (most, 5))
    ]
    assert check_translation(wanted, nest, sizes) == ()


def test_golden() -> None:
    half = program(
        "half", {"A": "inout float64 [n]"},
        For("t", 0, "m", For("i", 0, "n", Do("A[i]", "A[i] * 0.5"))),
        params="n m",
    )  # fmt: skip
    nest = lower_schedule(apply_plan(half, [TileTimeInBlocks(4, (8,), 1, 4, 2)]))
    text = stmt_text(nest.body)
    start = text.rindex("    let first_step")
    assert "\n" + dedent(text[start:]) + "\n" == dedent("""
        let first_step: int64 = m * (block + 1) // blocks
        let steps: int64 = m * (block + 2) // blocks - first_step
        block x for block.x in range(max((n + 7) // 8, 0)):
            alloc shared A_box: float64[8] strides [1]
            thread x for thread.x in range(4):
                let tile0: int64 = block.x * 8
                let A_at0: int64 = max(tile0, 0)
                let A_by0: int64 = min(tile0 + 8, n) - A_at0
                for x0 in range(A_at0 + thread.x, A_at0 + A_by0, 4):
                    A_box[x0 - A_at0] = A_next[x0]
                barrier of the block
                for step in range(steps):
                    for x0 in range(max(tile0, 0) + thread.x * 2, min(tile0 + 8, n), 8):
                        if x0 + 2 <= min(tile0 + 8, n):
                            let value0: float64 = A_box[x0 - A_at0] * 0.5
                            let value1: float64 = A_box[x0 - A_at0 + 1] * 0.5
                            A_box[x0 - A_at0] = value0
                            A_box[x0 - A_at0 + 1] = value1
                        else:
                            for element in range(x0, min(min(x0 + 2, tile0 + 8), n)):
                                A_box[element - A_at0] = A_box[element - A_at0] * 0.5
                    barrier of the block
                for x0 in range(tile0 + thread.x, tile0 + min(n - tile0, 8), 4):
                    A[x0] = A_box[x0 - A_at0]
        """)


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_the_text_of_kernels_computes_the_same() -> None:
    """Emitted CUDA, compiled as C++, with tiles as large as those of the planner."""
    wanted = source("jacobi-2d")
    schedule = gpu_planner(wanted, GPU)[1]
    assert schedule.time_tiles is not None
    (run,) = shim_runners([lower_schedule(schedule)])
    sizes = {"tsteps": 3 if in_all() else 2, "n": 55}
    assert check_data(run_reference(wanted, sizes, seed=1), run, "shim") == ()


@pytest.mark.parametrize("name", ["jacobi-1d", "jacobi-2d", "fdtd-2d"])
def test_tiles_are_taken_where_they_pay(name: str) -> None:
    start = initial_schedule(source(name))
    (step,) = plan_grid_stencil(start, GPU)
    assert isinstance(step, TileTimeInBlocks)
    assert step.steps > 1
    tiles = step.apply(start).time_tiles
    assert tiles is not None
    found = tiles.stencil
    taken = sum(prod(tiles.extents(box)) * 8 for box, _ in found.boxes)
    assert GPU.occupancy(step.rows * step.columns, 64, taken).blocks > 0


def test_tiles_are_left_where_they_do_not_pay() -> None:
    """In space the borders of a tile are larger than the tile."""
    assert plan_grid_stencil(initial_schedule(source("heat-3d")), GPU) == ()


@pytest.mark.parametrize("update", ["A[0] + p[t]", "A[i] * 0.5"])
def test_elements_that_go_by_themselves_are_no_stencil(update: str) -> None:
    """Sums, and steps of one element each: threads take elements, and steps are their loop."""
    target = update[: update.index(" ")]
    inner = Do(target, update)
    own = program(
        "own", {"A": "inout float64 [n]", "p": "in float64 [m]"},
        For("t", 0, "m", inner if target == "A[0]" else For("i", 0, "n", inner)),
        params="n m",
    )  # fmt: skip
    assert plan_grid_stencil(initial_schedule(own), GPU) == ()


def test_tiles_are_left_where_elements_stay_in_memory() -> None:
    """A plan without registers shows what they bring; it is made of sweeps."""
    plan, _ = gpu_planner(source("jacobi-2d"), GPU, in_registers=False)
    assert "tile_time_in_blocks" not in {step.kind for step in plan}


def test_refusals() -> None:
    step = TileTimeInBlocks(2, (8, 8), 2, 2)
    with pytest.raises(IllegalStep, match="S0 reads what it writes in the same step"):
        step.apply(initial_schedule(stencil("B[i - 1]")))
    with pytest.raises(IllegalStep, match="the grids have 1 dimensions"):
        step.apply(initial_schedule(source("jacobi-1d")))
    with pytest.raises(IllegalStep, match="the loops are mapped already"):
        step.apply(step.apply(initial_schedule(source("jacobi-2d"))))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((0, (8,), 1, 4), "tile_time_in_blocks takes 1 to 32 steps"),
        ((33, (8,), 1, 4), "tile_time_in_blocks takes 1 to 32 steps"),
        ((2, (), 1, 4), "takes tiles of one element or more"),
        ((2, (8, 0), 1, 4), "takes tiles of one element or more"),
        ((2, (8,), 2, 4), "takes threads along dimensions of the grids"),
        ((2, (8,), 1, 1), "takes threads along dimensions of the grids"),
        ((2, (8,), 1, 4, 0), "threads of tile_time_in_blocks compute one element or more"),
    ],
)
def test_bad_parameters(values: tuple[Any, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TileTimeInBlocks(*values)
