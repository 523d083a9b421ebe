"""The table of differences between `jit` and Python: every row differs, and nothing else does."""

import math
import os
import re
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from outside.campaigns.campaign import Case
from outside.campaigns.operator_forms import FORMS, Outcome
from outside.campaigns.operator_types import run
from outside.campaigns.python_differences import OTHER_ROWS, ROWS, Row, excuse

PAGE = Path(__file__).parent.parent.parent / "docs" / "python.md"
NUMBERS = {form.op: number for number, form in enumerate(FORMS)}
COMPARISONS = [
    number for number, form in enumerate(FORMS) if form.op.lstrip("!=<>").startswith((",", " of"))
] + [NUMBERS[op] for op in ("<", "<=", ">", ">=", "==", "!=")]


def case(left: str, right: str, *forms: int) -> Case:
    return {"left": left, "right": right, "forms": sorted(set(forms)), "compiled": False}


@pytest.mark.skipif(not PAGE.exists(), reason="installed without its documentation")
def test_the_table_has_these_rows() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Differences")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[2:]
    assert rows == [row.name for row in ROWS]
    assert {row for row in OTHER_ROWS if row not in SHOWN} == set()


@pytest.mark.parametrize("row", [row for row in ROWS if row.example], ids=lambda row: row.name)
def test_a_row_tells_a_difference(row: Row) -> None:
    assert row.example is not None
    op, left, right, x, y = row.example
    wrong = run(case(left, right, NUMBERS[op]))
    (found,) = [one for one in wrong if repr((one.x, one.y)) == repr((x, y))]
    assert excuse(found) == row.name


def test_subscripts_below_zero_count_from_the_end_in_python_only() -> None:
    row = ROWS[7]
    function = define("def f(a, b):\n    for i in range(3):\n        b[i] = a[i - 1]\n")
    a, b = np.arange(3.0), np.zeros(3)
    function(a, b)
    assert list(b) == [2.0, 0.0, 1.0]
    with pytest.raises(lw.SourceError, match="counts from the end"):
        lw.jit(function)(a, b)
    assert row.holds(Outcome(FORMS[0], 0, 0, IndexError(), None))


@pytest.mark.parametrize("left", ["uint64", "uint8", "int8", "pyint"])
@pytest.mark.parametrize("right", ["pyint", "int64", "uint64", "pyfloat"])
def test_no_comparison_differs(left: str, right: str) -> None:
    assert run(case(left, right, *COMPARISONS)) == []


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
@pytest.mark.parametrize("exponent", [2, 3, -2, 0.5, 1.5 - 0.25j])
def test_complex_powers_differ_in_their_last_bits_only(kind: str, exponent: complex) -> None:
    """The row allows them 8 units in the last place, times the logarithm of the power."""
    random = np.random.default_rng(3)
    x = (random.normal(size=200) + 1j * random.normal(size=200)).astype(kind)
    function = define(
        f"def f(x, r):\n    for i in range(200):\n        r[i] = x[i] ** ({exponent})\n"
    )
    expected, found = np.zeros_like(x), np.zeros_like(x)
    function(x, expected)
    lw.jit(function)(x, found)
    outcomes = [
        Outcome(FORMS[NUMBERS["**"]], one, exponent, wanted, wanted, ours)
        for one, wanted, ours in zip(x, expected, found, strict=True)
        if wanted != ours
    ]
    assert {excuse(one) for one in outcomes} <= {"functions outside their domain"}


@pytest.mark.parametrize(("error", "is_excused"), [(1e-4, True), (1e-2, False)])
def test_powers_of_literals_differ_in_their_last_bits_only(error: float, is_excused: bool) -> None:
    """The bound follows from the base and the exponent, also where one is in the text of a form.

    The argument of the exponential of 1j ** 2049 is 3218, of which complex64 has 8 units.
    """
    wanted, ours = np.complex64(1j - error), np.complex64(1j)
    form = FORMS[NUMBERS["1j **"]]
    outcome = Outcome(form, np.float32(2049), np.float16(0), wanted, wanted, ours)
    assert bool(excuse(outcome)) == is_excused


EXTREMES = [NUMBERS[f"{op} into {kind}"] for op in ("min", "max") for kind in ("float64", "int64")]


@pytest.mark.parametrize(
    ("left", "right"),
    [("uint8", "pyint"), ("int64", "float64"), ("float32", "pyfloat"), ("float64", "float64")],
)
def test_min_and_max_of_any_types_are_pythons(left: str, right: str) -> None:
    wrong = run(case(left, right, *EXTREMES))
    assert {excuse(one) for one in wrong} <= {"a float beyond an integer type"}
    assert all(one.form.into == "int64" for one in wrong)


# -- rows that no single operator shows -----------------------------------------------------------


