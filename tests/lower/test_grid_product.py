"""Products for a GPU by the interpreter of nests: all layouts, stages, edges, semirings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drawn import combined
from loopwright.backends.c_dialect import CUDA
from loopwright.backends.device_module import emit_kernels
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lower.grid_product import lower_grid_product, product_scalars
from loopwright.lower.split_kernels import split_kernels

SIZES = ((4, 4, 4), (1, 1, 1), (5, 3, 7), (9, 6, 1), (3, 8, 0), (4, 9, 9))
# A block of 4 x 4 elements by four threads of 2 x 2.
SMALL = GridVariant(4, 4, 2, 2, 2, True, False, piece=2, warp_rows=2)
SEMIRINGS = {
    "sums": ("add", "mul", 0, "int64"),
    "paths": ("min", "add", float("inf"), "float64"),
    "widest": ("max", "min", -(2**31), "int32"),
    "reach": ("or", "and", False, "bool"),
}
PLUS = {"add": np.add, "min": np.minimum, "max": np.maximum, "or": np.logical_or}
TIMES = {"mul": np.multiply, "add": np.add, "min": np.minimum, "and": np.logical_and}


def algebra(name: str, initial: Initial = Initial.OUT, *, scaled: bool = False) -> Algebra:
    plus, times, zero, dtype = SEMIRINGS[name]
    return Algebra(plus, times, zero, *(DTYPES[dtype],) * 4, initial, scaled=scaled)


def expected(
    kernel: Algebra, out: np.ndarray, left: np.ndarray, right: np.ndarray, alpha: int, beta: int
) -> np.ndarray:
    """By NumPy, in the order of p; arrays are [g, i, j], [g, i, p] and [g, p, j]."""
    plus, times = PLUS[str(kernel.plus)], TIMES[str(kernel.times)]
    found = out.copy()
    if kernel.initial is Initial.ZERO:
        found[...] = np.array(kernel.zero).astype(out.dtype)
    if kernel.initial is Initial.SCALED:
        found = (found * beta).astype(out.dtype)
    for p in range(left.shape[2]):
        product = times(left[:, :, p, None], right[:, None, p, :])
        product = product * alpha if kernel.scaled else product
        found = plus(found, product).astype(out.dtype)
    return found


def check(
    variant: GridVariant, kernel: Algebra, size: tuple[int, int, int], batch: int = 1, seed: int = 0
) -> None:
    """Operands are laid out along p or across it, as the variant says."""
    rows, columns, steps = size
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        high = 2 if kernel.left.name == "bool" else 9
        return random.integers(0, high, shape).astype(kernel.left.numpy)

    left, right = drawn(batch, rows, steps), drawn(batch, steps, columns)
    out = drawn(batch, rows, columns)
    stored_left = left if variant.left_along_p else left.transpose(0, 2, 1)
    stored_right = right.transpose(0, 2, 1) if variant.right_along_p else right
    along = {
        "left_i": steps if variant.left_along_p else 1,
        "left_p": 1 if variant.left_along_p else rows,
        "right_j": steps if variant.right_along_p else 1,
        "right_p": 1 if variant.right_along_p else columns,
        "out_i": columns,
        "out_j": 1,
        "left_g": rows * steps,
        "right_g": steps * columns,
        "out_g": rows * columns,
    }
    values = {"G": batch, "M": rows, "N": columns, "K": steps}
    table: list[int] = []
    for name in product_scalars(GridKernel(kernel, variant))[4:]:
        bundle = name[-1]
        if bundle not in variant.strided:
            extent = values[{"g": "G", "i": "M", "j": "N", "p": "K"}[bundle]]
            stride, along[name] = along[name], len(table)
            table += [stride * at for at in range(extent)]
    alpha, beta = 3, 2
    arrays = {
        "out": out.copy().ravel(),
        "left": np.ascontiguousarray(stored_left).ravel(),
        "right": np.ascontiguousarray(stored_right).ravel(),
    }
    if set(variant.strided) != set("gijp"):
        arrays["table"] = np.array(table or [0], np.int64 if variant.is_wide else np.int32)
    if kernel.scaled:
        arrays["alpha"] = np.array(alpha, kernel.accumulator.numpy)
    if kernel.initial is Initial.SCALED:
        arrays["beta"] = np.array(beta, kernel.accumulator.numpy)
    nest = lower_grid_product(GridKernel(kernel, variant), "product")
    check_nest(nest)
    interpret_nest(nest, arrays, values | along, seed=seed)
    want = expected(kernel, out, left, right, alpha, beta)
    np.testing.assert_array_equal(arrays["out"].reshape(out.shape), want)


@pytest.mark.parametrize(
    ("along", "stages", "size"),
    combined(
        [(True, False), (False, False), (True, True), (False, True)], (2, 3, 4), SIZES, one_in=6
    ),
)
def test_layouts_and_stages(
    along: tuple[bool, bool], stages: int, size: tuple[int, int, int]
) -> None:
    left, right = along
    variant = replace(SMALL, left_along_p=left, right_along_p=right, stages=stages)
    check(variant, algebra("sums"), size)


@pytest.mark.parametrize(("name", "size"), combined(SEMIRINGS, SIZES, one_in=4))
def test_semirings(name: str, size: tuple[int, int, int]) -> None:
    check(SMALL, algebra(name), size, seed=sum(size))


@pytest.mark.parametrize("initial", Initial)
@pytest.mark.parametrize("scaled", [False, True])
def test_initial_values(initial: Initial, scaled: bool) -> None:
    check(SMALL, algebra("sums", initial, scaled=scaled), (5, 6, 3))


@pytest.mark.parametrize("strided", ["", "gi", "jp", "gijp"])
@pytest.mark.parametrize("is_wide", [False, True])
def test_offset_tables(strided: str, is_wide: bool) -> None:
    check(replace(SMALL, strided=strided, is_wide=is_wide), algebra("sums"), (5, 3, 4), batch=2)


@pytest.mark.parametrize("size", [(4, 4, 4), (8, 4, 6), (4, 8, 2)])
def test_wide_loads_and_stores(size: tuple[int, int, int]) -> None:
    variant = replace(SMALL, left_width=2, right_width=2, out_width=2)
    check(variant, algebra("sums"), size)


@pytest.mark.parametrize("size", [(4, 4, 4), (5, 3, 7), (9, 6, 1)])
def test_sums_in_shared_memory(size: tuple[int, int, int]) -> None:
    variant = replace(SMALL, in_registers=False, right_width=1, out_width=2)
    check(variant, algebra("paths"), size)
    check(replace(variant, stages=3), algebra("sums", Initial.SCALED, scaled=True), size)


def test_several_slices() -> None:
    """Groups of threads that share out the steps of a tile."""
    check(replace(SMALL, depth=4, slices=4), algebra("sums"), (5, 3, 11))


def test_batches() -> None:
    check(SMALL, algebra("sums"), (5, 3, 3), batch=3)


def test_a_batch_of_nothing() -> None:
    check(SMALL, algebra("sums"), (5, 3, 3), batch=0)


# One warp of the matrix unit: 16 x 8 elements, 2 x 2 of them in each thread.
MMA = GridVariant(16, 8, 8, 2, 2, True, False, uses_mma=True)
REALS = Algebra("add", "mul", 0.0, *(DTYPES["float64"],) * 4, Initial.OUT, scaled=False)


@pytest.mark.parametrize(
    ("along", "stages", "size"),
    combined(
        [(True, False), (False, False), (True, True), (False, True)],
        (2, 3),
        ((16, 8, 8), (17, 9, 11), (5, 3, 20)),
        one_in=3,
    ),
)
def test_matrix_unit(along: tuple[bool, bool], stages: int, size: tuple[int, int, int]) -> None:
    left, right = along
    check(replace(MMA, left_along_p=left, right_along_p=right, stages=stages), REALS, size)


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": 16, "thread_columns": 4},
        {"rows": 32, "thread_rows": 2, "columns": 16, "thread_columns": 4},
        {"slices": 2, "stages": 3},
        {"left_width": 2, "right_width": 2, "stages": 3, "depth": 8},
    ],
)
def test_warps_and_slices_of_the_matrix_unit(changed: dict[str, int]) -> None:
    check(replace(MMA, **changed), REALS, (34, 24, 18))


@pytest.mark.parametrize("initial", Initial)
def test_initial_values_of_the_matrix_unit(initial: Initial) -> None:
    check(MMA, replace(REALS, initial=initial, scaled=True), (16, 8, 12))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("copies", [1, 2])
def test_fewer_steps_in_the_code(stages: int, copies: int) -> None:
    variant = replace(SMALL, depth=4, stages=stages, copies=copies)
    for size in ((5, 3, 7), (4, 9, 9)):
        check(variant, algebra("sums"), size)
        check(variant, algebra("paths"), size)


def test_text_of_steps_and_updates() -> None:
    """Steps are a loop; factors of 64 bits serve neighbours, asynchronous copies come later."""
    variant = replace(SMALL, depth=4, stages=3, copies=2)
    kernel = GridKernel(algebra("paths"), variant)
    text = emit_kernels([split_kernels(lower_grid_product(kernel, "product"))], CUDA)
    assert "#pragma unroll 2\n            for (lw_index p = 0; p < 3; p++) {" in text
    assert "sums[1][1 - column] = " in text
    start = text.index("for (lw_index t = 0;")
    assert text.index("left_own[0]", start) < text.index("lw_copy_async", start)
    narrow = GridKernel(algebra("widest"), replace(variant, copies=0))
    text = emit_kernels([split_kernels(lower_grid_product(narrow, "product"))], CUDA)
    assert "#pragma unroll 2" not in text
    assert "[1 - column]" not in text
    start = text.index("for (lw_index t = 0;")
    assert text.index("lw_copy_async", start) < text.index("left_own[0]", start)


def test_runs_of_a_thread_share_an_address() -> None:
    """Many runs along the reduction lie constant distances apart in the tile."""
    variant = GridVariant(8, 4, 8, 4, 4, True, False, piece=2, warp_rows=2)
    assert variant.threads == 2
    check(variant, algebra("sums"), (9, 5, 17))
    wide = GridVariant(32, 16, 8, 4, 4, True, True, piece=2)
    kernel = GridKernel(algebra("sums"), wide)
    text = emit_kernels([split_kernels(lower_grid_product(kernel, "product"))], CUDA)
    assert "const lw_index left_at7 = thread_x / 8 + 28;" in text
    assert "const lw_index left_step7 = thread_x % 8;" in text
    check(wide, algebra("sums"), (33, 17, 9))
