"""Variables of C functions that are declared with computed values: as gcc computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from frontends.c_functions import build, copies, needs_compiler, run_compiled
from loopwright.diagnostics import SourceError, UsageError

HEADER = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
enum { WIDTH = 6, HEIGHT = WIDTH * 2 };
static const double PI = 3.14159265358979, TURN = 2 * PI;
const int STEPS = 7;
static const double STEP = 1.0 / HEIGHT;
double h = 5;
static double twice(double x) { return x + x; }
"""
PARAMETERS = "int n, int m, double dt, float s, unsigned u, long z"

# The type of v, and the declarations before the region; v is what the region reads.
VALUES = [
    ("double", "double w = 1.0 / n; const double v = dt * w * w;"),
    ("int", "int v = n / 2;"),
    ("int", "int v = n / m;"),
    ("int", "int v = n % m;"),
    ("int", "int v = -n / 4;"),
    ("int", "int v = -n % 4;"),
    ("int", "int v = (n - 40) / m, w = v;"),
    ("int", "int w = 3, v = w * n + w;"),
    ("int", "int v = dt * 10;"),
    ("int", "int v = (int)dt + (int)(-2.75 * n);"),
    ("int", "int v = n > m ? n : m;"),
    ("int", "int v = n < m && dt > 0.5 || n == 13;"),
    ("int", "int v = !n + (n >= 13) + (dt != dt);"),
    ("int", "int v = n << 3 | n >> 1 ^ ~m & 0xff;"),
    ("int", "int v = u - 100 > 5;"),
    ("int", "int v = n - 100 < u;"),
    ("int", "int v = 'a' + HEIGHT * STEPS;"),
    ("int", "int v = abs(n - 40);"),
    ("int", "int v = n ? 100 / n : -1;"),
    ("int", "int v = n != 0 && 100 / n > 3;"),
    ("int", "int v = n == 0 || 100 / n > 3;"),
    ("int", "int v = 2147483647 * (long)n / n;"),
    ("unsigned", "unsigned v = n - 100;"),
    ("unsigned", "unsigned v = u * 4000000000u;"),
    ("unsigned", "const unsigned v = -1;"),
    ("unsigned char", "unsigned char v = n * 100;"),
    ("unsigned char", "unsigned char v = 300;"),
    ("signed char", "signed char v = n * 100;"),
    ("short", "short v = n * 10000;"),
    ("unsigned short", "unsigned short v = -n;"),
    ("long", "long v = z * n - m;"),
    ("long", "long v = (long)n * 1000000000;"),
    ("long long", "long long v = z / 7 - n;"),
    ("size_t", "size_t v = n * n + (size_t)u * 3;"),
    ("int64_t", "int64_t v = (int8_t)(n * 77);"),
    ("_Bool", "_Bool v = n - 13;"),
    ("_Bool", "_Bool v = dt;"),
    ("float", "float v = dt / 3;"),
    ("float", "float v = s * 0.1f + s / 3;"),
    ("float", "float v = s * 0.1 + 1 / 3;"),
    ("float", "float v = sqrtf(s) * n;"),
    ("double", "double v = s / 3;"),
    ("double", "double v = n / 3 + n / 3.0;"),
    ("double", "double v = TURN * STEP * dt;"),
    ("double", "double v = (float)dt;"),
    ("double", "double v = sqrt(dt) + fabs(dt - 3) + floor(dt * 7) - pow(dt, 2);"),
    ("double", "double v = fmax(dt, s) * fmin(1, n);"),
    ("double", "double v = twice(dt) + twice(n);"),
    ("double", "double v = -dt + +s - (n % 3);"),
    ("double", "double h = dt * 2, v = h * h;"),  # not the h of the file
    ("double", "double w = dt, x = w * w, y = x * x + w, v = y * x + y;"),
    ("double", "float const w = dt; double v = w;"),
    ("double", "int w = dt * 9; double v = w / 2;"),
]
INEXACT = ("pow(", "exp(")


