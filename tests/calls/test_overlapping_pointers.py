"""Pointers of C that lead to the same memory: what regions compute, which pairs they test."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from backends.c_compiled import needs_cc
from loopwright.calls import overlap_test
from loopwright.calls.overlap_test import find_overlap_test, pair_lines
from loopwright.calls.splice import Optimised, optimise_region, region_program, spliced
from loopwright.cli import main
from loopwright.frontends.c import read_c
from loopwright.ir.islkit import GaveUp
from loopwright.ir.program import Program
from loopwright.machines.host import host
from loopwright.machines.machine_argument import target_gpu, target_mesh
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.targets import TARGETS

FLAGS = ("-ffp-contract=off", "-fwrapv", "-Wall", "-Werror", "-Wno-unknown-pragmas")
SCALED = """\
void f(int n, float *p, float *q)
{
#pragma scop
    for (int i = 0; i < n; i++)
        p[i] = q[i] * 0.5f + 1.0f;
#pragma endscop
}
"""
SWEPT = """\
void f(int n, double *a, double *b)
{
#pragma scop
    for (int t = 0; t < 10; t++)
        for (int i = 1; i < n - 1; i++)
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
#pragma endscop
}
"""
SQUARE = """\
void f(int n, int m, double A[n][m], double B[m][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            A[i][j] += 2 * B[j][i];
#pragma endscop
}
"""


def made(source: str, target: str = "c", **options: bool) -> Optimised:
    file = read_c(source)
    planner = TARGETS[target].planner
    return optimise_region(
        file, file.regions[0], planner, host(), target=target, always=True, **options
    )


def text_of(source: str, target: str = "c", **options: bool) -> str:
    return spliced(read_c(source), [made(source, target, **options)]).decode()


def lines_of(source: str) -> list[str]:
    (region,) = read_c(source).regions
    return [line.strip() for line in pair_lines(find_overlap_test(region, program_of(source)))][1:]


def program_of(source: str) -> Program:
    return region_program(read_c(source).regions[0], reassoc=False)


def both(source: str, target: str = "c") -> list[ctypes.CDLL]:
    """The source as gcc -O0 has it, and what is made of it."""
    texts = ((source, "-O0"), (text_of(source, target), "-O2"))
    return [load_library(build_library(text, (level, *FLAGS))) for text, level in texts]


# -- what is computed -----------------------------------------------------------------------------


@needs_cc
@pytest.mark.parametrize("target", ["c", "openmp"])
@pytest.mark.parametrize(
    ("source", "dtype", "offsets"),
    [(SCALED, "f4", (4, 0)), (SWEPT, "f8", (0, 3)), (SWEPT, "f8", (0, 1000))],
    ids=["behind each other", "swept", "disjoint"],
)
def test_pointers_into_one_buffer(
    source: str, dtype: str, offsets: tuple[int, int], target: str
) -> None:
    found = []
    for library in both(source, target):
        buffer = np.linspace(0, 9, 2000).astype(dtype)
        places = (buffer.ctypes.data + offset * buffer.itemsize for offset in offsets)
        library["f"](900, *map(ctypes.c_void_p, places))
        found.append(buffer.tobytes())
    assert found[0] == found[1]


@needs_cc
def test_arrays_of_two_dimensions_that_overlap_by_one_element() -> None:
    for offset in (0, 11, 12, 13):
        found = []
        for library in both(SQUARE):
            buffer = np.arange(40.0)
            places = (buffer.ctypes.data, buffer.ctypes.data + 8 * offset)
            library["f"](3, 4, *map(ctypes.c_void_p, places))
            found.append(buffer.tobytes())
        assert found[0] == found[1]


BOUND = """\
int n = 9;
void f(int *p, short *q)
{
#pragma scop
    for (int i = 0; i < n; i++) {
        p[0] = 3;
        q[i] = i;
    }
#pragma endscop
}
"""


@needs_cc
def test_a_pointer_to_the_bound_of_a_loop() -> None:
    for library in both(BOUND):
        q = np.full(9, -1, np.int16)
        bound = ctypes.c_int.in_dll(library, "n")
        library["f"](ctypes.byref(bound), ctypes.c_void_p(q.ctypes.data))
        assert bound.value == 3
        assert q.tolist() == [0, 1, 2, -1, -1, -1, -1, -1, -1]


COUNTER = """\
int i;
void f(int n, int *p, short *q)
{
#pragma scop
    for (i = 0; i < n; i++) {
        p[0] = p[0] + 1;
        q[i] = 1;
    }
#pragma endscop
}
"""


@needs_cc
def test_a_pointer_to_the_variable_of_a_loop() -> None:
    for library in both(COUNTER):
        q = np.zeros(8, np.int16)
        counter = ctypes.c_int.in_dll(library, "i")
        library["f"](7, ctypes.byref(counter), ctypes.c_void_p(q.ctypes.data))
        assert counter.value == 8
        assert q.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


@needs_cc
def test_a_region_without_an_iteration_touches_nothing() -> None:
    for library in both(SCALED):
        for n in (0, -5):
            library["f"](n, None, None)


# -- which text is made ---------------------------------------------------------------------------


def test_the_text_of_both_sides() -> None:
    text = text_of(SWEPT)
    head, _, rest = text.partition("    if (")
    assert (
        head
        == """\
void f(int n, double *a, double *b)
{
/* #pragma scop: generated by loopwright, target c */
{
    /* Must not overlap: a and b. */
    const __UINTPTR_TYPE__ lw_a_first = (__UINTPTR_TYPE__)a;
    const __UINTPTR_TYPE__ lw_a_stop = (__UINTPTR_TYPE__)a + sizeof(double) * n;
    const __UINTPTR_TYPE__ lw_b_first = (__UINTPTR_TYPE__)b + sizeof(double);
    const __UINTPTR_TYPE__ lw_b_stop = (__UINTPTR_TYPE__)b + sizeof(double) * (n - 1L);
"""
    )
    assert rest.startswith("lw_a_stop <= lw_b_first || lw_b_stop <= lw_a_first)\n    {\n")
    assert rest.endswith("""\
    }
    else /* the region as it was written */
    {
    for (int t = 0; t < 10; t++)
        for (int i = 1; i < n - 1; i++)
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
    }
}
/* #pragma endscop */
}
""")
    assert rest.count("/ 3;") == 1


@pytest.mark.parametrize(
    "source",
    [
        SCALED.replace("float *", "float *restrict "),
        SCALED.replace("float *q", "double *q"),
        SCALED.replace("q[i]", "p[i]"),
        SCALED.replace("void f(int n, float *p, float *q)", "float p[9], q[9]; void f(int n)"),
    ],
    ids=["restrict", "types", "one array", "different objects"],
)  # fmt: skip
def test_no_test_where_c_tells(source: str) -> None:
    text = text_of(source)
    assert "pragma scop: generated" in text
    assert "UINTPTR" not in text


def test_the_hull_is_of_what_is_touched() -> None:
    """Steps, directions, flat rows and parts of them."""
    body = """\
    for (int i = 0; i < n; i++) {
        p[3*i + 1] = q[n - 1 - i];
        r[i*m + 2] = r[0] + s[i][1];
    }
