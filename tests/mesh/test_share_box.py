"""ShareBox: boxes that rows and columns of cores have in common; refusals; broadcasts."""

from __future__ import annotations

import numpy as np
import pytest

from drawn import drawn
from loopwright.diagnostics import IllegalStep, InternalError, UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Cast, Const, Expr, Load, Var
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.loops import Alloc, Axis, Buffer, LoopNest, MeshBroadcast, Space, Stmt, Store
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text
from loopwright.ir.visit import statements
from loopwright.lower.build import seq
from loopwright.lower.mesh_nests.map_to_mesh import COLUMN, ROW, on_mesh
from loopwright.lower.passes import lower_schedule
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile, TileWithin
from loopwright.validate import check_translation
from programs import Do, For, matmul, program

TILES: tuple[Step, ...] = (
    Tile(("i", "j", "k"), (4, 3, 4)),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
)
WINDOWS: tuple[Step, ...] = (
    Tile(("i", "j", "k"), (4, 3, 4)),
    Tile(("i", "j", "k"), (4, 3, 2)),
    *TILES[1:],
)


def squares(*body: For | Do) -> Program:
    return program("f", {"A": "inout float64 [n, n]", "B": "in float64 [n, n]"}, *body)


# The loop of all steps ends, or begins, elsewhere on each row of cores.
LOWER = squares(
    For("i", 0, "n", For("j", 0, "i + 1", For("k", 0, "n",
        Do("A[i, j]", "A[i, j] + B[i, k] * B[j, k]"))))
)  # fmt: skip
FROM = squares(
    For("i", 0, "n", For("j", 0, "n", For("k", "i", "n",
        Do("A[i, j]", "A[i, j] + B[i, k] * B[k, j]"))))
)  # fmt: skip
UNTIL = squares(
    For("i", 0, "n", For("j", 0, "n", For("k", 0, "i",
        Do("A[i, j]", "A[i, j] + B[i, k] * B[k, j]"))))
)  # fmt: skip
LINES = program(
    "lines",
    {"C": "inout float64 [n, n]", "x": "in float64 [n]", "y": "in float64 [n]"},
    For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", Do("C[i, j]", "C[i, j] + x[k] * y[i]")))),
)
BOTH: tuple[Step, ...] = (
    ShareBox("B", "k_t", "k_t", ("S0_2",), "row"),
    ShareBox("B", "k_t", "k_t", ("S0_3",), "column"),
)

