"""Every kernel of the corpus: its trees with either preprocessor, and its results."""

from pathlib import Path

import numpy as np
import pytest

from drawn import drawn
from frontends.c_functions import COMPILER, needs_compiler, run_region
from kernels.corpus import (
    CONSTANT,
    KERNELS,
    LITERAL,
    MODES,
    SYMBOLIC,
    Mode,
    arrays_of,
    differences,
    fresh,
    make_inputs,
    reference,
    write_source,
)
from loopwright.frontends.c import CFile, CRegion, VariableKind, read_c
from loopwright.frontends.tree_text import tree_text
from loopwright.ir.expr import Const

SIZE = 5
BEFORE = {"correlation": {"least": 0.1}}  # what locals hold when the region begins


def read(folder: Path, name: str, mode: Mode, compiler: str | None = "") -> CFile:
    kernel = KERNELS[name]
    path = write_source(kernel, folder, mode=mode, extents=kernel.square(SIZE))
    return read_c(path, compiler=compiler)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", drawn(KERNELS, 2))
def test_every_mode_is_read(name: str, tmp_path: Path) -> None:
    for mode in MODES:
        regions = read(tmp_path, name, mode.with_restrict()).regions
        plain = read(tmp_path, name, mode).regions
        assert [tree_text(r.tree) for r in regions] == [tree_text(r.tree) for r in plain]
        arrays = [v for r in regions for v in r.variables if v.kind is VariableKind.ARRAY]
        if mode is not SYMBOLIC:
            assert all(isinstance(e, Const) for v in arrays for e in v.shape)
        if mode is LITERAL:
            assert not any(v.kind is VariableKind.INTEGER for r in regions for v in r.variables)


@needs_compiler
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["gemm", "nussinov", "deriche", "nasty_regions", "nasty_mixed"])
def test_both_preprocessors_agree(name: str, tmp_path: Path) -> None:
    for mode in MODES:
        own, theirs = (read(tmp_path, name, mode, compiler) for compiler in ("", COMPILER))
        for one, other in zip(own.regions, theirs.regions, strict=True):
            assert tree_text(one.tree) == tree_text(other.tree)
            assert (one.start, one.end) == (other.start, other.end)
            assert one.variables == other.variables


@pytest.mark.drawn(3)
@needs_compiler
@pytest.mark.parametrize("name", drawn(KERNELS, 2, 1))
def test_meaning(name: str, tmp_path: Path) -> None:
    kernel = KERNELS[name]
    inputs = make_inputs(kernel, kernel.square(SIZE))
    mode = MODES[len(name) % 3]
    for function in (kernel.function, *kernel.also):
        expected = reference(kernel, inputs, function=function)
        assert expected is not None
        found = fresh(inputs)
        for region in read(tmp_path, name, mode).regions:
            if region.function == function:
                run_region(region, values_for(name, region, found))
        assert differences(kernel, arrays_of(found), expected, same_order=True) == []


def values_for(name: str, region: CRegion, given: dict[str, object]) -> dict[str, object]:
    """Arguments by name; arrays of the file start as zeros, char is what the machine says."""
    values = dict(given)
    values.update(BEFORE.get(name, {}))
    for variable in region.variables:
        value = values.get(variable.name)
        dtype = variable.dtype.numpy
        if isinstance(value, np.ndarray) and value.dtype != dtype:
            values[variable.name] = value.view(dtype)
        elif value is None and variable.shape:
            shape = [e.value for e in variable.shape if isinstance(e, Const)]
            values[variable.name] = np.zeros(shape, dtype)  # type: ignore[arg-type]
    return values


def test_modes_differ_as_they_should(tmp_path: Path) -> None:
    heads = {
        mode: tree_text(read(tmp_path, "gemm", mode).regions[0].tree).splitlines()[:3]
        for mode in MODES
    }
    assert heads[CONSTANT][1] == "    for i in range(ni):"
    assert heads[SYMBOLIC][0].endswith(
        "C: float64[ni, nj], A: float64[ni, nk], B: float64[nk, nj]):"
    )
    assert heads[LITERAL][1] == "    for i in range(5):"
