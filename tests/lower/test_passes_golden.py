"""What each pass of lowering makes of a small nest; `python <this file>` writes the texts anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract_steps import contract_loops
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.astgen import generate_loops
from loopwright.lower.passes import PASSES, LoopDecisions
from loopwright.transform.diagonals import Diagonals
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import (
    Align,
    Parallel,
    ParallelChunks,
    PrefetchRows,
    ShareFrom,
    Simd,
    Unroll,
    Vectorize,
)
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.stage import StageArray
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from loopwright.transform.unroll_and_jam import UnrollAndJam
from programs import Do, For, program

FOLDER = Path(__file__).parent / "golden" / "passes"
MOST_LINES = 30
MOST_LINES_OF_A_CONTRACTION = 90
ROW, GRID = "inout float64 [n]", "inout float64 [n, n]"


def rows(*body: Do, arrays: str = "AB", start: str | int = 0, stop: str = "n") -> Program:
    """Statements for every i and j."""
    shapes = {name: GRID if name.isupper() else ROW for name in arrays}
    return program("rows", shapes, For("i", 0, "n", For("j", start, stop, *body)), known="n >= 1")


def row(*body: Do, arrays: str = "ab") -> Program:
    """Statements for every i; an array t is a local scalar."""
    shapes = {name: "local float64 []" if name == "t" else ROW for name in arrays}
    return program("row", shapes, For("i", 0, "n", *body), known="n >= 1")


UPDATE = Do("A[i, j]", "2 * A[i, j]")
PREFIX = Do("A[i, j]", "A[i, j - 1] + B[i, j]")
COLUMN_SUM = Do("y[j]", "y[j] + A[i, j]")
SQUARE = Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]")
MATMUL = program(
    "matmul",
    dict.fromkeys("ABC", GRID),
    For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", SQUARE))),
)
CLEARED = program(
    "cleared",
    dict.fromkeys("ABC", GRID),
    For("x", 0, "n", For("y", 0, "n", Do("C[x, y]", "0"))),
    For("i", 0, "n", For("j", 0, "n", For("k", 1, "n", SQUARE))),
)
SUMS = program(
    "sums",
    {"A": "in float64 [n, 8]", "y": ROW},
    For("i", 0, "n", For("j", 0, 8, Do("y[n - 1 - i]", "y[n - 1 - i] + A[i, j]"))),
)
LESSER = "uint8(int32(a[i]) if int32(a[i]) < int32(b[i]) else int32(b[i]))"
BLOCKS = {"a": "inout float64 [n // 4 + 1]"}
TILE = contract_loops("i", "j", "k", tile=(1, 1, 1, 1, 0))

CASES: dict[str, tuple[Program, tuple[Step, ...]]] = {
    "simplify": (SUMS, (PromoteToRegisters("S0", "j"),)),
    "coarsen_parallel_loops": (
        rows(COLUMN_SUM, arrays="Ay"),
        (StripMine("j", 4), Interchange(("j_t", "i")), ParallelChunks("j_t", 2)),
    ),
    "separate_full_tiles": (rows(PREFIX, start=1), (UnrollAndJam("i", 2),)),
    "simplify_divisions": (
        program("blocks", BLOCKS, For("i", 0, "n", Do("a[i // 4]", "a[i // 4] + 1"))),
        (StripMine("i", 4),),
    ),
    "promote_registers": (
        rows(Do("y[i]", "y[i] + A[i, j]"), arrays="Ay"),
        (PromoteToRegisters("S0", "j"),),
    ),
    "promote_scalars": (
        row(Do("t", "a[i]"), Do("b[i]", "t * t"), Do("t", "t + 1"), Do("a[i]", "t"), arrays="abt"),
        (Privatize("t", "i"),),
    ),
    "diagonals": (
        rows(Do("A[j, i + 1]", "A[j, i] + y[j] * A[j - 1, i + 1]"), arrays="Ay", start=1),
        (Diagonals("i", "j", 4, 8),),
    ),
    "whole_strips": (row(Do("a[i]", "a[i] + b[i]")), (StripMine("i", 4), Simd("i"))),
    "vectorize_outer": (
        rows(Do("y[i]", "y[i] + A[j, i]"), arrays="Ay"),
        (OuterVectors("i", 2, 1), PromoteToRegisters("S0", "j")),
    ),
    "vectorize": (row(Do("a[i]", "2 * a[i]")), (Vectorize("i", 4),)),
    "unroll": (row(Do("a[i]", "2 * a[i]")), (Unroll("i", 4),)),
    "update_in_pairs": (
        program(
            "mirrored",
            {"y": ROW, "z": "local float64 [n]"},
            For("i", 0, "n", Do("z[i]", "y[i] + 2 * y[n - 1 - i]")),
            For("j", 0, "n", Do("y[j]", "z[j]")),
        ),
        (Simd("i"), Simd("j")),
    ),
    "peel_for_alignment": (rows(UPDATE, start=1), (Simd("j"), Align("j", 4))),
    "insert_prefetches": (rows(Do("y[i]", "y[i] + A[j, i]"), arrays="Ay"), (PrefetchRows("j", 8),)),
    "predictive_commoning": (rows(PREFIX, start=1), (UnrollAndJam("i", 2),)),
    "skip_idle_loops": (
        rows(Do("A[i, j]", "A[i, j] + B[i, j] if x[i] > 0.0 else A[i, j]"), arrays="ABx"),
        (Simd("j"),),
    ),
    "narrow_selections": (
        program(
            "bytes",
            {"a": "inout uint8 [n]", "b": "in uint8 [n]"},
            For("i", 0, "n", Do("a[i]", LESSER)),
        ),
        (Simd("i"),),
    ),
    "name_compared": (
        row(Do("a[i]", "a[i] if a[i] < 2 * b[i] else 2 * b[i]")),
        (Simd("i"),),
    ),
    "balance_triangles": (rows(UPDATE, stop="i + 1"), (Parallel("i"),)),
    "absorb_zeros": (CLEARED, (TILE,)),
    "insert_contractions": (MATMUL, (TILE,)),
    "share_where_worth": (
        rows(Do("A[i, j]", "A[i - 1, j] + 1"), arrays="A", start=1),
        (StripMine("j", 4), ParallelChunks("j_t", 2), ShareFrom("i", 100)),
    ),
    "lower_to_spmd": (
        program(
            "scan",
            {"a": ROW, "s": "inout float64 []"},
            Do("s", "0"),
            For("i", 0, "n", Do("a[i]", "2 * a[i]")),
            For("j", 0, "n", Do("s", "s + a[j]")),
        ),
        (Parallel("i"),),
    ),
    "map_to_mesh": (
        program(
            "scale",
            {"A": "inout float64 [n, n]", "s": "inout float64 []"},
            For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "s * A[i, j]"))),
            Do("s", "s + A[0, 0]"),
        ),
        (
            Tile(("i", "j"), (8, 32)),
            MapToMesh("i_t", "row", 8, 8),
            MapToMesh("j_t", "column", 8, 8),
            StageBox("A", "j_t", (), 1),
        ),
    ),
    "map_to_grid": (
        rows(UPDATE, stop="i + 1"),
        (
            Tile(("i", "j"), (8, 32)),
            MapToBlocks("i_t", "y"),
            MapToBlocks("j_t", "x"),
            MapToThreads("i", "y", 8),
            MapToThreads("j", "x", 32),
        ),
    ),
    "stage_arrays": (
        rows(Do("y[i]", "y[i] + A[i, j]"), arrays="Ay"),
        (
            StripMine("i", 8),
            MapToBlocks("i_t", "x"),
            MapToThreads("i", "x", 8),
            StageArray("A", "j", "shared", 1),
        ),
    ),
}


def before_and_after(name: str) -> tuple[LoopNest, LoopNest]:
    """The nest before and after the last pass of that name that changes it."""
    source, steps = CASES[name]
    schedule = apply_plan(source, steps)
    loops = generate_loops(schedule)
    nest, decisions = loops.nest, LoopDecisions.of(schedule, loops)
    changes = []
    for each in PASSES:
        before, nest = nest, each(nest, decisions)
        if each.name == name and nest != before:
            changes.append((before, nest))
    return changes[-1]


def text(name: str) -> str:
    before, after = before_and_after(name)
    return f"{stmt_text(before.body)}\n->\n{stmt_text(after.body)}\n"


def test_every_pass_has_a_case() -> None:
    assert list(CASES) == list(dict.fromkeys(each.name for each in PASSES))


@pytest.mark.parametrize("name", CASES)
def test_pass(name: str) -> None:
    found = text(name)
    assert found == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    most = MOST_LINES_OF_A_CONTRACTION if name == "insert_contractions" else MOST_LINES
    assert len(found.splitlines()) <= most


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each_name in CASES:
        (FOLDER / f"{each_name}.txt").write_text(text(each_name), encoding="utf-8")
