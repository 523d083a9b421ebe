"""`loopwright explain --target cuda`: kernels, who shares which elements, what is too hard."""

import re
from pathlib import Path

import pytest

import loopwright as lw
from drawn import drawn
from kernels.corpus import KERNELS, SYMBOLIC, write_source
from loopwright.calls import explain_kernels
from loopwright.cli import main

SCALE = """\
void scale(int n, int m, double A[n][m], double c)
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            A[i][j] = c * A[i][j];
#pragma endscop
}
"""

EXPLAINED = """\
scale.c:3: region of scale
  statements
    S0  line 6  A[i][j] = c * A[i][j];
        no contraction: what is accumulated does not vary with the loops
  loops as written
    i (line 4): its iterations are independent
    j (line 5): its iterations are independent
  kernels for sm_80
    scale_0
      grid ((m + 31) // 32, min((n + 7) // 8, 65535), (n + 524279) // 524280), block (32, 8, 1)
      blocks by what they move for each iteration: 32 x 8 (16.1 bytes) taken, \
before 64 x 4 (16.1 bytes), 128 x 2 (16.1 bytes), 32 x 4 (16.2 bytes), 2 more
      statement  access          class       alone       private         broadcast  stride  sectors
      S0         A[i, j]  write  private     private     always          no         1       8
      S0         c[]      read   all-shared  all-shared  in some blocks  yes        0       1
      S0         A[i, j]  read   private     private     always          no         1       8
      c[] is private where i_t = -1 + n and j_t = -1 + m
      c[] is shared: c[]: S0[0, 0] in thread (0, 0) and S0[0, 1] in thread (1, 0), \
for n = 1, m = 2, i_t = 0, j_t = 0
  steps
    reschedule(182 letters)
    tile(loops=('i', 'j'), sizes=(8, 32))
    map_to_blocks(loop='i_t', axis='y')
    map_to_blocks(loop='j_t', axis='x')
    map_to_threads(loop='i', axis='y', threads=8)
    map_to_threads(loop='j', axis='x', threads=32)
"""


@pytest.fixture
def scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "scale.c").write_text(SCALE)
    monkeypatch.chdir(tmp_path)
    return "scale.c"


def explained(name: str, folder: Path, **options: object) -> str:
    kernel = KERNELS[name]
    extents = dict.fromkeys(kernel.sizes, 13)
    source = write_source(kernel, folder, dtype=kernel.dtypes[0], mode=SYMBOLIC, extents=extents)
    return lw.compile(source, target="cuda", machine="sm_80", **options).explain()


def test_whole_output(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", scale, "--target", "cuda", "--machine", "sm_80"]) == 0
    assert capsys.readouterr().out == EXPLAINED


def test_kernels_of_opencl_are_told_as_well(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", scale, "--target", "opencl"]) == 0
    assert "kernels for sm_90\n    scale_0\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--run"],
            "loopwright: error: --run does not measure target 'cuda'\n"
            "try: --target openmp, or call the function that loopwright.compile returns\n",
        ),
        (
            ["--machine", "zen3"],
            "loopwright: error: no GPU is named 'zen3'\n"
            "try: one of sm_75, sm_80, sm_90, or the path of a JSON file\n",
        ),
    ],
)
def test_refusals(
    words: list[str], told: str, scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", scale, "--target", "cuda", *words]) == 2
    assert capsys.readouterr().err == told


def test_a_triangle_of_sums(tmp_path: Path) -> None:
    """Elements of B are private and kept in a register; A is shared along x, rows of B along y."""
    told = explained("trmm", tmp_path)
    assert "    registers of a thread: " in told
    rows = [" ".join(line.split()) for line in told.splitlines()]
    assert any(row.startswith("S0 A[") and " read row-shared " in row for row in rows)
    assert any(row.startswith("S0 B[") and " write private " in row for row in rows)


def test_a_product_has_a_kernel_of_its_own(tmp_path: Path) -> None:
    told = explained("gemm", tmp_path)
    assert told.count("\n    grid (") == 2
    assert "sums[8][8] of float64" in told
    assert "map_contraction(loops=('i_2', 'j_1', 'k')" in told


@pytest.mark.only_in_all("a nest of three dimensions, whose tables take long")
def test_a_stencil_shares_its_neighbours(tmp_path: Path) -> None:
    told = explained("heat-3d", tmp_path)
    assert told.count("launched by the host in every iteration of t") == 2
    rows = [" ".join(line.split()) for line in told.splitlines()]
    assert "S0 B[i, j, k] write private private always no 1 9" in rows
    assert "S0 A[i, j - 1, k] read all-shared private in some blocks no 1 9" in rows
    witness = "A[i, j - 1, k] is shared: A[3, 2, 1]: S0[1, 3, 3, 1] in thread (0, 2, 1) and S0["
    assert witness in told


def test_a_stencil_in_tiles_of_time(tmp_path: Path) -> None:
    told = explained("jacobi-2d", tmp_path)
    assert told.count("launched by the host in every iteration of block") == 2
    told = told[told.index("  stencil: ") : told.index("steps:")]
    tiles = re.fullmatch(
        r"  stencil: tiles of (\d+) x (\d+) elements, (\d+) steps at a time\n"
        r"    A: a block brings (\d+) x (\d+) elements for \d+ steps\n"
        r"    S0 computes an element (1\.\d+) times in the mean\n"
        r"    S1 computes an element (1\.\d+) times in the mean\n",
        told,
    )
    assert tiles, told
    rows, columns, steps, high, wide = map(int, tiles.groups()[:5])
    assert (high, wide) == (rows + 4 * steps, columns + 4 * steps)
    assert float(tiles[6]) > float(tiles[7]) > 1


def test_a_closure_is_kernels_without_a_table(tmp_path: Path) -> None:
    told = explained("floyd-warshall", tmp_path)
    assert told.count("    grid (") == 7
    assert "registers of a thread: closure_moved[16] of int32, closure_held[16] of int32" in told
    assert "shared memory: 16640 bytes of a block" in told
    assert "statement  access" not in told
    assert "map_closure(statement='S0', block=64" in told


def test_statements_of_no_parallel_loop(tmp_path: Path) -> None:
    told = explained("durbin", tmp_path)
    assert told.count("one thread: no loop around its statements is parallel") == 3
    assert "y[i_1] is private where 2i_1_t >= -1 + k or 2i_1_t <= -511 + k" in told


def test_what_is_too_hard_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_kernels, "_QUOTA", 10)
    told = explained("mvt", tmp_path)
    hard = "which threads share elements is too hard to analyse: more than 10 isl operations"
    assert told.count(hard) == 2
    assert "grid (" in told


@pytest.mark.parametrize("name", drawn(["nasty_steps", "nasty_modulo"], 2))
def test_divisions_end(name: str, tmp_path: Path) -> None:
    """Divisions in subscripts: isl's searches without a bound are not begun."""
    assert "kernels:" in explained(name, tmp_path)
