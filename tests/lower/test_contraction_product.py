"""Algorithm 6: register tiles over packed panels, in every combination a planner can choose."""

from __future__ import annotations

import pytest

from drawn import combined, drawn
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Var
from loopwright.ir.kernel_variant import Algorithm, Broadcast, ContractionKernel, Initial, Packing
from lower.contractions import Layout, Problem, Ring, check_kernel, kernel_of, pairwise, ring

P = Packing
x, y = Var("x", DTYPES["int32"]), Var("y", DTYPES["int32"])
RINGS = [
    ring("add", "mul", "float64"),
    ring("add", "mul", "float16", "float16", "float16", "float32"),
    ring("min", "add", "int32"),
    ring("max", "min", "uint8"),
    ring("or", "and", "bool"),
    ring("add", "mul", "complex64"),
    ring("add", "mul", "int8", "int16", "int64", "int64"),
    ring("add", "mul", "uint16", "uint16", "uint32", "uint32"),
    ring("max", "mul", "float32", "int8", "float64", "float64"),
    # Operators of users: exclusive maximum, and a product that does not commute.
    ring(Binary("max", x, y), Binary("sub", x, Binary("add", y, y)), "int32"),
]
LEFT = [P.DIRECT, P.ALONG_TILE, P.BY_PANEL, P.ALONG_P, P.ANY, P.GATHER, P.WALK_TILE, P.WALK_P]
CHOICES = {
    "left_packing": LEFT,
    "right_packing": LEFT[1:],
    "broadcast": list(Broadcast),
    "initial": list(Initial),
    "scaled": [False, True],
    "parallel": ["none", "i", "j", "batch"],
    "tile": [(2, 1, 2), (3, 3, 2), (4, 1, 4), (5, 2, 2), (1, 1, 1), (2, 1, 8)],
    "runs": [True, False],
    "unroll": [1, 2, 4],
    "swapped": [False, True],
    "ahead": [0, 8],
}


def kernel_from(row: dict[str, object], algebra: Ring) -> ContractionKernel:
    """The kernel of a row of choices, as far as they go together."""
    changes = {k: v for k, v in row.items() if k != "tile"}
    if not (algebra.plus == "add" and algebra.times == "mul"):
        changes["scaled"] = False
        if changes["initial"] is Initial.SCALED:
            changes["initial"] = Initial.OUT
    plain = algebra.left == algebra.right == algebra.accumulator and not changes["scaled"]
    if changes["left_packing"] is P.DIRECT and not plain:
        changes["left_packing"] = P.ALONG_P
    if changes["left_packing"] is P.DIRECT:
        changes |= {"broadcast": Broadcast.LANE, "ahead": 0}
    return kernel_of(Algorithm.PRODUCT, algebra, row["tile"], **changes)  # type: ignore[arg-type]


def layout(packing: Packing, tile: str) -> Layout:
    """A layout in which the operand has the runs its packing wants."""
    match packing:
        case P.ALONG_TILE | P.BY_PANEL:
            return Layout(f"gp{tile}")
        case P.ALONG_P | P.DIRECT:
            return Layout(f"g{tile}p")
        case P.WALK_TILE:
            return Layout(f"pg{tile}", flips="p", gaps=2)
        case P.WALK_P:
            return Layout(f"{tile}gp", flips=tile, gaps=3)
        case _:
            return Layout(f"{tile}pg", flips="g")


