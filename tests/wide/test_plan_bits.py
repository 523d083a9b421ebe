"""Machine code of a plan, of the source order, and on two threads: the same bits (ADR 55)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from drawn import drawn
from kernels.corpus import KERNELS, Inputs, Kernel, arrays_of, fresh, make_inputs, write_source
from loopwright.machines.host import host
from loopwright.planner.source_order import source_order
from wide.corpus import WIDE, wide_inputs

PROGRAMS = {**WIDE, **KERNELS}


def given(program: Kernel) -> Inputs:
    if program.name in WIDE:
        return wide_inputs(program, "MINI")
    return make_inputs(program, program.at("MINI"))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", drawn(PROGRAMS, 16))
def test_all_orders_have_the_same_bits(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    source = write_source(program, tmp_path, extents=program.at("MINI"))
    written = [source_order(region, host(), 1)[0] for region in lw.parse_c(str(source))]
    codes = [
        lw.compile(str(source), threads=1),
        lw.compile(str(source), threads=2),
        lw.compile(str(source), plan=written, threads=1),
    ]
    results = []
    for code in codes:
        found = fresh(given(program))
        code[program.function](*found.values())
        results.append(arrays_of(found))
    first, *others = results
    for other in others:
        for array, values in first.items():
            assert np.array_equal(values.view(np.uint8), other[array].view(np.uint8)), array
