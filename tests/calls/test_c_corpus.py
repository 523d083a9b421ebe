"""Kernels of the corpus through `loopwright cc`: with and without OpenMP equal to plain C.

All files are compiled by one command; sizes include those at which loops do not run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.c_compiled import has_openmp, needs_cc
from kernels.build import bind, link, system_compiler
from kernels.corpus import (
    KERNELS,
    SYMBOLIC,
    arrays_of,
    differences,
    fresh,
    make_inputs,
    reference,
    write_source,
)
from loopwright.calls.plans import model_planner
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c

pytestmark = needs_cc

# One of each shape; the whole corpus is raced and checked by the benchmark.
NAMES = (
    "gemm",
    "trmm",
    "floyd-warshall",
    "jacobi-2d",
    "nasty_mirror",
    "nasty_mixed",
    "nasty_regions",
    "nasty_unsigned",
)
PLAIN = ("-O1", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The kernels with optimised regions; all sizes in one file each."""
    found = []
    for name in NAMES:
        folder = tmp_path_factory.mktemp("kernels")
        file = read_c(write_source(KERNELS[name], folder, mode=SYMBOLIC))
        planner = model_planner(parallel=True)
        results = [
            optimise_region(file, region, planner, target="openmp", always=True)
            for region in file.regions
        ]
        found.append(folder / f"{name}.opt.c")
        found[-1].write_bytes(spliced(file, results))
    return found


@pytest.mark.parametrize(
    "flags",
    [
        (),
        pytest.param(
            ("-fopenmp",),
            marks=pytest.mark.skipif(not has_openmp(), reason="the C compiler has no OpenMP"),
        ),
    ],
    ids=["serial", "openmp"],
)
def test_spliced_kernels_are_equal_to_plain_c(files: list[Path], flags: tuple[str, ...]) -> None:
    compiler = system_compiler()
    assert compiler is not None
    library = link([compiler, *PLAIN, *flags], files)
    if flags:
        library.omp_set_num_threads(2)
    wrong = []
    for name in NAMES:
        kernel = KERNELS[name]
        for sizes in (kernel.square(0), kernel.square(1), kernel.at("MINI")):
            inputs = make_inputs(kernel, sizes)
            for function in (kernel.function, *kernel.also):
                found = fresh(inputs)
                bind(library, kernel, None, function)(*found.values())
                right = reference(kernel, inputs, function=function)
                assert right is not None
                wrong += differences(kernel, arrays_of(found), right, same_order=True)
    assert wrong == []
