"""Nests in turn whose values stay in scratchpads: what is moved, and what cores compute."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from athread.emulated import Emulated
from athread.test_generated_kernels import has_bits_of, wanted
from drawn import drawn, in_all
from kernels.build import system_compiler
from kernels.corpus import CONSTANT, KERNELS, write_source
from loopwright.diagnostics import IllegalStep
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.loops import Copy, If, Stmt
from loopwright.ir.program import Program
from loopwright.ir.visit import names, statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.transform.loop_fusion import Fuse
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from loopwright.validate import check_translation
from programs import Do, For, program

MACHINE = load_mesh("sw26010")
SIZES = {"nr": 16, "nq": 17, "np": 18}


@cache
def doitgen() -> Program:
    """With arrays of constant extents: rows have a size that is known."""
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(KERNELS["doitgen"], Path(folder), mode=CONSTANT, extents=SIZES)
        (region,) = read_c(source).regions
        return program_of(region.tree, reassoc=False)


def test_rows_stay_in_the_scratchpad() -> None:
    _, schedule = mesh_planner(doitgen(), MACHINE)
    boxes = {(box.array, len(box.accesses)): box for box in schedule.boxes}
    line, rows, matrix = boxes["line_x", 4], boxes["A", 2], boxes["C", 1]
    assert not line.is_brought_in
    assert line.loop == rows.loop
    assert str(line.kept.params()) != "{  }"
    assert rows.is_brought_in
    assert rows.is_put_back
    assert matrix.panel is not None
    assert matrix.panel.parts == 64


def test_what_nobody_reads_is_not_moved() -> None:
    """Of all rows of the line the last one is read behind the nests: its tile alone is put back."""
    nest = lower_schedule(mesh_planner(doitgen(), MACHINE)[1])
    puts = [s for s in statements(nest.body) if isinstance(s, Copy) and s.target == "line_x"]
    assert len(puts) == 1
    guards = [s for s in statements(nest.body) if isinstance(s, If) and s.body == puts[0]]
    assert len(guards) == 1
    assert names(guards[0].cond) >= {"nr", "nq"}


@pytest.mark.only_in_all("the loops of tests/mesh/test_overlap_boxes.py on the emulator once more")
@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("machine", drawn(["sw26010", "sw26010pro", "small"], 3))
def test_doitgen_on_the_emulator(machine: str, tmp_path: Path) -> None:
    mesh = MACHINE if machine == "small" else load_mesh(machine)
    if machine == "small":
        mesh = replace(mesh, scratchpad_bytes=16384)
    build = Emulated({"doitgen": doitgen()}, mesh, (8, 8), tmp_path)
    calls = wanted("doitgen", sizes=(16,))
    build.run([job for job, _ in calls])
    for (_, arrays, _), expected in calls:
        for array, right in expected.items():
            assert has_bits_of(arrays[array], right), array


# -- steps ------------------------------------------------------------------------------------


TWICE = program(
    "twice",
    {"A": "in float64 [n, n]", "T": "local float64 [n, n]", "B": "inout float64 [n, n]",
     "y": "inout float64 [n]"},
    For("i", 0, "n", For("j", 0, "n", Do("T[i, j]", "2 * A[i, j]"))),
    For("k", 0, "n", For("l", 0, "n", Do("B[k, l]", "B[k, l] + T[k, l]"))),
    For("m", 0, "n", Do("y[m]", "T[n - 1, m]")),
)  # fmt: skip
UNUSED = program(
    "unused",
    {"A": "in float64 [n, n]", "T": "local float64 [n, n]", "B": "inout float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", Do("T[i, j]", "2 * A[i, j]"))),
    For("k", 0, "n", For("l", 0, "n", Do("B[k, l]", "B[k, l] + T[k, l]"))),
)
TOGETHER: tuple[Step, ...] = (
    Tile(("i", "j"), (3, 2)),
    Tile(("k", "l"), (3, 2)),
    Fuse("i_t", "k_t"),
    Fuse("j_t", "l_t"),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
    StageBox("T", "j_t", ("S0_0", "S1_2"), 1),
)


def _moved(stmt: Stmt, array: str) -> list[Copy]:
    return [s for s in statements(stmt) if isinstance(s, Copy) and array in (s.target, s.source)]


@pytest.mark.parametrize(("source", "puts"), [(TWICE, 1), (UNUSED, 0)])
def test_boxes_of_local_arrays(source: Program, puts: int) -> None:
    schedule = apply_plan(source, TOGETHER)
    nest = lower_schedule(schedule)
    check_nest(nest)
    assert len(_moved(nest.body, "T")) == puts
    assert schedule.boxes[-1].is_put_back == bool(puts)
    assert check_translation(source, nest, [{"n": n} for n in (0, 1, 3, 7)]) == ()


def test_arrays_that_others_see_are_put_back() -> None:
    source = replace(
        UNUSED,
        arrays=tuple(
            replace(a, role=next(b.role for b in UNUSED.arrays if b.name == "B"))
            if a.name == "T" else a
            for a in UNUSED.arrays
        ),
    )  # fmt: skip
    schedule = apply_plan(source, TOGETHER)
    assert schedule.boxes[-1].is_put_back
    assert schedule.boxes[-1].kept is None


ROWS_OF_TENSORS = program(
    "tensors",
    {"T": "inout float64 [n, n, n]", "A": "in float64 [n, n, n]", "W": "in float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", For("l", 0, "n",
        Do("T[i, j, l]", "T[i, j, l] + A[i, j, k] * W[k, l]"))))),
)  # fmt: skip


def _tensor_steps(window: int) -> tuple[Step, ...]:
    more = (Tile(("i", "j", "k", "l"), (2, 2, window, 3)),) if window < 6 else ()
    return (
        Tile(("i", "j", "k", "l"), (2, 2, 6, 3)),
        *more,
        MapToMesh("i_t", "row", 2, 2),
        MapToMesh("j_t", "column", 2, 2),
    )


@pytest.mark.drawn(2)
@pytest.mark.parametrize("window", [6, 3, 2] if in_all() else [6, 2])
def test_boxes_of_all_cores(window: int) -> None:
    inner = "l_t_2" if window < 6 else "l_t"
    steps = (*_tensor_steps(window), ShareBox("W", "l_t", inner, (), "mesh"))
    schedule = apply_plan(ROWS_OF_TENSORS, steps)
    assert schedule.boxes[0].panel is not None
    assert schedule.boxes[0].panel.parts == 4
    assert "that the mesh of cores holds" in str(schedule.boxes[0])
    nest = lower_schedule(schedule)
    check_nest(nest)
    counts = drawn([0, 1, 3, 5, 7], 3)
    assert check_translation(ROWS_OF_TENSORS, nest, [{"n": n} for n in counts]) == ()


def test_a_box_that_a_mapped_loop_changes_is_not_of_all_cores() -> None:
    with pytest.raises(IllegalStep) as raised:
        apply_plan(ROWS_OF_TENSORS, (*_tensor_steps(6), ShareBox("A", "k_t", "k_t", (), "mesh")))
    assert raised.value.reason == "panels of 'A' have more than 2 dimensions"
    product = program(
        "f", {"C": "inout float64 [n, n]", "A": "in float64 [n, n]"},
        For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", Do("C[i, j]", "C[i, j] + A[i, k]")))),
    )  # fmt: skip
    steps: tuple[Step, ...] = (
        Tile(("i", "j", "k"), (2, 2, 2)), MapToMesh("i_t", "row", 2, 2),
        MapToMesh("j_t", "column", 2, 2), ShareBox("A", "k_t", "k_t", (), "mesh"),
    )  # fmt: skip
    with pytest.raises(IllegalStep) as raised:
        apply_plan(product, steps)
    assert raised.value.reason == "the box is another one in each iteration of 'i_t'"


def test_the_next_box_comes_early_where_others_write_behind_the_loop() -> None:
    """All of a row is read in a loop of its own, and written behind it."""
    source = program(
        "f", {"A": "inout float64 [n, 9]", "t": "inout float64 [n]"},
        For("i", 0, "n", For("k", 0, "m", Do("t[i]", "t[i] + A[i, k]")),
            For("j", 0, "m", Do("A[i, j]", "t[i]"))),
        params="n m",
    )  # fmt: skip
    steps: tuple[Step, ...] = (
        Tile(("i",), (2,)), Tile(("k",), (3,)), MapToMesh("i_t", "mesh", 2, 2),
        StageBox("A", "k_t", ("S0_2",), 2),
    )  # fmt: skip
    schedule = apply_plan(source, steps)
    assert schedule.boxes[0].buffers == 2
    sizes = [{"n": n, "m": m} for n, m in ((0, 0), (1, 9), (7, 4), (9, 7))]
    assert check_translation(source, lower_schedule(schedule), sizes) == ()
    with pytest.raises(IllegalStep) as raised:
        apply_plan(source, (*steps[:3], StageBox("A", "i", (), 2)))
    assert raised.value.reason == "the next box does not come early: 'A' is written meanwhile"


def test_rows_of_constant_extents_have_boxes() -> None:
    """Extents of inner dimensions bound a box; the first one of a parameter says nothing."""
    source = program(
        "f", {"A": "inout float64 [6, 9]", "y": "in float64 [n]"},
        For("i", 0, "n", For("j", 0, "m", Do("A[i, j]", "2 * A[i, j]"))),
        params="n m",
    )  # fmt: skip
    steps = (Tile(("i",), (2,)), MapToMesh("i_t", "mesh", 2, 2), StageBox("A", "i_t", (), 1))
    assert apply_plan(source, steps).boxes[0].extents == (2, 9)
    down = (Tile(("j",), (2,)), MapToMesh("i", "mesh", 2, 2))
    assert apply_plan(source, (*down, StageBox("A", "i", (), 1))).boxes[0].extents == (1, 9)
