"""Registers and spilled bytes of the GPU kernels that the planners choose, as `ptxas -v` tells.

    PYTHONPATH=src python3 scripts/gpu_registers.py [--only float32,closure] [--architectures sm_80]

Every tile of `planner/grid_products`, for each layout of its operands (L: left lies along the
reduction, R: right does), with offset tables, and where nothing is aligned; the tiles that
`planner/grid_contractions` takes for nests of programs; the kernels of closures. No GPU is needed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from loopwright.backends.c_dialect import CUDA
from loopwright.backends.device_module import emit_kernels
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.loops import LoopNest
from loopwright.lower.grid_product import lower_grid_product
from loopwright.lower.passes import lower_schedule
from loopwright.lower.split_kernels import split_kernels
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner import grid_contractions, grid_products
from loopwright.planner.gpu import gpu_planner

ALGEBRAS = {
    "float32": ("add", "mul", "float32"),
    "float64": ("add", "mul", "float64"),
    "min_plus float32": ("min", "add", "float32"),
    "min_plus int32": ("min", "add_top", "int32"),
    "int32": ("add", "mul", "int32"),
}
LAYOUTS = ("LR", "L-", "-R", "--", "L-, tables", "L-, unaligned")
SIZE = 4096
_ALL = 65536  # registers of a multiprocessor
_FEW = 64  # words of accumulators and less fit, where a thread may have all registers

CLOSURE = """void closure(int n, {type} d[n][n]) {{
#pragma scop
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        {update};
#pragma endscop
}}
"""
UPDATES = {
    "min_plus": "d[i][j] = d[i][k] + d[k][j] < d[i][j] ? d[i][k] + d[k][j] : d[i][j]",
    "or_and": "d[i][j] = d[i][j] | (d[i][k] & d[k][j])",
}
CLOSURES = (
    ("min_plus", "float"),
    ("min_plus", "double"),
    ("min_plus", "int"),
    ("or_and", "unsigned int"),
    ("or_and", "unsigned char"),
)


def algebra_of(name: str) -> Algebra:
    plus, times, dtype = ALGEBRAS[name]
    zero: object = 0
    if plus == "min":
        zero = float("inf") if dtype.startswith("f") else 2**31 - 1
    types = (DTYPES[dtype],) * 4
    return Algebra(plus, times, zero, *types, Initial.OUT, scaled=False)  # type: ignore[arg-type]


def shape_of(layout: str) -> ContractionShape:
    n = SIZE
    left = (n, 1) if "L" in layout else (1, n)  # strides of i and of p
    right = (n, 1) if "R" in layout else (1, n)  # of j and of p
    i, j = (Dim(n, left[0], 0, n),), (Dim(n, 0, right[0], 1),)
    p = (Dim(n, left[1], right[1], 0),)
    if "tables" in layout:
        i = (Dim(n, left[0], 0, n * n), Dim(3, left[0] * n * n, 0, n))
        p = (Dim(n, left[1], right[1], 0), Dim(3, left[1] * n * n, right[1] * 5 * n * n, 0))
    return ContractionShape((), i, j, p)


def is_tight(variant: GridVariant, size: int) -> bool:
    """Whether accumulators are many beside the registers of a thread."""
    own = variant.thread_rows * variant.thread_columns * max(1, size // 4)
    most = min(255, _ALL // (max(1, variant.resident) * variant.threads))
    return own >= min(_FEW, most // 2)


def products(name: str) -> Iterator[tuple[str, LoopNest]]:
    algebra = algebra_of(name)
    size = algebra.accumulator.bytes
    tiles = list(grid_products._TILES_4 if size <= 4 else grid_products._TILES_8)
    if name == "float64":
        tiles += grid_products._TILES_MMA
    seen: dict[GridVariant, None] = {}
    for tile in tiles:
        for layout in LAYOUTS:
            if tile.uses_mma and layout.endswith("unaligned"):
                continue
            alignment = (size,) * 3 if layout.endswith("unaligned") else (16,) * 3
            variant = grid_products._variant(tile, shape_of(layout), algebra, alignment)
            if variant is None or variant in seen or not is_tight(variant, size):
                continue
            seen[variant] = None
            kernel = GridKernel(algebra, variant)
            yield f"{variant}, resident {variant.resident}: {layout}", lower(kernel)
    for row in grid_contractions._TILES[size]:
        rows, columns, depth, thread_rows, thread_columns, stages, resident, _ = row
        for layout in LAYOUTS[:4]:
            variant = GridVariant(
                rows, columns, depth, thread_rows, thread_columns,
                "L" in layout, "R" in layout,
                piece=4 if size <= 4 else 2, stages=stages, resident=resident,
            )  # fmt: skip
            if is_tight(variant, size):
                kernel = GridKernel(algebra, variant)
                yield f"nest, {variant}, resident {resident}: {layout}", lower(kernel)


def lower(kernel: GridKernel) -> LoopNest:
    return lower_grid_product(kernel, "product")


def closures(folder: Path) -> Iterator[tuple[str, LoopNest]]:
    for ring, kind in CLOSURES:
        source = folder / "closure.c"
        source.write_text(CLOSURE.format(type=kind, update=UPDATES[ring]))
        (region,) = read_c(source).regions
        program = program_of(region.tree, reassoc=True)
        schedule = gpu_planner(program, load_gpu("sm_90"))[1]
        assert schedule.closure is not None, (ring, kind)
        yield f"closure {ring} {kind}", lower_schedule(schedule)


def report(
    nests: list[tuple[str, LoopNest]], architectures: list[str], folder: Path
) -> Iterator[tuple[str, str, int, int]]:
    """Name, architecture, registers and spilled bytes of every kernel."""
    named = [replace(nest, name=f"kernel{at}") for at, (_, nest) in enumerate(nests)]
    source = folder / "kernels.cu"
    source.write_text(emit_kernels([split_kernels(nest) for nest in named], CUDA))
    for architecture in architectures:
        words = ["nvcc", f"-arch={architecture}", "-cubin", "-Xptxas", "-v"]
        done = subprocess.run(
            [*words, "-o", str(folder / "kernels.cubin"), str(source)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        told = done.stdout + done.stderr
        if done.returncode:
            sys.exit(told[-4000:])
        name, spilled = "", 0
        for line in told.splitlines():
            if entry := re.search(r"Compiling entry function 'kernel(\d+)_(\d+)'", line):
                name = nests[int(entry[1])][0]
                name += f" ({entry[2]})" if name.startswith("closure") else ""
            elif stores := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
                spilled = int(stores[1]) + int(stores[2])
            elif registers := re.search(r"Used (\d+) registers", line):
                yield name, architecture, int(registers[1]), spilled


def main() -> int:
    """Print a table; the number of kernels that spill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join((*ALGEBRAS, "closure")))
    parser.add_argument("--architectures", default="sm_80,sm_90")
    parser.add_argument("--all", action="store_true", help="print those that do not spill, too")
    args = parser.parse_args()
    count = spilling = 0
    print("| kernel | architecture | registers | spilled bytes |\n| --- | --- | --- | --- |")
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        for name in args.only.split(","):
            nests = list(closures(folder) if name == "closure" else products(name))
            for start in range(0, len(nests), 4):
                part = nests[start : start + 4]
                found = report(part, args.architectures.split(","), folder)
                for kernel, architecture, registers, spilled in found:
                    count += 1
                    spilling += spilled > 0
                    if spilled or args.all:
                        label = kernel if name == "closure" else f"{name}, {kernel}"
                        row = (label, architecture, str(registers), str(spilled))
                        print("|", " | ".join(row), "|", flush=True)
    print(f"\n{count} kernels, {spilling} spill")
    return min(spilling, 100)


if __name__ == "__main__":
    sys.exit(main())
