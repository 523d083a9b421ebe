"""What each step does to the loops, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text, stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Distribute, Fuse
from loopwright.transform.loop_marks import Parallel, Unroll, Vectorize
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile, TileWithin
from oracle import assert_same
from programs import (
    Do,
    For,
    jacobi,
    matmul,
    matmul_apart,
    matmul_in_nest,
    program,
    triangular_solve,
)


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest."""
    nest = lower_schedule(apply_plan(source, steps))
    params = dict(zip(source.params, (5, 7, 6), strict=False))
    assert_same(source, nest, params, threads=2)
    return stmt_text(nest.body) + "\n"


def text(block: str) -> str:
    return dedent(block).lstrip("\n")


BEFORE = text("""
    for i in range(n):
        for j in range(m):
            for k in range(q):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]
    """)


def test_no_steps() -> None:
    assert loops_after(matmul()) == BEFORE


def test_interchange() -> None:
    assert loops_after(matmul(), Interchange(("k", "i", "j"))) == text("""
        for k in range(q):
            for i in range(n):
                for j in range(m):
                    C[i, j] = C[i, j] + A[i, k] * B[k, j]
        """)


def test_tile() -> None:
    assert loops_after(matmul(), Tile(("i", "j", "k"), (32, 16, 8))) == text("""
        for i_t in range(0, n, 32):
            for j_t in range(0, m, 16):
                for k_t in range(0, q, 8):
                    for i in range(i_t, min(n, i_t + 32)):
                        for j in range(j_t, min(m, j_t + 16)):
                            for k in range(k_t, min(q, k_t + 8)):
                                C[i, j] = C[i, j] + A[i, k] * B[k, j]
        """)


def test_tile_takes_the_loops_in_any_order() -> None:
    ordered = loops_after(matmul(), Tile(("i", "j"), (4, 2)))
    assert loops_after(matmul(), Tile(("j", "i"), (2, 4))) == ordered


def test_tiles_of_tiles() -> None:
    steps = (Tile(("i", "j"), (4, 4)), Tile(("i_t", "j_t"), (16, 16)))
    assert loops_after(matmul(), *steps) == text("""
        for i_t_t in range(0, n, 16):
            for j_t_t in range(0, m, 16):
                for i_t in range(i_t_t, min(n, i_t_t + 16), 4):
                    for j_t in range(j_t_t, min(m, j_t_t + 16), 4):
                        for i in range(i_t, min(n, i_t + 4)):
                            for j in range(j_t, min(m, j_t + 4)):
                                for k in range(q):
                                    C[i, j] = C[i, j] + A[i, k] * B[k, j]
        """)


def test_strip_mine() -> None:
    assert loops_after(matmul(), StripMine("k", 8)) == text("""
        for i in range(n):
            for j in range(m):
                for k_t in range(0, q, 8):
                    for k in range(k_t, min(q, k_t + 8)):
                        C[i, j] = C[i, j] + A[i, k] * B[k, j]
        """)


def test_tile_within() -> None:
    tiles = Tile(("i", "j"), (8, 14))
    assert loops_after(matmul(), tiles, TileWithin(("i", "j"), (8, 4), (8, 14))) == text("""
        for i_t in range(0, n, 8):
            for j_t in range(0, m, 14):
                for j_t_2 in range(j_t, min(m, j_t + 14), 4):
                    for i in range(i_t, min(n, i_t + 8)):
                        for j in range(j_t_2, min(min(m, j_t + 14), j_t_2 + 4)):
                            for k in range(q):
                                C[i, j] = C[i, j] + A[i, k] * B[k, j]
        """)


def test_parallel() -> None:
    assert loops_after(matmul(), Parallel("i")) == BEFORE.replace("for i", "parallel for i")


def test_parallel_beside_serial() -> None:
    assert loops_after(jacobi(), Parallel("i")) == text("""
        for t in range(m):
            parallel for i in range(1, n - 1):
                B[i] = A[i - 1] + A[i] + A[i + 1]
            barrier
            parallel for once in range(1):
                for j in range(1, n - 1):
                    A[j] = B[j]
            barrier
        """)


