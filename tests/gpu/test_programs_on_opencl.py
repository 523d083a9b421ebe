"""Programs of other families and random ones as OpenCL text, run by a driver."""

from __future__ import annotations

import pytest

from drawn import HUNTS
from gpu import test_families, test_random_on_shim
from gpu.opencl_runner import opencl_runners
from gpu.test_opencl_executable import needs_opencl
from loopwright.validate.check_data import check_data
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.reference_run import run_reference

AT_ONCE = 8  # programs in one build
FAMILIES = range(0, len(test_families.NAMES), AT_ONCE)
SEEDS = range(200) if HUNTS else range(7, 200, 25)


@needs_opencl
@pytest.mark.parametrize("first", FAMILIES if HUNTS else [0])
def test_families_of_programs(first: int) -> None:
    names = test_families.NAMES[first : first + AT_ONCE]
    chosen = [(name, test_families.planned(name)) for name in names]
    runners = opencl_runners([nest for _, (_, nest) in chosen])
    for (name, (program, _)), run in zip(chosen, runners, strict=True):
        sizes = pick_sizes(
            program,
            values=test_families.SIZES,
            most=test_families.MOST_ACCESSES,
            count=6 if HUNTS else 2,
            seed=1,
        )
        for seed, params in enumerate(sizes):
            told = check_data(run_reference(program, params, seed=seed), run, "opencl")
            assert [str(difference) for difference in told] == [], name


@needs_opencl
@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_random_programs(first: int) -> None:
    drawn = test_random_on_shim.draw(SEEDS[first : first + AT_ONCE])
    assert drawn
    runners = opencl_runners([translation.nest for translation in drawn])
    for translation, run in zip(drawn, runners, strict=True):
        for reference in translation.case.references:
            told = check_data(reference, run, "opencl")
            assert [str(difference) for difference in told] == [], str(translation)
