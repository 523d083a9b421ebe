"""How operands of products are packed: in the order in which they lie in memory."""

from __future__ import annotations

import pytest

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algebra, Initial, Packing
from loopwright.lower.launch import launch
from loopwright.machines.load import load_machine
from loopwright.planner import gemm_plan
from loopwright.planner.analytical import Choice, choose

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


def test_lines_that_hold_several_panels_are_visited_for_few_steps() -> None:
    """Neighbours of left lie along i, those of right along p."""
    sizes = {"a": 15, "b": 15, "p": 301, "c": 97}
    choice = chosen(sizes, "pab", "cp", "bca")
    first, second = ("right", "left") if choice.variant.swapped else ("left", "right")
    sides = {first: "l", second: "r"}
    values = launch(choice.variant, choice.blocks, choice.shape).values
    visits = {sides[name]: values[f"{name}_v"] for name in sides}
    packings = {sides[name]: getattr(choice.variant, f"{name}_packing") for name in sides}
    assert packings["l"] is Packing.GATHER
    assert visits["l"] < 64
    assert visits["r"] == values["kc"]


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
