"""How operands of products are packed: in the order in which they lie in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algebra, Initial, Packing
from loopwright.ir.loops import Prefetch
from loopwright.ir.visit import statements
from loopwright.lower.contraction_nests.macro_kernel import lower_product
from loopwright.machines.load import load_machine
from loopwright.planner.contraction_plans import gemm_plan
from loopwright.planner.contraction_plans.analytical import Choice, choose

F64 = DTYPES["float64"]
SUMS = Algebra("add", "mul", 0.0, F64, F64, F64, F64, Initial.ZERO, False)


def chosen(sizes: dict[str, int], left: str, right: str, out: str) -> Choice:
    """The plan for an einsum of two operands in C order."""
    steps = []
    for term in (left, right, out):
        at, found = 1, {}
        for index in reversed(term):
            found[index] = at
            at *= sizes[index]
        steps.append(found)
    dims = {c: Dim(sizes[c], *(s.get(c, 0) for s in steps)) for c in sizes}
    i = tuple(dims[c] for c in sizes if c in left and c in out)
    j = tuple(dims[c] for c in sizes if c in right and c in out)
    p = tuple(dims[c] for c in sizes if c not in out)
    return choose(ContractionShape((), i, j, p), SUMS, load_machine("neoverse-n1"), 1, reassoc=True)


@pytest.mark.parametrize(("rows", "packing"), [(61, Packing.GATHER), (761, Packing.WALK_P)])
def test_steps_out_of_order_are_walked_where_the_operand_is_far(
    rows: int, packing: Packing
) -> None:
    """p cannot run along both operands; one that lies in L2 is read in any order of steps."""
    sizes = {"m": rows, "n": rows + 2, "a": 25, "b": 27}
    variant = chosen(sizes, "mab", "nba", "mn").variant
    assert {variant.left_packing, variant.right_packing} == {Packing.GATHER, packing}


@pytest.mark.parametrize(
    ("lanes", "m", "n", "tile"),
    [
        (4, 120, 120, (4, 5)),  # both cover it
        (4, 128, 128, (5, 4)),  # 7 x 20 columns for 128
        (2, 128, 128, (5, 4)),  # 130 columns or 130 rows: columns count first
        (2, 1024, 1024, (4, 5)),  # 6 of 1030 columns are too few to matter
        (4, 8, 128, (4, 5)),  # 2 x 5 rows for 8 are worse than 140 columns
    ],
)
def test_replicated_tiles_cover_a_product_with_few_elements(
    lanes: int, m: int, n: int, tile: tuple[int, int]
) -> None:
    assert gemm_plan._replicated_tile(32, lanes, m, n) == tile
    assert gemm_plan._replicated_tile(8, lanes, m, n) == (1, 1)


MINIMA = Algebra("min", "mul", 0.0, F64, F64, F64, F64, Initial.OUT, False)


@pytest.mark.parametrize("m", [504, 2000, 2048])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_have_nearly_as_many_rows_of_replicated_tiles(m: int, threads: int) -> None:
    shape = ContractionShape(
        (), (Dim(m, 256, 0, 2000),), (Dim(2000, 0, 1, 1),), (Dim(256, 1, 2000, 0),)
    )
    choice = choose(shape, MINIMA, load_machine("neoverse-n1"), threads, reassoc=True)
    assert choice.variant.parallel == "i"
    blocks = -(-m // choice.blocks[0])
    most = -(-blocks // threads) * choice.blocks[0]
    assert most <= m / threads + choice.variant.rows + m / threads / 50


def test_products_into_out_ask_for_the_next_tile() -> None:
    """Of those that begin with zero no element is read."""
    shape = ContractionShape(
        (), (Dim(500, 256, 0, 500),), (Dim(500, 0, 1, 1),), (Dim(256, 1, 500, 0),)
    )
    for initial, is_asked in ((Initial.OUT, True), (Initial.ZERO, False)):
        algebra = replace(MINIMA, initial=initial)
        for machine in ("neoverse-n1", "sapphirerapids"):
            kernel = choose(shape, algebra, load_machine(machine), 1, reassoc=True).kernel
            body = lower_product(kernel, "product").body
            asked = {s.buffer for s in statements(body) if isinstance(s, Prefetch)}
            assert ("out" in asked) == is_asked
