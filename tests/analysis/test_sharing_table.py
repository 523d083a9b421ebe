"""The table of accesses that `explain` shows: its data and its text."""

from dataclasses import replace

import islpy as isl

from loopwright.analysis.sharing import Sharing, copies_of_threads
from loopwright.analysis.sharing_table import sharing_lines, sharing_table
from loopwright.analysis.thread_mapping import LoopTile, scheduled_mappings, tiled_mapping
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.tiling import Tile
from programs import matmul

GEMM = [LoopTile("i", 32, 4, "y"), LoopTile("j", 32, 1, "x")]
SIZES = {"n": 256, "m": 256, "q": 256}


def test_text_of_a_product() -> None:
    mapping = tiled_mapping(matmul(), GEMM, kernel="gemm")
    full = isl.Set("[n, m] -> { : n mod 32 = 0 and m mod 32 = 0 }")
    found = sharing_lines(sharing_table(matmul(), [mapping], full, SIZES))
    assert (
        "\n".join(found)
        == """\
kernel gemm
  statement  access          class          alone          private  broadcast  stride  sectors
  S0         C[i, j]  write  private        private        always   no         1       8
  S0         C[i, j]  read   private        private        always   no         1       8
  S0         A[i, k]  read   row-shared     row-shared     never    yes        0       1
  S0         B[k, j]  read   column-shared  column-shared  never    no         1       8
  A[i, k] is shared: A[0, 0]: S0[0, 0, 0] in thread (0, 0) and S0[0, 1, 0] in thread (1, 0), \
for n = 32, m = 32, q = 1, i_b = 0, j_b = 0
  B[k, j] is shared: B[0, 0]: S0[0, 0, 0] in thread (0, 0) and S0[4, 0, 0] in thread (0, 1), \
for n = 32, m = 32, q = 1, i_b = 0, j_b = 0"""
    )


def test_copies_of_threads_are_private() -> None:
    """The source has one scalar for all; the schedule gives one to every iteration of a thread."""
    text = """void f(int n, double A[n][n], double B[n][n]) {
    double t;
    #pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) { t = A[i][j] * 2.0; B[i][j] = t + t * t; }
    #pragma endscop
    }"""
    (region,) = read_c(text.encode()).regions
    _, schedule = gpu_planner(program_of(region.tree, reassoc=False), load_gpu("sm_90"))
    (scalar,) = [array.name for array in schedule.program.arrays if not array.rank]
    copies = copies_of_threads(schedule)
    assert set(copies) == {scalar}
    axes = {loop: axis.value for loop, axis in schedule.axes}
    mappings = scheduled_mappings(schedule, axes)
    alike = sharing_table(schedule.program, mappings)
    assert {row.kind for row in alike if row.array == scalar} == {Sharing.ALL}
    rows = sharing_table(schedule.program, mappings, copies=copies)
    own = [row for row in rows if row.array == scalar]
    assert {(row.kind, row.kind_alone, row.guard_text) for row in own} == {
        (Sharing.PRIVATE, Sharing.PRIVATE, "always")
    }
    assert all(row.witness is None for row in own)
    lines = sharing_lines(rows)
    assert f"  {scalar} is private: every iteration of {copies[scalar]} has a copy" in lines
    assert not any(f"{scalar} is shared" in line for line in lines)


def test_copies_of_a_block_are_shared_by_its_threads() -> None:
    known = matmul()
    schedule = Tile(("i", "j"), (8, 8)).apply(Schedule(known, known.schedule))
    marks = (("i_t", Mark.BLOCK), ("i", Mark.THREAD))
    marked = replace(schedule, marks=marks, private=(("t", "i_t"), ("u", "i"), ("v", "k")))
    assert copies_of_threads(marked) == {"u": "i", "v": "k"}