def body(at: int, kind: str, declared: str, *, is_written: bool) -> str:
    assign = "v = v + 1; " if is_written else ""
    return (
        f"void f{at}({PARAMETERS}, {kind} out[3])\n{{\n    {declared}\n#pragma scop\n"
        f"    {assign}for (int i = 0; i < 3; i++) out[i] = v;\n#pragma endscop\n}}\n"
    )


def dtype_of(kind: str) -> np.dtype[Any]:
    names = {
        "double": "f8", "float": "f4", "int": "i4", "unsigned": "u4", "unsigned char": "u1",
        "signed char": "i1", "short": "i2", "unsigned short": "u2", "long": "i8",
        "long long": "i8", "size_t": "u8", "int64_t": "i8", "_Bool": "?",
    }  # fmt: skip
    return np.dtype(names[kind])


ARGUMENTS = [
    {"n": 13, "m": 5, "dt": 0.75, "s": np.float32(1.3), "u": 7, "z": 1 << 40},
    {"n": -13, "m": 4, "dt": 2.6, "s": np.float32(0.1), "u": 200, "z": -12345678901},
    {"n": 1, "m": -3, "dt": 0.1, "s": np.float32(9), "u": 0, "z": 3},
]


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("is_written", [False, True], ids=["read", "written"])
def test_values_are_those_of_the_compiler(is_written: bool, tmp_path: Path) -> None:
    cases = [(k, d) for k, d in VALUES if not (is_written and f"const {k}" in d)]
    parts = [body(at, k, d, is_written=is_written) for at, (k, d) in enumerate(cases)]
    text = HEADER + "".join(parts)
    library = build(tmp_path, text)
    ours = lw.compile(text, threads=1)
    for at, (kind, declared) in enumerate(cases):
        for given in ARGUMENTS:
            theirs: dict[str, Any] = {**given, "out": np.zeros(3, dtype_of(kind))}
            found = copies(theirs)
            run_compiled(library, f"f{at}", theirs)
            ours[f"f{at}"](*found.values())
            rtol = 1e-15 if any(name in declared for name in INEXACT) else 0
            np.testing.assert_allclose(found["out"], theirs["out"], rtol, 0, err_msg=declared)


COUNTERS = """\
void counters(int n, double a[n], double b[n])
{
    int i = n / 3, j = 1;
#pragma scop
    for (; i < n; i++)
        a[i] = i;
    for (; j < n; j++)
        b[j] = j + n;
#pragma endscop
#pragma scop
    for (int k = 0; k < n; k++)
        b[k] += i - 2 * j;
#pragma endscop
}
void down(int n, double a[10])
{
#pragma scop
    for (; n > 0; n--)
        a[n - 1] = n;
#pragma endscop
}
"""


@needs_compiler
def test_loop_variables_that_begin_before_their_loops(tmp_path: Path) -> None:
    library, ours = build(tmp_path, COUNTERS), lw.compile(COUNTERS, threads=1)
    for n in (1, 2, 3, 10):
        theirs: dict[str, Any] = {"n": n, "a": np.zeros(n), "b": np.ones(n)}
        found = copies(theirs)
        run_compiled(library, "counters", theirs)
        ours["counters"](*found.values())
        np.testing.assert_array_equal(found["a"], theirs["a"])
        np.testing.assert_array_equal(found["b"], theirs["b"])
        theirs = {"n": n, "a": np.zeros(10)}
        found = copies(theirs)
        run_compiled(library, "down", theirs)
        ours["down"](*found.values())
        np.testing.assert_array_equal(found["a"], theirs["a"])


LISTS = """\
static const double taps[] = {0.25, 0.5, 0.25};
int grid[][2] = {{1, 2}, {3}, {5, 6}}, flat[][2] = {1, 2, 3};
void lists(int n, double a[n])
{
    const float w[] = {1, 2.5, -1, 4}, pairs[][2] = {{1}, {2, 3}};
#pragma scop
    for (int i = 0; i < n; i++)
        a[i] = taps[i % 3] * w[i % 4] + pairs[i % 2][1] + grid[i % 3][1] * flat[i % 2][1];
#pragma endscop
}
"""


