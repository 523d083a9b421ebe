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
from loopwright.ir.text import expr_text
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.tiling import Tile
from programs import floyd_warshall, jacobi, matmul

GEMM = [LoopTile("i", 32, 4, "y"), LoopTile("j", 32, 1, "x")]
SIZES = {"n": 256, "m": 256, "q": 256}


def test_data_of_a_product() -> None:
    mapping = tiled_mapping(matmul(), GEMM, kernel="gemm")
    rows = sharing_table(matmul(), [mapping], sizes=SIZES)
    assert [(row.text, row.is_write, row.kind) for row in rows] == [
        ("C[i, j]", True, Sharing.PRIVATE),
        ("C[i, j]", False, Sharing.PRIVATE),
        ("A[i, k]", False, Sharing.ROW),
        ("B[k, j]", False, Sharing.COLUMN),
    ]
    assert {row.kernel for row in rows} == {"gemm"}
    assert [row.broadcast for row in rows] == [False, False, True, False]
    assert [row.sectors for row in rows] == [8, 8, 1, 8]
    assert [row.stride and expr_text(row.stride) for row in rows] == ["1", "1", "0", "1"]
    assert [row.witness is None for row in rows] == [True, True, False, False]
    assert [row.guard_text for row in rows][:2] == ["always", "always"]
    only_column = isl.Set("[n, m, q, i_b, j_b] -> { : 32 j_b = m - 1 }")
    existing = rows[0].guard
    assert rows[2].guard.is_equal(existing.intersect(only_column))


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


def test_text_of_blocks_that_differ() -> None:
    """One dimension of threads: where D[i, j] is private is said below the table."""
    tiles = [LoopTile("k", 32), LoopTile("i", 32), LoopTile("j", 32, 1, "x")]
    full = isl.Set("[n] -> { : n mod 32 = 0 }")
    rows = sharing_table(floyd_warshall(), [tiled_mapping(floyd_warshall(), tiles)], full, SIZES)
    assert [row.kind_alone for row in rows] == [
        Sharing.PRIVATE, Sharing.PRIVATE, Sharing.ROW, Sharing.PRIVATE,
    ]  # fmt: skip
    found = sharing_lines(rows)
    assert found[2] == (
        "  S0         D[i, j]  write  row-shared  private     in some blocks  no         1       8"
    )
    assert found[6] == "  D[i, j] is private where j_b < k_b or j_b > k_b"
    assert found[8].startswith("  D[i, k] is shared: D[0, 0]: S0[0, 0, 0] in thread (0) and")


def test_several_kernels_follow_each_other() -> None:
    known = jacobi()
    mappings = [
        tiled_mapping(known, [LoopTile("i", 32, 1, "x")], statements=["S0"], kernel="f"),
        # All iterations in one block: of its first warp a lane is idle, j begins with 1.
        tiled_mapping(known, [LoopTile("j", None, 1, "x")], statements=["S1"], kernel="g"),
    ]
    found = sharing_lines(sharing_table(known, mappings, sizes={"n": 100, "m": 3}))
    assert [line for line in found if line.startswith("kernel")] == ["kernel f", "kernel g"]
    assert found[-2:] == [
        "  S1         A[j]    write  private  private  always   no         1       8",
        "  S1         B[j]    read   private  private  always   no         1       8",
    ]


def test_a_marked_schedule_has_the_table_of_its_tiles() -> None:
    """64 x 64 blocks of C, 8 of k at a time, 4 x 4 elements in each of 16 x 16 threads."""
    known = matmul()
    schedule = Schedule(known, known.schedule)
    for step in (Tile(("i", "j", "k"), (64, 64, 8)), Tile(("i", "j"), (4, 4))):
        schedule = step.apply(schedule)
    marks = {"i_t": Mark.BLOCK, "j_t": Mark.BLOCK, "i_t_2": Mark.THREAD, "j_t_2": Mark.THREAD}
    mappings = scheduled_mappings(replace(schedule, marks=tuple(marks.items())))
    tiles = [LoopTile("i", 64, 4, "y"), LoopTile("j", 64, 4, "x")]
    expected = sharing_table(known, [tiled_mapping(known, tiles, kernel="i_t")], sizes=SIZES)
    found = sharing_table(known, mappings, sizes=SIZES)
    assert [row.sectors for row in found] == [32, 32, 2, 16]
    for row, other in zip(found, expected, strict=True):
        same = {"guard": row.guard, "guard_text": row.guard_text, "witness": row.witness}
        assert row == replace(other, **same)  # but for the names of the block coordinates
        assert (row.witness is None) == (other.witness is None)


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
