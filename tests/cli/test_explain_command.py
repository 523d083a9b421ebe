"""`loopwright explain` for GPUs and meshes: kernels, sharing, schedule trees, DMA, prediction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import loopwright as lw
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


EXPLAINED_ON_A_MESH = """\
scale.c:3: region of scale
  statements
    S0  line 6  A[i][j] = c * A[i][j];
        no contraction: what is accumulated does not vary with the loops
  loops as written
    i (line 4): its iterations are independent
    j (line 5): its iterations are independent
  schedule tree, as written
    domain S0
      band i: i
        band j: j
  schedule tree, after order
    -- reschedule(182 letters)
    unchanged
  schedule tree, after tiles
    -- tile(loops=('i', 'j'), sizes=(2, 2048))
    domain S0
      band i_t: i - (i) mod 2
        band j_t: j - (j) mod 2048
          band i: i
            band j: j
  schedule tree, after mapping
    -- map_to_mesh(loop='i_t', axis='row', rows=8, columns=8)
    -- map_to_mesh(loop='j_t', axis='column', rows=8, columns=8)
    domain S0
      mark "row", 8 cores
        band i_t: i - (i) mod 2
          mark "column", 8 cores
            band j_t: j - (j) mod 2048
              band i: i
                band j: j
  schedule tree, after boxes
    -- stage_box(array='A', loop='j_t', accesses=('S0_0', 'S0_1'), buffers=1)
    domain S0
      mark "row", 8 cores
        band i_t: i - (i) mod 2
          mark "column", 8 cores
            band j_t: j - (j) mod 2048
              extension A
                sequence
                  filter get A, 2 x 2048
                  filter S0
                    band i: i
                      band j: j
                  filter put A, 2 x 2048
  LDM: 32768 of 65536 bytes for boxes, 32768 for the stack and counters
    from  to     box    elements
    0     32768  A_box  2 x 2048 double
  DMA, n = 1000, m = 1000
    array       times  blocks  bytes  gap     MB  GB/s
    A      get    500       1  16000    0   8.00  19.6
    A      put    500       1  16000    0   8.00  19.6
    all          1000                      16.00  19.6
  predicted for sw26010
    1222754 cycles, 0.843 ms
    1.19 GFLOPS, 0.16% of the peak
    bound by the queue of DMA requests (97% of the time)
"""


def test_whole_output_of_a_mesh(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", scale, "--target", "athread", "--size", "1000"]) == 0
    assert capsys.readouterr().out == EXPLAINED_ON_A_MESH


def test_guessed_sizes_make_work_of_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All pairs of 2^22 elements, what vectors are guessed to have, would be hours."""
    (tmp_path / "pairs.c").write_text(
        "void pairs(int n, int m, double x[n], double y[n], double a[m])\n{\n#pragma scop\n"
        "    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)\n"
        "            y[i] += x[j] * x[j];\n"
        "    for (int k = 0; k < m; k++)\n        a[k] = 2 * a[k];\n#pragma endscop\n}\n"
    )
    words = ["explain", str(tmp_path / "pairs.c"), "--target", "athread"]
    assert main(words) == 0
    assert "DMA, n = 65536, m = 65536\n" in capsys.readouterr().out
    assert main([*words, "--size", "m=1000000"]) == 0
    assert "DMA, n = 65536, m = 1000000\n" in capsys.readouterr().out


def test_a_product_keeps_its_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_source(KERNELS["gemm"], tmp_path, mode=SYMBOLIC)
    words = ["--target", "athread", "--size", "nk=300", "--size", "200"]
    assert main(["explain", str(source), *words]) == 0
    told = capsys.readouterr().out
    assert "DMA, ni = 200, nj = 200, nk = 300\n" in told
    last = told.partition("schedule tree, after boxes")[2]
    put, steps = last.index("filter put C"), last.index("band k")
    assert last.index("filter get C") < last.index("filter get one of 8 parts of A") < put
    assert last.index("filter get C") < steps < put


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--run"], "--run does not measure target 'athread'"),
        (["--threads", "9x9"], "--threads takes rows and columns"),
        (["--registers", "64"], "--registers, --no-privatize and --atomics are for GPUs"),
    ],
)
def test_refusals_of_a_mesh(
    scale: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", scale, "--target", "athread", *words]) != 0
    assert told in capsys.readouterr().err


def test_threads_of_a_run_are_a_number(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", scale, "--threads", "8x8"]) != 0
    assert "--threads takes a number" in capsys.readouterr().err


def test_what_is_not_parallel_stays_on_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chain.c").write_text(
        "void chain(int n, double x[n])\n{\n#pragma scop\n    for (int i = 1; i < n; i++)\n"
        "        x[i] = x[i] - x[i - 1];\n#pragma endscop\n}\n"
    )
    assert main(["explain", str(tmp_path / "chain.c"), "--target", "athread"]) == 0
    assert capsys.readouterr().out.endswith("  stays on the host: no parallel loop was found\n")


def test_a_triangle_of_sums(tmp_path: Path) -> None:
    """Elements of B are private and kept in a register; A is shared along x, rows of B along y."""
    told = explained("trmm", tmp_path)
    assert "    registers of a thread: " in told
    rows = [" ".join(line.split()) for line in told.splitlines()]
    assert any(row.startswith("S0 A[") and " read row-shared " in row for row in rows)
    assert any(row.startswith("S0 B[") and " write private " in row for row in rows)
