"""C programs as found elsewhere: the C compiler, interpreter, `compile` and `cc` agree."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drawn import drawn, in_all
from frontends.c_functions import (
    assert_same,
    build,
    copies,
    functions_with_regions,
    needs_compiler,
    run_region,
)
from loopwright import cli
from loopwright.frontends.c import CFile, CRegion, Origin, VariableKind, read_c
from loopwright.ir.evaluate import evaluate

FOLDER = Path(__file__).parent / "c_programs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.c"))
SIZES = {"n": 19, "m": 14, "nx": 11, "ny": 12, "h": 13, "w": 17, "steps": 5}
SMALL = {"n": 2, "m": 1, "nx": 2, "ny": 3, "h": 1, "w": 2, "steps": 3}
SCALARS = {"c": 0.05, "k": 0.1, "nu": 0.02, "dt": 0.01, "r": 0.03, "scale": 1.5}
LARGEST = 2.0  # of the floating numbers that functions are called with
Values = dict[str, Any]


@cache
def read(name: str) -> CFile:
    return read_c(FOLDER / f"{name}.c")


FUNCTIONS = [
    (name, function)
    for name in NAMES
    for function in functions_with_regions((FOLDER / f"{name}.c").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_those_of_the_regions(name: str) -> None:
    functions = dict.fromkeys(region.function for region in read(name).regions)
    assert [(name, function) for function in functions] == [x for x in FUNCTIONS if x[0] == name]


def regions_of(name: str, function: str) -> list[CRegion]:
    return [region for region in read(name).regions if region.function == function]


def arguments(regions: list[CRegion], sizes: dict[str, int]) -> Values:
    """A value for every parameter of a function: positive numbers, small integers."""
    rng = np.random.default_rng(len(regions[0].function))
    known = {v.name: v for r in regions for v in r.variables if v.origin is Origin.PARAMETER}
    values: Values = {}
    for name in regions[0].parameters:
        variable = known.get(name)
        is_array = variable is not None and variable.kind is VariableKind.ARRAY
        if name in sizes and not is_array:
            values[name] = sizes[name]
        elif variable is None or variable.kind is not VariableKind.ARRAY:
            dtype = np.float64 if variable is None else variable.dtype.numpy.type
            values[name] = dtype(SCALARS[name])
        else:
            values[name] = _array(variable.shape, variable.dtype.numpy, sizes, name, rng)
    return values


def _array(
    shape: Any, dtype: np.dtype[Any], sizes: dict[str, int], name: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    table = {**sizes, f"{name}_0": sizes.get("n", 0)}
    extents = [int(evaluate(extent, table)) for extent in shape]
    if dtype.kind == "f":
        return rng.uniform(0.5, LARGEST, extents).astype(dtype)
    high = 2 if dtype.itemsize < 4 else 5
    return rng.integers(0, high, extents).astype(dtype)


def call(library: ctypes.CDLL, function: str, values: Values) -> None:
    """Call a function of a library by the types of its arguments."""
    args: list[Any] = []
    for value in values.values():
        match value:
            case np.ndarray():
                args.append(ctypes.c_void_p(value.ctypes.data))
            case np.float32():
                args.append(ctypes.c_float(float(value)))
            case float() | np.float64():
                args.append(ctypes.c_double(float(value)))
            case _:
                args.append(ctypes.c_int(int(value)))
    getattr(library, function)(*args)


def exported(text: str) -> str:
    """The text with functions that hold regions visible from outside."""
    return text.replace("static void two(", "void two(")


@cache
def library(name: str) -> ctypes.CDLL:
    import tempfile

    text = exported((FOLDER / f"{name}.c").read_text(encoding="utf-8"))
    return build(Path(tempfile.mkdtemp()), text)


def expected(name: str, function: str, values: Values) -> Values:
    found = copies(values)
    call(library(name), function, found)
    return found


@pytest.mark.drawn(3)
@needs_compiler
@pytest.mark.parametrize("sizes", [SIZES, SMALL], ids=["plain", "small"])
@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_read_means_what_the_compiler_does(name: str, function: str, sizes: dict[str, int]) -> None:
    regions = regions_of(name, function)
    values = arguments(regions, sizes)
    found = copies(values)
    for region in regions:
        run_region(region, {**_globals(region), **found})
    assert_same(expected(name, function, values), found, largest_term=LARGEST)


def _globals(region: CRegion) -> Values:
    """Constants of the file that the region reads."""
    given = {param.name for param in region.tree.params}
    known = [v for v in region.variables if v.tree_name in given and v.init]
    return {v.name: float(v.init) for v in known}


def assert_close(right: Values, found: Values) -> None:
    """Compare arrays; products may be rounded together with sums (fma)."""
    for name, wanted in right.items():
        if isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f":
            eps = 256 * float(np.finfo(wanted.dtype).eps)
            near = eps * float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
            np.testing.assert_allclose(found[name], wanted, eps, near, err_msg=name)
        elif isinstance(wanted, np.ndarray):
            np.testing.assert_array_equal(found[name], wanted, err_msg=name)


@needs_compiler
@pytest.mark.parametrize("name", drawn(NAMES, 7 if in_all() else 14, 1))
def test_cc_checked_and_run(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.c"
    assert cli.main(["cc", str(FOLDER / f"{name}.c"), "--check", "-o", str(output)]) == 0
    assert "different" not in capfd.readouterr().err
    optimised = build(tmp_path, exported(output.read_text(encoding="utf-8")))
    for file, function in FUNCTIONS:
        if file != name:
            continue
        for sizes in (SIZES, SMALL):
            values = arguments(regions_of(name, function), sizes)
            found = copies(values)
            call(optimised, function, found)
            assert_close(expected(name, function, values), found)
