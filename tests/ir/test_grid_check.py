"""Kernels of products that no GPU can run, and kernels that a machine cannot hold: every reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import loopwright as lw
from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceKernel, DeviceProgram
from loopwright.ir.dtypes import DTYPES, FLOAT32
from loopwright.ir.expr import Const
from loopwright.ir.grid_check import kernel_fault, require_fit
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.loops import Alloc, Block, Buffer, Space
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.machines.load_gpu import load_gpu
from loopwright.transform.blocked_closure import MapClosure
from loopwright.transform.map_contraction import MapContraction
from loopwright.transform.plan import Plan

TILE = GridVariant(32, 32, 8, 4, 4, True, False)
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "size": ({"depth": 0}, "float32", "sizes lie between 1 and 1024"),
    "stages": (
        {"stages": 1},
        "float32",
        "a block has 2 to 32 tiles at a time, a multiprocessor up to 32 blocks",
    ),
    "parts": ({"thread_rows": 5}, "float32", "threads take equal parts of a tile"),
    "threads": (
        {"rows": 256, "columns": 128},
        "float32",
        "a block has at most 1024 threads, here 2048",
    ),
    "bundles": (
        {"strided": "gpi"},
        "float32",
        "bundles without tables are some of 'gijp', in this order",
    ),
    "tiles that are alike": (
        {"by_tiles": True},
        "float32",
        "tiles that are alike have a table of the reduction",
    ),
    "slices": ({"slices": 3}, "float32", "slices take equal parts of the steps of a tile"),
    "pieces": (
        {"rows": 48, "columns": 16, "thread_rows": 6},
        "float32",
        "the elements of a thread are pieces of 4",
    ),
    "unit": ({"uses_mma": True}, "float32", "the matrix unit adds products of float64"),
    "unit rows": (
        {"uses_mma": True, "rows": 16},
        "float64",
        "the matrix unit takes rows by pairs of 8",
    ),
    "unit steps": (
        {"uses_mma": True, "depth": 2, "rows": 64, "columns": 64},
        "float64",
        "the matrix unit takes 4 steps at a time",
    ),
    "stores": (
        {"out_width": 8},
        "float32",
        "8 elements of out that are stored at once are no part of a piece",
    ),
    "runs of out": (
        {"out_width": 4, "out_apart": 12},
        "float32",
        "rows of a tile are multiples of 4 elements, 12 apart",
    ),
    "single stores": (
        {"out_apart": 4},
        "float32",
        "elements of out are not stored 1 at once, 4 apart",
    ),
    "rounds": (
        {"rounds": 3, "slices": 2},
        "float32",
        "sums do not pass through shared memory in 3 rounds",
    ),
    "sums in shared memory": (
        {"slices": 2, "in_registers": False},
        "float32",
        "sums of slices are in registers",
    ),
    "warp": ({"warp_rows": 3}, "float32", "threads of a warp along rows divide 32"),
    "run": (
        {"depth": 6, "left_width": 4},
        "float32",
        "rows of left's tile are multiples of its 4 elements loaded at once",
    ),
    "loads": ({"depth": 1}, "float32", "threads bring equal parts of left's tile"),
    "wide": (
        {"right_width": 4},
        "float64",
        "4 elements of float64 are not loaded at once: up to 16 bytes",
    ),
    "asynchronous": (
        {"stages": 3},
        "float16",
        "left is copied asynchronously by 4, 8 or 16 bytes, not 2: 2 stages",
    ),
}


def algebra(dtype: str) -> Algebra:
    return Algebra("add", "mul", 0, *(DTYPES[dtype],) * 4, Initial.ZERO, scaled=False)


def test_sums_that_are_converted_do_not_turn() -> None:
    half = DTYPES["float16"]
    own = Algebra("add", "mul", 0.0, half, half, half, FLOAT32, Initial.ZERO, scaled=False)
    kernel = GridKernel(own, replace(TILE, out_width=4, out_apart=8))
    assert kernel_fault(kernel) == "sums that are converted are stored one by one"


@pytest.mark.parametrize("case", CASES)
def test_kernels_that_cannot_be_written(case: str) -> None:
    change, dtype, told = CASES[case]
    kernel = GridKernel(algebra(dtype), replace(TILE, **change))
    assert kernel_fault(kernel) == told
    if "depth" in change and not change["depth"]:
        return
    with pytest.raises(UsageError) as error:
        lower_grid_product(kernel, "product")
    assert str(error.value) == (
        f"no such kernel of a product\nnote: found {kernel.variant}\ntry: {told}"
    )


@pytest.mark.parametrize("dtype", ["float16", "int32", "float64"])
def test_kernels_that_can(dtype: str) -> None:
    assert kernel_fault(GridKernel(algebra(dtype), TILE)) is None
    assert kernel_fault(GridKernel(algebra(dtype), replace(TILE, left_width=2))) is None


def kernel(threads: int, shared: int, resident: int, registers: int) -> DeviceProgram:
    one, body = (Const(1),) * 3, Block(())
    sums = Buffer("sums", FLOAT32, (Const(1),), Space.REGISTER)
    held = Alloc(sums, (Const(registers),), body)
    made = DeviceKernel("f_0", (), (), one, (threads, 1, 1), held, shared, resident)
    return DeviceProgram("f", (), (), (made,), ())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((2048, 0, 0, 1), "2048 threads in a block, of at most 1024"),
        ((256, 300_000, 0, 1), "300000 bytes of shared memory, of at most 232448"),
        ((256, 0, 0, 300), "300 registers of a thread for its arrays, of at most 255"),
        (
            (256, 200_000, 2, 64),
            "2 blocks of 256 threads, 200000 bytes of shared memory and 64 registers of a thread: "
            "shared memory of a multiprocessor are for 1",
        ),
    ],
)
def test_kernels_that_do_not_fit(given: tuple[int, int, int, int], told: str) -> None:
    with pytest.raises(UsageError) as error:
        require_fit(kernel(*given), load_gpu("sm_90"), "a.c:3")
    assert str(error.value) == (
        f"a.c:3: kernel 'f_0' does not fit on sm_90\nnote: found {told}\n"
        "try: a plan of smaller tiles or fewer threads"
    )


def test_kernels_that_fit() -> None:
    require_fit(kernel(256, 100_000, 2, 100), load_gpu("sm_90"))


def test_steps_of_plans_are_held_against_the_same_rules() -> None:
    with pytest.raises(UsageError, match="map_contraction: threads bring equal parts of left's"):
        MapContraction(("i", "j", "p"), 32, 32, 1, 4, 4, 2, 0)
    with pytest.raises(UsageError, match="map_closure: the elements of a thread are pieces of 4"):
        MapClosure("S0", 64, 48, 16, 8, 6, 4, 1)
    with pytest.raises(UsageError, match="map_closure: a block is a multiple of 16 of at most"):
        MapClosure("S0", 60, 32, 32, 4, 4, 4, 1)


SOURCE = b"""
void product(int n, float C[n][n], float A[n][n], float B[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""


def test_a_plan_that_the_machine_cannot_hold() -> None:
    plan = Plan((MapContraction(("i", "j", "k"), 128, 256, 32, 8, 16, 8, 1),))
    with pytest.raises(UsageError) as error:
        lw.compile(SOURCE, "cuda", machine="sm_90", plan=plan)["product"].explain()
    assert "does not fit on sm_90\nnote: found 397312 bytes of shared memory" in str(error.value)
