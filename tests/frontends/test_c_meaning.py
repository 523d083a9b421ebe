"""C semantics: the functions of c_meaning.c, interpreted, give what the C compiler's code gives."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontends.c_functions import (
    assert_same,
    build,
    copies,
    functions_with_regions,
    needs_compiler,
    run_compiled,
    run_region,
)
from loopwright.frontends.c import CRegion, VariableKind, read_c
from loopwright.ir.evaluate import evaluate

PATH = Path(__file__).parent / "c_meaning.c"
NAMES = functions_with_regions(PATH.read_text(encoding="utf-8"))
SIZES = {"n": 11, "m": 7}
# What variables hold when the region begins, where it reads them.
BEFORE = {"scalars": {"t": 1.0}, "forwarded": {"last": 10}, "shadows": {"i": 3}}


@cache
def regions() -> dict[str, CRegion]:
    return {region.function: region for region in read_c(PATH, compiler="").regions}


def arguments(region: CRegion) -> dict[str, Any]:
    """Sizes by name, arrays of small numbers of both signs."""
    rng = np.random.default_rng(len(region.function))
    values: dict[str, Any] = {}
    known = {name: variable for name in region.parameters for variable in region.variables
             if variable.name == name}  # fmt: skip
    for name in region.parameters:
        if name in SIZES:
            values[name] = SIZES[name]
            continue
        variable = known[name]
        assert variable.kind is VariableKind.ARRAY
        sizes = {**SIZES, f"{name}_0": SIZES["n"]}
        shape = [int(evaluate(extent, sizes)) for extent in variable.shape]
        dtype = variable.dtype.numpy
        if dtype.kind == "f":
            values[name] = rng.normal(1.5, 2.0, shape).astype(dtype)
        else:
            low, high = {"b": (0, 2), "u": (0, 120)}.get(dtype.kind, (-100, 120))
            values[name] = rng.integers(low, high, shape).astype(dtype)
    return values


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("c"), PATH.read_text(encoding="utf-8"))


@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_meaning(name: str, library: ctypes.CDLL) -> None:
    region = regions()[name]
    values = arguments(region)
    compiled, interpreted = copies(values), copies(values)
    run_compiled(library, name, compiled)
    run_region(region, {**interpreted, **BEFORE.get(name, {})})
    assert_same(compiled, interpreted)


@needs_compiler
def test_the_compiler_preprocesses_alike() -> None:
    assert list(regions()) == NAMES
    theirs = {region.function: region for region in read_c(PATH).regions}
    assert theirs.keys() == regions().keys()
    for name, region in regions().items():
        assert theirs[name].variables == region.variables
        assert theirs[name].tree.body == region.tree.body  # spans included
