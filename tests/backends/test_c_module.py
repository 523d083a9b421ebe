"""The text of C output: every kind of statement, the dialects, names, long lines, refusals."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from backends.c_nests import (
    ONE,
    ZERO,
    element,
    everything,
    i,
    j,
    loop,
    matrix,
    n,
    reversed_through_memory,
    smoothed,
)
from loopwright.backends.c_text.c_dialect import OPENMP, C
from loopwright.backends.c_text.c_module import RegionSurroundings, emit_c, emit_region
from loopwright.backends.c_text.c_syntax import IndentedText, NamesInUse, as_identifier
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT32, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Alloc, Buffer, For, Let, LoopNest, Mark, Space, Store

SQUARE = (n, n)


def test_every_statement() -> None:
    assert emit_c(everything(), OPENMP, shapes={"a": SQUARE}).text == dedent(
        """\
        void all(long n, double a[restrict n][n])
        {
            for (long i = 0; i < n; i++) {
                double t[4];
                double s;
                __builtin_prefetch(&a[i + 1][0], 0, 3);
                #pragma GCC unroll 4
                for (long u = 0; u < 4; u++) {
                    t[u] = a[i][u];
                }
                s = 0.0;
                for (long j = 0; j < n; j++) {
                    s += t[j % 4];
                }
                const double half = s * 0.5;
                if (i < n - 1) {
                    a[i][0] = half;
                } else {
                    a[i][0] = 1.0;
                }
            }
        }
        """
    )


def test_threads_enter_together_and_wait() -> None:
    shapes = {"a": SQUARE, "b": SQUARE}
    assert emit_c(smoothed(), OPENMP, shapes=shapes).text == dedent(
        """\
        void smooth(long n, long steps, double a[restrict n][n], double b[restrict n][n])
        {
            #pragma omp parallel
            {
                for (long k = 0; k < steps; k++) {
                    #pragma omp for schedule(static)
                    for (long i = 0; i < n; i++) {
                        for (long j = 1; j < n - 1; j++) {
                            b[i][j] = 0.5 * (a[i][j - 1] + a[i][j + 1]);
                        }
                    }
                    #pragma omp for schedule(static)
                    for (long i = 0; i < n; i++) {
                        #pragma omp simd
                        for (long j = 1; j < n - 1; j++) {
                            a[i][j] = b[i][j];
                        }
                    }
                }
            }
        }
        """
    )


def test_plain_c_has_no_threads() -> None:
    text = emit_c(smoothed(), C, shapes={"a": SQUARE, "b": SQUARE}).text
    assert "#pragma omp" not in text
    assert "    lw_simd()\n" in text
    assert '_Pragma("GCC ivdep")\n' in text


def test_one_parallel_loop_is_a_parallel_for() -> None:
    body = loop(i, ZERO, n, Store("a", (i, ZERO), Const(1.0, FLOAT64)), Mark.PARALLEL)
    nest = LoopNest("f", (matrix("a", n, writable=True),), ("n",), body)
    assert "#pragma omp parallel for schedule(static)\n    for (long i" in emit_c(nest, OPENMP).text


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


def test_memory_of_unknown_size_comes_from_the_heap() -> None:
    text = emit_c(reversed_through_memory(n), C).text
    assert "double (*t)[3] = lw_allocate(lw_max(n, 0) * 3 * sizeof(double));\n" in text
    assert "t[x0][x1] = x[x0 * 3 + x1];\n" in text
    assert text.endswith("    __builtin_free(t);\n}\n")


def test_source_lines_are_told_once_in_a_row() -> None:
    nest = everything()
    text = emit_c(nest, C, origin=lambda store: "a.c:7" if store.buffer == "a" else "").text
    assert "a[i * n] = half; /* a.c:7 */\n" in text
    assert text.count("a.c:7") == 2


def test_a_gpu_loop_is_refused() -> None:
    body = loop(i, ZERO, n, Store("a", (i, ZERO), Const(1.0, FLOAT64)), Mark.BLOCK)
    nest = LoopNest("f", (matrix("a", n, writable=True),), ("n",), body)
    with pytest.raises(InternalError, match="loop i is for a GPU, not for openmp"):
        emit_c(nest, OPENMP)


def test_a_gpu_loop_of_one_iteration_is_refused_too() -> None:
    body = loop(i, ZERO, ONE, Store("a", (i, ZERO), Const(1.0, FLOAT64)), Mark.THREAD)
    nest = LoopNest("f", (matrix("a", n, writable=True),), ("n",), body)
    with pytest.raises(InternalError, match="loop i is for a GPU, not for c"):
        emit_c(nest, C)


def test_scratch_memory_that_varies_is_refused_for_a_team() -> None:
    memory = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH, writable=True)
    inner = loop(j, ZERO, n, Store("t", (j,), Const(1.0, FLOAT64)), Mark.PARALLEL)
    body = loop(i, ZERO, n, Alloc(memory, (i,), inner))
    with pytest.raises(InternalError, match="size of scratch memory t varies"):
        emit_c(LoopNest("f", (), ("n",), body), OPENMP)


def test_local_arrays_of_truth_values_are_bytes() -> None:
    """gcc 12 vectorises no selection by an element of type _Bool."""
    memory = Buffer("t", BOOL, (ONE,), Space.STACK, writable=True)
    inner = Store("t", (ZERO,), Binary("lt", n, Const(4)))
    text = emit_c(LoopNest("f", (), ("n",), Alloc(memory, (Const(8),), inner)), C).text
    assert "unsigned char t[8];\n" in text


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


def test_int_sizes_are_widened_before_sums() -> None:
    body = loop(i, ZERO, n * 2 + Var("m"), Store("a", (i,), Const(1.0, FLOAT64)))
    nest = LoopNest("f", (Buffer("a", FLOAT64, (ONE,), writable=True),), ("n", "m"), body)
    around = RegionSurroundings({"a": "a"}, {"n": ("n", INT32), "m": ("m", INT32)})
    assert "i < n * 2L + m; i++" in emit_region(nest, C, around)


@pytest.mark.parametrize(
    ("stop", "size", "value", "kind"),
    [
        (n, INT32, Cast(i, INT32), "int"),
        (n, DTYPES["int64"], Cast(i, INT32), "long"),  # more iterations than int counts
        (n, DTYPES["uint32"], Cast(i, INT32), "long"),
        (n + 1, INT32, Cast(i, INT32), "long"),
        (Const(2**32), INT32, Cast(i, INT32), "long"),
        (n, INT32, Const(1, INT32), "long"),  # no data
    ],
)
def test_loops_of_vectors_count_in_the_type_of_their_data(
    stop: Expr, size: DType, value: Expr, kind: str
) -> None:
    body = For("i", ZERO, stop, Store("a", (i,), value), ONE, Mark.SIMD)
    nest = LoopNest("f", (Buffer("a", INT32, (ONE,), writable=True),), ("n",), body)
    around = RegionSurroundings({"a": "a"}, {"n": ("n", size)})
    assert f"for ({kind} i = 0;" in emit_region(nest, C, around)


def test_loops_that_a_condition_may_leave_out_count_in_long() -> None:
    """gcc asks for the part that stays before such a loop; it does not where they count in int."""
    fixed = Binary("lt", n, Const(5, INT64))
    equal = Binary("eq", Load("b", (i,), INT32), Cast(i, INT32))
    value = Select(Binary("and", fixed, equal), Const(1, INT32), Const(0, INT32))
    body = For("i", ZERO, n, Store("a", (i,), value), ONE, Mark.SIMD)
    buffers = (Buffer("a", INT32, (ONE,), writable=True), Buffer("b", INT32, (ONE,)))
    around = RegionSurroundings({"a": "a", "b": "b"}, {"n": ("n", INT32)})
    assert "for (long i = 0;" in emit_region(LoopNest("f", buffers, ("n",), body), C, around)


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


def test_python_names_that_are_words_of_c() -> None:
    nest = LoopNest(
        "f",
        (Buffer("register", FLOAT64, (ONE,), writable=True),),
        ("int",),
        loop(Var("for"), ZERO, Var("int"), Store("register", (Var("for"),), Const(1.0, FLOAT64))),
    )
    text = emit_c(nest, C).text
    assert "for (long for_ = 0; for_ < int_; for_++) {\n        register_[for_] = 1.0;\n" in text


def test_inner_names_do_not_hide_outer_ones() -> None:
    names = NamesInUse(["a"], frozenset({"word"}))
    assert names.declare("i") == "i"
    with names.block():
        assert names.declare("i") == "i_2"
        assert names.declare("word") == "word_2"
        assert names.declare("word", is_own=False) == "word"
    assert names.declare("word_2") == "word_2"


def test_names_of_ours_are_no_macros() -> None:
    """Headers define capital names that the file itself need not show."""
    names = NamesInUse()
    assert names.declare("K") == "k"
    assert names.declare("M", is_own=False) == "M"


def test_long_lines_are_broken_at_operators() -> None:
    value = element("a", i, j)
    for k in range(1, 9):
        value = Binary("add", value, Binary("mul", element("a", i + k, j), element("a", i, j + k)))
    nest = LoopNest("f", (matrix("a", n, writable=True),), ("n",), Store("a", (i, j), value))
    nest = replace(nest, scalars=("n", "i", "j"))
    lines = emit_c(nest, C, shapes={"a": SQUARE}).text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2].endswith(" +")
    assert lines[3].startswith("        a[")


def test_comments_stand_above_lines_that_are_full() -> None:
    lines = IndentedText("    ")
    lines.add("x = " + "y" * 80 + ";", "file.c:1234567")
    assert str(lines) == f"    /* file.c:1234567 */\n    x = {'y' * 80};\n"
