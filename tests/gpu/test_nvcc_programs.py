"""nvcc takes the CUDA text of programs of other families and of random ones without a warning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drawn import HUNTS, taken
from gpu import test_families, test_random_on_shim
from gpu.test_nvcc import ARCHITECTURES, QUICK, compiled, programs_of
from loopwright.ir.loops import LoopNest

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")

AT_ONCE = 25 if HUNTS else 5  # random programs in one file


def _compile(nests: list[LoopNest], folder: Path) -> None:
    assert nests
    programs = programs_of(nests)
    found = compiled(programs, folder, QUICK)
    assert len(found) == sum(len(program.kernels) for program in programs) * len(ARCHITECTURES)


def test_programs_of_families(tmp_path: Path) -> None:
    names = test_families.NAMES if HUNTS else taken(test_families.NAMES, 16)
    _compile([test_families.planned(name)[1] for name in names], tmp_path)


@pytest.mark.only_in_all("nvcc takes programs of families in the usual run")
@pytest.mark.parametrize("first", range(0, 200, AT_ONCE) if HUNTS else [11])
def test_random_programs(first: int, tmp_path: Path) -> None:
    """200 seeds in the hunt."""
    drawn = test_random_on_shim.draw(range(first, first + AT_ONCE))
    _compile([translation.nest for translation in drawn], tmp_path)
