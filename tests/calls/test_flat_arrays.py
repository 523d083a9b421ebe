"""Flat arrays of C, `a[i*m + j]`: the same bits as gcc makes of the source, in text and in calls.

Every program is a function of n, m, k, arrays of n*m*k elements or more, and nothing else.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from calls.test_splice import optimised, pointer
from loopwright.diagnostics import SourceError, UsageError
from loopwright.frontends.c import read_c
from loopwright.runtime.toolchain import build_library, load_library

HEAD = "void f(int n, int m, int k, double *a, double *b)"


def text(body: str, head: str = HEAD, before: str = "") -> str:
    return f"#include <stddef.h>\n{before}\n{head} {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


LOOPS = "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) "
INNER = "for (int i = 1; i < n - 1; i++) for (int j = 1; j < m - 1; j++) "
PROGRAMS = {
    "stencil": text(
        INNER + "b[i*m + j] = a[(i-1)*m + j] + a[(i+1)*m + j] + a[i*m + j+1] + a[i*m + j-1];"
    ),
    "in place": text(INNER + "a[i*m + j] = 0.5*(a[(i-1)*m + j] + a[i*m + j-1]);"),
    "three": text(
        INNER
        + "for (int l = 1; l < k - 1; l++)"
        + "b[(i*m + j)*k + l] = a[((i-1)*m + j)*k + l] - a[i*m*k + (j+1)*k + l-1];"
    ),
    "four": text(
        LOOPS
        + "for (int l = 0; l < k; l++) for (int c = 0; c < 2; c++)"
        + "b[((i*m + j)*k + l)*2 + c] = 2*a[((i*m + j)*k + l)*2 + 1 - c];"
    ),
    "a plane and many": text(
        "for (int l = 0; l < k; l++)"
        + LOOPS
        + "b[l*n*m + i*m + j] = a[i*m + j] + a[l*(n*m) + i*m + j];"
    ),
    "places that move": text(
        "for (int i = 0; i < n; i++)"
        "{ int p = i*m; for (int j = 0; j < m; j++) { b[p] = a[p] + 1; p++; } }"
    ),
    "turned": text(LOOPS + "b[j*n + i] = a[i*m + j];"),
    "from the end": text(LOOPS + "b[(n-1-i)*m + (m-1-j)] = a[i*m + j];"),
    "last column": text("for (int i = 0; i < n; i++) if (m > 0) a[i*m + m-1] += a[i*m];"),
    "square": text(
        "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int l = 0; l < n; l++)"
        "b[i*n + j] += a[i*n + l] * a[l*n + j];"
    ),
    "with borders": text(
        "for (int i = 1; i <= n; i++) for (int j = 1; j <= m; j++)"
        "b[i*(m+2) + j] = a[(i-1)*(m+2) + j] + a[i*(m+2) + j+1];"
    ),
    "around": text(LOOPS + "b[i*m + j] = a[i*m + (j+1)%m] + a[(i == 0 ? n-1 : i-1)*m + j];"),
    "records": text(LOOPS + "b[i*m + j] = a[(i*m + j)*3] + a[3*(i*m + j) + 2];"),
    "a place of its own": text(
        "for (int i = 1; i < n; i++) for (int j = 0; j < m; j++)"
        "{ const int p = i*m + j; b[p] = a[p - m] + a[p]; }"
    ),
    "a function": text(
        "for (int i = 1; i < n; i++) for (int j = 0; j < m; j++) b[i*m + j] = at(a, m, i-1, j);",
        before="static double at(const double *p, int w, int i, int j) { return p[i*w + j]; }",
    ),
    "sizes of 64 bits": text(
        "for (size_t i = 0; i < n; i++) for (size_t j = 0; j + 1 < m; j++)"
        "b[i*m + j] = a[i*m + j + 1];",
        "void f(size_t n, size_t m, size_t k, double *a, double *b)",
    ),
    "long": text(LOOPS + "b[(long)i*m + j] = a[(long)i*m + j];"),
    "open": text(LOOPS + "b[i*m + j] += a[i*m + j];", HEAD.replace("*a", "a[]")),
    "a matrix and vectors": text(LOOPS + "b[i] += a[i*m + j] * a[j];"),
    "a condition on data": text(LOOPS + "if (b[i*m + j] > a[i*m + j]) b[i*m + j] = i - 0.25*j;"),
}
SIZES = [
    *((0, 0, 0), (1, 1, 1), (0, 5, 2), (5, 0, 3), (3, 1, 2), (1, 7, 3), (2, 2, 2)),
    *((7, 11, 3), (13, 5, 7), (3, 67, 2), (37, 41, 1)),
]
NEGATIVE = [(5, -3, 4), (-2, 7, 3), (-4, -5, -6)]  # C runs no iteration


def call(source: bytes) -> Callable[..., object]:
    flags = ("-std=c99", "-O1", "-ffp-contract=off")
    return load_library(build_library(source.decode(), flags))["f"]


def arrays(n: int, m: int, k: int) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    n, m, k = (max(x, 0) for x in (n, m, k))
    # As much as any of the programs reaches, in whole rows of all of them.
    count = max((n + 2) * (m + 2) * 3, n * m * k * 2, n * n) + n + m
    return [random.integers(-8, 9, count) / 4 for _ in range(2)]


@pytest.mark.drawn(8)
@needs_cc
@pytest.mark.parametrize("target", ["c", "openmp"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_text_has_the_bits_of_the_source(name: str, target: str) -> None:
    source = PROGRAMS[name]
    _, results, after = optimised(source, target=target)
    assert results[0].text is not None
    before, now = call(source.encode()), call(after)
    wide = ctypes.c_size_t if "size_t n" in source else ctypes.c_int
    for sizes in SIZES if wide is ctypes.c_size_t else [*SIZES, *NEGATIVE]:
        made = []
        for function in (before, now):
            given = arrays(*sizes)
            function(*map(wide, sizes), *map(pointer, given))
            made.append(given)
        for x, y in zip(*made, strict=True):
            assert np.array_equal(x, y), sizes


@pytest.mark.drawn(9)
@needs_cc
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_have_the_bits_of_the_source(name: str) -> None:
    source = PROGRAMS[name]
    before, now = call(source.encode()), lw.compile(source.encode())["f"]
    wide = ctypes.c_size_t if "size_t n" in source else ctypes.c_int
    for sizes in SIZES:
        wanted, given = arrays(*sizes), arrays(*sizes)
        before(*map(wide, sizes), *map(pointer, wanted))
        for _ in range(2):  # a call that was seen before takes another road
            again = [x.copy() for x in given]
            now(*sizes, *again)
            for x, y in zip(wanted, again, strict=True):
                assert np.array_equal(x, y), sizes


def test_declared_lengths() -> None:
    """`a[n*m]` has n rows: calls with other lengths are refused, as for all declared extents."""
    head = "void f(int n, int m, int k, double a[n*m], double b[(n+1)*m])"
    f = lw.compile(text(LOOPS + "b[(i+1)*m + j] = a[i*m + j];", head).encode())["f"]
    for n, m in product((0, 1, 5), (0, 1, 7)):
        a, b = np.arange(float(n * m)), np.zeros((n + 1) * m)
        f(n, m, 0, a, b)
        assert np.array_equal(b[m:], a)
        assert not b[:m].any()
    with pytest.raises(UsageError, match=re.escape("argument 'a' has other extents")):
        f(3, 5, 0, np.zeros(14), np.zeros(20))


def test_short_arrays_are_refused() -> None:
    f = lw.compile(text(LOOPS + "b[i*m + j] = a[i*m + j];").encode())["f"]
    f(5, 7, 0, np.ones(35), np.ones(35))
    for short in (34, 28, 1, 0):
        b = np.zeros(35)
        with pytest.raises(SourceError) as caught:
            f(5, 7, 0, np.ones(short), b)
        assert not b.any()
        rows = short // 7
        assert "subscript 1 of 'a' is outside the array [LW112]" in str(caught.value)
        assert f"found a[{rows}, 0] in a of shape ({rows}, 7)" in str(caught.value)
    with pytest.raises(UsageError) as negative:
        f(5, -7, 0, np.ones(35), np.ones(35))
    assert "the rows of argument 'a' have negative extents" in str(negative.value)
    assert "found [][-7]" in str(negative.value)


# -- what stays refused ---------------------------------------------------------------------------

ROWS = "try: a subscript for each dimension: A[i][j] of an array A[m][n] instead of A[i*n + j]"


def refusal(line: str) -> str:
    with pytest.raises(SourceError) as caught:
        read_c(text(line))
    return str(caught.value)


def test_a_subscript_that_leaves_its_row() -> None:
    line = LOOPS + "b[j] = a[i*m + j+1];"
    assert refusal(line) == (
        "<c>:5:66: error: the subscript is not affine in the loop variables and sizes [LW110]\n"
        f"    {line}\n    " + " " * 65 + "^^^^^^^^^\n"
        "note: found i*m + j+1, a product of two variables\n" + ROWS
    )


@pytest.mark.parametrize(
    "line",
    [
        LOOPS + "a[i*m + j] = a[j*n + i];",  # two sizes
        LOOPS + "{ a[i*m + j] = 0; a[j + 1] = 0; }",  # a plain subscript that leaves the first row
        LOOPS + "a[i*k + j] = 0;",  # m <= k is not known
        "for (int i = 0; i < n; i++) a[i*m] = 0;",  # m may be 0
        "for (int i = 0; i < n; i++) for (int j = -1; j < m; j++) a[i*m + j] = 0;",
        "for (int i = 0; i < n; i++) for (int j = 0; j < i; j++) a[i*j + 1] = 0;",  # no size
        LOOPS + "for (int l = 0; l < k; l++) a[(i*m + j)*k + l + 1] = 0;",
        "for (int i = 0; i < n; i++) for (int j = 0; j <= n; j++) a[i*n*n + j] += a[j*n + i];",
        # Products of unsigned ints wrap around.
        "for (unsigned i = 0; i < n; i++) for (unsigned j = 0; j < m; j++) a[i*m + j] = 0;",
    ],
)
def test_refused(line: str) -> None:
    told = refusal(line)
    assert "the subscript is not affine in the loop variables and sizes [LW110]" in told
    assert "a product of two variables" in told
    with pytest.raises(SourceError) as caught:
        lw.compile(text(line).encode())
    assert str(caught.value) == told
