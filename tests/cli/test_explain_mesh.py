"""`loopwright explain --target athread`: schedule trees, scratchpad, DMA, prediction."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.corpus import KERNELS, SYMBOLIC, write_source
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


@pytest.fixture
def scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "scale.c").write_text(SCALE)
    monkeypatch.chdir(tmp_path)
    return "scale.c"


def test_whole_output(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", scale, "--target", "athread", "--size", "1000"]) == 0
    assert capsys.readouterr().out == EXPLAINED


def test_likely_sizes_and_shapes_of_the_mesh(
    scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", scale, "--target", "athread", "--threads", "1x64"]) == 0
    told = capsys.readouterr().out
    assert '      mark "mesh", 64 cores\n' in told
    assert "  DMA, n = 2048, m = 2048\n" in told


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


def test_what_is_not_parallel_stays_on_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chain.c").write_text(
        "void chain(int n, double x[n])\n{\n#pragma scop\n    for (int i = 1; i < n; i++)\n"
        "        x[i] = x[i] - x[i - 1];\n#pragma endscop\n}\n"
    )
    assert main(["explain", str(tmp_path / "chain.c"), "--target", "athread"]) == 0
    assert capsys.readouterr().out.endswith("  stays on the host: no parallel loop was found\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--run"], "--run does not measure target 'athread'"),
        (["--threads", "9x9"], "--threads takes rows and columns"),
        (["--registers", "64"], "--registers, --no-privatize and --atomics are for GPUs"),
    ],
)
def test_refusals(
    scale: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", scale, "--target", "athread", *words]) != 0
    assert told in capsys.readouterr().err


def test_threads_of_a_run_are_a_number(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", scale, "--threads", "8x8"]) != 0
    assert "--threads takes a number" in capsys.readouterr().err
