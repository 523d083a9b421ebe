"""Products for a GPU by the interpreter of nests: all layouts, stages, edges, semirings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drawn import combined, drawn
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lower.grid_nests.grid_product import lower_grid_product, product_scalars
from loopwright.lower.grid_nests.split_kernels import split_kernels

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
    """Operands are laid out along p or across it, as the variant says.

    Columns that lie out_apart from each other are neighbours in out, runs of 2 * out_width.
    """
    rows, columns, steps = size
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        high = 2 if kernel.left.name == "bool" else 9
        return random.integers(0, high, shape).astype(kernel.left.numpy)

    left, right = drawn(batch, rows, steps), drawn(batch, steps, columns)
    out = drawn(batch, rows, columns)
    order = apart(list(range(columns)), variant)
    stored_left = left[:, :, in_memory(variant.left_apart, variant, steps)]
    stored_right = right[:, in_memory(variant.right_apart, variant, steps)]
    stored_left = stored_left if variant.left_along_p else stored_left.transpose(0, 2, 1)
    stored_right = stored_right.transpose(0, 2, 1) if variant.right_along_p else stored_right
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
            places = [stride * at for at in range(extent)]
            if bundle == "p":
                far = variant.left_apart if name == "left_p" else variant.right_apart
                order_of_p = in_memory(far, variant, steps)
                places = [places[order_of_p.index(at)] for at in range(extent)]
            if bundle == "p" and variant.by_tiles:
                places = places[: variant.depth] + places[:: variant.depth]
            table += apart(places, variant) if name == "out_j" else places
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
    want = expected(kernel, out[:, :, order], left, right, alpha, beta)
    np.testing.assert_array_equal(arrays["out"].reshape(out.shape)[:, :, order], want)


def in_memory(far: int, variant: GridVariant, steps: int) -> list[int]:
    """The steps in the order of memory, where neighbours are so many steps of a tile apart."""
    if far == 1:
        return list(range(steps))
    depth = variant.depth
    inside = [at * far + step for step in range(far) for at in range(depth // far)]
    return [tile * depth + at for tile in range(steps // depth) for at in inside]


def apart(places: list[int], variant: GridVariant) -> list[int]:
    """Places of columns in a row of out, where neighbours are out_apart columns apart."""
    far, run = variant.out_apart, 2 * variant.out_width
    if far == 1:
        return places
    found = [(at // (far * run), at % far, at // far % run) for at in range(len(places))]
    return [places[(block * far + near) * run + step] for block, near, step in found]


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


@pytest.mark.parametrize("strided", ["", "gi", "jp", "gijp"])
@pytest.mark.parametrize("is_wide", [False, True])
def test_offset_tables(strided: str, is_wide: bool) -> None:
    check(replace(SMALL, strided=strided, is_wide=is_wide), algebra("sums"), (5, 3, 4), batch=2)


# 8 x 16 elements by 8 threads of 4 x 4, two slices of them.
JOINED = GridVariant(8, 16, 4, 4, 4, True, False, piece=2, warp_rows=2, slices=2)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("changed", "size"),
    combined(
        [
            {},
            {"rounds": 2, "out_width": 2},
            {"rounds": 4, "out_width": 2, "strided": ""},
            {"out_width": 2, "out_apart": 2, "strided": "gip"},
            {"out_width": 2, "out_apart": 4, "strided": "gp", "rounds": 2},
            {"out_width": 2, "out_apart": 4, "strided": "g", "slices": 1, "rounds": 4},
            {"out_width": 4, "out_apart": 4, "strided": "", "slices": 4, "piece": 4},
            {"thread_rows": 2, "thread_columns": 4, "slices": 2, "depth": 8},
        ],
        ((8, 32, 4), (9, 64, 7), (3, 32, 11), (16, 16, 0)),
        one_in=8,
    ),
)
def test_sums_by_way_of_shared_memory(
    changed: dict[str, int | str], size: tuple[int, int, int]
) -> None:
    """Sums of slices, rounds of rows, neighbours of out that are columns apart."""
    variant = replace(JOINED, **changed)
    rows, columns, steps = size
    whole = 2 * variant.out_width * variant.out_apart
    size = rows, -(-columns // whole) * whole, steps
    check(variant, algebra("sums", Initial.ZERO), size)
    check(variant, algebra("paths"), size, batch=2)
    check(variant, algebra("sums", Initial.SCALED, scaled=True), size)


@pytest.mark.parametrize("changed", [{}, {"is_wide": True, "stages": 3}, {"slices": 2}])
def test_tables_that_are_read_once_for_a_tile(changed: dict[str, int]) -> None:
    variant = replace(SMALL, depth=4, strided="gi", by_tiles=True, **changed)
    check(variant, algebra("sums"), (5, 3, 12))
    text = emit_kernels(
        [split_kernels(lower_grid_product(GridKernel(algebra("sums"), variant), "product"))], CUDA
    )
    assert "table[left_p + left_step0]" in text
    assert f"table[left_p + 4 + {'1' if variant.stages == 3 else '(t + 1)'}]" in text


TURNED = GridVariant(32, 32, 16, 4, 8, True, True, left_width=4, right_width=4, slices=2)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("changed", "lanes"),
    drawn(
        [
            ({}, (4, 0)),
            ({"depth": 32, "thread_rows": 8, "thread_columns": 4, "is_early": True}, (0, 8)),
            ({"columns": 64, "right_apart": 2, "strided": "gij", "by_tiles": True}, (4, 2)),
            ({"columns": 64, "depth": 64, "slices": 1, "left_along_p": False}, (0, 8)),
        ],
        2,
    ),
)
def test_columns_change_places_from_turn_to_turn(
    changed: dict[str, int | str], lanes: tuple[int, int]
) -> None:
    """Tiles that are stored across, to different banks."""
    variant = replace(TURNED, **changed)
    assert (variant.turned_lanes("left", 4), variant.turned_lanes("right", 4)) == lanes
    assert variant.turned_lanes("left", 8) == 0
    rest = 0 if variant.right_apart > 1 else 8
    check(variant, algebra("widest"), (12, variant.columns - 4, variant.depth + rest))


def test_threads_that_store_across_find_all_banks() -> None:
    """By the subscripts of a warp's threads, for the tiles of einsum."""
    for depth, lanes in ((32, 8), (16, 4)):
        variant = replace(TURNED, rows=128, thread_rows=16, columns=64, depth=depth, slices=4)
        kernel = GridKernel(
            Algebra("add", "mul", 0.0, *(DTYPES["float32"],) * 4, Initial.ZERO, scaled=False),
            variant,
        )
        text = emit_kernels([split_kernels(lower_grid_product(kernel, "product"))], CUDA)
        found = re.search(r"left_at0 = (.*);", text)
        assert found is not None
        assert found[1] == f"(thread_x / {lanes}L) ^ (thread_x % {lanes}L * {32 // lanes}L)"
        banks = {thread // lanes ^ thread % lanes * (32 // lanes) for thread in range(32)}
        assert len(banks) == 32


# One warp of the matrix unit: 16 x 8 elements, 2 x 2 of them in each thread.
MMA = GridVariant(16, 8, 8, 2, 2, True, False, uses_mma=True)
REALS = Algebra("add", "mul", 0.0, *(DTYPES["float64"],) * 4, Initial.OUT, scaled=False)


@pytest.mark.drawn(2)
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


@pytest.mark.drawn(4)
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


ENDS = (
    {},
    {"stages": 3},
    {"strided": "gi", "is_wide": True},
    {"depth": 4, "strided": "gi", "by_tiles": True, "stages": 3},
    {"depth": 4, "slices": 2},
    {"depth": 4, "slices": 2, "strided": ""},
)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("changed", ENDS, ids=str)
def test_ends_that_compute_places_anew(changed: dict[str, Any]) -> None:
    """The result is the same; what the end needs is written once more, from copies of its own."""
    variant = replace(SMALL, ends_anew=True, **changed)
    sizes = ((5, 3, 12),) if variant.by_tiles else ((5, 3, 7), (4, 9, 9), (3, 8, 1))
    for size in sizes:
        check(variant, algebra("sums", Initial.SCALED, scaled=True), size, batch=2)
        check(variant, algebra("paths", Initial.ZERO), size)
    kernel = GridKernel(algebra("paths"), variant)
    text = emit_kernels([split_kernels(lower_grid_product(kernel, "product"))], CUDA)
    _, _, end = text.partition("const lw_index thread_x_anew = lw_anew(thread_x);")
    assert "const lw_index tile_i_anew = " in end
    assert not re.search(r"\b(tile_i|tile_j|thread_i|left_run0)\b", end)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("copies", [1, 2])
def test_fewer_steps_in_the_code(stages: int, copies: int) -> None:
    variant = replace(SMALL, depth=4, stages=stages, copies=copies)
    for size in ((5, 3, 7), (4, 9, 9)):
        check(variant, algebra("sums"), size)
        check(variant, algebra("paths"), size)


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
