"""StageBox and MapToMesh: what they refuse, and nests that compute what their programs say."""

from __future__ import annotations

import pytest

from drawn import drawn
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from loopwright.validate import check_translation
from programs import Do, For, matmul, program

TILES: tuple[Step, ...] = (
    Tile(("i", "j", "k"), (4, 3, 2)),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
)
SIZES = ({"n": 0}, {"n": 1}, {"n": 7}, {"n": 11})


def square(*body: For | Do, arrays: str = "") -> Program:
    known = {"A": "inout float64 [n, n]", "B": "in float64 [n, n]", "y": "inout float64 [n]"}
    return program("square", {name: known[name] for name in arrays or "AB"}, *body)


def triangle(value: str, target: str = "A[i, j]") -> Program:
    return square(For("i", 0, "n", For("j", 0, "i + 1", Do(target, value))))


ROWS = square(For("i", 0, "n", For("j", 0, "n", Do("y[i]", "y[i] + B[i, j]"))), arrays="By")
BY_ROWS = (StripMine("i", 3), MapToMesh("i_t", "mesh", 2, 2), StripMine("j", 2))
# Below the diagonal row k is read before it is written.
SOLVE = square(
    For("i", 0, "n", For("j", 0, "n", For("k", "i + 1", "n", Do("A[i, j]", "A[i, j] + A[k, j]"))))
)

# Extents of the arrays bound those of boxes, and may be more than n.
NARROW = program(
    "narrow", {"B": "in float64 [12, 13]", "y": "inout float64 [12]", "x": "in float64 [13]"},
    For("i", 0, "n", For("j", 0, "n", Do("y[i]", "y[i] + B[i, j] * x[j]"))),
)  # fmt: skip

