"""Programs of several contractions, with batches, first values, epilogues, offsets and triangles.

Each runs by the plan of the model on one to three threads and gives what its source order gives.
All values are small whole numbers, so that sums are exact in any order.
"""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.ir.text import expr_text
from loopwright.machines.load import load_machine
from loopwright.planner.generic import default_plan

# Declarations of the arguments, with sizes B, N, M, K; the loops.
PROGRAMS = {
    "batched, bias and relu": (
        "double O[B][N][M], double A[B][N][K], double W[B][K][M], double bias[M]",
        """
        for (int x = 0; x < B; x++)
          for (int i = 0; i < N; i++)
            for (int j = 0; j < M; j++) {
              O[x][i][j] = bias[j];
              for (int p = 0; p < K; p++)
                O[x][i][j] += A[x][i][p] * W[x][p][j];
              O[x][i][j] = O[x][i][j] > 0 ? O[x][i][j] : 0;
            }
        """,
    ),
    "two chained contractions": (
        "double E[B][N][M], double C[B][N][K], double A[B][N][M], double F[M][K], double G[K][M]",
        """
        for (int x = 0; x < B; x++)
          for (int i = 0; i < N; i++)
            for (int j = 0; j < K; j++) {
              C[x][i][j] = 0;
              for (int p = 0; p < M; p++)
                C[x][i][j] += A[x][i][p] * F[p][j];
            }
        for (int x = 0; x < B; x++)
          for (int i = 0; i < N; i++)
            for (int j = 0; j < M; j++) {
              E[x][i][j] = 0;
              for (int p = 0; p < K; p++)
                E[x][i][j] += C[x][i][p] * G[p][j];
            }
        """,
    ),
    "four-index transform": (
        "double R[B][B][N][M], double T[B][N][N][M], double A[B][N][N][M], double C[B][B],"
        "double D[N][B]",
        """
        for (int a = 0; a < B; a++)
          for (int q = 0; q < N; q++)
            for (int r = 0; r < N; r++)
              for (int s = 0; s < M; s++) {
                T[a][q][r][s] = 0;
                for (int p = 0; p < B; p++)
                  T[a][q][r][s] += A[p][q][r][s] * C[p][a];
              }
        for (int a = 0; a < B; a++)
          for (int b = 0; b < B; b++)
            for (int r = 0; r < N; r++)
              for (int s = 0; s < M; s++) {
                R[a][b][r][s] = 0;
                for (int q = 0; q < N; q++)
                  R[a][b][r][s] += T[a][q][r][s] * D[q][b];
              }
        """,
    ),
    "scores and values": (
        "double O[B][N][K], double S[B][N][N], double Q[B][N][K], double J[B][N][K],"
        "double V[B][N][K]",
        """
        for (int h = 0; h < B; h++) {
          for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
              S[h][i][j] = 0;
              for (int d = 0; d < K; d++)
                S[h][i][j] += Q[h][i][d] * J[h][j][d];
              S[h][i][j] = S[h][i][j] * 2;
            }
          for (int i = 0; i < N; i++)
            for (int d = 0; d < K; d++) {
              O[h][i][d] = 0;
              for (int j = 0; j < N; j++)
                O[h][i][d] += S[h][i][j] * V[h][j][d];
            }
        }
        """,
    ),
    "causal scores": (
        "double O[B][N][K], double S[B][N][N], double Q[B][N][K], double J[B][N][K],"
        "double V[B][N][K]",
        """
        for (int h = 0; h < B; h++)
          for (int i = 0; i < N; i++)
            for (int j = 0; j <= i; j++) {
              S[h][i][j] = 0;
              for (int d = 0; d < K; d++)
                S[h][i][j] += Q[h][i][d] * J[h][j][d];
            }
        for (int h = 0; h < B; h++)
          for (int i = 0; i < N; i++)
            for (int d = 0; d < K; d++) {
              O[h][i][d] = 0;
              for (int j = 0; j <= i; j++)
                O[h][i][d] += S[h][i][j] * V[h][j][d];
            }
        """,
    ),
    "pointwise convolution": (
        "double O[B][M][N][N], double A[B][K][N][N], double W[M][K], double bias[M]",
        """
        for (int b = 0; b < B; b++)
          for (int o = 0; o < M; o++)
            for (int y = 0; y < N; y++)
              for (int x = 0; x < N; x++) {
                double s = bias[o];
                for (int c = 0; c < K; c++)
                  s += W[o][c] * A[b][c][y][x];
                O[b][o][y][x] = s > 0 ? s : 0;
              }
        """,
    ),
    "convolution": (
        "double O[M][N][N], double A[K][N + 2][N + 2], double W[M][K][3][3]",
        """
        for (int o = 0; o < M; o++)
          for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++) {
              double s = 0;
              for (int c = 0; c < K; c++)
                for (int u = 0; u < 3; u++)
                  for (int v = 0; v < 3; v++)
                    s += W[o][c][u][v] * A[c][y + u][x + v];
              O[o][y][x] = s;
            }
        """,
    ),
    "shifted blocks": (
        "double C[B + 1][N + 2][M], double A[B][N + 2][K], double D[K][M]",
        """
        for (int x = 1; x < B; x++)
          for (int i = 2; i < N; i++)
            for (int j = 1; j < M - 1; j++)
              for (int p = 1; p < K; p++)
                C[x + 1][i + 1][j] += A[x - 1][i + 2][p] * D[p][j + 1];
        """,
    ),
    "batches over time": (
        "double C[B][N][N], double A[B][N][N], double D[B][N][N]",
        """
        for (int t = 0; t < 3; t++) {
          for (int x = 0; x < B; x++)
            for (int i = 0; i < N; i++)
              for (int j = 0; j < N; j++) {
                C[x][i][j] = 0;
                for (int p = 0; p < N; p++)
                  C[x][i][j] += A[x][i][p] * D[x][p][j];
              }
          for (int x = 0; x < B; x++)
            for (int i = 0; i < N; i++)
              for (int j = 0; j < N; j++)
                A[x][i][j] = C[x][i][j] > 3 ? 1 : C[x][i][j] < -3 ? -1 : 0;
        }
        """,
    ),
    "two contractions in one nest": (
        "double C[B][N][M], double D[B][N][M], double A[B][N][K], double F[B][K][M]",
        """
        for (int x = 0; x < B; x++)
          for (int i = 0; i < N; i++)
            for (int j = 0; j < M; j++)
              for (int p = 0; p < K; p++) {
                C[x][i][j] += A[x][i][p] * F[x][p][j];
                D[x][i][j] -= A[x][i][p] * F[x][p][j];
              }
        """,
    ),
}
SIZES = {"B": 5, "N": 9, "M": 11, "K": 7}
LARGE = {"B": 40, "N": 32, "M": 36, "K": 33}