@needs_compiler
def test_lists_decide_open_extents(tmp_path: Path) -> None:
    library, ours = build(tmp_path, LISTS), lw.compile(LISTS, threads=1)
    for n in (0, 1, 13):
        theirs: dict[str, Any] = {"n": n, "a": np.zeros(n)}
        found = copies(theirs)
        run_compiled(library, "lists", theirs)
        ours(*found.values())
        np.testing.assert_array_equal(found["a"], theirs["a"])
    assert ours.globals["flat"].shape == (2, 2)
    with pytest.raises(UsageError, match="the extents of 'taps' are not known in this file"):
        lw.compile(
            LISTS.replace("static const double taps[] = {0.25, 0.5, 0.25}", "extern double taps[]")
        )
    outside = lw.compile(LISTS.replace("taps[i % 3]", "taps[i]"))
    with pytest.raises(SourceError, match="outside"):
        outside(4, np.zeros(4))


def function(declared: str, between: str = "", after: str = "a[i] = v;") -> str:
    return (
        "double h = 5;\nextern const double far;\ndouble g(double x);\n"
        "void k(int n, double dt, double a[n])\n{\n"
        f"    {declared}\n#pragma scop\n"
        "    for (int i = 0; i < n; i++) { a[i] = a[i] + 1; dt = dt * 2; }\n#pragma endscop\n"
        f"    {between}\n#pragma scop\n"
        f"    for (int i = 0; i < n; i++) {after}\n#pragma endscop\n}}\n"
    )


@pytest.mark.parametrize(
    ("declared", "between"),
    [
        ("double v = a[0];", ""),
        ("double v = h;", ""),  # of the file, others may change it
        ("double v = far;", ""),
        ("double v = g(dt);", ""),
        ("double v = v + 1;", ""),
        ("double h = h + 1, v = h;", ""),
        ("double w, v = w;", ""),
        ("double w[1] = {1}, v = w[0];", ""),
        ("double v = *a;", ""),
        ("double v = sizeof(n);", ""),
        ("double v = missing;", ""),
        ("static double w = 1; double v = w;", ""),
        ("int w = n / 0; double v = w;", ""),
        ("", "double v = dt;"),  # the first region changes it
        ("", "double w = dt * 2, v = w;"),
    ],
)
def test_values_that_stay_refused(declared: str, between: str) -> None:
    with pytest.raises(SourceError) as told:
        lw.compile(function(declared, between))
    assert "error: the value that 'v' begins with is not known to a call [LW151]" in str(told.value)


def test_items_that_are_computed_are_refused() -> None:
    with pytest.raises(SourceError) as told:
        lw.compile(function("double v[2] = {dt, 1};", after="a[i] = v[0];"))
    assert str(told.value) == (
        "<c>:6:12: error: the value that 'v' begins with has items that are not plain numbers"
        " [LW151]\n"
        "    double v[2] = {dt, 1};\n"
        "           ^\n"
        "note: found {dt, 1}\n"
        "try: a list of numbers; or assign the elements in the region"
    )
    with pytest.raises(SourceError, match=r"'v' begins with is no list of numbers \[LW151\]"):
        lw.compile(function("double *v = a;", after="a[i] = v[0];"))
    with pytest.raises(SourceError, match="does not fit its extents"):
        lw.compile(function("double v[2] = {1, 2, 3};", after="a[i] = v[0];"))(1, 1, np.ones(1))


def test_an_integer_divided_by_zero() -> None:
    k = lw.compile(function("int w = 12 / n, v = w + 1;", after="a[i] = v * dt;"))
    with pytest.raises(SourceError) as told:
        k(0, 0.5, np.ones(0))
    assert str(told.value) == (
        "<c>:6:9: error: the value that 'w' begins with divides an integer by zero [LW151]\n"
        "    int w = 12 / n, v = w + 1;\n"
        "        ^\n"
        "note: found n = 0"
    )
    a = np.ones(3)
    k(3, 0.5, a)
    np.testing.assert_array_equal(a, 5 * 4.0)
