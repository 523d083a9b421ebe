"""Kernels of the corpus as generated Athread code: the emulator computes what plain C computes.

Bits are compared: sums keep their order, and nothing is contracted. All checks of the emulator are
on, also that no core reads what it has put itself before a barrier.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from athread.emulated import Emulated, Job
from athread.kernel_runs import call_of, has_bits_of
from drawn import HUNTS, combined
from kernels.corpus import KERNELS, SYMBOLIC, write_source
from kernels.manifest import Kernel
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.machines.load_mesh import load_mesh
from needed_tools import needs_compiler

pytestmark = needs_compiler

# The thirteen of the seed, then others.
NAMES = (
    "gemm", "gemver", "gesummv", "symm", "syrk", "syr2k", "trmm", "2mm", "3mm", "atax", "bicg",
    "doitgen", "mvt", "jacobi-1d", "jacobi-2d", "heat-3d", "fdtd-2d", "floyd-warshall",
    "covariance", "correlation",
)  # fmt: skip
SHAPES = ((8, 8), (1, 64), (4, 8), (1, 32), (2, 8), (1, 16))
MACHINES = ("sw26010", "sw26010pro", "small")
SIZES = (0, 1, 7, 33, 48, 64, 67)
# The largest size of kernels that take long.
SLOW = {"doitgen": 16, "symm": 33, "heat-3d": 33, "floyd-warshall": 33, "covariance": 48}
LOCALS = {"correlation": {"least": 0.1}}  # scalars that a function sets before its region


@cache
def machine_of(name: str) -> MeshMachine:
    """A machine by name; the small one has so little LDM that small arrays have many tiles."""
    if name != "small":
        return load_mesh(name)
    return replace(load_mesh("sw26010"), scratchpad_bytes=8192)


@cache
def program_named(name: str) -> Program:
    with tempfile.TemporaryDirectory() as folder:
        (region,) = read_c(write_source(KERNELS[name], Path(folder), mode=SYMBOLIC)).regions
        return program_of(region.tree, reassoc=False)


def sizes_near(kernel: Kernel, size: int) -> dict[str, int]:
    """Different sizes near a number; the steps of time are few."""
    step = 0 if size < 2 else 1 if size < 20 else 6
    return {
        word: max(kernel.least.get(word, 0), min(size, 3) if "step" in word else size + at * step)
        for at, word in enumerate(kernel.sizes)
    }


def wanted(
    name: str, most: int = 1 << 30, sizes: tuple[int, ...] = SIZES
) -> list[tuple[Job, dict[str, Any]]]:
    """Calls of a kernel, each with the arrays that plain C leaves."""
    kernel = KERNELS[name]
    found = []
    for size in sizes:
        if size > SLOW.get(name, most):
            continue
        (_, arrays, chosen), expected = call_of(name, sizes_near(kernel, size))
        arrays |= {key: np.array(value) for key, value in LOCALS.get(name, {}).items()}
        found.append(((name, arrays, chosen), expected))
    return found


@pytest.mark.parametrize(
    ("name", "machine", "shape"), combined(NAMES, MACHINES, SHAPES, one_in=1 if HUNTS else 53)
)
def test_kernels_on_the_emulator(
    name: str, machine: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    build = Emulated({name: program_named(name)}, machine_of(machine), shape, tmp_path)
    assert build.serial == []
    calls = wanted(name)
    done = build.run([job for job, _ in calls], profile=True)
    for (_, arrays, sizes), expected in calls:
        for array, right in expected.items():
            assert has_bits_of(arrays[array], right), f"{array} at {sizes}"
    assert done.trace is not None
    assert len(done.trace.teams) == len(calls)
    assert done.trace.ldm_bytes <= machine_of(machine).scratchpad_bytes
