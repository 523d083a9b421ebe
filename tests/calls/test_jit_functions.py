"""Functions of loops over arrays do what Python does: contractions of every form, and others."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calls.comparison import assert_as_python, assert_contraction, is_contraction, one_team, whole
from drawn import combined
from frontends.kernels import define

DTYPES = (
    *("float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "complex64", "complex128"),
)
# Order of the loops and body: contractions of all algorithms, whichever way they are written.
FORMS = (
    ("ijk", "C[i, j] += A[i, k] * B[k, j]"),
    ("ij", "y[i] += A[i, j] * x[j]"),
    ("jki", "C[i, j] -= A[i, k] * B[k, j]"),
    ("ij", "y[j] += A[i, j] * x[i]"),
    ("kij", "C[i, j] += abs(A[i, k]) * (B[k, j] * 2 + 1)"),
    ("ij", "C[i, j] += x[i] * y[j]"),
    ("i", "s[()] += x[i] * y[i]"),
    ("tijk", "C[t, i, j] += A[t, i, k] * B[t, k, j]"),
    ("i", "s[()] += x[i]"),
    ("ji", "y[i] += A[i, j]"),
    ("ij", "s[()] += A[i, j]"),
    ("i", "s[()] += A[i, i]"),
    ("ik", "y[i] += A[i, i] * B[k, i]"),
    ("kji", "C[i, j] += A[i, k] * A[j, k]"),
    ("abcdef", "C[a, b, c, d, e] += A[e, f, b, a, d] * B[c, f]"),
)
EXTREMES = (
    ("ikj", "C[i, j] = min(C[i, j], A[i, k] + B[k, j])", "float64"),
    ("ikj", "C[i, j] = max(C[i, j], A[i, k] - B[k, j])", "int64"),
    ("ijk", "C[i, j] = max(C[i, j], min(A[i, k], B[k, j]))", "uint8"),
    ("ij", "y[j] = max(y[j], A[i, j])", "float32"),
    ("ijk", "C[i, j] = C[i, j] | (A[i, k] & B[k, j])", "int16"),
    ("ijk", "C[i, j] = C[i, j] ^ (A[i, k] + B[k, j])", "int16"),
    ("ijk", "C[i, j] |= A[i, k] & B[k, j]", "bool"),
    ("ijk", "C[i, j] += np.int32(A[i, k]) * np.int32(B[k, j])", "int32 int8 int8"),
    ("ikj", "C[i, j] += np.float64(A[i, k]) * B[k, j]", "float64 float32 int16"),
    ("ijk", "C[i, j] += np.conj(A[k, i]) * B[k, j]", "complex128"),
)
SIZES = (7, 11, 13, 3), (1, 7, 3, 1), (0, 3, 4, 2), (3, 0, 4, 2), (2, 4, 0, 1), (2, 1, 2, 0)
LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    lambda a: a,
    lambda a: np.array(a, order="F"),
    lambda a: a[(slice(None, None, -1),) * a.ndim] if a.ndim else a,
    lambda a: np.repeat(a, 2, a.ndim - 1)[..., ::2] if a.ndim else a,
)


def nest(order: str, body: str) -> tuple[Callable[..., Any], dict[str, list[str]]]:
    """`body` inside its loops, and the letters of each dimension of its arrays by name."""
    arrays: dict[str, list[str]] = {}
    for name, subscripts in re.findall(r"\b(\w+)\[([\w, ]*)(?:\(\))?\]", body):
        letters = subscripts.split(", ") if subscripts else []
        arrays[name] = [a + b for a, b in zip(letters, arrays.get(name, letters), strict=True)]
    first = {}
    for name, dimensions in reversed(arrays.items()):
        for k, letters in enumerate(dimensions):
            first.update(dict.fromkeys(letters, f"{name}.shape[{k}]"))
    lines = [f"def f({', '.join(arrays)}):"]
    lines += [f"{'    ' * (d + 1)}for {v} in range({first[v]}):" for d, v in enumerate(order)]
    return define("\n".join([*lines, "    " * (len(order) + 1) + body])), arrays


def arguments(
    order: str, arrays: dict[str, list[str]], sizes: tuple[int, ...], dtype: str
) -> list[Any]:
    extent = {letter: sizes[k % len(sizes)] for k, letter in enumerate(sorted(order))}
    dtypes = dtype.split() * len(arrays)
    return [
        whole(*(max(extent[c] for c in letters) for letters in dimensions), dtype=kind, seed=k)
        for k, (dimensions, kind) in enumerate(zip(arrays.values(), dtypes, strict=False))
    ]


@pytest.mark.drawn(9)
@pytest.mark.parametrize(
    ("form", "sizes", "layout", "dtype"),
    combined(FORMS, SIZES, range(len(LAYOUTS)), DTYPES, one_in=29),
)
def test_contractions(form: Any, sizes: tuple[int, ...], layout: int, dtype: str) -> None:
    order, body = form
    function, arrays = nest(order, body)
    args = [LAYOUTS[layout](a) for a in arguments(order, arrays, sizes, dtype)]
    threads = one_team(order, *sizes, layout)
    assert_as_python(function, *args, threads=threads)
    # Small whole numbers: every order of their sums gives the same.
    assert_contraction(function, *args, threads=threads, reassoc=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("order", "body", "dtype"), EXTREMES)
def test_contractions_of_other_operators_and_types(order: str, body: str, dtype: str) -> None:
    function, arrays = nest(order, body)
    args = arguments(order, arrays, (7, 9, 5), dtype)
    assert_contraction(function, *args, threads=one_team(body))


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("order", "body"),
    [
        *(("ijk", f"C[i, j] += A[i, k] {times} B[k, j]") for times in ("//", "%", "**", "<")),
        ("ij", "C[i, j] += A[i, j] * 2"),
    ],
)
def test_what_no_kernel_computes_runs_as_loops(order: str, body: str) -> None:
    function, arrays = nest(order, body)
    args = [abs(a) + 1 for a in arguments(order, arrays, (7, 9, 5), "float64")]
    assert not is_contraction(assert_as_python(function, *args, threads=one_team(body)), *args)


def test_rounding_follows_the_declared_order() -> None:
    """Sums in source order: only fused multiply-adds may change a last bit."""
    rng = np.random.default_rng(0)
    args = (np.zeros((33, 35)), rng.normal(size=(33, 70)), rng.normal(size=(70, 35)))
    assert_contraction(nest(*FORMS[0])[0], *args, rtol=1e-14)


def test_large_terms_cancel_in_source_order() -> None:
    """2^60 swallows small terms that stand before its end, and no others; 0.0 + -0.0 is 0.0."""
    x = np.array([2.0**60, 1.0, -(2.0**60), 1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
    total, columns = nest("i", "s[()] += x[i]")[0], nest("ij", "y[j] += A[i, j] * x[i]")[0]
    assert_as_python(total, np.array(0.0), x)
    s = np.array(0.0)
    assert_as_python(total, s, np.array([-0.0, -0.0]))(s, np.array([-0.0, -0.0]))
    assert not np.signbit(s)
    moved = np.stack([x, np.roll(x, 1), -x, x + 1.0], axis=1)
    for lying in (moved, np.asfortranarray(moved)):
        assert_as_python(columns, np.zeros(4), lying, np.ones_like(x))


# -- what stands around a product ---------------------------------------------------------------


def of_one_size(C, A, B):
    n = min(A.shape[0], A.shape[1], B.shape[1])
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += A[i, k] * B[k, j]
            C[i, j] = s


def alpha_beta(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = 2.0 * s + 3.0 * C[i, j]


def scaled_first(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] *= 0.5
        for k in range(A.shape[1]):
            for j in range(C.shape[1]):
                C[i, j] += 2.0 * A[i, k] * B[k, j]


def leaky_relu(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
            C[i, j] += A[i, 0]
            C[i, j] = C[i, j] if C[i, j] > 0.0 else 0.25 * C[i, j]


def with_a_bias(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            s = B[0, j]
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = max(2 * s - 3, 0)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("function", "sizes"),
    combined(
        (of_one_size, alpha_beta, scaled_first, leaky_relu, with_a_bias),
        ((7, 9, 5), (1, 9, 5), (3, 4, 1)),
        one_in=2,
    ),
)
def test_first_and_last_values(function: Callable[..., Any], sizes: tuple[int, int, int]) -> None:
    n, m, k = sizes
    args = whole(n, m), whole(n, k), whole(k, m, seed=1)
    assert_contraction(function, *args, threads=one_team(function.__name__, *sizes))


@pytest.mark.parametrize("terms", [0, 3])
def test_first_value_next_to_the_identity(terms: int) -> None:
    """2^63 - 2 is not the identity of min, though no double tells it from 2^63 - 1."""

    def f(C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                s = 9223372036854775806
                for k in range(A.shape[1]):
                    s = min(s, A[i, k] + B[k, j])
                C[i, j] = s

    args = (whole(*s, dtype="int64") for s in ((4, 5), (4, terms), (terms, 5)))
    assert_contraction(f, *args)


def offsets(C, A, B):
    n = C.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i + 1, 2 * k] * B[n - 1 - k, 3 * j + 2]


def inner_parts(C, A, B):
    n = A.shape[0]
    for i in range(n - 2, 1, -1):
        for j in range(1, n):
            for k in range(3, n - 2):
                C[i - 2, n - 1 - j] += A[i + 1, k - 3] * B[k + 1, j - 1]


def divided(C, A, B):
    n = C.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i // 2, k] * B[k % 3, min(j, 3)]


def divided_out(C, A, B):
    for i in range(2 * C.shape[1]):
        for j in range(C.shape[2]):
            for k in range(A.shape[1]):
                C[i % 2, i // 2, j] += A[i, k] * B[k, j]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (offsets, ((7, 7), (8, 14), (7, 30))),
        (inner_parts, ((12, 12), (12, 12), (12, 12))),
        (divided, ((12, 12), (6, 12), (3, 4))),
        (divided_out, ((2, 6, 5), (12, 4), (4, 5))),
    ],
)
def test_subscripts(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [whole(*shape, seed=k) for k, shape in enumerate(shapes)]
    assert_contraction(function, *arrays, threads=one_team(function.__name__))


# -- no single contraction ----------------------------------------------------------------------


def two_products(A, B):
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            for k in range(A.shape[0]):
                B[i, j] += A[i, k] * A[k, j]
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            for k in range(A.shape[0]):
                A[i, j] += B[i, k] * B[k, j]


def filtered(A, B):
    for i in range(A.shape[0] - 2):
        for j in range(A.shape[1] - 1):
            for a in range(3):
                for b in range(2):
                    B[i, j] += A[i + a, j + b] * A[a, b]


def imperfect(A, B):
    n = A.shape[0]
    for i in range(n):
        B[i, 0] = A[i, 0]
        for j in range(1, n):
            B[i, 0] = B[i, 0] * 2 + A[i, j] - B[i, 0]
            A[i, j] = B[i, 0]
        B[i, 0] = -B[i, 0]


def branches(A, B):
    n = B.shape[0]
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            if i < j:
                A[i, j] = 1.0
            elif i == j and n > 3:
                A[i, j] = 2.0
            else:
                A[i, j] += 3.0
            B[i, j] = A[i, j] if A[i, j] > 0 else B[i - 1, j] if i > 0 else 0.0


def downwards(A, B):
    n = B.shape[0]
    for i in range(n - 2, -1, -1):
        B[i, 1] = B[i + 1, 1] + A[i, 0]
    for i in range(n - 1, 0, -2):
        for j in range(i, n, 3):
            B[i, j] = B[j, i] - 1


def swaps(A, B):
    n = B.shape[0]
    for i in range(n // 2):
        B[i, 0], B[n - 1 - i, 0] = B[n - 1 - i, 0], B[i, 0]


def locals_of_its_own(A, B):
    sums = np.zeros(B.shape[0])
    parts = np.empty((B.shape[0], 3))
    for i in range(B.shape[0]):
        low = A[i, 0]
        for j in range(3):
            low = min(low, A[i, j])
            parts[i, j] = A[i, j] * j - low
    for i in range(B.shape[0]):
        for j in range(3):
            sums[B.shape[0] - 1 - i] += parts[i, j]
    for i in range(B.shape[0]):
        B[i, 0] = sums[i]


def recurrence(A, B):
    for i in range(1, A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = A[i - 1, j] + B[i, j] % 2 * A[i, j]


LOOPS = (
    *(two_products, filtered, imperfect, branches, downwards, swaps),
    *(locals_of_its_own, recurrence),
)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("function", "layout", "threads"), combined(LOOPS, LAYOUTS, ([1], [2], [5]), one_in=3)
)
def test_other_loops(function: Callable[..., Any], layout: Any, threads: list[int]) -> None:
    args = layout(whole(13, 13)), layout(whole(13, 13, seed=1))
    assert not is_contraction(assert_as_python(function, *args, threads=threads), *args)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if "complex" not in d])
def test_types_of_loops(dtype: str) -> None:
    args = whole(7, 19, dtype=dtype), whole(7, 19, dtype=dtype, seed=1)
    assert_as_python(recurrence, *args, threads=one_team(dtype))


def test_functions_of_math() -> None:
    def f(y, x):
        for i in range(x.shape[0]):
            y[i] = math.exp(x[i]) * math.sin(x[i]) + math.cos(x[i]) + math.tanh(x[i])
            y[i] += math.sqrt(abs(x[i])) + math.log(abs(x[i]) + 1) + math.floor(x[i])

    x = np.random.default_rng(0).normal(size=19)
    assert_as_python(f, np.zeros(19), x, rtol=1e-13)
