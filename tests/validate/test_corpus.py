"""Every kernel of the corpus under the plan that the compiler chooses for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.corpus import CONSTANT, KERNELS, LITERAL, SYMBOLIC, Kernel, write_source
from loopwright.frontends.c import read_c
from loopwright.ir.program import Program
from loopwright.lower.astgen import lower_schedule
from loopwright.pipeline import generic_schedule, program_of
from loopwright.validate import check_translation
from loopwright.validate.runners import jit_runner
from loopwright.validate.sizes import pick_sizes

MODES = (SYMBOLIC, CONSTANT, LITERAL)
MOST_ACCESSES = 2_000
EVERY = 3  # kernels of which one is also compiled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


def programs(kernel: Kernel, folder: Path, number: int) -> list[Program]:
    """The regions of a kernel; mode, type and leave to reassociate change from one to the next."""
    mode = MODES[number % len(MODES)]
    dtype = kernel.dtypes[number % len(kernel.dtypes)]
    # Literal bounds are the extents: small ones, so that the interpreter can follow.
    extents = dict.fromkeys(kernel.sizes, 4 if mode is LITERAL else 13)
    source = write_source(kernel, folder, dtype=dtype, mode=mode, extents=extents)
    regions = read_c(source).regions
    return [program_of(region.tree, reassoc=number % 2 == 0) for region in regions]


@pytest.mark.parametrize("number", range(len(KERNELS)), ids=list(KERNELS))
def test_kernel(number: int, folder: Path) -> None:
    kernel = list(KERNELS.values())[number]
    for program in programs(kernel, folder, number):
        _, schedule = generic_schedule(program, parallel=True)
        nest = lower_schedule(schedule)
        sizes = pick_sizes(program, most=MOST_ACCESSES, count=4, seed=number)
        assert len(sizes) >= (1 if not program.params else 3)
        is_compiled = number % EVERY == 0
        runners = {"jit": jit_runner(nest, threads=1 + number % 2)} if is_compiled else {}
        found = check_translation(program, nest, sizes, runners=runners, threads=(2,))
        assert [str(difference) for difference in found] == []
