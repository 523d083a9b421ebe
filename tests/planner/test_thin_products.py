"""Products with few rows or columns: tiles as thin as they are, and what is used once in place."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algebra, Broadcast, Initial, KernelVariant, Packing
from loopwright.machines.load import load_machine
from loopwright.planner.contraction_plans.analytical import choose
from loopwright.planner.contraction_plans.thin_products import TileLimits, thin_tiles

F32 = DTYPES["float32"]


def variant_of(
    m: int,
    n: int,
    k: int,
    initial: Initial = Initial.ZERO,
    threads: int = 1,
    machine: str = "neoverse-n1",
) -> KernelVariant:
    """The construction of a product of matrices in C order."""
    sums = Algebra("add", "mul", 0.0, F32, F32, F32, F32, initial, False)
    dims = (Dim(m, k, 0, n),), (Dim(n, 0, 1, 1),), (Dim(k, 1, n, 0),)
    shape = ContractionShape((), *dims)
    return choose(shape, sums, load_machine(machine), threads, reassoc=True).variant


@pytest.mark.parametrize("machine", ["neoverse-n1", "skylake-avx512"])
@pytest.mark.parametrize(("m", "k"), [(700, 1024), (130, 3000)])
def test_left_of_few_columns_is_not_packed(m: int, k: int, machine: str) -> None:
    """One tile is as wide as the product: each element of left is used by it alone."""
    variant = variant_of(m, 7, k, machine=machine)
    assert variant.left_packing is Packing.DIRECT
    assert variant.columns >= 7 > variant.columns - variant.lanes


def test_products_that_are_not_thin_are_left_alone() -> None:
    variant = variant_of(700, 700, 700)
    assert (variant.rows, variant.vectors) == (8, 3)
    assert variant.left_packing is Packing.ALONG_P


def test_tiles_fit_the_registers_and_share_evenly() -> None:
    limits = TileLimits(4, 32, Broadcast.LANE, True, True, True)
    for rows, vectors, _ in thin_tiles(9, 679, 8, 12, limits):
        assert limits.fits(rows, vectors)
        assert rows in (9, 5)
    assert list(thin_tiles(300, 500, 8, 12, limits)) == []


def test_lanes_of_a_packed_column_are_whole_vectors() -> None:
    limits = TileLimits(4, 32, Broadcast.LANE, False, False, True)
    assert {rows for rows, _, _ in thin_tiles(13, 400, 8, 12, limits)} == {16, 8}


@pytest.mark.drawn(8)
@pytest.mark.parametrize("text", ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji"])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 83, 70), (83, 5, 70), (9, 33, 300), (2, 17, 9)])
def test_thin_products_are_right(text: str, m: int, n: int, k: int) -> None:
    sizes = {"i": m, "j": n, "k": k}
    rng = np.random.default_rng(0)
    terms = text.partition("->")[0].split(",")
    operands = [rng.integers(-4, 5, [sizes[c] for c in term]).astype("f4") for term in terms]
    assert np.array_equal(lw.einsum(text, *operands), np.einsum(text, *operands))
