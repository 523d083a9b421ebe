"""Values of several types: comparisons, min and max, conditional expressions, names."""

import numpy as np
import pytest

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
