"""nvcc keeps kernels of products, closures and reductions to registers."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from drawn import drawn, in_all
from gpu.nvcc import ARCHITECTURES, QUICK, Report, read_report, require_compiled
from gpu.test_grid_reductions import SOURCES, nest_of
from gpu.test_programs import nests
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.grid_registers import fitting_copies
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from needed_tools import needs_nvcc

pytestmark = needs_nvcc

FLOAT32, FLOAT64, INT32 = (DTYPES[name] for name in ("float32", "float64", "int32"))

# The variants that planners choose: wide loads, strided operands, tables, asynchronous copies.
VARIANTS = {
    "plain": GridVariant(128, 128, 8, 8, 8, True, False),
    "wide": GridVariant(128, 128, 8, 8, 8, True, False, 4, 4, 4, resident=2),
    "transposed": GridVariant(64, 64, 8, 4, 4, False, True, out_width=1, resident=2),
    "tables": GridVariant(64, 64, 8, 4, 4, True, False, strided="", is_wide=True),
    "ahead": GridVariant(64, 64, 16, 4, 4, True, False, 1, 4, 4, stages=3),
    "swapped": GridVariant(64, 64, 8, 4, 4, True, False, swapped=True),
}


def spilling(found: Report) -> dict[tuple[str, str], int]:
    """Bytes in memory that should be in registers, stores and loads together."""
    return {key: spilled for key, (_, spilled) in found.items() if spilled}


def test_reading_the_report() -> None:
    told = """\
ptxas info    : Compiling entry function 'f_0' for 'sm_90'
ptxas info    : Function properties for f_0
    8 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 54 registers, used 0 barriers, 396 bytes cmem[0]
"""
    assert read_report(told) == {("f_0", "sm_90"): (54, 36)}


def test_reductions(tmp_path: Path) -> None:
    """Sums of free order: threads join in shared memory, blocks by a second launch."""
    require_compiled([nest_of(name) for name in drawn(SOURCES, one_in=3)], tmp_path, QUICK)


def fits(variant: GridVariant, algebra: Algebra) -> bool:
    """Whether accumulators fit into registers, and runs of elements into one instruction."""
    size = algebra.left.bytes
    widest = max(variant.left_width, variant.right_width, variant.out_width)
    own = variant.thread_rows * variant.thread_columns
    return size * widest <= 16 and size * own <= 4 * 64


def test_products_and_closures_keep_to_registers(tmp_path: Path) -> None:
    sums = [
        Algebra("add", "mul", 0.0, dtype, dtype, dtype, dtype, initial, scaled=scaled)
        for dtype, initial, scaled in (
            (FLOAT32, Initial.ZERO, False),
            (FLOAT64, Initial.OUT, True),
        )
    ]
    paths = Algebra("min", "add", float("inf"), *(INT32,) * 4, Initial.OUT, scaled=False)
    loops = list(nests("floyd-warshall"))
    pairs = [(v, a) for v in VARIANTS for a in (*sums, paths) if fits(VARIANTS[v], a)]
    for name, algebra in drawn(pairs, one_in=7 if in_all() else 11):
        kernel = GridKernel(algebra, VARIANTS[name])
        copies = fitting_copies(kernel)
        assert copies is not None
        variant = replace(VARIANTS[name], copies=copies)
        loops.append(lower_grid_product(replace(kernel, variant=variant), "product"))
    assert len(loops) > 2
    found = require_compiled(loops, tmp_path)
    assert spilling(found) == {}
    assert max(registers for registers, _ in found.values()) <= 255


# Kernels that spilled before their ends computed places anew, or with more steps in the code.
WORST = (
    ("float32", "128 x 128 x 16.* 3 stages: L-, tables, from zero"),
    ("float64", "64 x 64 x 16 .*4 slices.* 2 stages: LR, unaligned, from zero"),
    ("min_plus float32", "128 x 256 x 16.* 2 stages: -R, from zero"),
    ("min_plus float32", "128 x 128 x 16.* 3 stages.*: --, from zero"),
    ("min_plus float32", "64 x 128 x 32.* 2 stages.*: L-, tables, from out"),
    ("min_plus float32", "128 x 64 x 32.* 3 stages.*: LR, unaligned, from zero"),
    ("bfloat16", "128 x 128 x 8.*: --, unaligned, from out"),
)


def test_kernels_that_spilled_before(tmp_path: Path) -> None:
    """One of them for one architecture; all for both in the hunt."""
    script = gpu_registers()
    for architecture in ARCHITECTURES:
        kernels = []
        for name, pattern in drawn(WORST, one_in=7, first=3):
            found = [k for x, k in script.products(name, architecture) if re.search(pattern, x)]
            assert found, (name, pattern)
            kernels.append(lower_grid_product(found[0], "product"))
        rows = require_compiled(kernels, tmp_path)
        assert spilling({key: row for key, row in rows.items() if key[1] == architecture}) == {}


@pytest.mark.only_in_all("nvcc optimises each of these kernels for seconds")
def test_kernels_that_planners_take_keep_to_registers(tmp_path: Path) -> None:
    """A few of those that `scripts/gpu_registers.py` lists; all of them in the hunt."""
    script = gpu_registers()
    chosen = [pair for name in script.ALGEBRAS for pair in script.products(name, ARCHITECTURES[0])]
    assert len(chosen) > 1000
    # A prime: the architecture and all tiles, layouts and types take turns.
    loops = [lower_grid_product(kernel, "product") for _, kernel in drawn(chosen, one_in=797)]
    tiles = [nest for name in ("float32", "float64") for _, nest in script.nests(name, tmp_path)]
    loops += drawn(tiles, one_in=59)
    loops += [nest for _, nest in drawn(list(script.closures(tmp_path)), one_in=7, first=2)]
    for start in range(0, len(loops), 12):
        assert spilling(require_compiled(loops[start : start + 12], tmp_path)) == {}


def gpu_registers() -> ModuleType:
    """The script that lists kernels and their registers."""
    place = Path(__file__).parents[2] / "scripts" / "gpu_registers.py"
    spec = importlib.util.spec_from_file_location("gpu_registers", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
