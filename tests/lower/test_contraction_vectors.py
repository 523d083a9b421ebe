"""Products with an empty bundle: dot products, columns, and no reduction at all."""

from __future__ import annotations

import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Var
from loopwright.ir.kernel_variant import Algorithm, ContractionKernel, Initial, Packing
from lower.contractions import Layout, Problem, Ring, check_kernel, kernel_of, pairwise, ring

P = Packing
x, y = Var("x", DTYPES["int32"]), Var("y", DTYPES["int32"])
RINGS = [
    ring("add", "mul", "float64"),
    ring("add", "mul", "float16", "float16", "float16", "float32"),
    ring("min", "add", "int32"),
    ring("add", "first", "complex64"),
    ring("add", "mul", "int8", "uint8", "int64", "int64"),
    ring("max", "first", "float32"),
    ring("xor", "and", "bool"),
    ring(Binary("max", x, y), Binary("sub", x, Binary("add", y, y)), "int32"),
    ring("add", "mul", "complex128"),
    ring("max", "min", "uint16"),
]
SHARED = {
    "initial": list(Initial),
    "scaled": [False, True],
    "swapped": [False, True],
    "tile": [(1, 2, 4), (2, 1, 2), (4, 2, 2), (3, 1, 8), (1, 1, 1)],
}


def kernel_from(kind: Algorithm, row: dict[str, object], algebra: Ring) -> ContractionKernel:
    """The kernel of a row of choices, as far as they go together."""
    changes = {k: v for k, v in row.items() if k not in ("tile", "many")}
    if not (algebra.plus == "add" and algebra.times in ("mul", "first")):
        changes["scaled"] = False
        if changes["initial"] is Initial.SCALED:
            changes["initial"] = Initial.OUT
    tile = row["tile"]
    assert isinstance(tile, tuple)
    packings = changes["left_packing"], changes["right_packing"]
    if (kind is Algorithm.ROWS and packings[0] is P.ANY) or (
        kind is Algorithm.COLUMNS and packings[1] is P.ANY
    ):
        tile = (*tile[:2], 1)
    return kernel_of(kind, algebra, tile, **changes)


# -- dot products: j is empty, lanes run along p ---------------------------------------------------

ROWS = list(
    pairwise(
        {
            **SHARED,
            "left_packing": [P.DIRECT, P.ALONG_P, P.ANY],
            "right_packing": [P.DIRECT, P.ANY],
            "parallel": ["none", "i", "batch"],
        }
    )
)


def row_problems(kernel: ContractionKernel) -> list[Problem]:
    variant = kernel.variant
    left = Layout("gip") if variant.left_packing is not P.ANY else Layout("pig", flips="p")
    right = Layout("gp") if variant.right_packing is P.DIRECT else Layout("pg", gaps=2)
    chunk = variant.columns
    runs = variant.left_packing is P.ALONG_P
    single = variant.left_packing is P.DIRECT or variant.right_packing is P.DIRECT
    many = (2, variant.lanes) if runs and not single else (2 * chunk + 1,)
    return [
        Problem({"g": g, "i": i, "j": (), "p": p}, left, right, out)
        for g, i, p, out in (
            ((1,), (1,), (1,), Layout("gi")),
            ((3,), (variant.rows + 1,), many, Layout("ig")),
            (
                (2,),
                (2 * variant.rows,),
                (chunk + variant.lanes + 1,),
                Layout("gi", flips="g", gaps=2),
            ),
        )
    ]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_rows(number: int) -> None:
    kernel = kernel_from(Algorithm.ROWS, ROWS[number], RINGS[number % len(RINGS)])
    check_kernel(kernel, row_problems(kernel))


# -- columns: i is empty, lanes run along j --------------------------------------------------------

COLUMNS = list(
    pairwise(
        {
            **SHARED,
            "left_packing": [P.ANY],
            "right_packing": [P.DIRECT, P.ALONG_TILE, P.ANY],
            "parallel": ["none", "j", "batch"],
            "apart": [False, True],
        },
        seed=1,
    )
)


def column_problems(kernel: ContractionKernel) -> list[Problem]:
    variant = kernel.variant
    left = Layout("gp", flips="p")
    direct, runs = (
        variant.right_packing is P.DIRECT,
        variant.right_packing is P.ALONG_TILE,
    )
    right = Layout("gpj") if direct or runs else Layout("jpg", flips="j")
    out = Layout("gj") if direct or runs else Layout("jg", gaps=2)
    lanes, chunk = variant.lanes, variant.columns
    j = (2, 2 * lanes) if runs else (2 * chunk + lanes + 1,)
    return [
        Problem({"g": g, "i": (), "j": j, "p": p}, left, right, out, (0, block, 0))
        for g, j, p, block in (
            ((1,), (1,), (1,), 0),
            ((2,), j, (2 * variant.rows + 1,), 2 * chunk),
            ((3,), (max(1, lanes - 1),), (variant.rows,), 0),
        )
    ]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("number", range(len(COLUMNS)))
def test_columns(number: int) -> None:
    kernel = kernel_from(Algorithm.COLUMNS, COLUMNS[number], RINGS[number % len(RINGS)])
    check_kernel(kernel, column_problems(kernel))


# -- elements: p is empty --------------------------------------------------------------------------

ELEMENTS = list(
    pairwise(
        {
            **SHARED,
            "left_packing": [P.DIRECT, P.ALONG_TILE, P.ANY],
            "right_packing": [P.DIRECT, P.ALONG_TILE, P.ANY],
            "parallel": ["none", "batch"],
        },
        seed=2,
    )
)
MOVES = {P.DIRECT: Layout("g"), P.ALONG_TILE: Layout("gj"), P.ANY: Layout("jg", flips="j")}


def element_problems(kernel: ContractionKernel) -> list[Problem]:
    variant = kernel.variant
    left, right = MOVES[variant.left_packing], MOVES[variant.right_packing]
    out = Layout("gj") if variant.lanes > 1 else Layout("jg", gaps=2)
    sizes = [
        ((1,), 1),
        ((2, 2), 2 * variant.columns + variant.lanes + 1),
        ((5,), variant.columns),
    ]
    return [Problem({"g": g, "i": (), "j": (n,), "p": ()}, left, right, out) for g, n in sizes]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("number", range(len(ELEMENTS)))
def test_elements(number: int) -> None:
    kernel = kernel_from(Algorithm.ELEMENTS, ELEMENTS[number], RINGS[number % len(RINGS)])
    check_kernel(kernel, element_problems(kernel))
