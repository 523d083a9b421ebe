"""Contractions on a GPU as nests: tiles, slices, parts, elements, by the interpreter of nests."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES, FLOAT64
from loopwright.ir.grid_kernel import ElementsKernel, ElementsVariant, GridKernel, GridVariant
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lower.grid_nests.grid_elements import lower_grid_elements
from loopwright.lower.grid_nests.grid_launch import elements_launch, product_launch
from loopwright.lower.grid_nests.grid_product import lower_grid_product

TIMES = Algebra("add", "mul", 0.0, FLOAT64, FLOAT64, FLOAT64, FLOAT64, Initial.ZERO, scaled=False)
MIN_PLUS = replace(TIMES, plus="min", times="add", zero=math.inf)
BASE = GridVariant(4, 4, 4, 2, 2, left_along_p=True, right_along_p=False, piece=2)


def operands(shape: ContractionShape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(shape.sizes)

    def size(name: str) -> int:
        dims = [d for bundle in shape.bundles for d in bundle]
        return 1 + sum(getattr(d, name) * (d.extent - 1) for d in dims)

    left, right, out = (
        rng.integers(-4, 5, size(x)).astype(float) for x in ("left", "right", "out")
    )
    return left, right, out


def wanted(shape: ContractionShape, algebra: Algebra, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """Point by point."""
    left, right, out = (a.copy() for a in arrays)
    free = (*shape.batch, *shape.i, *shape.j)
    for point in itertools.product(*(range(d.extent) for d in free)):
        at = {
            x: sum(n * getattr(d, x) for n, d in zip(point, free, strict=True))
            for x in ("left", "right", "out")
        }
        total = out[at["out"]] if algebra.initial is Initial.OUT else algebra.zero
        for steps in itertools.product(*(range(d.extent) for d in shape.p)):
            x, y = (
                array[
                    at[name]
                    + sum(n * getattr(d, name) for n, d in zip(steps, shape.p, strict=True))
                ]
                for name, array in (("left", left), ("right", right))
            )
            total = total + x * y if algebra.plus == "add" else min(total, x + y)
        out[at["out"]] = total
    return out


MATRICES = ContractionShape((), (Dim(7, 9, 0, 6),), (Dim(6, 0, 1, 1),), (Dim(9, 1, 6, 0),))
# abc,dcb->da: two loops of the reduction, which the operands hold in different orders
TENSORS = ContractionShape(
    (), (Dim(5, 12, 0, 1),), (Dim(6, 0, 12, 5),), (Dim(4, 3, 1, 0), Dim(3, 1, 4, 0))
)
# loops without a common stride in every bundle
LOOPS = ContractionShape(
    (Dim(2, 1, 30, 4), Dim(3, 70, 2, 48)),
    (Dim(3, 14, 0, 8), Dim(2, 2, 0, 1)),
    (Dim(2, 0, 5, 2), Dim(2, 0, 60, 24)),
    (Dim(4, 7, 1, 0), Dim(3, 210, 11, 0)),
)
BATCH = ContractionShape(
    (Dim(3, 20, 16, 20),), (Dim(5, 4, 0, 4),), (Dim(4, 0, 1, 1),), (Dim(4, 1, 4, 0),)
)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("algebra", [TIMES, MIN_PLUS, replace(TIMES, initial=Initial.OUT)])
@pytest.mark.parametrize("shape", [MATRICES, TENSORS, BATCH, LOOPS])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"slices": 2},
        {"slices": 4, "stages": 3},
        {"left_along_p": False, "right_along_p": True},
        {"stages": 3, "strided": ""},
        {"strided": "division"},
        {"strided": "division", "stages": 3, "slices": 2},
    ],
)
def test_tiles(shape: ContractionShape, algebra: Algebra, change: dict[str, int]) -> None:
    variant = replace(BASE, **change)
    variant = replace(variant, strided=without_tables(shape, change.get("strided", "strides")))
    kernel = GridKernel(algebra, variant)
    if 4 * variant.depth % variant.threads:
        variant = replace(variant, depth=8)
        kernel = GridKernel(algebra, variant)
    launch = product_launch(kernel, shape)
    arrays = operands(shape)
    expected = wanted(shape, algebra, arrays)
    left, right, out = arrays
    nest = lower_grid_product(kernel, "product")
    given = {"out": out, "left": left, "right": right}
    if launch.table.size:
        given["table"] = launch.table
    interpret_nest(nest, given, dict(zip(nest.scalars, launch.scalars, strict=True)))
    assert out.tolist() == expected.tolist()


def without_tables(shape: ContractionShape, places: str) -> str:
    """The bundles without tables: those of one loop, or by division all of them."""
    if not places:
        return ""
    counts = [(name, max(1, len(d))) for name, d in zip("gijp", shape.bundles, strict=True)]
    return "".join(name * n for name, n in counts if n == 1 or places == "division")


@pytest.mark.parametrize("places", ["strides", "division"])
@pytest.mark.parametrize("shape", [MATRICES, TENSORS, LOOPS])
def test_parts_of_the_reduction(shape: ContractionShape, places: str) -> None:
    strided = without_tables(shape, places)
    kernel = GridKernel(TIMES, replace(BASE, strided=strided, is_split=True))
    left, right, out = operands(shape)
    expected = wanted(shape, TIMES, (left, right, out))
    parts = np.zeros((3, out.size))
    launch = product_launch(kernel, shape, parts=3, chunk=4, out_part=out.size)
    nest = lower_grid_product(kernel, "product")
    given = {"out": parts.reshape(-1), "left": left, "right": right, "table": launch.table}
    if not launch.table.size:
        del given["table"]
    interpret_nest(nest, given, dict(zip(nest.scalars, launch.scalars, strict=True)))
    assert parts.sum(0).tolist() == expected.tolist()
    assert parts[2].any() == (shape.sizes[3] > 8)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("algebra", [TIMES, MIN_PLUS, replace(TIMES, initial=Initial.OUT)])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("shape", [MATRICES, TENSORS, BATCH])
def test_elements(shape: ContractionShape, lanes: int, algebra: Algebra) -> None:
    whole = ContractionShape((), (*shape.batch, *shape.i, *shape.j), (), shape.p)
    variant = ElementsVariant(len(whole.i), len(whole.p), lanes, threads=16)
    kernel = ElementsKernel(algebra, variant)
    launch = elements_launch(kernel, whole)
    left, right, out = operands(shape)
    expected = wanted(shape, algebra, (left, right, out))
    nest = lower_grid_elements(kernel, "elements")
    given = {"out": out, "left": left, "right": right}
    interpret_nest(nest, given, dict(zip(nest.scalars, launch.scalars, strict=True)))
    assert out.tolist() == expected.tolist()


def test_elements_of_one_operand_in_parts() -> None:
    algebra = replace(TIMES, times="first")
    shape = ContractionShape((), (Dim(3, 10, 0, 1),), (), (Dim(10, 1, 0, 0),))
    kernel = ElementsKernel(algebra, ElementsVariant(1, 1, 2, threads=8))
    launch = elements_launch(kernel, shape, parts=3, chunk=4, out_part=3)
    left, out = np.arange(30.0), np.zeros((3, 3))
    nest = lower_grid_elements(kernel, "elements")
    given = {"out": out.reshape(-1), "left": left}
    interpret_nest(nest, given, dict(zip(nest.scalars, launch.scalars, strict=True)))
    rows = left.reshape(3, 10)
    assert out.tolist() == [rows[:, a:b].sum(1).tolist() for a, b in ((0, 4), (4, 8), (8, 10))]


def test_wide_tables_hold_64_bits() -> None:
    kernel = GridKernel(TIMES, replace(BASE, strided="gjp", is_wide=True))
    shape = replace(MATRICES, i=(Dim(2, 1 << 31, 0, 6), Dim(2, 9, 0, 3)))
    launch = product_launch(kernel, shape)
    assert launch.table.dtype == DTYPES["int64"].numpy
    assert launch.table.tolist() == [0, 9, 1 << 31, (1 << 31) + 9, 0, 3, 6, 9]
