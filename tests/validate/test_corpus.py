"""Every kernel of the corpus under the plan that the compiler chooses for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawn import drawn
from kernels.corpus import CONSTANT, KERNELS, LITERAL, SYMBOLIC, Mode, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.planners import model_planner
from loopwright.validate import check_translation
from loopwright.validate.check_data import Runner
from loopwright.validate.check_order import is_parallel
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.runners import jit_runners

SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 2_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


def programs(number: int, mode: Mode, folder: Path) -> list[Program]:
    """The regions of a kernel; types and leave to reassociate change from one to the next."""
    kernel = list(KERNELS.values())[number]
    dtype = kernel.dtypes[number % len(kernel.dtypes)]
    # Literal bounds are the extents: small ones, so that the interpreter can follow.
    extents = dict.fromkeys(kernel.sizes, 4 if mode is LITERAL else 13)
    source = write_source(kernel, folder, dtype=dtype, mode=mode, extents=extents)
    regions = read_c(source).regions
    return [program_of(region.tree, reassoc=number % 2 == 0) for region in regions]


def compiled(nest: LoopNest) -> dict[str, Runner]:
    """Machine code for one thread and for two."""
    teams = (1, 2) if is_parallel(nest) else (1,)
    names = (f"jit, {threads} threads" for threads in teams)
    return dict(zip(names, jit_runners(nest, teams), strict=True))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("number", drawn(range(len(KERNELS)), 6), ids=drawn(KERNELS, 6))
def test_kernel(number: int, folder: Path) -> None:
    """None, one, two and primes: as many sizes as the interpreter can follow."""
    for program in programs(number, (SYMBOLIC, CONSTANT)[number // 2 % 2], folder):
        nest = lower_schedule(model_planner(program, host(), 2)[1])
        sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=5, seed=number)
        assert len(sizes) >= (1 if not program.params else 3)
        found = check_translation(program, nest, sizes, runners=compiled(nest), threads=(2,))
        assert [str(difference) for difference in found] == []
