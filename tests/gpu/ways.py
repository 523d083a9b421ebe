"""The ways in which nests for a GPU are run without one: CUDA text on the shim, OpenCL by a driver.

@pytest.mark.parametrize("way", WAYS)
def test_sums(way: str) -> None:
    require_same([(program, nest, sizes)], way)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from gpu.opencl_runner import opencl_runners, why_not_opencl
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import shim_runners
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.validate.check_data import Runner, check_data
from loopwright.validate.reference_run import run_reference

__all__ = ["WAYS", "Case", "needs_compiler", "needs_opencl", "require_same", "runners_of"]

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
needs_opencl = pytest.mark.skipif(bool(why_not_opencl()), reason=why_not_opencl())
WAYS = [pytest.param("shim", marks=needs_compiler), pytest.param("opencl", marks=needs_opencl)]
Case = tuple[Program, LoopNest, Sequence[Mapping[str, int]]]  # with the sizes to run it at

_RUNNERS: dict[str, Callable[[Sequence[LoopNest]], tuple[Runner, ...]]] = {
    "shim": shim_runners,
    "opencl": opencl_runners,
}


def runners_of(nests: Sequence[LoopNest], way: str) -> tuple[Runner, ...]:
    """The text of nests, built at once."""
    return _RUNNERS[way](nests)


def require_same(cases: Sequence[Case], way: str) -> None:
    """Each nest leaves what its program leaves, and the same bits when it runs again."""
    runners = runners_of([nest for _, nest, _ in cases], way)
    for (program, _, sizes), run in zip(cases, runners, strict=True):
        for seed, params in enumerate(sizes):
            reference = run_reference(program, params, seed=seed)
            told = check_data(reference, run, way)
            assert [str(difference) for difference in told] == [], (program.name, params)
            once, again = reference.fresh(), reference.fresh()
            run(once, params)
            run(again, params)
            assert all(data.tobytes() == again[name].tobytes() for name, data in once.items())