def problems(kernel: ContractionKernel) -> list[Problem]:
    """Single tiles and edges, then blocks smaller than the sizes in every direction."""
    variant, algebra = kernel.variant, kernel.algebra
    left, right = (
        layout(variant.left_packing, "i"),
        layout(variant.right_packing, "j"),
    )
    rows, columns = variant.rows, variant.columns
    steps = variant.unroll * variant.group
    out = Layout("gij") if variant.runs else Layout("gji", flips="g")
    # Sums of a wider type must not pass through out: then p is one block.
    mc = 0 if variant.left_packing is P.DIRECT else rows
    kc = 0 if variant.left_packing is P.DIRECT or algebra.accumulator != algebra.out else steps
    apart = (P.ANY, P.GATHER, P.WALK_TILE, P.WALK_P)
    i = (2, (rows + 2) // 2) if variant.left_packing in apart else (rows + 1,)
    j = (columns + 1,)
    if variant.right_packing in apart and not variant.runs:
        j = (3, columns // 3 + 1)
    return [
        Problem({"g": (1,), "i": (1,), "j": (1,), "p": (1,)}, left, right, out),
        Problem(
            {"g": (2,), "i": i, "j": j, "p": (steps + 1,)}, left, right, out, (mc, columns, kc)
        ),
        Problem(
            {"g": (1,), "i": (2 * rows - 1,), "j": (2 * columns - 1,), "p": (max(1, steps - 1),)},
            left,
            right,
            out,
            (0, columns, 0),  # left is one block, and packed once
        ),
    ]


ROWS = list(pairwise(CHOICES))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("number", drawn(range(len(ROWS)), 3))
def test_every_pair_of_decisions(number: int) -> None:
    kernel = kernel_from(ROWS[number], RINGS[number % len(RINGS)])
    check_kernel(kernel, problems(kernel))


@pytest.mark.drawn(11)
@pytest.mark.parametrize(
    ("types", "group", "left", "right", "parallel", "initial"),
    [  # group 4: of one kind, the sign bits of left are turned
        (("int8", "int8"), 4, P.ALONG_P, P.ALONG_TILE, "none", Initial.ZERO),
        (("uint8", "uint8"), 4, P.ALONG_TILE, P.ALONG_P, "i", Initial.OUT),
        (("int8", "int8"), 4, P.GATHER, P.WALK_TILE, "i", Initial.OUT),
        (("uint8", "uint8"), 4, P.WALK_P, P.ANY, "j", Initial.ZERO),
        (("int8", "int8"), 4, P.BY_PANEL, P.GATHER, "batch", Initial.SCALED),
        (("uint8", "int8"), 4, P.WALK_TILE, P.WALK_P, "none", Initial.OUT),
        (("int8", "uint8"), 4, P.ANY, P.BY_PANEL, "j", Initial.ZERO),
        (("int16", "int16"), 2, P.ALONG_P, P.ALONG_TILE, "i", Initial.OUT),
        (("int16", "int16"), 2, P.ALONG_TILE, P.ALONG_P, "none", Initial.SCALED),
        (("int8", "int16"), 2, P.GATHER, P.BY_PANEL, "none", Initial.OUT),
        (("uint8", "int8"), 2, P.WALK_TILE, P.ALONG_P, "batch", Initial.ZERO),
    ],
)
def test_dot_instructions_of_x86(
    types: tuple[str, str],
    group: int,
    left: Packing,
    right: Packing,
    parallel: str,
    initial: Initial,
) -> None:
    """One factor signed and one not, or pairs of 16-bit integers, broadcast from memory."""
    wide = "int32" if initial is Initial.OUT else "uint32"
    kernel = kernel_of(
        Algorithm.PRODUCT,
        ring("add", "mul", *types, wide, wide),
        (3, 2, 4),
        left_packing=left,
        right_packing=right,
        unroll=2,
        group=group,
        flipped=group == 4 and types[0] == types[1],
        parallel=parallel,
        initial=initial,
        ahead=4,
    )
    check_kernel(kernel, problems(kernel))


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("parallel", "sums"),
    combined(
        ["none", "i", "j", "batch"],
        [*zip(Initial, [Broadcast.LANE] * 3, strict=True), (Initial.OUT, Broadcast.LOAD)],
        one_in=2,
    ),
)
def test_both_operands_in_place(parallel: str, sums: tuple[Initial, Broadcast]) -> None:
    """Nothing is packed: columns come in whole tiles, rows need not.

    Sums that begin at zero are written twice where the last tile is shifted.
    """
    initial, broadcast = sums
    kernel = kernel_of(
        Algorithm.PRODUCT,
        ring("add", "mul", "float64"),
        (3, 2, 2),
        left_packing=P.DIRECT,
        right_packing=P.DIRECT,
        broadcast=broadcast,
        unroll=2,
        initial=initial,
        parallel=parallel,
    )
    shapes = [((1,), (1,), (1,)), ((2,), (4,), (5,)), ((1,), (7,), (4,))]
    columns = [2 * kernel.variant.columns]
    if initial is Initial.ZERO and parallel != "j":
        columns += [columns[0] + 1, columns[0] + 3]
    check_kernel(
        kernel,
        [
            Problem(
                {"g": g, "i": i, "j": (j,), "p": p},
                Layout("gip"),
                Layout("gpj"),
                Layout("gij"),
                (3, kernel.variant.columns, 0),
            )
            for g, i, p in shapes
            for j in columns
        ],
    )


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("parallel", "sums", "ahead"),
    combined(
        ["none", "j", "batch"],
        [*zip(Initial, [Broadcast.LANE] * 3, strict=True), (Initial.OUT, Broadcast.LOAD)],
        [0, 8],
        one_in=4,
    ),
)
def test_right_packed_by_the_first_tile_of_a_panel(
    parallel: str, sums: tuple[Initial, Broadcast], ahead: int
) -> None:
    """Whole panels are filled on the way, the last one before; later blocks of rows find both.

    Few rows, several blocks of rows and columns, columns that end in either half of a tile, and
    columns of two loops.
    """
    initial, broadcast = sums
    kernel = kernel_of(
        Algorithm.PRODUCT,
        ring("add", "mul", "float64"),
        (4, 2, 2),
        left_packing=P.DIRECT,
        right_packing=P.BY_TILE,
        broadcast=broadcast,
        unroll=2,
        initial=initial,
        parallel=parallel,
        ahead=ahead,
    )
    shapes = [((1,), (3,), (1,)), ((2,), (9,), (5,)), ((1,), (4,), (2,))]
    columns = [(8,), (9,), (11,), (3, 4)]
    blocks = (4, 2 * kernel.variant.columns, 0)
    problems = [
        Problem(
            {"g": g, "i": i, "j": j, "p": p}, Layout("gip"), Layout("gpj"), Layout("gij"), blocks
        )
        for g, i, p in shapes
        for j in columns
    ]
    check_kernel(kernel, problems)
