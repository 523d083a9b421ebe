"""Compiled functions that are one contraction, written in every way people write them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from calls.comparison import assert_as_python, is_contraction, whole
from frontends.kernels import define

EXTENTS = {"i": "C.shape[0]", "j": "C.shape[1]", "k": "A.shape[1]"}
DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def assert_contraction(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    assert is_contraction(assert_as_python(function, *args, **options), *args)


def matmul(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def nest(order: str, body: str) -> Callable[..., Any]:
    """`body` inside the three loops of a matrix product."""
    lines = ["def f(C, A, B):"]
    lines += [f"{'    ' * (d + 1)}for {v} in range({EXTENTS[v]}):" for d, v in enumerate(order)]
    return define("\n".join([*lines, f"{' ' * 16}{body}"]))


def matrices(n: int, m: int, k: int, dtype: str = "float64") -> tuple[np.ndarray, ...]:
    return whole(n, m, dtype=dtype), whole(n, k, dtype=dtype), whole(k, m, dtype=dtype, seed=1)


# -- one product, many spellings ---------------------------------------------------------------


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("ijk")])
def test_loop_orders(order: str) -> None:
    assert_contraction(nest(order, "C[i, j] += A[i, k] * B[k, j]"), *matrices(7, 11, 13))


@pytest.mark.parametrize(
    "sizes",
    [
        *((0, 0, 0), (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 2, 2), (1, 7, 3), (7, 1, 3)),
        *((7, 5, 1), (2, 1, 2), (13, 17, 19), (31, 37, 41)),
    ],
)
def test_sizes(sizes: tuple[int, int, int]) -> None:
    assert_contraction(matmul, *matrices(*sizes))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    assert_contraction(matmul, *matrices(7, 11, 13, dtype))


N = 11
VIEWS = {
    "steps": (whole(N, 2 * N)[:, ::2], whole(2 * N, 3 * N)[::2, ::3], whole(N, N)),
    "backwards": (whole(N, N)[::-1], whole(N, N)[:, ::-1], whole(N, N)[::-1, ::-1]),
    "transposed": (whole(N, N), whole(N, N).T, whole(N, N, seed=1).T),
    "Fortran": tuple(map(np.asfortranarray, matrices(N, N, N))),
    "broadcast": (whole(N, N), np.broadcast_to(whole(N), (N, N)), np.broadcast_to(2.0, (N, N))),
    "slices": (whole(N, N, N)[:, 3, :], whole(N, N, N)[:, :, 2], whole(N, N, N)[1]),
}


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_views(views: tuple[np.ndarray, ...]) -> None:
    assert_contraction(matmul, *views)


def test_rounding_follows_the_declared_order() -> None:
    """Sums in source order: only fused multiply-adds may change a last bit."""
    rng = np.random.default_rng(0)
    args = (np.zeros((33, 35)), rng.normal(size=(33, 70)), rng.normal(size=(70, 35)))
    assert_contraction(matmul, *args, rtol=1e-14)


def test_large_terms_cancel_in_source_order() -> None:
    """2^60 swallows small terms that stand before its end, and no others."""
    x = np.array([2.0**60, 1.0, -(2.0**60), 1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
    assert_contraction(total, x)
    assert_contraction(dot, x, np.ones_like(x))


# -- around the product ------------------------------------------------------------------------


def in_a_scalar(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = s


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


def zeroed_apart(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = 0.0
    for k in range(A.shape[1]):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def prologues(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += abs(A[i, k]) * (B[k, j] * 2.0 + 1.0)


def subtracted(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] -= A[i, k] * B[k, j]


def leaky_relu(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
            C[i, j] += A[i, 0]
            C[i, j] = C[i, j] if C[i, j] > 0.0 else 0.25 * C[i, j]


AROUND = (
    *(
        in_a_scalar,
        of_one_size,
        alpha_beta,
        scaled_first,
        zeroed_apart,
        prologues,
        subtracted,
        leaky_relu,
    ),
)


@pytest.mark.parametrize("function", AROUND)
@pytest.mark.parametrize("sizes", [(7, 9, 5), (1, 9, 5), (7, 1, 5)])
def test_first_and_last_values(function: Callable[..., Any], sizes: tuple[int, int, int]) -> None:
    assert_contraction(function, *matrices(*sizes))


@pytest.mark.parametrize("function", [in_a_scalar, alpha_beta, prologues])
def test_nothing_to_add(function: Callable[..., Any]) -> None:
    assert_contraction(function, *matrices(3, 4, 0))


def test_bias_and_scalar_arguments() -> None:
    def f(C, A, B, bias, alpha, beta):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                s = bias[j]
                for k in range(A.shape[1]):
                    s += A[i, k] * B[k, j]
                C[i, j] = max(alpha * s + beta, 0.0)

    assert_contraction(f, *matrices(7, 9, 5), whole(9), 2.0, -3.0)


def test_names_of_temporaries() -> None:
    def f(sums, left_value, A):
        for sums_ in range(A.shape[0]):
            s = 1.0
            for right_value in range(A.shape[1]):
                s += abs(A[sums_, right_value]) * (2.0 * left_value[right_value])
            sums[sums_] = max(s, 0.0)

    assert_contraction(f, whole(7), whole(5), whole(7, 5))


@pytest.mark.parametrize("cast", ["np.int32", "np.int64", "np.float32", "np.float64"])
def test_narrow_factors_and_wide_sums(cast: str) -> None:
    out = whole(7, 9, dtype=cast.removeprefix("np."))
    args = out, whole(7, 5, dtype="int8"), whole(5, 9, dtype="int8", seed=1)
    body = f"C[i, j] += {cast}(A[i, k]) * {cast}(B[k, j])"
    assert_contraction(nest("ijk", body), *args)


def test_factors_of_two_types() -> None:
    args = whole(7, 9), whole(7, 5, dtype="float32"), whole(5, 9, dtype="int16")
    assert_contraction(nest("ikj", "C[i, j] += np.float64(A[i, k]) * B[k, j]"), *args)


def test_sums_of_one_type_stored_in_another() -> None:
    def f(C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                s = 0
                for k in range(A.shape[1]):
                    s += A[i, k] * B[k, j]
                C[i, j] = s / 2

    assert_contraction(f, whole(9, 9), *matrices(9, 9, 7, "int32")[1:])


def test_conjugated_factor() -> None:
    def f(C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[0]):
                    C[i, j] += np.conj(A[k, i]) * B[k, j]

    A, B = (whole(7, 9) + 1j * whole(7, 9, seed=s) for s in (1, 2))
    assert_contraction(f, whole(9, 9, dtype="complex128"), A, B)


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

    assert_contraction(f, *matrices(4, 5, terms, "int64"))


def test_zero_has_no_sign() -> None:
    """0.0 + -0.0 is 0.0."""
    compiled = assert_as_python(total, np.array([-0.0, -0.0]))
    assert not np.signbit(compiled(np.array([-0.0, -0.0])))


# -- other operators ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("min(C[i, j], A[i, k] + B[k, j])", "float64"),
        ("min(C[i, j], A[i, k] + B[k, j])", "int32"),
        ("max(C[i, j], A[i, k] + B[k, j])", "float32"),
        ("max(C[i, j], A[i, k] - B[k, j])", "int64"),
        ("min(C[i, j], A[i, k] * B[k, j])", "float64"),
        ("max(C[i, j], min(A[i, k], B[k, j]))", "uint8"),
    ],
)
def test_operator_pairs(value: str, dtype: str) -> None:
    assert_contraction(nest("ikj", f"C[i, j] = {value}"), *matrices(7, 9, 5, dtype))


@pytest.mark.parametrize("pair", ["|&", "&|", "^+"])
def test_operator_pairs_on_bits(pair: str) -> None:
    plus, times = pair
    body = f"C[i, j] = C[i, j] {plus} (A[i, k] {times} B[k, j])"
    assert_contraction(nest("ijk", body), *matrices(7, 9, 5, "int16"))


def test_booleans() -> None:
    assert_contraction(nest("ijk", "C[i, j] |= A[i, k] & B[k, j]"), *matrices(7, 9, 5, "bool"))


@pytest.mark.parametrize("times", ["//", "%", "**", "<"])
def test_operators_without_a_kernel_run_as_loops(times: str) -> None:
    out, A, B = matrices(7, 9, 5)
    function = nest("ijk", f"C[i, j] += A[i, k] {times} B[k, j]")
    args = out, abs(A) + 1, abs(B) + 1
    assert not is_contraction(assert_as_python(function, *args), *args)


def test_comparisons_of_factors_run_as_loops() -> None:
    args = whole(7, 9, dtype="bool"), whole(7, 5), whole(5, 9)
    function = nest("ijk", "C[i, j] |= A[i, k] < B[k, j]")
    assert not is_contraction(assert_as_python(function, *args), *args)


# -- fewer and more loops ----------------------------------------------------------------------


def dot(x, y):
    s = 0
    for i in range(x.shape[0]):
        s += x[i] * y[i]
    return s


def total(x):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    return s


def product(x):
    s = 1.0
    for i in range(x.shape[0]):
        s *= x[i]
    return s


def square(x):
    s = 0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return s


def gemv(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j] * x[j]


def gemv_transposed(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[j] += A[i, j] * x[i]


def outer(C, x, y):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] += x[i] * y[j]


def batched(C, A, B):
    for t in range(C.shape[0]):
        for i in range(C.shape[1]):
            for j in range(C.shape[2]):
                for k in range(A.shape[2]):
                    C[t, i, j] += A[t, i, k] * B[t, k, j]


def trace(A):
    s = 0
    for i in range(A.shape[0]):
        s += A[i, i]
    return s


def diagonal_by_rows(y, A, B):
    for i in range(A.shape[0]):
        for k in range(A.shape[0]):
            y[i] += A[i, i] * B[k, i]


def rows(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j]


def largest_of_columns(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[j] = max(y[j], A[i, j])


def everything(A):
    s = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            s += A[i, j]
    return s


def gram(C, A):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * A[j, k]


def rank5(C, A, B):
    for a in range(3):
        for b in range(4):
            for c in range(5):
                for d in range(2):
                    for e in range(3):
                        for f in range(6):
                            C[a, b, c, d, e] += A[e, f, b, a, d] * B[c, f]


def filter_of_rows(y, x, w):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            for a in range(w.shape[0]):
                for b in range(w.shape[1]):
                    y[i, j] += x[i + a, j + b] * w[a, b]


SHAPES: dict[Callable[..., Any], tuple[tuple[int, ...], ...]] = {
    dot: ((101,), (101,)),
    total: ((101,),),
    square: ((17,),),
    gemv: ((17,), (17, 23), (23,)),
    gemv_transposed: ((23,), (17, 23), (17,)),
    outer: ((11, 13), (11,), (13,)),
    batched: ((3, 5, 7), (3, 5, 4), (3, 4, 7)),
    trace: ((11, 11),),
    diagonal_by_rows: ((11,), (11, 11), (11, 11)),
    rows: ((11,), (11, 13)),
    largest_of_columns: ((13,), (11, 13)),
    everything: ((11, 13),),
    gram: ((9, 9), (9, 7)),
    rank5: ((3, 4, 5, 2, 3), (3, 6, 4, 3, 2), (5, 6)),
    filter_of_rows: ((10, 12), (12, 14), (3, 3)),
}


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("function", SHAPES)
def test_other_contractions(function: Callable[..., Any], dtype: str) -> None:
    arrays = [whole(*s, dtype=dtype, seed=k) for k, s in enumerate(SHAPES[function])]
    assert_contraction(function, *arrays)


@pytest.mark.parametrize("function", [dot, total, gemv, gemv_transposed, outer, rows, batched])
@pytest.mark.parametrize("extent", [0, 1, 2])
def test_other_contractions_of_small_sizes(function: Callable[..., Any], extent: int) -> None:
    arrays = [whole(*(min(n, extent) for n in s)) for s in SHAPES[function]]
    assert_contraction(function, *arrays)


def test_product_of_elements() -> None:
    assert_contraction(product, whole(9) / 2)


@pytest.mark.parametrize("function", [dot, total, gemv, rows])
def test_sums_in_any_order(function: Callable[..., Any]) -> None:
    arrays = [whole(*s, dtype="float32") for s in SHAPES[function]]
    assert_contraction(function, *arrays, reassoc=True)


# -- subscripts --------------------------------------------------------------------------------


def offsets(C, A, B):
    n = C.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i + 1, 2 * k] * B[n - 1 - k, 3 * j + 2]


def inner_parts(C, A, B):
    n = A.shape[0]
    for i in range(2, n - 1):
        for j in range(1, n):
            for k in range(3, n - 2):
                C[i - 2, n - 1 - j] += A[i + 1, k - 3] * B[k + 1, j - 1]


def downwards(C, A, B):
    n = C.shape[0]
    for i in range(n - 1, -1, -1):
        for j in range(n):
            for k in range(n - 1, -1, -1):
                C[i, j] += A[i, k] * B[k, j]


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


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (offsets, ((7, 7), (8, 14), (7, 30))),
        (inner_parts, ((12, 12), (12, 12), (12, 12))),
        (downwards, ((12, 12), (12, 12), (12, 12))),
        (divided, ((12, 12), (6, 12), (3, 4))),
        (divided_out, ((2, 6, 5), (12, 4), (4, 5))),
    ],
)
def test_subscripts(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    assert_contraction(function, *(whole(*shape, seed=k) for k, shape in enumerate(shapes)))


def test_two_contractions_run_as_loops() -> None:
    def f(D, C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(C.shape[1]):
                    D[i, j] += C[i, k] * B[k, j]

    args = whole(9, 9, seed=5), *matrices(9, 9, 9)
    assert not is_contraction(assert_as_python(f, *args), *args)


def test_updates_of_elements_run_as_loops() -> None:
    def f(y, x, a):
        for i in range(y.shape[0]):
            y[i] += a * x[i]

    args = whole(9), whole(9, seed=1), 2.0
    assert not is_contraction(assert_as_python(f, *args), *args)
