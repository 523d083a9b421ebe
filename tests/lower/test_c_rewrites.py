"""Rewrites of the loops of C regions: taken or left, and every bit stays, by every way to run."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import compile_c, needs_cc
from backends.compiled import assert_same_bits
from drawn import in_all
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import element_strides, evaluate, interpret_program
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program, Role
from loopwright.lower.buffers import stride_name
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.values.plain_reductions import plain_reductions
from loopwright.lower.values.promote_registers import promote_scalars
from lower.c_rewrites import REWRITES, Region, regions, rows
from oracle import Arrays, run_nest

TAKEN, KEPT = rows(taken=True), rows(taken=False)
FILES = list(dict.fromkeys(each.file for each in REWRITES.values()))


def title(value: object) -> str:
    return value.title if isinstance(value, Region) else str(value)


def numbers(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    """Numbers of one of five kinds: near one, any, with NaN, with both zeros, with infinities."""
    random = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return random.integers(-3 if dtype.kind == "i" else 0, 4, shape).astype(dtype)
    found = random.standard_normal(shape)
    some = random.random(shape) < 0.2
    signs = np.copysign(1.0, random.random(shape) - 0.5)
    match seed % 5:
        case 0:
            found = random.random(shape) + 0.25
        case 2:
            found = np.where(some, np.nan, found)
        case 3:
            found = np.where(some, 0.0 * signs, np.abs(found))
        case 4:
            found = np.where(some, np.inf * signs, found)
    return np.asarray(found, dtype)


def data(program: Program, n: int, seed: int) -> Arrays:
    """Arguments of a function for the size n; other parameters are 3."""
    params = sizes(program, n)
    found = {}
    for at, array in enumerate(program.arrays):
        if array.role is not Role.LOCAL:
            shape = tuple(int(evaluate(extent, params)) for extent in array.shape)
            found[array.name] = numbers(shape, np.dtype(array.dtype.name), seed + at * (seed % 3))
    return found


def sizes(program: Program, n: int) -> dict[str, int]:
    return {name: n if name == "n" else 3 for name in program.params}


def meaning(program: Program, given: Arrays, n: int) -> Arrays:
    wanted = {name: array.copy() for name, array in given.items()}
    interpret_program(program, wanted, sizes(program, n))
    return wanted


def assert_bits(found: Mapping[str, np.ndarray], wanted: Arrays, what: object) -> None:
    for name, array in wanted.items():
        assert_same_bits(np.asarray(found[name]), array, (name, what))


def assert_kept(nest: LoopNest, program: Program, some: tuple[int, ...]) -> None:
    """The nest is valid and leaves every bit that the program leaves, for all kinds of numbers."""
    check_nest(nest)
    for seed, n in enumerate((*some, some[-1], some[-2])):
        given = data(program, n, seed)
        wanted = meaning(program, given, n)
        run_nest(nest, given, sizes(program, n))
        assert_bits(given, wanted, (program.name, n, seed))


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "region"), TAKEN, ids=title)
def test_taken(name: str, region: Region) -> None:
    each = REWRITES[name]
    nest = each.nest(region.program)
    found = each.rewrite(nest)
    assert found != nest
    assert each.has(found)
    assert_kept(found, region.program, each.sizes)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("name", "region"), TAKEN, ids=title)
def test_after_other_rewrites(name: str, region: Region) -> None:
    """Scalars that are bound, sums that add nothing where their condition fails, other types."""
    each = REWRITES[name]
    for program in (region.program, region.with_floats().program):
        nest = each.nest(program)
        for before in (promote_scalars(sink_scalars(nest)), plain_reductions(nest)):
            assert_kept(each.rewrite(before), program, each.sizes[-3:])


@pytest.mark.parametrize(("name", "region"), KEPT, ids=title)
def test_kept(name: str, region: Region) -> None:
    each = REWRITES[name]
    nest = each.nest(region.program)
    assert each.rewrite(nest) == nest


def assert_near(found: Mapping[str, np.ndarray], wanted: Arrays, what: object) -> None:
    """Equal but for roundings: functions of libraries, products that are added unrounded."""
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, 1e-12, 1e-14, err_msg=str(what))


@needs_cc
def test_c_text() -> None:
    """All nests in one file for the compiler; functions of its library round as they like."""
    cases = TAKEN if in_all() else TAKEN[::10]
    nests = [REWRITES[name].rewrite(REWRITES[name].nest(x.program)) for name, x in cases]
    for (name, region), nest, run in zip(cases, nests, compile_c(nests), strict=True):
        for seed, n in enumerate(REWRITES[name].sizes[-4:]):
            given = data(region.program, n, 5 * (seed % 2))
            wanted = meaning(region.program, given, n)
            run(given, launch(given, nest, n))
            assert_near(given, wanted, (name, region.title, n))


def launch(given: Arrays, nest: LoopNest, n: int) -> dict[str, int]:
    strides = {
        stride_name(name, k): stride
        for name, array in given.items()
        for k, stride in enumerate(element_strides(array))
    }
    return {name: strides.get(name, n if name == "n" else 3) for name in nest.scalars}


def arguments(region: Region, given: Arrays, n: int) -> list[object]:
    """In the order of the function; arrays that its region does not use are zeros."""
    found: list[object] = []
    for kind, name, shape in re.findall(r"(\w+) (\w+)([][ \w+]*)[,)]", region.text.split("{")[0]):
        if name in given:
            found.append(given[name] if shape else given[name].item())
        elif shape:
            extents = [n + 1 if "n" in x else int(x) for x in re.findall(r"\[(.*?)\]", shape)]
            found.append(np.zeros(extents, np.int32 if kind == "int" else np.float64))
        else:
            found.append(sizes(region.program, n).get(name, 3) if name != "n" else n)
    return found


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    "region", [x for file in FILES for x in regions(file)], ids=lambda x: x.title
)
def test_machine_code(region: Region) -> None:
    """Whatever the planner makes of it: sums and products round at most once less."""
    function, program = lw.compile(region.text.encode(), threads=1), region.program
    for seed, n in enumerate((3, 17, 33, 130)):
        given = data(program, n, 5 * (seed % 2))
        wanted = meaning(program, given, n)
        function(*arguments(region, given, n))
        assert_near(given, wanted, (region.title, n))
