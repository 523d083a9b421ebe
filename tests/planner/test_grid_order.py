"""The order of loops for a GPU: parallel loops outermost, sums in the threads."""

from dataclasses import replace

import pytest

from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.planner.grid_plans.grid_order import plan_grid_order
from loopwright.transform.plan import apply_plan, initial_schedule
from programs import matmul

GPU = load_gpu("sm_90")


@pytest.mark.parametrize("reassoc", [False, True])
def test_sums_stay_inside_the_loops_of_their_elements(reassoc: bool) -> None:
    """Terms that may be reordered are no reason to map the loop over them."""
    program = replace(matmul(), reassoc=reassoc)
    steps = plan_grid_order(initial_schedule(program), GPU)
    found = apply_plan(program, steps)
    assert [band.loop for band in bands(nodes_of(found))] == ["i", "j", "k"]
    (product,) = gpu_planner(program, GPU)[1].contractions
    assert product.loops == ("i", "j", "k")
