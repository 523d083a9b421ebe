"""The corpus through `loopwright cc`: by one thread and by two equal to plain C.

Every kernel at five sizes, among them those at which loops do not run; element types change from
kernel to kernel. Files of a group are compiled by one command.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.c_compiled import has_openmp, needs_cc
from drawn import drawn, in_all
from kernels.build import bind, link, system_compiler
from kernels.corpus import (
    KERNELS,
    PLAIN,
    SYMBOLIC,
    Kernel,
    Sizes,
    arrays_of,
    differences,
    fresh,
    make_inputs,
    write_source,
)
from kernels.rewrite import rewrite

pytestmark = needs_cc

GROUPS = 3
WARNINGS = ("-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused")


def chosen_dtype(name: str) -> str:
    kernel = KERNELS[name]
    return kernel.dtypes[list(KERNELS).index(name) % len(kernel.dtypes)]


def sizes_of(kernel: Kernel) -> list[Sizes]:
    return [*(kernel.square(n) for n in (0, 1, 2, 13)), kernel.at("MINI")]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("group", range(GROUPS))
def test_spliced_kernels_are_equal_to_plain_c(group: int, tmp_path: Path) -> None:
    names = drawn(list(KERNELS)[group::GROUPS], 3 if in_all() else 5, group)
    compiler = system_compiler()
    assert compiler is not None
    sources = [
        write_source(KERNELS[name], tmp_path, mode=SYMBOLIC, dtype=chosen_dtype(name))
        for name in names
    ]
    plain = link([compiler, *PLAIN], sources)
    flags = ("-fopenmp",) if has_openmp() else ()
    rewritten = [rewrite(source, always=True) for source in sources]
    ours = link([compiler, *PLAIN, "-O0", *WARNINGS, *flags], rewritten)
    wrong = []
    for threads in (1, 2) if flags else (1,):
        if flags:
            ours.omp_set_num_threads(threads)
        for name in names:
            kernel, dtype = KERNELS[name], chosen_dtype(name)
            for sizes in sizes_of(kernel):
                inputs = make_inputs(kernel, sizes, dtype)
                for function in (kernel.function, *kernel.also):
                    found, right = fresh(inputs), fresh(inputs)
                    bind(ours, kernel, dtype, function)(*found.values())
                    bind(plain, kernel, dtype, function)(*right.values())
                    told = differences(kernel, arrays_of(found), arrays_of(right), same_order=True)
                    wrong += [f"{line} ({function}, {sizes}, {threads} threads)" for line in told]
    assert wrong == []