def fused() -> None:
    """An affine loop rounds a product and its sum once; a whole function rounds both."""
    x, y, z = np.array([1 + 2.0**-30]), np.array([1 - 2.0**-30]), np.array([-1.0])
    loop = define("def f(x, y, z):\n    for i in range(1):\n        z[i] = x[i] * y[i] + z[i]\n")
    found = z.copy()
    lw.jit(loop)(x, y, found)
    assert found[0] == -(2.0**-60)
    whole = define("def f(x, y, z):\n    return x * y + z\n")
    assert lw.jit(whole)(x, y, z)[0] == whole(x, y, z)[0] == 0.0


def products() -> None:
    """Their sums are fused, and close to NumPy's; integers and other sums have its bits."""
    whole = define("def f(a, b):\n    return a @ b, a.sum()\n")
    a, b = np.array([[1 + 2.0**-30, 1.0]]), np.array([[1 - 2.0**-30], [-1.0]])
    product, total = lw.jit(whole)(a, b)
    assert product[0, 0] in (-(2.0**-60), 0.0)
    assert total == whole(a, b)[1]
    numbers = np.arange(9).reshape(3, 3)
    for one, other in zip(lw.jit(whole)(numbers, numbers), whole(numbers, numbers), strict=True):
        assert np.array_equal(one, other)


def warned() -> None:
    whole = define("def f(x):\n    return 1 / x[:2]\n")
    zeros = np.zeros(3)
    with pytest.warns(RuntimeWarning):
        expected = whole(zeros)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert np.array_equal(lw.jit(whole)(zeros), expected)


def returned() -> None:
    """Affine loops return NumPy's numbers, whole functions Python's where Python does."""
    loop = define("def f(x):\n    return x * 2.5\n")
    assert type(lw.jit(loop)(3)) is np.float64
    whole = define("def f(x, a):\n    return x * 2.5, a[:1].sum()\n")
    assert [type(x) for x in lw.jit(whole)(3, np.ones(2))] == [float, np.float64]


def certain() -> None:
    """What NumPy would raise when it is reached is refused at the first call."""
    text = "def f(a, n):\n    if n > 0:\n        a += 0.5\n    return a[:1]\n"
    whole, numbers = define(text), np.arange(3)
    assert whole(numbers, 0) == [0]
    with pytest.raises(lw.SourceError, match="LW191"):
        lw.jit(whole)(numbers, 0)


def worded() -> None:
    """Types of exceptions are NumPy's."""
    whole = define("def f(a):\n    return a[1:].max()\n")
    for function in (whole, lw.jit(whole)):
        with pytest.raises(ValueError, match="zero-size array to reduction operation"):
            function(np.ones(1))


def chosen() -> None:
    """NumPy adds runs of elements that `where=` chooses, compiled code one element at a time."""
    whole = define("def f(a, m):\n    return np.sum(a, where=m)\n")
    a = np.random.default_rng(0).normal(size=200)
    found, right = lw.jit(whole)(a, a > 0), whole(a, a > 0)
    assert found != right
    assert math.isclose(found, right, rel_tol=1e-14)


def strides() -> None:
    whole = define("def f(a):\n    return a.sum(axis=0, keepdims=True)\n")
    one, other = (f(np.ones((4, 3))) for f in (lw.jit(whole), whole))
    assert one.shape == other.shape == (1, 3)
    assert one.strides[1] == other.strides[1]
    assert one.flags.c_contiguous


def unanswered() -> None:
    """The handler of a signal that comes while affine loops run is called when they are done."""
    text = (
        "def f(a, n):\n    for t in range(n):\n"
        "        for i in range(a.shape[0]):\n            a[i] += 1\n"
    )
    function, a, steps = lw.jit(define(text)), np.zeros(8), 10**7
    function(a, 1)
    a[:] = 0
    seen: list[float] = []

    def send() -> None:
        while not a[0]:
            pass
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(a[0]))
    try:
        sender = threading.Thread(target=send)
        sender.start()
        function(a, steps)
        sender.join()
        assert seen == [steps]
    finally:
        signal.signal(signal.SIGALRM, before)


def without_axes() -> None:
    """NumPy gives an array of rank 0 where all that `np.where` chooses from are numbers."""
    affine = define("def f(x, y):\n    return np.where(x > 1, x, y)\n")
    whole = define("def f(x, a):\n    return np.where(x > 1, x, a[:1].sum())\n")
    assert type(affine(2.0, 1.0)) is type(whole(2.0, np.ones(1))) is np.ndarray
    assert type(lw.jit(affine)(2.0, 1.0)) is np.float64
    assert type(lw.jit(whole)(2.0, np.ones(1))) is np.ndarray


SHOWN: dict[str, Callable[[], None]] = {
    "a product in a sum": fused,
    "products of matrices": products,
    "sums of some elements": chosen,
    "warnings": warned,
    "numbers that are returned": returned,
    "`np.where` of numbers": without_axes,
    "what raises for every value": certain,
    "texts of exceptions": worded,
    "strides of axes with one element": strides,
    "Ctrl-C": unanswered,
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_a_row_that_no_operator_shows(name: str) -> None:
    SHOWN[name]()
