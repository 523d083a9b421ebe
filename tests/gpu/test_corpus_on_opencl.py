"""Every kernel of the corpus as OpenCL text, run by a driver: it computes what the program does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from drawn import HUNTS, drawn
from gpu.opencl_runner import ROUND_EACH
from gpu.test_opencl_executable import needs_opencl
from kernels.corpus import KERNELS, LITERAL, SYMBOLIC, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.program import Program
from loopwright.machines.load_gpu import load_gpu
from loopwright.pipeline import Compilation, compile_program
from loopwright.runtime.opencl_executable import OpenclExecutable
from loopwright.validate import check_translation
from loopwright.validate.check_data import Runner
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.reference_run import Arrays

SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 1_000


def compilations(name: str, folder: Path) -> Iterator[tuple[Program, Compilation]]:
    """All regions of a kernel for OpenCL; types and sizes in turns, as the shim has them."""
    kernel, number = KERNELS[name], list(KERNELS).index(name)
    mode = LITERAL if number % 5 == 4 else SYMBOLIC
    dtype = kernel.dtypes[number % len(kernel.dtypes)]
    extents = dict.fromkeys(kernel.sizes, 4 if mode is LITERAL else 13)
    source = write_source(kernel, folder, dtype=dtype, mode=mode, extents=extents)
    for region in read_c(source).regions:
        program = program_of(region.tree, reassoc=number % 2 == 0)
        yield program, compile_program(program, load_gpu("sm_90"), 1, target="opencl")


def runner(found: Compilation) -> Runner:
    module = found.module
    assert module is not None
    assert module.device is not None
    executable = OpenclExecutable(module.device, ROUND_EACH + module.text)

    def run(arrays: Arrays, params: Mapping[str, int]) -> None:
        scalars = [params[scalar] for scalar in module.scalars]
        executable.run_from_host([arrays[b] for b in module.buffers], lambda _: scalars)

    return run


# Drivers that compile for processors take minutes for a block that is unrolled whole.
SLOW = ("floyd-warshall",)
USUAL = [name for name in KERNELS if name not in SLOW]


@needs_opencl
@pytest.mark.parametrize("name", [*drawn(USUAL, 9), *(SLOW if HUNTS else ())])
def test_kernel(name: str, tmp_path: Path) -> None:
    for program, found in compilations(name, tmp_path):
        sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=3, seed=1)
        runners = {"opencl": runner(found)}
        told = check_translation(program, found.nest, sizes, runners=runners, threads=())
        assert [str(difference) for difference in told] == []
