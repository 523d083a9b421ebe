"""Machine code of a plan, of the source order, and on two threads: the same bits (ADR 55).

And those of the C compiler's code, where calls may race against it (calls/compiler_code).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from drawn import drawn
from kernels.corpus import KERNELS, Inputs, Kernel, arrays_of, fresh, make_inputs, write_source
from loopwright.calls.specialisation import Specialisation
from loopwright.diagnostics import UsageError
from loopwright.machines.host import host
from loopwright.planner.planners import Planner, text_planner
from loopwright.planner.source_order import source_order
from loopwright.runtime.kernel import CompiledKernel
from wide.corpus import WIDE, wide_inputs

PROGRAMS = {**WIDE, **KERNELS}


def given(program: Kernel) -> Inputs:
    if program.name in WIDE:
        return wide_inputs(program, "MINI")
    return make_inputs(program, program.at("MINI"))


@pytest.mark.drawn(19)
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


@needs_cc
@pytest.mark.drawn(19)
@pytest.mark.parametrize("name", drawn(PROGRAMS, 16))
def test_code_of_the_c_compiler_has_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    source = write_source(program, tmp_path, extents=program.at("MINI"))

    def found(code: Any) -> dict[str, Any]:
        values = fresh(given(program))
        code[program.function](*values.values())
        return arrays_of(values)

    first = found(lw.compile(str(source), threads=1, race=False))
    usual, taken = Specialisation._planned_kernel, []

    def by_compiler(planner: Planner) -> Any:
        def kernel(self: Specialisation, *rest: Any) -> CompiledKernel:
            whole = self._polyhedral().program
            try:
                made = self._compiler_kernel(planner(whole, host(), 1)[0])
            except UsageError:  # its code might have other bits
                return usual(self, *rest)
            taken.append(made)
            return made

        return kernel

    for planner in (text_planner, source_order):
        monkeypatch.setattr(Specialisation, "_planned_kernel", by_compiler(planner))
        other = found(lw.compile(str(source), threads=1, race=False))
        for array, values in first.items():
            assert np.array_equal(values.view(np.uint8), other[array].view(np.uint8)), array
    if not taken:
        pytest.skip("no region of this program has such code")
