"""Products and closures on a real GPU, with the tiles that are told: right, and how fast.

    PYTHONPATH=src python3 tests/gpu/on_device/kernels_check.py [--size 4096] [--paths 8192]

Needs CuPy and islpy. Under `compute-sanitizer --tool memcheck` or `racecheck`, with sizes of 300,
it looks for accesses at fault and for races. The status is the number of wrong results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.calls.compile import compile as compile_file
from loopwright.calls.einsum import einsum
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.runtime.cuda_executable import CudaExecutable

PATHS = b"""void paths(int n, float a[n][n]) {
#pragma scop
for (int k = 0; k < n; k++) for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)
  a[i][j] = a[i][j] < a[i][k] + a[k][j] ? a[i][j] : a[i][k] + a[k][j];
#pragma endscop
}
"""
# rows, columns, depth, thread_rows, thread_columns, stages, resident
TILES = {
    "float32": ((128, 128, 16, 8, 8, 3, 2), (128, 256, 16, 8, 16, 2, 1)),
    "float64": ((64, 128, 16, 8, 8, 4, 2), (64, 128, 8, 8, 8, 3, 2)),
}
PAIRS = (("float32", "add", "mul"), ("float32", "min", "add"), ("float64", "add", "mul"))


def seconds(call: Callable[[], None], repeats: int = 5) -> float:
    """The median time of a call on the device."""
    call()
    times = []
    for _ in range(repeats):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        call()
        last.record()
        last.synchronize()
        times.append(cupy.cuda.get_elapsed_time(first, last) * 1e-3)
    return sorted(times)[repeats // 2]


def product(dtype: str, plus: str, times: str, tile: tuple[int, ...], n: int) -> bool:
    """Whether a product of n x n matrices is right in its first rows; its rate is printed."""
    rows, columns, depth, own_rows, own_columns, stages, resident = tile
    wide = 16 // DTYPES[dtype].bytes
    variant = GridVariant(
        rows,
        columns,
        depth,
        own_rows,
        own_columns,
        left_along_p=True,
        right_along_p=False,
        left_width=wide if stages == 2 and n % wide == 0 else 1,
        right_width=wide if n % wide == 0 else 1,
        piece=wide,
        resident=resident,
        stages=stages,
    )
    zero = 0.0 if plus == "add" else float("inf")
    kinds = (DTYPES[dtype],) * 4
    kernel = GridKernel(Algebra(plus, times, zero, *kinds, Initial.ZERO, scaled=False), variant)
    program = split_kernels(lower_grid_product(kernel, "product"))
    run = CudaExecutable(program, emit_kernels([program], CUDA))
    left, right = (cupy.random.random((n, n)).astype(dtype) for _ in range(2))
    out = cupy.zeros((n, n), dtype)
    sizes = {"G": 1, "M": n, "N": n, "K": n, "left_i": n, "left_p": 1, "right_p": n}
    sizes |= {"right_j": 1, "out_i": n, "out_j": 1, "left_g": 0, "right_g": 0, "out_g": 0}
    pointers = [x.data.ptr for x in (out, left, right)]
    scalars = [sizes[name] for name in program.scalars]
    took = seconds(lambda: run.launch(pointers, scalars, reach=n * n))
    few = left[:4]
    wanted: Any = few @ right if plus == "add" else (few[:, :, None] + right[None]).min(1)
    apart = float(abs(out[:4] - wanted).max() / abs(wanted).max())
    print(f"{dtype} ({plus}, {times}) {n} {tile}: {2e-12 * n**3 / took:.2f} T, apart {apart:.1e}")
    return apart < 1e-4


def paths(n: int, *, privatize: bool = True) -> bool:
    """Whether shortest paths from three lines of C are right; their rate is printed."""
    function = compile_file(PATHS, target="cuda", reassoc=True, privatize=privatize)
    small = cupy.random.random((257, 257)).astype(cupy.float32)
    wanted = small.get()
    function(257, small)
    for k in range(257):
        wanted = np.minimum(wanted, wanted[:, k : k + 1] + wanted[k : k + 1])
    matrix = cupy.random.random((n, n)).astype(cupy.float32)
    took = seconds(lambda: function(n, matrix), 3)
    how = "" if privatize else ", privatisation off"
    print(f"paths {n}{how}: {2e-12 * n**3 / took:.2f} Tops/s, {1e3 * took:.1f} ms")
    return bool(np.allclose(small.get(), wanted, rtol=1e-5))


def reduction(m: int, n: int, k: int) -> bool:
    """Whether a product of few elements and many terms is right; its time is printed."""
    left = cupy.random.random((m, k)).astype(cupy.float32)
    right = cupy.random.random((k, n)).astype(cupy.float32)
    found = einsum("ik,kj->ij", left, right)
    took = seconds(lambda: einsum("ik,kj->ij", left, right), 9)
    beside = seconds(lambda: left @ right, 9)
    rate = 4e-12 * k * (m + n) / took
    wanted = left.astype(cupy.float64) @ right.astype(cupy.float64)
    apart = float(abs(found - wanted).max() / abs(wanted).max())
    told = f"{1e6 * took:.1f} us, {rate:.2f} TB/s, cuBLAS {1e6 * beside:.1f} us"
    print(f"({m} x {k}) x ({k} x {n}): {told}, apart {apart:.1e}")
    return apart < 1e-4


def main() -> int:
    """Print a line for each; the number that are wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--paths", type=int, default=8192)
    args = parser.parse_args()
    right = [product(*pair, tile, args.size) for pair in PAIRS for tile in TILES[pair[0]]]
    right += [paths(args.paths, privatize=choice) for choice in (True, False)]
    few = min(args.size, 4096)  # under a sanitizer all sizes are small
    shapes = ((32, 32, 64 * few), (64, 64, 64 * few), (16, 16, 256 * few), (256, 256, 256))
    right += [reduction(*shape) for shape in shapes]
    print(f"{right.count(False)} wrong")
    return right.count(False)


if __name__ == "__main__":
    sys.exit(main())
