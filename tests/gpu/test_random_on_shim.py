"""Random programs planned for a GPU: the nest keeps the program's order, its CUDA text the data."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drawn import HUNTS, taken
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import shim_runners
from loopwright.ir.check import check_nest
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.validate.check_data import check_data
from loopwright.validate.check_order import check_order
from property.random_translations import ISL_QUOTA, Translation, draw_case, has_facts

SEEDS = range(200) if HUNTS else taken(range(3, 200, 20), 2)
AT_ONCE = 25  # programs in one file of the shim


def draw(seeds: Sequence[int]) -> list[Translation]:
    """The programs of some seeds under the plan of the model; without those that are too hard."""
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


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_random_programs(first: int) -> None:
    drawn = draw(SEEDS[first : first + AT_ONCE])
    assert drawn
    runners = shim_runners([translation.nest for translation in drawn])
    for translation, run in zip(drawn, runners, strict=True):
        check_nest(translation.nest)
        for at, reference in enumerate(translation.case.references):
            told = [
                *check_order(reference, translation.nest, seed=at),
                *check_data(reference, run, "shim"),
            ]
            assert [str(difference) for difference in told] == [], str(translation)