def test_vectorize() -> None:
    assert loops_after(matmul(), Interchange(("k", "j")), Vectorize("j", 4)) == text("""
        for i in range(n):
            for k in range(q):
                for j in range(0, m - 3, 4):
                    vector for j_v in range(4):
                        C[i, j + j_v] = C[i, j + j_v] + A[i, k] * B[k, j + j_v]
                for j in range(max(m, 0) // 4 * 4, m):
                    C[i, j] = C[i, j] + A[i, k] * B[k, j]
        """)


def test_unroll() -> None:
    assert loops_after(triangular_solve(), Unroll("j", 2)) == text("""
        for i in range(n):
            x[i] = b[i]
            for j in range(0, i - 1, 2):
                unroll for j_u in range(2):
                    x[i] = x[i] - L[i, j + j_u] * x[j + j_u]
            for j in range(max(i, 0) // 2 * 2, i):
                x[i] = x[i] - L[i, j] * x[j]
            x[i] = x[i] / L[i, i]
        """)


def test_fuse() -> None:
    source = matmul_apart(Do("C[x, y]", "beta * D[x, y]"))
    assert loops_after(source, Fuse("x", "i")) == text("""
        for x in range(n):
            for y in range(m):
                C[x, y] = beta[] * D[x, y]
            for k in range(q):
                for j in range(m):
                    C[x, j] = C[x, j] + A[x, k] * B[k, j]
        """)


def test_fuse_the_middle_of_three() -> None:
    arrays = dict.fromkeys("abc", "inout float64 [n]")
    source = program(
        "three",
        arrays,
        For("i", 0, "n", Do("a[i]", "a[i] + 1")),
        For("j", 0, "n", Do("b[j]", "a[j]")),
        For("k", 0, "n", Do("c[k]", "b[n - 1 - k]")),
    )
    assert loops_after(source, Fuse("i", "j")) == text("""
        for i in range(n):
            a[i] = a[i] + 1.0
            b[i] = a[i]
        for k in range(n):
            c[k] = b[n - k - 1]
        """)


def test_distribute() -> None:
    assert loops_after(matmul_in_nest(), Distribute("j"), Distribute("i")) == text("""
        for i in range(n):
            for j in range(m):
                C[i, j] = 0.0
        for i_2 in range(n):
            for j_2 in range(m):
                for k in range(q):
                    C[i_2, j_2] = C[i_2, j_2] + A[i_2, k] * B[k, j_2]
        """)


def test_distribute_undoes_fuse() -> None:
    source = matmul_apart(Do("C[x, y]", "0"))
    both = loops_after(source, Fuse("x", "i"), Distribute("x"))
    assert both == loops_after(source).replace("for i", "for x_2").replace("i,", "x_2,")


def test_schedule_is_readable() -> None:
    schedule = apply_plan(jacobi(), [StripMine("i", 8), Parallel("i_t"), Vectorize("j", 4)])
    assert schedule_text(schedule) + "\n" == text("""
        schedule of jacobi:
            for t: S0[t, i] -> [(t)]; S1[t, j] -> [(t)]
                in order:
                    S0[t, i]:
                        parallel for i_t: S0[t, i] -> [(i - (i) mod 8)]
                            for i: S0[t, i] -> [(i)]
                    S1[t, j]:
                        vector(4) for j: S1[t, j] -> [(j)]
        """)


@pytest.mark.parametrize("reassoc", [False, True])
def test_reductions_are_reordered_where_allowed(reassoc: bool) -> None:
    arrays = {"A": "in float64 [n, m]", "s": "inout float64 []"}
    body = For("i", 0, "n", For("j", 0, "m", Do("s", "s + A[i, j]")))
    source = program("total", arrays, body, params="n m", reassoc=reassoc)
    step = Interchange(("j", "i"))
    if reassoc:
        assert "for j" in loops_after(source, step).split("\n")[0]
    else:
        with pytest.raises(ValueError, match="would reverse"):
            step.apply(apply_plan(source, []))