def source(name: str, sizes: dict[str, int] | None) -> bytes:
    """The program with sizes as arguments, or with constant ones."""
    declared, body = PROGRAMS[name]
    head = "" if sizes is None else "".join(f"#define {k} {v}\n" for k, v in sizes.items())
    first = "int B, int N, int M, int K, " if sizes is None else ""
    text = f"{head}void f({first}{declared}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    return text.encode()


def arrays_of(name: str, sizes: dict[str, int]) -> list[np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(3)
    found = []
    for declaration in PROGRAMS[name][0].replace("double", "").split(","):
        extents = declaration.strip().rstrip("]").split("[")[1:]
        shape = [eval(extent.rstrip("]"), {}, sizes) for extent in extents]
        found.append(numbers.integers(-2, 3, shape).astype(np.float64))
    return found


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "way"),
    combined(PROGRAMS, [(None, 1), (LARGE, 2), (None, 2), (None, 3)], one_in=7),
    ids=lambda x: x if isinstance(x, str) else f"{x[1]}{' constant' if x[0] else ''}",
)
def test_compiled(name: str, way: tuple[dict[str, int] | None, int]) -> None:
    """Threads, and sizes that are constant or arguments."""
    sizes, threads = way
    text = source(name, sizes)
    given = [] if sizes is not None else list(SIZES.values())
    arrays = arrays_of(name, sizes or SIZES)
    wanted = [array.copy() for array in arrays]
    lw.compile(text, plan="source")(*given, *wanted)
    lw.compile(text, threads=threads)(*given, *arrays)
    for found, right in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("machine", ["neoverse-n1", "zen3"])
def test_batches_go_to_threads(machine: str) -> None:
    """Where a loop of many products is free, threads get whole products and meet once."""
    (program,) = lw.parse_c(source("batched, bias and relu", LARGE | {"B": 500}))
    _, schedule = default_plan(program, load_machine(machine), parallel=True)
    (scheduled,) = schedule.contractions
    assert scheduled.shares == 1
    assert schedule.mark("x") is Mark.PARALLEL


def test_batch_loops_between_rows_and_columns() -> None:
    """Loops of the batch go around: sums in a scalar take memory for one product at a time."""
    (program,) = lw.parse_c(source("pointwise convolution", None))
    _, schedule = default_plan(program, load_machine("neoverse-n1"))
    assert [scheduled.loops for scheduled in schedule.contractions] == [("o_2", "x_2", "c")]
    found = schedule.program
    (sums,) = (array for array in found.arrays if array.role is Role.LOCAL)
    assert [expr_text(extent) for extent in sums.shape] == ["M", "N"]


@pytest.mark.parametrize("reassoc", [True, False])
def test_convolutions_are_products_along_channels(reassoc: bool) -> None:
    """Windows are short. The order of a sum is kept by its innermost loop only."""
    (program,) = lw.parse_c(source("convolution", None), reassoc=reassoc)
    _, schedule = default_plan(program, load_machine("neoverse-n1"))
    (scheduled,) = schedule.contractions
    assert scheduled.loops == ("o_2", "x_2", "c" if reassoc else "v")


def test_few_batches_do_not() -> None:
    (program,) = lw.parse_c(source("batched, bias and relu", LARGE | {"B": 2}))
    _, schedule = default_plan(program, load_machine("neoverse-n1"), parallel=True)
    (scheduled,) = schedule.contractions
    assert scheduled.shares > 1


def test_jitted_batches() -> None:
    numbers = np.random.default_rng(5)
    a, w = (numbers.integers(-2, 3, shape) * 1.0 for shape in ((9, 20, 21), (9, 21, 22)))
    bias = numbers.integers(-2, 3, 22) * 1.0
    for threads in (1, 2, 3):
        out = np.empty((9, 20, 22))
        layer(threads)(out, a, w, bias)
        np.testing.assert_array_equal(out, np.maximum(a @ w + bias, 0))


def layer(threads: int) -> Any:
    @lw.jit(threads=threads)
    def batched(out, a, w, bias):  # type: ignore[no-untyped-def]
        b, n, k = a.shape
        m = bias.shape[0]
        for x in range(b):
            for i in range(n):
                for j in range(m):
                    out[x, i, j] = bias[j]
                    for p in range(k):
                        out[x, i, j] += a[x, i, p] * w[x, p, j]
                    out[x, i, j] = max(out[x, i, j], 0.0)

    return batched
