"""nvcc takes the CUDA text of kernels without a warning; products and closures use registers."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from drawn import drawn, in_all
from gpu import test_grid_reductions
from kernels.corpus import KERNELS, SYMBOLIC, write_source
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.device import DeviceProgram
from loopwright.ir.dtypes import BFLOAT16, DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.grid_registers import fitting_copies
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.loops import LoopNest
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")

ARCHITECTURES = drawn(("sm_80", "sm_90"), one_in=2)
QUICK = ("-Xcicc", "-O0", "-Xptxas", "-O0")  # diagnostics are the same, and sooner there
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


def compiled(
    programs: list[DeviceProgram], folder: Path, flags: Sequence[str] = ()
) -> dict[tuple[str, str], tuple[int, int]]:
    """Registers and spilled bytes of every kernel by architecture, if there is no warning."""
    source = folder / "kernels.cu"
    source.write_text(emit_kernels(programs, CUDA))
    codes = [w for a in ARCHITECTURES for w in ("-gencode", f"arch={_virtual(a)},code={a}")]
    words = ["nvcc", *codes, "-c", "--threads", "2", "-Xptxas", "-v", "-Werror", "all-warnings"]
    done = subprocess.run(
        [*words, *flags, "-o", str(folder / "kernels.o"), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-4000:]
    assert "warning" not in told.lower()
    return found_in(told)


def _virtual(architecture: str) -> str:
    return architecture.replace("sm", "compute")


def found_in(told: str) -> dict[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    key, spilled = ("", ""), 0
    for line in told.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            key = entry[1], entry[2]
        elif stores := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(stores[1]) + int(stores[2])
        elif registers := re.search(r"Used (\d+) registers", line):
            found[key] = int(registers[1]), spilled
    return found


def test_reading_the_report() -> None:
    told = """\
ptxas info    : Compiling entry function 'f_0' for 'sm_90'
ptxas info    : Function properties for f_0
    8 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 54 registers, used 0 barriers, 396 bytes cmem[0]
"""
    assert found_in(told) == {("f_0", "sm_90"): (54, 36)}


def nests(folder: Path, names: list[str], *, reassoc: bool) -> list[LoopNest]:
    found: list[LoopNest] = []
    for name in names:
        kernel = KERNELS[name]
        for dtype in kernel.dtypes[:1]:
            extents = dict.fromkeys(kernel.sizes, 13)
            source = write_source(kernel, folder, dtype=dtype, mode=SYMBOLIC, extents=extents)
            for region in read_c(source).regions:
                program = program_of(region.tree, reassoc=reassoc)
                found.append(lower_schedule(gpu_planner(program, load_gpu("sm_90"))[1]))
    return found


def programs_of(loops: list[LoopNest]) -> list[DeviceProgram]:
    named = (replace(nest, name=f"kernel_{at}") for at, nest in enumerate(loops))
    return [split_kernels(nest) for nest in named]


@pytest.mark.only_in_all("nvcc takes programs of families and reductions in the usual run")
def test_corpus(tmp_path: Path) -> None:
    """All kernels in the hunt."""
    programs = programs_of(nests(tmp_path, drawn(KERNELS, one_in=17), reassoc=True))
    found = compiled(programs, tmp_path, QUICK)
    count = sum(len(program.kernels) for program in programs)
    assert len(found) == count * len(ARCHITECTURES)


def test_reductions(tmp_path: Path) -> None:
    """Sums of free order: threads join in shared memory, blocks by a second launch."""
    names = drawn(test_grid_reductions.SOURCES, one_in=3)
    programs = programs_of([test_grid_reductions.nest_of(name) for name in names])
    found = compiled(programs, tmp_path, QUICK)
    assert len(found) == sum(len(program.kernels) for program in programs) * len(ARCHITECTURES)


def fitted(name: str, algebra: Algebra) -> GridKernel:
    """A kernel with as many steps in its code as fit into registers."""
    kernel = GridKernel(algebra, VARIANTS[name])
    copies = fitting_copies(kernel)
    assert copies is not None
    return replace(kernel, variant=replace(VARIANTS[name], copies=copies))


def fits(variant: GridVariant, algebra: Algebra) -> bool:
    """Whether accumulators fit into registers, and runs of elements into one instruction."""
    size = algebra.left.bytes
    widest = max(variant.left_width, variant.right_width, variant.out_width)
    own = variant.thread_rows * variant.thread_columns
    return size * widest <= 16 and size * own <= 4 * 64


@pytest.mark.only_in_all("one more run of nvcc")
def test_types_that_are_stored_only(tmp_path: Path) -> None:
    """Products of bfloat16, summed in float32."""
    algebra = Algebra(
        "add", "mul", 0.0, BFLOAT16, BFLOAT16, BFLOAT16, FLOAT32, Initial.OUT, scaled=True
    )
    loops = [lower_grid_product(fitted(name, algebra), name) for name in ("wide", "tables")]
    found = compiled(programs_of(loops), tmp_path)
    assert len(found) == 2 * len(ARCHITECTURES)
    assert spilling(found) == {}


def test_products_and_closures_keep_to_registers(tmp_path: Path) -> None:
    sums = [
        Algebra("add", "mul", 0.0, dtype, dtype, dtype, dtype, initial, scaled=scaled)
        for dtype, initial, scaled in (
            (FLOAT32, Initial.ZERO, False),
            (FLOAT64, Initial.OUT, True),
        )
    ]
    paths = Algebra("min", "add", float("inf"), *(INT32,) * 4, Initial.OUT, scaled=False)
    loops = nests(tmp_path, ["floyd-warshall"], reassoc=False)
    pairs = [(v, a) for v in VARIANTS for a in (*sums, paths) if fits(VARIANTS[v], a)]
    for at, (name, algebra) in enumerate(drawn(pairs, one_in=7 if in_all() else 11)):
        loops.append(lower_grid_product(fitted(name, algebra), f"{name}_{at}"))
    assert len(loops) > 2
    found = compiled(programs_of(loops), tmp_path)
    assert spilling(found) == {}
    assert max(registers for registers, _ in found.values()) <= 255


def spilling(found: dict[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], int]:
    """Bytes in memory that should be in registers, stores and loads together."""
    return {key: spilled for key, (_, spilled) in found.items() if spilled}


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
        found = compiled(programs_of(loops[start : start + 12]), tmp_path)
        assert spilling(found) == {}


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
            found = [
                k for told, k in script.products(name, architecture) if re.search(pattern, told)
            ]
            assert found, (name, pattern)
            kernels.append(lower_grid_product(found[0], "product"))
        rows = compiled(programs_of(kernels), tmp_path)
        own = {key: row for key, row in rows.items() if key[1] == architecture}
        assert len(own) == len(kernels)
        assert spilling(own) == {}


def gpu_registers() -> ModuleType:
    """The script that lists kernels and their registers."""
    place = Path(__file__).parents[2] / "scripts" / "gpu_registers.py"
    spec = importlib.util.spec_from_file_location("gpu_registers", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
