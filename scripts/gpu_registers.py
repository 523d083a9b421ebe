"""Registers and spilled bytes of the GPU kernels that the planners take, as `ptxas -v` tells.

    PYTHONPATH=src python3 scripts/gpu_registers.py [--only float32,closure] [--architectures sm_80]
        [--processes 15]

Products of einsum: every tile of `grid_plans/grid_products` whose threads are short of registers,
as the planner takes it for each layout of its operands (L: left lies along the reduction, R: right
does), with offset tables, where they lie along different loops of it, where nothing is aligned, and
for each start of the sums; products in programs: the tiles of `grid_plans/grid_contractions`; all
kernels of closures. No GPU is needed. The status is the number of kernels that spill.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import BFLOAT16, DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.grid_registers import spare_registers
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.loops import LoopNest
from loopwright.ir.schedule_tree import bands, nodes_of, perfect_nest
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans import grid_contractions, grid_products
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.map_contraction import MapContraction
from loopwright.transform.plan import apply_step, initial_schedule

_TOP = 2**31 - 1
# plus, times, identity of plus, types of the elements and of the sums
ALGEBRAS = {
    "float32": ("add", "mul", 0.0, "float32", "float32"),
    "float64": ("add", "mul", 0.0, "float64", "float64"),
    "min_plus float32": ("min", "add", float("inf"), "float32", "float32"),
    "min_plus float64": ("min", "add", float("inf"), "float64", "float64"),
    "min_plus int32": ("min", "add_top", _TOP, "int32", "int32"),
    "int32": ("add", "mul", 0, "int32", "int32"),
    "int64": ("add", "mul", 0, "int64", "int64"),
    "float16": ("add", "mul", 0.0, "float16", "float32"),
    "bfloat16": ("add", "mul", 0.0, "bfloat16", "float32"),
    "complex64": ("add", "mul", 0j, "complex64", "complex64"),
    "complex128": ("add", "mul", 0j, "complex128", "complex128"),
    "or_and bool": ("or", "and", False, "bool", "bool"),
}
LAYOUTS = (
    "LR", "L-", "-R", "--", "LR, unaligned", "L-, unaligned", "--, unaligned",
    "LR, tables", "L-, tables", "LR, tables, unaligned", "--, tables, unaligned", "LR, apart",
)  # fmt: skip
STARTS = ((Initial.ZERO, False), (Initial.OUT, False), (Initial.SCALED, True))
SIZE = 4096
_SHARES = 3  # of a process
_SPARE = 80  # registers: kernels that have more left never spill

PRODUCT = """void product(int n, {type} c[n][n], {type} a[n][n], {type} b[n][n]) {{
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        c[i][j] += {left} * {right};
#pragma endscop
}}
"""
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
Named = tuple[str, LoopNest]


def algebra_of(name: str, initial: Initial = Initial.OUT, *, scaled: bool = False) -> Algebra:
    plus, times, zero, element, total = ALGEBRAS[name]
    dtype = BFLOAT16 if element == "bfloat16" else DTYPES[element]
    return Algebra(plus, times, zero, *(dtype,) * 3, DTYPES[total], initial, scaled=scaled)


def shape_of(layout: str) -> ContractionShape:
    n = SIZE
    left = (n, 1) if "L" in layout else (1, n)  # strides of i and of p
    right = (n, 1) if "R" in layout else (1, n)  # of j and of p
    i, j = Dim(n, left[0], 0, n), Dim(n, 0, right[0], 1)
    p = Dim(n, left[1], right[1], 0)
    if "apart" in layout:  # left lies along one loop of the reduction, right along another
        steps = (Dim(n // 32, 4, 8 * n, 0), Dim(8, n, 1, 0), Dim(4, 1, n, 0))
        return ContractionShape((), (i,), (j,), steps)
    if "tables" not in layout:
        return ContractionShape((), (i,), (j,), (p,))
    far = n * n
    others = (
        (Dim(5, 7 * far, 3 * far, 5 * far), Dim(3, far, far, far)),
        (Dim(3, left[0] * far, 0, n), replace(i, out=far)),
        (Dim(2, 0, right[0] * 2 * far, 7 * far), j),
        (Dim(3, left[1] * far, right[1] * 5 * far, 0), p),
    )
    return ContractionShape(*others)


def products(name: str, architecture: str = "sm_90") -> Iterator[tuple[str, GridKernel]]:
    """The kernels that einsum takes, of those that are short of registers."""
    machine = load_gpu(architecture)
    seen: set[GridKernel] = set()
    for initial, scaled in STARTS:
        algebra = algebra_of(name, initial, scaled=scaled)
        size = algebra.accumulator.bytes
        tiles = [*grid_products.tiles_of(algebra, machine)]
        for tile in tiles:
            for layout in LAYOUTS:
                aligned = algebra.left.bytes if "unaligned" in layout else 16
                variant = grid_products.fitting_variant(
                    tile, shape_of(layout), algebra, (aligned,) * 3, machine
                )
                if variant is None:
                    continue
                kernel = GridKernel(algebra, variant)
                if kernel not in seen and (variant.uses_mma or spare_registers(kernel) < _SPARE):
                    seen.add(kernel)
                    yield f"{_told(variant)}: {layout}, from {initial.value}", kernel
        assert size in (1, 4, 8, 16)


def _told(variant: GridVariant) -> str:
    steps = f", {variant.copies} steps" if variant.copies else ""
    return f"{variant}, {variant.resident} blocks, {variant.stages} stages{steps}"


def nests(name: str, folder: Path) -> Iterator[Named]:
    """Products in programs, in every layout and with every tile of their planner."""
    kind = {"float32": "float", "float64": "double", "int32": "int", "int64": "long"}.get(name)
    if kind is None:
        return
    for layout in ("LR", "L-", "-R", "--", "L-, computed"):
        left = "a[i][k]" if "L" in layout else "a[k][i]"
        left = f"(3 * {left})" if "computed" in layout else left
        right = "b[j][k]" if "R" in layout else "b[k][j]"
        source = folder / "product.c"
        source.write_text(PRODUCT.format(type=kind, left=left, right=right))
        (region,) = read_c(source).regions
        schedule = initial_schedule(program_of(region.tree, reassoc=False))
        loops = tuple(band.loop for band in perfect_nest(next(iter(bands(nodes_of(schedule))))))
        for row in grid_contractions.TILES[DTYPES[name].bytes]:
            step = MapContraction(loops, *row[:-1])
            yield f"nest, {step}: {layout}", lower_schedule(apply_step(schedule, step))


def closures(folder: Path, architecture: str = "sm_90") -> Iterator[Named]:
    for ring, kind in CLOSURES:
        source = folder / "closure.c"
        source.write_text(CLOSURE.format(type=kind, update=UPDATES[ring]))
        (region,) = read_c(source).regions
        program = program_of(region.tree, reassoc=True)
        schedule = gpu_planner(program, load_gpu(architecture))[1]
        assert schedule.closure is not None, (ring, kind)
        yield f"closure {ring} {kind}", lower_schedule(schedule)


def kernels_of(
    name: str, folder: Path, architecture: str = "sm_90"
) -> Iterator[tuple[str, Callable[[], LoopNest]]]:
    """All kernels under a name of the command line, and what lowers them."""
    if name == "closure":
        yield from ((told, partial(_same, nest)) for told, nest in closures(folder, architecture))
        return
    for told, kernel in products(name, architecture):
        yield f"{name}, {told}", partial(lower_grid_product, kernel, "product")
    for told, nest in nests(name, folder):
        yield f"{name}, {told}", partial(_same, nest)


def _same(nest: LoopNest) -> LoopNest:
    return nest


def report(
    named: list[Named], architectures: list[str], folder: Path
) -> Iterator[tuple[str, str, int, int]]:
    """Name, architecture, registers and spilled bytes of every kernel."""
    numbered = [replace(nest, name=f"kernel{at}") for at, (_, nest) in enumerate(named)]
    source = folder / "kernels.cu"
    source.write_text(emit_kernels([split_kernels(nest) for nest in numbered], CUDA))
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
                name = named[int(entry[1])][0]
                name += f" ({entry[2]})" if name.startswith("closure") else ""
            elif stores := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
                spilled = int(stores[1]) + int(stores[2])
            elif registers := re.search(r"Used (\d+) registers", line):
                yield name, architecture, int(registers[1]), spilled


def check_share(
    names: Sequence[str], architectures: list[str], first: int, every: int
) -> list[tuple[str, str, int, int]]:
    """Every so many of the kernels under some names, in nvcc's files of six."""
    rows: list[tuple[str, str, int, int]] = []
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        for architecture in architectures:
            every_one = [x for name in names for x in kernels_of(name, folder, architecture)]
            own = [(told, lower()) for told, lower in every_one[first::every]]
            for start in range(0, len(own), 6):
                rows += report(own[start : start + 6], [architecture], folder)
    return rows


def main() -> int:
    """Print a table; the number of kernels that spill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join((*ALGEBRAS, "closure")))
    parser.add_argument("--architectures", default="sm_80,sm_90")
    parser.add_argument("--all", action="store_true", help="print those that do not spill, too")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    names, architectures = args.only.split(","), args.architectures.split(",")
    # Neighbours in the list need like times, so shares that take turns end together.
    count = args.processes * _SHARES
    shares = [(names, architectures, at, count) for at in range(count)]
    total = spilling = 0
    print("| kernel | architecture | registers | spilled bytes |\n| --- | --- | --- | --- |")
    with ProcessPoolExecutor(args.processes) as pool:
        for at, rows in enumerate(pool.map(check_share, *zip(*shares, strict=True)), 1):
            total += len(rows)
            spilling += sum(row[3] > 0 for row in rows)
            for row in rows:
                if row[3] or args.all:
                    print("|", " | ".join(map(str, row)), "|", flush=True)
            print(f"{at} of {count} shares, {total} kernels", file=sys.stderr, flush=True)
    print(f"\n{total} kernels, {spilling} spill")
    return min(spilling, 100)


if __name__ == "__main__":
    sys.exit(main())
