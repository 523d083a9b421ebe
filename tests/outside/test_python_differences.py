"""The table of differences between `jit` and Python: every row differs, and nothing else does."""

import re
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from outside.campaigns.campaign import Case
from outside.campaigns.operator_forms import FORMS, Outcome
from outside.campaigns.operator_types import run
from outside.campaigns.python_differences import ROWS, Row, excuse

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
    assert len(rows) <= 8


@pytest.mark.parametrize("row", [row for row in ROWS if row.example], ids=lambda row: row.name)
def test_a_row_tells_a_difference(row: Row) -> None:
    assert row.example is not None
    op, left, right, x, y = row.example
    wrong = run(case(left, right, NUMBERS[op]))
    (found,) = [one for one in wrong if repr((one.x, one.y)) == repr((x, y))]
    assert excuse(found) == row.name


def test_subscripts_below_zero_count_from_the_end_in_python_only() -> None:
    row = ROWS[-1]
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
