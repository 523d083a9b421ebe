"""Values of several types: comparisons, min and max, conditional expressions, names."""

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import assert_same, compiled, define, interpreted
from loopwright.diagnostics import SourceError

KINDS = ("uint8", "uint16", "uint64", "int8")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [-(2**62), -1, 0, 5, 300, 2**62])
def test_arrays_of_integers_compare_with_pythons_integers(kind: str, t: int) -> None:
    text = """
    def f(B, t, n, c):
        for i in range(10):
            c[0] += 1 if B[i] > t else 0
            c[1] += 1 if B[i] > -i else 0
            c[2] += 1 if n - 100 < B[i] <= 300 * i else 0
            c[3] += 1 if B[i] == t else 0
            c[4] += 1 if B[i] > -1 else 0
            c[5] += 1 if B[i] != 300 else 0
    """
    assert_same(define(text), np.arange(10, dtype=kind), t, 10, np.zeros(6, np.int64))


def test_unsigned_and_signed_integers_of_64_bits_compare_exactly() -> None:
    text = """
    def f(U, I, c):
        for i in range(len(U)):
            for j in range(len(I)):
                c[i, j, 0] = U[i] < I[j]
                c[i, j, 1] = U[i] <= I[j]
                c[i, j, 2] = I[j] == U[i]
                c[i, j, 3] = I[j] < U[i]
                c[i, j, 4] = I[j] >= U[i]
                c[i, j, 5] = U[i] != I[j]
    """
    unsigned = np.array([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    signed = np.array([-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1], np.int64)
    assert_same(define(text), unsigned, signed, np.zeros((7, 7, 6), bool))


@pytest.mark.parametrize("n", [0, 3, 2**53 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("x", [0.5, 3.0, 2.0**53, 2.0**63, -(2.0**63), np.inf, np.nan])
def test_a_python_integer_and_a_python_float_compare_exactly(n: int, x: float) -> None:
    text = """
    def f(n, x, c):
        c[0] = n < x
        c[1] = n <= x
        c[2] = n == x
        c[3] = x != n
        c[4] = x < n
        c[5] = n >= x
        c[6] = n < 2.5
        c[7] = 3.0 <= n
        c[8] = n == 9007199254740992.0
    """
    assert_same(define(text), n, x, np.zeros(9, bool))


EXTREMES = [-3.0, -0.0, 0.0, 2.0, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_min_and_max_keep_the_first_unless_the_second_is_beyond_it(kind: str) -> None:
    text = """
    def f(x, y, out, least):
        for i in range(len(x)):
            out[i, 0] = min(x[i], y[i])
            out[i, 1] = max(x[i], y[i], 0.0)
            out[i, 2] = np.fabs(np.minimum(x[i], y[i]))
            out[i, 3] = min(y[i], 1) + max(2.5, x[i])
            least[i] = min(least[i], x[i])
    """
    pairs = np.array([(x, y) for x in EXTREMES for y in EXTREMES], kind)
    x, y = pairs[:, 0].copy(), pairs[:, 1].copy()
    least = np.where(y == 0, 1, y).astype(kind)  # which of two zeros stays is left open
    assert_same(define(text), x, y, np.zeros((len(x), 4), kind), least)


def test_min_and_max_of_two_types_give_the_value_of_either() -> None:
    text = """
    def f(B, I, out, whole):
        for i in range(10):
            out[i, 0] = max(B[i], i - 5)
            out[i, 1] = min(B[i], i - 5) + 1
            whole[i, 0] = max(I[i], 0.5)
            whole[i, 1] = I[i] if I[i] > 0 else 0.5
            whole[i, 2] = min(I[i], B[i], i) * 2
    """
    large = np.array([2**53 + k for k in range(-5, 5)])
    assert_same(
        define(text),
        np.arange(10, dtype=np.uint8),
        large,
        np.zeros((10, 2)),
        np.zeros((10, 3), int),
    )


def test_a_conditional_has_the_type_of_its_side() -> None:
    text = """
    def f(p, A, F, B, out):
        for i in range(len(p)):
            out[i, 0] = (A[i] if p[i] else 0.1) * F[i]
            out[i, 1] = (B[i] if p[i] else 200) + 100
            out[i, 2] = (B[i] if i > 1 and B[i - 1] > 0 else F[i]) / 3
            out[i, 3] = (p[i] and i > 1) + (i < 3)
    """
    flags = np.array([True, False, True, False])
    numbers = np.array([0.1, 0.2, 0.3, 0.7])
    args = flags, numbers, numbers.astype(np.float32), np.array([1, 200, 250, 7], np.uint8)
    assert_same(define(text), *args, np.zeros((4, 4)))


def test_a_name_holds_what_it_is_given() -> None:
    text = """
    def f(B, I, out):
        best = -1
        for i in range(10):
            if B[i] > best:
                best = B[i]
            out[i] = best
        for i in range(10):
            place = i * 1000
            if I[i] > 3:
                place = B[i]
            out[i] += place
    """
    small = np.array([200, 3, 250, 7, 8, 9, 1, 2, 3, 4], np.uint8)
    assert_same(define(text), small, np.arange(10, dtype=np.int32), np.zeros(10, np.int64))


def refused(text: str, *args: object) -> str:
    with pytest.raises(SourceError) as caught:
        compiled(define(text, "k.py"), *args)
    return str(caught.value)


def test_a_name_that_no_type_holds_is_refused() -> None:
    text = """
    def f(A, I):
        x = 0.5
        for i in range(3):
            if I[i] > 0:
                x = I[i]
            A[i] = x
    """
    assert refused(text, np.zeros(3), np.zeros(3, np.int64)) == (
        "k.py:5:13: error: 'x' is float or int64: float64 does not hold every int64 [LW119]\n"
        "    x = I[i]\n"
        "    ^\n"
        "try: use another name, or convert: float(...) rounds, int(...) truncates"
    )


def test_a_result_that_no_type_holds_is_refused() -> None:
    text = "def f(A, I):\n    return I[0] if A[0] > 0 else A[0]\n"
    assert refused(text, np.zeros(3), np.zeros(3, np.int64)) == (
        "k.py:2:5: error: 'I[0] if A[0] > 0 else A[0]' is float64 or int64: float64 does not hold"
        " every int64 [LW119]\n"
        "    return I[0] if A[0] > 0 else A[0]\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "try: use another name, or convert: float(...) rounds, int(...) truncates"
    )


def test_a_value_of_too_many_types_is_refused() -> None:
    text = "def f(A, I, F, p):\n    A[0] = "
    for count in (3, 20):
        text += " + ".join(f"(I[{k}] if p[{k}] else F[{k}])" for k in range(count))
        args = np.zeros(1), np.zeros(20, np.int8), np.zeros(20, np.float16), np.zeros(20, bool)
        if count == 3:
            interpreted(define(text + "\n"), *args)
        text += "\n    A[0] = "
    lines = refused(text + "0\n", *args).splitlines()
    assert lines[0] == (
        "k.py:3:12: error: the type of this value depends on too many conditions [LW119]"
    )
    assert lines[3:] == [
        "note: found int8 or float16",
        "try: convert the sides of conditional expressions, min and max to one type",
    ]


def test_products_over_min_pass_over_nan_as_python_does() -> None:
    """They are contractions, whose elements that are NaN before stay so."""

    def min_plus(a, b, c):  # type: ignore[no-untyped-def]
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] = min(c[i, j], a[i, k] + b[k, j])

    rng = np.random.default_rng(3)
    for m, n, k in ((9, 40, 21), (7, 1, 30), (1, 33, 12)):
        a, b, c = rng.normal(size=(m, k)), rng.normal(size=(k, n)), rng.normal(size=(m, n))
        a[0, 3], b[5, 0], c[m - 1, 0] = np.nan, np.nan, np.nan
        a[m - 1, 1], b[1, n - 1] = np.inf, -np.inf
        expected = c.copy()
        with np.errstate(all="ignore"):
            min_plus(a, b, expected)
        function = lw.jit(min_plus)
        function(a, b, c)
        np.testing.assert_array_equal(c, expected)
        assert "S0: contraction of a[i, k] + b[k, j] by min into" in function.explain(a, b, c)


def test_an_extreme_of_a_row_passes_over_nan() -> None:
    def largest(x):  # type: ignore[no-untyped-def]
        m = 0.0
        for i in range(len(x)):
            m = max(m, abs(x[i]))
        return m

    for length in (1, 5, 64, 1001):
        x = np.random.default_rng(length).normal(size=length)
        x[::3] = np.nan
        assert lw.jit(largest)(x) == largest(x)


def test_boolean_arguments_are_booleans_and_sizes() -> None:
    text = """
    def f(A, B, p):
        for i in range(4 + p):
            A[i] = min(B[i], p) + p
            A[i + p] += 1 if p else 0
    """
    for p in (True, False):
        assert_same(define(text), np.zeros(6), np.array([True, False] * 3), p)
