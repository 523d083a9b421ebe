"""Loops of C text by whole vectors and from lines of the caches on: which, and what they leave."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from backends.c_compiled import EXACT, compile_c, has_openmp, needs_cc
from loopwright.backends.c_text.c_dialect import OPENMP, C, Dialect
from loopwright.backends.c_text.c_module import emit_c
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from loopwright.ir.expr import Cast, Const, Expr, Load, Var
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Store
from loopwright.ir.whole_vectors import takes_whole_vectors, whole_vector_lanes
from loopwright.lower.build import loop
from loopwright.machines.load import load_machine
from loopwright.planner.planners import model_planner

SIZES = (0, 1, 2, 7, 13, 255, 256, 257, 300, 521, 1031)
R, J, N = Var("r"), Var("j"), Var("n")
ROW = 2048
FLAGS = (*EXACT, "-O3", "-fopenmp") if has_openmp() else (*EXACT, "-O3")


def doubled(dtype: DType, start: int = 0, stop: Expr = N, *, in_place: bool = False) -> LoopNest:
    """B[r, j + 1] = A[r, j] + A[r, j] from `start` on, by whole vectors that begin at lines.

    In place it is B[r, j + 1] += A[r, j], which must not be computed twice.
    """
    element = Load("A", (R, J), dtype)
    other = Load("B", (R, J + 1), dtype) if in_place else element
    body = loop(J, start, stop, Store("B", (R, J + 1), other + element), mark=Mark.SIMD)
    strides = (Const(ROW), Const(1))
    buffers = (Buffer("A", dtype, strides), Buffer("B", dtype, strides, writable=True))
    nest = LoopNest("doubled", buffers, ("n", "m"), loop(R, 0, Var("m"), body), leave_to_llvm=True)
    return replace(nest, to_lines=frozenset({"j"}), vector_bits=512)


@pytest.mark.drawn(3)
@needs_cc
@pytest.mark.parametrize("dialect", [C, OPENMP], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, DTYPES["int32"]], ids=str)
def test_every_element_is_computed_once(dtype: DType, dialect: Dialect) -> None:
    """Wherever the array begins, and however long the loop is."""
    cases = list(product((0, 3), (False, True)))
    nests = [doubled(dtype, start, in_place=in_place) for start, in_place in cases]
    kernels = compile_c(nests, dialect, FLAGS)
    source = (1000 * np.random.default_rng(0).random((3, ROW))).astype(dtype.numpy)
    for n, offset, ((start, in_place), kernel) in product(
        SIZES, (0, 1, 3, 4, 13), zip(cases, kernels, strict=True)
    ):
        flat = np.full(3 * ROW + offset, 5, dtype.numpy)
        found = flat[offset:].reshape(3, ROW)
        expected = found.copy()
        added = expected if in_place else source
        shift = 1 if in_place else 0
        expected[:, start + 1 : n + 1] = added[:, start + shift : n + shift] + source[:, start:n]
        kernel({"A": source, "B": found}, {"n": n, "m": 3})
        np.testing.assert_array_equal(found, expected, str((n, offset, start)))


def test_what_compilers_are_told() -> None:
    text = emit_c(doubled(FLOAT64, in_place=True), C).text
    assert text.count("lw_to_line(") == 2  # defined, and asked once for the row
    assert '#define lw_simd_8() _Pragma("omp simd simdlen(8)")' in text
    assert "#define lw_simd_8() lw_simd()" in text
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("const long j_end = n;")
    assert lines[at + 1 : at + 5] == [
        "long j_to = lw_to_line(B[r * 2048 + 1], 0, j_end);",
        "for (long j_from = 0; j_from < j_end; j_from = j_to, j_to = j_end) {",
        "lw_simd_8()",
        "for (long j = j_from; j < j_to; j++) {",
    ]
    assert "simdlen(16)" in emit_c(doubled(FLOAT32), OPENMP).text
    plain = emit_c(replace(doubled(FLOAT64), to_lines=frozenset(), vector_bits=0), C).text
    assert "to_line" not in plain
    assert "simdlen" not in plain


ONE = Const(1.0, FLOAT64)


def stored(*index: Expr, value: Expr = ONE) -> Store:
    return Store("B", index, value)


COPIES = For("k", Const(0), Const(2), stored(Var("k"), J), Const(1), Mark.UNROLL)
NARROW = Load("A", (R, J), FLOAT32)


@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        ((stored(R, J),), 8),
        ((stored(R, J, value=NARROW),), 16),
        ((stored(R, J), stored(R, J + 1)), 8),
        ((stored(R, J), Store("D", (R, J), ONE)), None),
        ((stored(R, J), stored(J, R)), None),
        ((stored(R, J, value=Cast(NARROW, FLOAT64)),), None),
        ((stored(R, J, value=Load("A", (R, J), DTYPES["uint8"])),), None),
    ],
    ids=["doubles", "floats", "neighbours", "arrays", "a column", "two lengths", "bytes"],
)
def test_lanes(body: tuple[Store | For, ...], lanes: int | None) -> None:
    whole = For("j", Const(0), N, Block(body), Const(1), Mark.SIMD)
    nest = LoopNest("f", (), ("n",), whole, vector_bits=512)
    assert whole_vector_lanes(whole, nest) == lanes
    assert takes_whole_vectors(nest) == (lanes is not None)
    assert not takes_whole_vectors(replace(nest, vector_bits=0))
    assert whole_vector_lanes(whole, replace(nest, of_one_vector=frozenset({"j"}))) is None


@pytest.mark.parametrize(
    "body", [(stored(R, J), stored(R + 1, J)), (COPIES,)], ids=["rows", "copies of rows"]
)
def test_rows_side_by_side(body: tuple[Store | For, ...]) -> None:
    """Begun at a line, whole vectors need rows that are whole lines apart; short rows do not."""
    rows = For("j", Const(0), N, Block(body), Const(1), Mark.SIMD)
    nest = LoopNest("f", (), ("n",), rows, vector_bits=512)
    assert whole_vector_lanes(rows, nest) == 8
    for stride, lanes in ((Const(1304), 8), (Const(1300), None), (Var("m"), None)):
        buffer = Buffer("B", FLOAT64, (stride, Const(1)), writable=True)
        begun = replace(nest, buffers=(buffer,), to_lines=frozenset({"j"}))
        assert whole_vector_lanes(rows, begun) == lanes


TWICE = """
void twice(double a[40][N], double b[40][N]) {
#pragma scop
  for (int t = 0; t < 40; t++) {
    for (int i = 1; i < 39; i++)
      for (int j = 1; j < N - 1; j++)
        b[i][j] = 0.2 * (a[i][j] + a[i][j - 1] + a[i][j + 1] + a[i - 1][j] + a[i + 1][j]);
    for (int i = 1; i < 39; i++)
      for (int j = 1; j < N - 1; j++)
        a[i][j] = 0.2 * (b[i][j] + b[i][j - 1] + b[i][j + 1] + b[i - 1][j] + b[i + 1][j]);
  }
#pragma endscop
}
"""


@pytest.mark.parametrize(("extent", "is_told"), [(5200, True), (5204, False)])
def test_extents_tell_where_rows_begin(extent: int, *, is_told: bool) -> None:
    """Two rows of a stencil at a time, in a text of a file."""
    text = rewritten(TWICE.replace("N", str(extent)), "sapphirerapids", "c")
    assert ("lw_next_line" in text) == is_told
    assert ("lw_to_line" in text) != is_told
    assert ("simdlen(8)" in text) == is_told


def test_all_loops_or_none() -> None:
    """A loop beside them that takes one element at a time would run at their frequency."""
    vectors = For("j", Const(0), N, stored(R, J), Const(1), Mark.SIMD)
    singly = For("k", Const(0), N, stored(R, Var("k")), Const(1), Mark.SERIAL)
    short = replace(singly, stop=Const(3))
    rows = For("r", Const(0), N, vectors, Const(1), Mark.SERIAL)
    for others, is_told in (((), True), ((short,), True), ((singly,), False), ((rows,), True)):
        body = Block((vectors, *others))
        assert takes_whole_vectors(LoopNest("f", (), ("n",), body, vector_bits=512)) == is_told


def rewritten(text: str, machine: str, target: str) -> str:
    file = read_c(text)
    chosen = load_machine(machine)
    found = [
        optimise_region(file, region, model_planner, chosen, target=target)
        for region in file.regions
    ]
    return spliced(file, found).decode()