CASES: dict[str, tuple[Program, tuple[Step, ...]]] = {
    "windows of panels": (
        matmul(),
        (*WINDOWS, StageBox("C", "j_t", (), 1), ShareBox("A", "k_t", "k_t_2", (), "row"),
         ShareBox("B", "k_t", "k_t_2", (), "column")),
    ),
    # A is given for all columns, B for each strip of them; the last strip of a tile is narrower.
    "strips of columns": (
        matmul(),
        (Tile(("i", "j", "k"), (4, 6, 4)), Tile(("i", "j", "k"), (4, 6, 2)),
         TileWithin(("i", "j", "k"), (4, 4, 2), (4, 6, 2)), *TILES[1:],
         StageBox("C", "j_t", (), 1), ShareBox("A", "k_t", "k_t_2", (), "row"),
         ShareBox("B", "k_t", "j_t_3", (), "column")),
    ),
    "strips of rows": (
        matmul(),
        (*TILES[:1], Tile(("i", "j", "k"), (2, 3, 4)), *TILES[1:], StageBox("C", "j_t", (), 1),
         ShareBox("A", "k_t", "i_t_2", (), "row"), ShareBox("B", "k_t", "k_t", (), "column")),
    ),
    "a triangle of tiles, strips": (
        LOWER, (*TILES[:1], TileWithin(("i", "j", "k"), (4, 2, 4), (4, 3, 4)), *TILES[1:],
                StageBox("A", "j_t", (), 1), ShareBox("B", "k_t", "k_t", ("S0_2",), "row"),
                ShareBox("B", "k_t", "j_t_2", ("S0_3",), "column")),
    ),
    "strips of rows, the last one of a tile smaller": (
        matmul(),
        (Tile(("i", "j", "k"), (5, 3, 4)), TileWithin(("i", "j", "k"), (2, 3, 4), (5, 3, 4)),
         *TILES[1:], StageBox("C", "j_t", (), 1), ShareBox("A", "k_t", "i_t_2", (), "row"),
         ShareBox("B", "k_t", "k_t", (), "column")),
    ),
    "a triangle of tiles, strips of rows": (
        LOWER, (Tile(("i", "j", "k"), (6, 3, 4)), Tile(("i", "j", "k"), (2, 3, 4)), *TILES[1:],
                StageBox("A", "j_t", (), 1), ShareBox("B", "k_t", "i_t_2", ("S0_2",), "row"),
                ShareBox("B", "k_t", "k_t", ("S0_3",), "column")),
    ),
    "whole panels": (
        matmul(),
        (*TILES, ShareBox("A", "k_t", "k_t", (), "row"), StageBox("B", "k_t", (), 2)),
    ),
    "a triangle of tiles": (LOWER, (*TILES, StageBox("A", "j_t", (), 1), *BOTH)),
    # Loops of one iteration inside follow the tile of each core.
    "a triangle of tiles, windows": (
        LOWER, (*WINDOWS, StageBox("A", "j_t", (), 1),
                ShareBox("B", "k_t", "k_t_2", ("S0_2",), "row"),
                ShareBox("B", "k_t", "k_t_2", ("S0_3",), "column")),
    ),
    "steps that begin elsewhere": (FROM, (*TILES, *BOTH)),
    "steps that end elsewhere": (UNTIL, (*TILES, StageBox("A", "j_t", (), 1), *BOTH)),
    "one dimension": (
        LINES, (*TILES, ShareBox("x", "k_t", "k_t", (), "row"),
                ShareBox("y", "k_t", "k_t", (), "row")),
    ),
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", drawn(CASES, 2))
def test_nests_compute_what_programs_say(name: str) -> None:
    source, steps = CASES[name]
    nest = lower_schedule(apply_plan(source, steps))
    check_nest(nest)
    assert any(isinstance(stmt, MeshBroadcast) for stmt in statements(nest.body))
    counts = drawn([0, 1, 3, 7, 11, 13], 4)
    sizes = [
        dict.fromkeys(source.params, n) | ({"m": n + 2} if "m" in source.params else {})
        for n in counts
    ]
    assert check_translation(source, nest, sizes) == ()


GOLDEN = """\
for B_box_from in range(2):
    let B_box_low: int64 = max(k_t_2 - k_t, B_box_from * 2)
"""


def test_the_text_of_a_product() -> None:
    source, steps = CASES["windows of panels"]
    schedule = apply_plan(source, steps)
    assert str(schedule.boxes[1]) == (
        "up to 4 x 4 elements of A in scratchpads in k_t_2, of 4 x 4 that a row of cores holds "
        "in k_t"
    )
    text = nest_text(lower_schedule(schedule))
    lines = [line.strip() for line in text.splitlines()]
    for line in GOLDEN.splitlines():
        assert line.strip() in lines
    assert "for j_t_all in range(0, m, 6):" in lines
    assert "let j_t: int64 = j_t_all + thread.column * 3" in lines
    assert "if (i_t < n) & (j_t < m):" in lines


REFUSED: dict[str, tuple[Program, tuple[Step, ...], str]] = {
    "another box for each core": (
        matmul(),
        (*TILES, ShareBox("A", "k_t", "k_t", (), "column")),
        "the box is another one in each iteration of 'i_t'",
    ),
    "strips that begin elsewhere": (
        matmul(),
        (*TILES[:1], TileWithin(("i", "j", "k"), (4, 2, 4), (4, 3, 4)), *TILES[1:],
         ShareBox("A", "j_t_2", "j_t_2", (), "row")),
        "strips of loop 'j_t_2' begin elsewhere in each tile",
    ),
    # Rows of a tile begin on its diagonal: of strips of two in tiles of five, cores of a row have
    # different first ones, which are no multiples of two.
    "strips of rows of a triangle": (
        LOWER,
        (Tile(("i", "j", "k"), (5, 3, 4)), TileWithin(("i", "j", "k"), (2, 3, 4), (5, 3, 4)),
         *TILES[1:], StageBox("A", "j_t", (), 1),
         ShareBox("B", "k_t", "i_t_2", ("S0_2",), "row")),
        "cores begin loop 'i_t_2' at different iterations of 'j_t', and its strips begin with each "
        "tile: their size has to divide that of the tiles",
    ),
    "written": (
        matmul(),
        (*TILES, ShareBox("C", "k_t", "k_t", (), "row")),
        "the next box does not come early: 'C' is written meanwhile",
    ),
    "one mapped loop": (
        matmul(),
        (StripMine("i", 3), MapToMesh("i_t", "mesh", 2, 2), StripMine("k", 2),
         ShareBox("B", "j", "k_t", (), "column")),
        "what loop 'j' accesses of 'B' has no constant extents",
    ),
    "no rows and columns": (
        matmul(),
        (Tile(("i", "j", "k"), (4, 3, 4)), MapToMesh("i_t", "mesh", 2, 2),
         ShareBox("B", "k_t", "k_t", (), "column")),
        "no two loops around it are dealt out to rows and to columns",
    ),
    "window outside": (
        matmul(),
        (*WINDOWS, ShareBox("A", "k_t_2", "k_t", (), "row")),
        "loop 'k_t' does not stand in 'k_t_2'",
    ),
    "an iteration of each core": (
        program("diagonal", {"x": "in float64 [n]", "y": "inout float64 [n]"},
                For("i", 0, "n", For("j", "i", "i + 1", For("k", "i", "i + 1",
                    Do("y[i]", "y[i] * x[k]"))))),
        (Tile(("i", "j", "k"), (8, 1, 1)), MapToMesh("i_t", "row", 2, 2),
         MapToMesh("j_t", "column", 2, 2), ShareBox("x", "k_t", "k_t", (), "row")),
        "each core runs another iteration of loop 'k_t'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    source, steps, told = REFUSED[name]
    with pytest.raises(IllegalStep) as raised:
        apply_plan(source, steps)
    assert raised.value.reason == told


def test_fields_are_checked() -> None:
    with pytest.raises(UsageError, match="an axis of row, column and mesh"):
        ShareBox("A", "i", "i", (), "plane")


# -- the meaning of a broadcast -------------------------------------------------------------------


TWO = Const(2)


def given(root: Expr, axis: Axis, shape: Expr = TWO, then: Stmt | None = None) -> LoopNest:
    """Each core has 10 * row + column twice; `root` gives it away, all store what came."""
    own = Buffer("own", FLOAT64, (Const(1),), Space.SCRATCHPAD)
    got = Buffer("got", FLOAT64, (Const(1),), Space.SCRATCHPAD)
    number = Cast(Var(ROW) * 10 + Var(COLUMN), FLOAT64)
    zero = (Const(0),)
    body = seq(
        *(Store("own", (Const(at),), number) for at in (0, 1)),
        MeshBroadcast("got", zero, "own", zero, (shape,), axis, root),
        then or Store("y", (Var(ROW) * 3 + Var(COLUMN),), Load("got", (Const(1),), FLOAT64)),
    )
    body = Alloc(own, (Const(2),), Alloc(got, (Const(2),), body))
    y = Buffer("y", FLOAT64, (Const(1),), writable=True)
    nest = LoopNest("given", (y,), (), on_mesh(body, (2, 3)))
    check_nest(nest)
    return nest


def test_rows_and_columns_get_what_their_root_has() -> None:
    for axis, wanted in (
        (Axis.ROW, [1, 1, 1, 11, 11, 11]),
        (Axis.COLUMN, [10, 11, 12, 10, 11, 12]),
    ):
        y = np.zeros(6)
        interpret_nest(given(Const(1), axis), {"y": y}, {})
        assert y.tolist() == wanted


@pytest.mark.parametrize(
    ("root", "shape", "told"),
    [
        (Var(COLUMN), Const(2), "cores of a row take part in different broadcasts"),
        (Const(0), Var(COLUMN), "cores of a row take part in different broadcasts"),
        (Const(3), Const(2), "no core of the row has number 3"),
        (Const(0), Const(1), "is read before it is written"),
    ],
)
def test_broadcasts_that_do_not_fit_together(root: Expr, shape: Expr, told: str) -> None:
    with pytest.raises(InternalError, match=told):
        interpret_nest(given(root, Axis.ROW, shape), {"y": np.zeros(6)}, {})
