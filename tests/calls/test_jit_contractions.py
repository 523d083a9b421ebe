"""Compiled functions that are one contraction, written in every way people write them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from calls.comparison import (
    assert_as_python,
    assert_contraction,
    is_contraction,
    one_team,
    whole,
)
from drawn import combined, drawn
from frontends.kernels import define

EXTENTS = {"i": "C.shape[0]", "j": "C.shape[1]", "k": "A.shape[1]"}
DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


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


@pytest.mark.drawn(2)
@pytest.mark.parametrize("order", ["".join(p) for p in permutations("ijk")])
def test_loop_orders(order: str) -> None:
    function = nest(order, "C[i, j] += A[i, k] * B[k, j]")
    assert_contraction(function, *matrices(7, 11, 13), threads=one_team(order))


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "sizes",
    [
        *((0, 0, 0), (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 2, 2), (1, 7, 3), (7, 1, 3)),
        *((7, 5, 1), (2, 1, 2), (13, 17, 19), (31, 37, 41)),
    ],
)
def test_sizes(sizes: tuple[int, int, int]) -> None:
    assert_contraction(matmul, *matrices(*sizes), threads=one_team(*sizes))


@pytest.mark.drawn(6)
@pytest.mark.parametrize(("number", "dtype"), list(enumerate(DTYPES)))
def test_dtypes(number: int, dtype: str) -> None:
    assert_contraction(matmul, *matrices(7, 11, 13, dtype), threads=drawn((1, 2), 2, number))


N = 11
VIEWS = {
    "steps": (whole(N, 2 * N)[:, ::2], whole(2 * N, 3 * N)[::2, ::3], whole(N, N)),
    "backwards": (whole(N, N)[::-1], whole(N, N)[:, ::-1], whole(N, N)[::-1, ::-1]),
    "transposed": (whole(N, N), whole(N, N).T, whole(N, N, seed=1).T),
    "Fortran": tuple(map(np.asfortranarray, matrices(N, N, N))),
    "broadcast": (whole(N, N), np.broadcast_to(whole(N), (N, N)), np.broadcast_to(2.0, (N, N))),
    "slices": (whole(N, N, N)[:, 3, :], whole(N, N, N)[:, :, 2], whole(N, N, N)[1]),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    assert_contraction(matmul, *VIEWS[name], threads=one_team(name))


def test_rounding_follows_the_declared_order() -> None:
    """Sums in source order: only fused multiply-adds may change a last bit."""
    rng = np.random.default_rng(0)
    args = (np.zeros((33, 35)), rng.normal(size=(33, 70)), rng.normal(size=(70, 35)))
    assert_contraction(matmul, *args, rtol=1e-14)


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


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("function", "sizes"), combined(AROUND, [(7, 9, 5), (1, 9, 5), (7, 1, 5)], one_in=2)
)
def test_first_and_last_values(function: Callable[..., Any], sizes: tuple[int, int, int]) -> None:
    threads = one_team(function.__name__, *sizes)
    assert_contraction(function, *matrices(*sizes), threads=threads)


@pytest.mark.parametrize("function", [in_a_scalar, alpha_beta, prologues])
def test_nothing_to_add(function: Callable[..., Any]) -> None:
    assert_contraction(function, *matrices(3, 4, 0), threads=one_team(function.__name__))


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
            for left in range(left_value.shape[1]):
                s = 1.0
                for right_value in range(A.shape[1]):
                    s += abs(A[sums_, right_value]) * (2.0 * left_value[right_value, left])
                sums[sums_, left] = max(s, 0.0)

    assert_contraction(f, whole(7, 9), whole(5, 9), whole(7, 5), reassoc=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("cast", ["np.int32", "np.int64", "np.float32", "np.float64"])
def test_narrow_factors_and_wide_sums(cast: str) -> None:
    out = whole(7, 9, dtype=cast.removeprefix("np."))
    args = out, whole(7, 5, dtype="int8"), whole(5, 9, dtype="int8", seed=1)
    body = f"C[i, j] += {cast}(A[i, k]) * {cast}(B[k, j])"
    assert_contraction(nest("ijk", body), *args, threads=one_team(cast))


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


# -- other operators ---------------------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("number", "value", "dtype"),
    [
        (0, "min(C[i, j], A[i, k] + B[k, j])", "float64"),
        (1, "min(C[i, j], A[i, k] + B[k, j])", "int32"),
        (0, "max(C[i, j], A[i, k] + B[k, j])", "float32"),
        (1, "max(C[i, j], A[i, k] - B[k, j])", "int64"),
        (0, "min(C[i, j], A[i, k] * B[k, j])", "float64"),
        (1, "max(C[i, j], min(A[i, k], B[k, j]))", "uint8"),
    ],
)
def test_operator_pairs(number: int, value: str, dtype: str) -> None:
    function, threads = nest("ikj", f"C[i, j] = {value}"), drawn((1, 2), 2, number)
    assert_contraction(function, *matrices(7, 9, 5, dtype), threads=threads)


@pytest.mark.parametrize("pair", ["|&", "&|", "^+"])
def test_operator_pairs_on_bits(pair: str) -> None:
    plus, times = pair
    body = f"C[i, j] = C[i, j] {plus} (A[i, k] {times} B[k, j])"
    args = matrices(7, 9, 5, "int16")
    assert_contraction(nest("ijk", body), *args, threads=one_team(pair))


def test_booleans() -> None:
    assert_contraction(nest("ijk", "C[i, j] |= A[i, k] & B[k, j]"), *matrices(7, 9, 5, "bool"))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("times", ["//", "%", "**", "<"])
def test_operators_without_a_kernel_run_as_loops(times: str) -> None:
    out, A, B = matrices(7, 9, 5)
    function = nest("ijk", f"C[i, j] += A[i, k] {times} B[k, j]")
    args = out, abs(A) + 1, abs(B) + 1
    compiled = assert_as_python(function, *args, threads=one_team(times))
    assert not is_contraction(compiled, *args)


def test_comparisons_of_factors_run_as_loops() -> None:
    args = whole(7, 9, dtype="bool"), whole(7, 5), whole(5, 9)
    function = nest("ijk", "C[i, j] |= A[i, k] < B[k, j]")
    assert not is_contraction(assert_as_python(function, *args), *args)