"""
    head = "void f(int n, int m, long *p, long *q, long *r, long s[n][m])"
    source = f"{head} {{\n#pragma scop\n    if (m > 2)\n{body}#pragma endscop\n}}\n"
    text = text_of(source)
    for line in (
        "lw_p_first = (__UINTPTR_TYPE__)p + sizeof(long);",
        "lw_p_stop = (__UINTPTR_TYPE__)p + sizeof(long) * (n * 3L - 1);",
        "lw_q_first = (__UINTPTR_TYPE__)q;",
        "lw_q_stop = (__UINTPTR_TYPE__)q + sizeof(long) * n;",
        "lw_r_first = (__UINTPTR_TYPE__)r;",
        "lw_s_first = (__UINTPTR_TYPE__)s + sizeof(long);",
    ):
        assert line in text


def test_names_that_the_file_has() -> None:
    text = text_of(SCALED.replace("void f", "int lw_p_first;\nvoid f"))
    assert "const __UINTPTR_TYPE__ lw_p_first_ = (__UINTPTR_TYPE__)p;" in text


def test_line_ends_and_tabs_stay_on_both_sides() -> None:
    source = SCALED.replace("    for", "\tfor").replace("\n", "\r\n")
    text = text_of(source)
    assert "\tfor (int i = 0; i < n; i++)\r\n        p[i] = q[i] * 0.5f + 1.0f;\r\n" in text
    assert text.count("\n") == text.count("\r\n")


@needs_cc
def test_a_tested_region_may_be_one_statement_of_an_if() -> None:
    body = SCALED.replace("#pragma scop", "if (n)\n#pragma scop")
    source = body.replace("#pragma endscop", "#pragma endscop\n    else p[0] = 7;")
    for library in both(source):
        p, q = np.ones(3, np.float32), np.ones(3, np.float32)
        library["f"](0, ctypes.c_void_p(p.ctypes.data), ctypes.c_void_p(q.ctypes.data))
        assert p.tolist() == [7, 1, 1]


ROWS = """\
void f(int n, double A[n][2 * n], double B[n][2 * n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            A[i][j] = B[i][j] + 1;
#pragma endscop
}
"""
CALLED = "int calls;\nvoid lw_part_f_0(long long n, void *a, const void *b) { calls++; }\n"


@needs_cc
@pytest.mark.parametrize("target", ["cuda", "opencl", "athread"])
def test_devices_get_the_same_test_on_the_host(target: str) -> None:
    """Of whole rows, which are what is moved: those of A end behind the last element touched."""
    file = read_c(ROWS, filename="part.c")
    machine = target_mesh(None) if target == "athread" else target_gpu(None)
    planner = TARGETS[target].planner
    made = optimise_region(file, file.regions[0], planner, machine, target=target)
    integer = "unsigned long" if target == "athread" else "__UINTPTR_TYPE__"
    assert f"const {integer} lw_A_first = ({integer})A;" in (made.text or "")
    library = load_library(build_library(spliced(file, [made]).decode() + CALLED, FLAGS))
    calls = ctypes.c_int.in_dll(library, "calls")
    for offset, is_called in ((0, False), (5, False), (12, False), (17, False), (18, True)):
        buffer = np.arange(40.0)
        places = (buffer.ctypes.data, buffer.ctypes.data + 8 * offset)
        calls.value = 0
        library["f"](3, *map(ctypes.c_void_p, places))
        assert calls.value == is_called


# -- which pairs, and what shows that they are disjoint -------------------------------------------


@pytest.mark.parametrize(
    ("before", "head", "first", "loop", "told"),
    [
        ("", "int *p, int *q", "", "p[i] = q[i];", "tested: p and q"),
        ("", "int *p, int *q", "", "p[0] += p[i] + q[0];", "tested: p and q"),
        ("", "int *restrict p, int *q", "", "q[i] = p[i];", "restrict: p and q"),
        ("", "int *__restrict__ p, int *q", "", "q[i] = p[i];", "restrict: p and q"),
        ("", "int p[restrict n], int *q", "", "q[i] = p[i];", "restrict: p and q"),
        ("", "int p[static restrict 4], int *q", "", "q[i] = p[i];", "restrict: p and q"),
        ("", "int (*restrict p)[9], int *q", "", "q[i] = p[i][1];", "restrict: p and q"),
        ("typedef int *restrict vec;", "vec p, int *q", "", "q[i] = p[i];", "restrict: p and q"),
        ("typedef int *vec;", "vec restrict p, int *q", "", "q[i] = p[i];", "restrict: p and q"),
        ("int *restrict p;", "int *q", "", "q[i] = p[i];",
         "tested: q and p"),
        ("int *restrict p, *restrict q;", "int x", "", "q[i] = p[i];", "restrict: q and p"),
        ("int p[9];", "int *restrict q", "", "q[i] = p[i];", "restrict: q and p"),
        ("", "int *restrict p", "int *q = p + 1;", "q[i] = p[i];",
         "tested: p and q"),
        ("", "int *restrict p, int *q", "q = p;", "q[i] = p[i];",
         "tested: p and q"),
        ("int p[9];", "int *q", "", "q[i] = p[i];", "tested: q and p"),
        ("const int p[9];", "int *q", "", "q[i] = p[i];",
         "constants that nothing may change: q and p"),
        ("int p[9], q[9];", "int x", "", "q[i] = p[i];", "different objects: q and p"),
        ("", "int *q", "int p[9]; p[0] = 1;", "q[i] = p[0];", "different objects: q and p"),
        ("", "int *q", "int p[9]; q = p;", "q[i] = p[0];",
         "tested: q and p"),
        ("", "int *p, float *q", "", "q[i] = p[i];", "types that C keeps apart: p and q"),
        ("", "int *p, unsigned *q", "", "q[i] = p[i];", "tested: p and q"),
        ("", "int *p, char *q", "", "q[i] = p[i];", "tested: p and q"),
        ("typedef int __attribute__((may_alias)) any;", "any *p, float *q", "", "q[i] = p[i];",
         "tested: p and q"),
        ("int k;", "int *p", "", "p[i] = k;", "tested: p and &k"),
        ("int k;", "double *p", "", "p[i] = k;", "types that C keeps apart: p and &k"),
        ("int k;", "int *p", "", "k += p[i];", "tested: p and &k"),
        ("", "int *p", "static int k; k = 2;", "p[i] = k;",
         "tested: p and &k"),
        ("", "int *p, int k", "", "p[i] = k;", ""),
        ("", "int *p", "int k, *q = &k; p[1] = *q;", "p[i] = k;", "different objects: p and &k"),
        ("int *p;", "int x", "int k = 2; p = &(k);", "p[i] = k;",
         "tested: p and &k"),
        ("char *p;", "int x", "", "p[i] = 1;", "tested: p and &p"),
        ("", "int *p, int *q, int *r", "", "r[i] = p[i] + q[i];",
         "tested: p and r; q and r"),
    ],
)  # fmt: skip
def test_pairs_of_memory(before: str, head: str, first: str, loop: str, told: str) -> None:
    source = (
        f"{before}\nvoid f(int n, {head}) {{\n{first}\n#pragma scop\n"
        f"for (int i = 0; i < n; i++) {{ {loop} }}\n#pragma endscop\n}}\n"
    )
    told = told.replace("tested:", "tested when the region begins:")
    assert lines_of(source) == ([told] if told else [])


def test_a_volatile_pointer_is_refused() -> None:
    with pytest.raises(Exception, match="'p' is volatile"):
        read_c(SCALED.replace("float *p", "float *volatile p"))


# -- what cannot be tested ------------------------------------------------------------------------


def test_what_has_no_hull_leaves_the_region_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_test, "bounded", lambda work, otherwise: otherwise(GaveUp("")))
    found = made(SCALED)
    assert found.text is None
    assert found.reason == (
        "whether p and q overlap cannot be tested: what the loops touch of 'p' has no bounds"
    )
    assert pair_lines(found.overlap) == [
        "  must not overlap",
        "    not tested: p and q",
        f"    the region stays as it is: {found.reason}",
    ]
    assert text_of(SCALED) == SCALED
    assert made(SCALED, assume_disjoint=True).text is not None


def test_a_region_whose_declarations_last_stays_as_it_is() -> None:
    source = SCALED.replace("#pragma scop", "#pragma scop\n    float last = q[0];")
    source = source.replace("#pragma endscop", "#pragma endscop\n    p[0] = last;")
    found = made(source)
    assert found.text is None
    told = "it declares variables that later code uses, so it can stand in no branch"
    assert found.reason == told


def test_very_many_pairs_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_test, "_MOST_PAIRS", 1)
    found = made(SCALED.replace("float *q", "float *q, float *r").replace("1.0f", "r[i]"))
    assert found.reason == "2 pairs of arrays may overlap, more than 1"


# -- --assume-disjoint ----------------------------------------------------------------------------


def test_the_test_is_left_out_where_the_user_says_so(tmp_path: Path) -> None:
    source = tmp_path / "scaled.c"
    source.write_text(SCALED, encoding="utf-8")
    assert main(["cc", str(source), "--target", "c", "--assume-disjoint"]) == 0
    text = (tmp_path / "scaled.opt.c").read_text(encoding="utf-8")
    assert (
        "/* #pragma scop: generated by loopwright, target c */\n"
        "/* Taken not to overlap (--assume-disjoint): p and q. */\n"
    ) in text
    assert "lw_p_first" not in text
    assert "q[i] * 0.5f" in text


def test_explain_lists_the_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "scaled.c"
    source.write_text(SCALED, encoding="utf-8")
    for target in ("c", "cuda", "athread"):
        assert main(["explain", str(source), "--target", target]) == 0
        told = capsys.readouterr().out
        assert "  must not overlap\n    tested when the region begins: p and q\n" in told