CASES: dict[str, tuple[Program, tuple[Step, ...]]] = {
    # What is put last is waited for at the end.
    "turns of two loops are one row of turns": (
        program(
            "scaled", {"A": "inout float64 [n, n, 4]"},
            For("i", 0, "n", For("j", 0, "n", For("k", 0, 4, Do("A[i, j, k]", "2 * A[i, j, k]")))),
        ),
        (Tile(("i", "j"), (2, 3)), *TILES[1:], StageBox("A", "j_t", (), 2)),
    ),
    "whole product": (
        matmul(),
        (*TILES, StageBox("C", "j_t", (), 1), StageBox("A", "k_t", (), 1),
         StageBox("B", "k_t", (), 1)),
    ),
    "two boxes at a time": (
        matmul(),
        (*TILES, StageBox("C", "j_t", (), 1), StageBox("A", "k_t", (), 2),
         StageBox("B", "k_t", (), 2)),
    ),
    "the next one comes and the last one goes": (matmul(), (*TILES, StageBox("C", "j_t", (), 2))),
    "of rows, the next one comes and the last one goes": (
        ROWS, (*BY_ROWS, StageBox("y", "i_t", (), 2), StageBox("B", "j_t", (), 2)),
    ),
    "of a triangle, the next one comes and the last one goes": (
        triangle("A[i, j] + B[i, j]"),
        (Tile(("i", "j"), (3, 2)), MapToMesh("i_t", "row", 2, 2), MapToMesh("j_t", "column", 2, 2),
         StageBox("A", "j_t", (), 2)),
    ),
    "some of them": (matmul(), (*TILES, StageBox("A", "k_t", (), 2))),
    "written in every tile": (matmul(), (*TILES, StageBox("C", "k_t", (), 1))),
    "rows by all cores": (
        ROWS, (*BY_ROWS, StageBox("y", "i_t", (), 1), StageBox("B", "j_t", (), 1)),
    ),
    "rows, two boxes": (ROWS, (*BY_ROWS, StageBox("B", "j_t", (), 2))),
    "a triangle that is read first": (
        triangle("A[i, j] + B[i, j]"),
        (Tile(("i", "j"), (3, 2)), MapToMesh("i_t", "row", 2, 2), MapToMesh("j_t", "column", 2, 2),
         StageBox("A", "j_t", (), 1), StageBox("B", "j_t", (), 1)),
    ),
    "a triangle that is not read": (
        triangle("B[i, j]"),
        (Tile(("i", "j"), (3, 2)), MapToMesh("i_t", "row", 2, 2), MapToMesh("j_t", "column", 2, 2),
         StageBox("A", "j_t", (), 1)),
    ),
    "rows written apart from rows read": (
        SOLVE,
        (Tile(("i", "j", "k"), (1, 3, 2)), MapToMesh("j_t", "mesh", 2, 2),
         StageBox("A", "j_t", ("S0_0", "S0_1"), 1), StageBox("A", "k_t", ("S0_2",), 1)),
    ),
    "whole rows": (
        NARROW,
        (StripMine("i", 3), MapToMesh("i_t", "mesh", 2, 2), StageBox("B", "i", (), 2),
         StageBox("x", "i_t", (), 1), StageBox("y", "i_t", (), 1)),
    ),
    "every second element": (
        square(For("i", 0, "n // 2", Do("y[2 * i]", "B[i, 2 * i + 1]")), arrays="By"),
        (StripMine("i", 3), MapToMesh("i_t", "mesh", 2, 2), StageBox("y", "i_t", (), 1)),
    ),
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", drawn(CASES, 2))
def test_cores_compute_what_the_program_says(name: str) -> None:
    source, steps = CASES[name]
    nest = lower_schedule(apply_plan(source, steps))
    check_nest(nest)
    sizes = [dict.fromkeys(source.params, size["n"]) for size in SIZES]
    assert check_translation(source, nest, sizes) == ()


REFUSED: dict[str, tuple[Program, tuple[Step, ...], str]] = {
    "no core": (
        matmul(),
        (StageBox("A", "k", (), 1),),
        "loop 'k' and the loops around it are not dealt out to cores",
    ),
    "no array": (matmul(), (*TILES, StageBox("X", "k_t", (), 1)), "there is no array 'X'"),
    "no access": (
        matmul(),
        (*TILES, StageBox("A", "k_t", ("S0_9",), 1)),
        "there is no access 'S0_9'; those to 'A' are S0_2",
    ),
    "twice": (
        matmul(),
        (*TILES, StageBox("A", "k_t", (), 1), StageBox("A", "j_t", (), 1)),
        "loop 'k_t' stages S0_2 already",
    ),
    "no constant extent": (
        matmul(),
        (*TILES, StageBox("A", "j_t", (), 1)),
        "what loop 'j_t' accesses of 'A' has no constant extents",
    ),
    "not the innermost mapped loop": (
        matmul(),
        (*TILES, StageBox("A", "i_t", (), 1)),
        "loop 'j_t' inside of it is dealt out to cores",
    ),
    "ahead of another core": (
        matmul(),
        (*TILES, StageBox("A", "j_t", (), 2)),
        "the next iteration of 'j_t' belongs to another core",
    ),
    "ahead of a write": (
        matmul(),
        (*TILES, StageBox("C", "k_t", (), 2)),
        "the next box does not come early: 'C' is written meanwhile",
    ),
    "a read that would miss a write": (
        SOLVE,
        (
            Tile(("i", "j", "k"), (3, 3, 3)),
            MapToMesh("j_t", "mesh", 2, 2),
            StageBox("A", "k_t", ("S0_2",), 1),
        ),
        "in the same iteration S0_0 writes elements of the box",
    ),
    "elements of another core between": (
        program(
            "columns",
            {"A": "inout float64 [4 * n]"},
            For("i", 0, 4, For("j", 0, "n", Do("A[4 * j + i]", "1.0"))),
        ),
        (MapToMesh("i", "mesh", 2, 2), StripMine("j", 4), StageBox("A", "j_t", (), 1)),
        "two cores would move the same elements of 'A'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    source, steps, told = REFUSED[name]
    with pytest.raises(IllegalStep) as raised:
        apply_plan(source, steps)
    assert raised.value.reason == told


MAPPINGS = {
    "two shapes": (
        (MapToMesh("i", "row", 2, 2), MapToMesh("j", "column", 4, 2)),
        "the mesh has 2 rows and 2 columns already",
    ),
    "carried": ((MapToMesh("k", "mesh", 2, 2),), "loop 'k' carries"),
    "the same axis": (
        (MapToMesh("i", "row", 2, 2), MapToMesh("j", "row", 2, 2)),
        "loop 'i' is mapped to the mesh already",
    ),
    "all cores inside of rows": (
        (MapToMesh("i", "row", 2, 2), MapToMesh("j", "mesh", 2, 2)),
        "loop 'i' is mapped to the mesh already",
    ),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_refused_mappings(name: str) -> None:
    steps, told = MAPPINGS[name]
    with pytest.raises(IllegalStep) as raised:
        apply_plan(matmul(), steps)
    assert raised.value.reason == told


def test_fields_are_checked() -> None:
    with pytest.raises(UsageError, match="an axis of row, column and mesh"):
        MapToMesh("i", "x", 8, 8)
    with pytest.raises(UsageError, match="one or more rows and columns"):
        MapToMesh("i", "row", 0, 8)
    with pytest.raises(UsageError, match="1 or 2 buffers"):
        StageBox("A", "i", (), 3)
