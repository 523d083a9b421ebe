"""Registers of products on a GPU: how many steps of a tile the code repeats, and what fits."""

from __future__ import annotations

import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.grid_registers import fitted, fitting_copies, spare_registers
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


def test_fewer_blocks_where_nothing_fits() -> None:
    found = fitted(kernel(SMALL, plus="min", times="add_top", dtype="int32"))
    assert (found.resident, found.copies) == (1, 0)
    assert fitted(kernel(SMALL)).resident == 2
