"""Registers of products on a GPU: how many steps of a tile the code repeats, and what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.grid_registers import ends_anew, fitted, fitting_copies, spare_registers
from loopwright.ir.kernel_variant import Algebra, Initial

LARGE = GridVariant(128, 256, 16, 8, 16, True, False, 4, 4, 4, resident=1)
SMALL = GridVariant(128, 128, 8, 8, 8, True, False, 4, 4, 4, resident=2)


def kernel(
    variant: GridVariant, dtype: str = "float32", initial: Initial = Initial.ZERO, **ops: str
) -> GridKernel:
    operators = ops.get("plus", "add"), ops.get("times", "mul")
    algebra = Algebra(*operators, 0, *(DTYPES[dtype],) * 4, initial, scaled=False)
    return GridKernel(algebra, variant)


def test_what_is_left() -> None:
    """128 sums, 24 factors, 24 elements on their way and 6 runs of 255."""
    assert spare_registers(kernel(LARGE)) == 255 - 128 - 24 - 24 - 6
    # Two blocks of 256 threads: 128 registers for each thread.
    assert spare_registers(kernel(SMALL)) == 128 - 64 - 16 - 8 - 2
    assert spare_registers(kernel(SMALL, initial=Initial.OUT)) == 38 - 8 - 4


@pytest.mark.parametrize(
    ("variant", "more", "copies"),
    [
        (LARGE, {}, 0),
        (LARGE, {"dtype": "float64"}, None),
        (SMALL, {}, 2),
        (SMALL, {"times": "add_top", "plus": "min", "dtype": "int32"}, None),
    ],
    ids=["all steps", "too many sums", "two steps", "several instructions"],
)
def test_steps(variant: GridVariant, more: dict[str, str], copies: int | None) -> None:
    assert fitting_copies(kernel(variant, **more)) == copies  # type: ignore[arg-type]


def test_ends_are_computed_anew_where_little_is_left() -> None:
    assert not ends_anew(kernel(LARGE))
    assert ends_anew(kernel(LARGE, plus="min", times="add"))
    # By tables, past the registers, element by element of left.
    ahead = replace(SMALL, depth=16, left_width=1, stages=3)
    assert ends_anew(kernel(replace(ahead, strided="gij")))
    assert not ends_anew(kernel(ahead))
    assert not ends_anew(kernel(replace(LARGE, uses_mma=True)))


def test_shallower_tiles_where_nothing_fits() -> None:
    """Products of int64 are several instructions; runs of both tiles pass through registers."""
    deep = GridVariant(64, 128, 16, 8, 8, True, False, resident=2)
    found = fitted(kernel(deep, "int64", Initial.OUT))
    assert (found.depth, found.copies, found.ends_anew) == (8, 1, True)
    assert fitted(kernel(deep, "float64", Initial.OUT)).depth == 16
