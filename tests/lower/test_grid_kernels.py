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
BATCH = ContractionShape(
    (Dim(3, 20, 16, 20),), (Dim(5, 4, 0, 4),), (Dim(4, 0, 1, 1),), (Dim(4, 1, 4, 0),)
)


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
