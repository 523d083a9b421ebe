"""Passes over matrices as generated Athread code: nests that read a matrix together.

Strict programs leave the bits of plain C. Where sums may be reassociated, those of small whole
numbers are exact in any order, and of others near.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from athread.emulated import Emulated, Job
from athread.kernel_runs import has_bits_of
from athread.test_generated_kernels import machine_of, sizes_near
from drawn import HUNTS, combined
from kernels.corpus import CONSTANT, KERNELS, SYMBOLIC, make_inputs, reference, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.program import Program
from loopwright.validate.check_data import compare_arrays
from loopwright.validate.reference_run import run_reference
from mesh.random_nests import random_nests
from needed_tools import needs_compiler

pytestmark = needs_compiler

NAMES = ("mvt", "atax", "bicg", "gemver", "gesummv")
SHAPES = ((8, 8), (4, 8), (1, 16))
MACHINES = ("sw26010", "sw26010pro", "small")
SIZES = (0, 1, 7, 33, 67, 73)
LARGEST = 73  # the first extent of arrays of constant extents: all of it, or less, is used


@cache
def program_named(name: str, *, is_constant: bool, reassoc: bool) -> Program:
    mode, extents = (CONSTANT, extents_of(name)) if is_constant else (SYMBOLIC, None)
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(KERNELS[name], Path(folder), mode=mode, extents=extents)
        (region,) = read_c(source).regions
        return program_of(region.tree, reassoc=reassoc)


def extents_of(name: str) -> dict[str, int]:
    return {word: LARGEST + 6 * at for at, word in enumerate(KERNELS[name].sizes)}


def calls(name: str, *, is_constant: bool, is_exact: bool) -> list[tuple[Job, dict[str, Any]]]:
    """Calls of a kernel, each with the arrays that plain C leaves."""
    kernel = KERNELS[name]
    extents = extents_of(name) if is_constant else None
    random = np.random.default_rng(5)
    found = []
    for size in SIZES:
        chosen = sizes_near(kernel, size)
        inputs = make_inputs(kernel, chosen, extents=extents)
        if not is_exact:
            for array, value in inputs.items():
                if isinstance(value, np.ndarray):
                    inputs[array] = random.standard_normal(value.shape).astype(value.dtype)
        expected = reference(kernel, inputs, extents=extents)
        assert expected is not None
        arrays = {
            key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
            for key, value in inputs.items()
        }
        found.append(((name, arrays, chosen), expected))
    return found


@pytest.mark.parametrize(
    ("name", "machine", "shape", "is_constant", "reassoc"),
    combined(NAMES, MACHINES, SHAPES, (True, False), (True, False), one_in=1 if HUNTS else 17),
)
def test_passes_on_the_emulator(
    name: str,
    machine: str,
    shape: tuple[int, int],
    is_constant: bool,
    reassoc: bool,
    tmp_path: Path,
) -> None:
    program = program_named(name, is_constant=is_constant, reassoc=reassoc)
    build = Emulated({name: program}, machine_of(machine), shape, tmp_path)
    assert build.serial == []
    for is_exact in (True, False):
        some = calls(name, is_constant=is_constant, is_exact=is_exact)
        build.run([job for job, _ in some])
        for (_, arrays, sizes), expected in some:
            for array, right in expected.items():
                told = f"{array} at {sizes}"
                if is_exact or not reassoc:
                    assert has_bits_of(arrays[array], right), told
                else:
                    np.testing.assert_allclose(arrays[array], right, 1e-9, 1e-9, err_msg=told)


@pytest.mark.parametrize("first", range(0, 60, 6) if HUNTS else (0,))
def test_random_nests_on_the_emulator(first: int, tmp_path: Path) -> None:
    count = 6 if HUNTS else 2
    programs = {f"seed{seed}": random_nests(seed) for seed in range(first, first + count)}
    sizes = [{"n": n, "m": m} for n, m in ((0, 3), (1, 1), (5, 13), (20, 23))]
    references = {
        name: [run_reference(one, params, seed=2) for params in sizes]
        for name, one in programs.items()
    }
    machine = MACHINES[first // 6 % len(MACHINES)]
    shape = SHAPES[first // 18 % len(SHAPES)]
    build = Emulated(programs, machine_of(machine), shape, tmp_path)
    runs = [
        (name, run, run.fresh()) for name in programs if name in build for run in references[name]
    ]
    build.run([(name, arrays, dict(run.params)) for name, run, arrays in runs])
    for name, run, arrays in runs:
        told = compare_arrays(run, arrays, "emulator")
        assert [str(difference) for difference in told] == [], name
    assert len(build.serial) < count / 2
