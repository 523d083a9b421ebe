"""Points of a stencil that one thread takes."""

import pytest

import loopwright as lw

HEAD = "void f(int n, double A[n][n], double B[n][n], double c[n]) {\n#pragma scop\n"
LOOPS = "for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++)\n"
TAIL = "\n#pragma endscop\n}\n"


def unrolled(body: str) -> list[int]:
    (program,) = lw.parse_c((HEAD + body + TAIL).encode())
    told = str(lw.compile(program, "cuda", machine="sm_90").explain())
    return [int(part.split(")")[0]) for part in told.split("factor=")[1:]]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("body", "factors"),
    [
        (LOOPS + "B[i][j] = A[i - 1][j] + A[i][j] + A[i + 1][j];", [4]),
        (LOOPS + "B[i][j] = A[i][j] - A[i - 1][j];", [4]),
        (LOOPS + "B[i][j] = A[i][j - 1] + A[i][j] + A[i][j + 1];", []),  # lanes share these
        (LOOPS + "B[i][j] = A[i - 1][j] + A[i + 1][j];", []),  # of the point after the next one
        (LOOPS + "B[i][j] = A[i][j] * c[j];", []),
        (LOOPS + "B[i][j] += A[i][j] - A[i - 1][j];", []),  # loads of B wait for stores
    ],
)
def test_points_share_loads(body: str, factors: list[int]) -> None:
    assert unrolled(body) == factors


def test_explain_tells() -> None:
    body = LOOPS + "B[i][j] = A[i - 1][j] + A[i][j] + A[i + 1][j];"
    (program,) = lw.parse_c((HEAD + body + TAIL).encode())
    told = str(lw.compile(program, "cuda", machine="sm_90").explain())
    assert "each thread takes 4 iterations of i: they share loads" in told
