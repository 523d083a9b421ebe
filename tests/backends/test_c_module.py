"""The text of C output: every kind of statement, the dialects, names, long lines, refusals."""

from __future__ import annotations

import pytest

from backends.c_nests import (
    ONE,
    ZERO,
    element,
    example,
    i,
    j,
    loop,
    matrix,
    n,
)
from loopwright.backends.c_text.c_dialect import OPENMP, C
from loopwright.backends.c_text.c_module import RegionSurroundings, emit_c, emit_region
from loopwright.backends.c_text.c_syntax import as_identifier
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DTYPES, FLOAT64, INT32
from loopwright.ir.expr import Binary, Cast, Const, Load, Var
from loopwright.ir.loops import Alloc, Buffer, For, Let, LoopNest, Mark, Space, Store

SQUARE = (n, n)


def test_plain_c_has_no_threads() -> None:
    text = emit_c(
        example("threads enter together and wait"), C, shapes={"a": SQUARE, "b": SQUARE}
    ).text
    assert "#pragma omp" not in text
    assert "    lw_simd()\n" in text
    assert '_Pragma("GCC ivdep")\n' in text


def test_pieces_are_as_many_as_threads_run() -> None:
    parts, width = Var("parts"), Var("width")
    share = For("i", ZERO, n, Store("a", (i, ZERO), Const(1.0, FLOAT64)), width, Mark.PARALLEL)
    wide = Let("width", (n + (parts - 1)) // parts, share)
    nest = LoopNest(
        "f", (matrix("a", n, writable=True),), ("n",), Let("parts", Const(4), wide, parts=4)
    )
    text = emit_c(nest, OPENMP).text
    assert "static inline long lw_pieces(long lw_a)\n{\n#ifdef _OPENMP\n" in text
    assert "#else\n    return 1;\n#endif" in text
    inside = text.split("#pragma omp parallel\n")[1]  # where the number of threads is known
    assert "const long parts = lw_pieces(4);\n" in inside
    assert "i += width" in inside


def test_a_gpu_loop_is_refused() -> None:
    body = loop(i, ZERO, n, Store("a", (i, ZERO), Const(1.0, FLOAT64)), Mark.BLOCK)
    nest = LoopNest("f", (matrix("a", n, writable=True),), ("n",), body)
    with pytest.raises(InternalError, match="loop i is for a GPU, not for openmp"):
        emit_c(nest, OPENMP)


def test_scratch_memory_that_varies_is_refused_for_a_team() -> None:
    memory = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH, writable=True)
    inner = loop(j, ZERO, n, Store("t", (j,), Const(1.0, FLOAT64)), Mark.PARALLEL)
    body = loop(i, ZERO, n, Alloc(memory, (i,), inner))
    with pytest.raises(InternalError, match="size of scratch memory t varies"):
        emit_c(LoopNest("f", (), ("n",), body), OPENMP)


def test_halves_ask_for_a_compiler_that_has_them() -> None:
    half = DTYPES["float16"]
    body = Store("a", (), Binary("add", Load("a", (), half), Const(0.5, half)))
    text = emit_c(LoopNest("f", (Buffer("a", half, (), writable=True),), (), body), C).text
    assert text.startswith("#ifndef __FLT16_MANT_DIG__\n#error ")
    assert "a[0] = (_Float16)(a[0] + (_Float16)0.5f);\n" in text


# -- regions ----------------------------------------------------------------------------------


def test_region_uses_the_names_around_it() -> None:
    total = Binary("add", element("a", i, j), Cast(Load("w", (), INT32), FLOAT64))
    inner = loop(j, ZERO, (n - i).min(8), Store("a", (i, j), total))
    buffers = (matrix("a", n, writable=True), Buffer("w", INT32, ()))
    nest = LoopNest("f", buffers, ("n",), loop(i, ZERO, n // 3 + 2, inner))
    around = RegionSurroundings(
        {"a": "grid", "w": "weight"},
        {"n": ("count", DTYPES["uint32"])},
        names={"i": "row", "j": "col"},
        words=frozenset({"grid", "weight", "count", "row", "col", "i", "j"}),
        margin="  ",
        after=(("row", n),),
    )
    assert emit_region(nest, OPENMP, around) == (
        "  {\n"
        "#define lw_min(a, b) ((a) < (b) ? (a) : (b))\n"
        "      for (long row = 0; row < (long)count / 3 + 2; row++) {\n"
        "          for (long col = 0; col < lw_min((long)count - row, 8); col++) {\n"
        "              grid[row][col] += (double)weight;\n"
        "          }\n"
        "      }\n"
        "      row = (long)count;\n"
        "#undef lw_min\n"
        "  }\n"
    )


def test_names_of_ours_in_the_file_are_refused() -> None:
    nest = LoopNest(
        "f",
        (Buffer("a", FLOAT64, (ONE,), writable=True),),
        ("n",),
        loop(i, ZERO, n.min(4), Store("a", (i,), Const(1.0, FLOAT64))),
    )
    words = frozenset({"a", "n", "lw_min"})
    around = RegionSurroundings({"a": "a"}, {"n": ("n", INT32)}, words=words)
    with pytest.raises(UsageError) as told:
        emit_region(nest, C, around)
    assert str(told.value) == (
        "the file uses names of ours\n"
        "note: found lw_min\n"
        "try: other names: those that begin with lw_ are given to code that is generated"
    )


# -- names and lines --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("i", "i"),
        ("double", "double_"),
        ("größe", "gruf6udfe"),
        ("1st", "v1st"),
        ("lw_x", "lw_x_"),
    ],
)
def test_identifiers(name: str, found: str) -> None:
    assert as_identifier(name) == found
