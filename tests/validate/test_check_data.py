"""The data check: bits where nothing rounds, slacks where something does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import initial_schedule
from loopwright.validate.check_data import check_data, first_difference
from loopwright.validate.reference_run import Arrays, Signs, draw_inputs, run_reference
from loopwright.validate.runners import jit_runner
from programs import Do, For, matmul, program


@pytest.mark.parametrize(
    ("found", "expected", "slack", "is_same"),
    [
        (1.0, 1.0, 0.0, True),
        (1.0, np.nextafter(1.0, 2.0), 0.0, False),
        (1.0, np.nextafter(1.0, 2.0), 1e-16, True),
        (math.nan, math.nan, 0.0, True),
        (math.nan, 1.0, 1e-3, False),
        (math.inf, math.inf, 0.0, True),
        (0.0, -0.0, 0.0, False),
        (0.0, -0.0, 1e-300, True),
        (5.0, 1.0, math.inf, True),
    ],
)
def test_floats(found: float, expected: float, slack: float, is_same: bool) -> None:
    place = first_difference(np.array([found]), np.array([expected]), slack, signed_zeros=True)
    assert (place is None) == is_same


def test_signs_of_zeros_are_free_where_sums_are() -> None:
    zeros = np.array([0.0]), np.array([-0.0])
    assert first_difference(*zeros, 0.0, signed_zeros=False) is None


def test_integers_and_complex_numbers() -> None:
    assert first_difference(np.array([1, 2]), np.array([1, 3]), 0.0, signed_zeros=True) == (1,)
    parts = np.array([1 + 1j]), np.array([1 + 2j])
    assert first_difference(*parts, 0.0, signed_zeros=True) == (0,)


def test_compiled_code_and_a_fault() -> None:
    source = matmul()
    reference = run_reference(source, {"n": 3, "m": 2, "q": 2})
    run = jit_runner(lower_schedule(initial_schedule(source)))
    assert check_data(reference, run, "jit") == ()

    def wrong(arrays: Arrays, params: object) -> None:
        run(arrays, params)  # type: ignore[arg-type]
        arrays["C"][1, 1] += 1

    (found,) = check_data(reference, wrong, "mine", threads=2)
    right = reference.results["C"][1, 1]
    assert str(found) == (
        f"matmul.py:1: C[1, 1]: should be {right} by S0[1, 1, 1]; found {right + 1} "
        "(data, mine, n = 3, m = 2, q = 2, 2 threads)"
    )


def test_rounded_results_may_differ_a_little() -> None:
    body = For("i", 0, "n", Do("x[i]", "x[i] / 3 + 1"))
    thirds = program("thirds", {"x": "inout float64 [n]"}, body)
    reference = run_reference(thirds, {"n": 5}, signs=Signs.POSITIVE)
    slack = reference.rules.slack("x")
    assert np.any(slack > 0)

    def off_by(slacks: int) -> bool:
        def run(arrays: Arrays, params: object) -> None:
            arrays["x"][...] = reference.results["x"] + slacks * slack

        return check_data(reference, run, "moved") != ()

    assert [off_by(slacks) for slacks in (0, 4, 100)] == [False, False, True]


@pytest.mark.parametrize("signs", Signs)
def test_inputs(signs: Signs) -> None:
    arrays = {"a": "inout float64 [n]", "u": "in uint8 [n]", "s": "in int32 []"}
    source = program("inputs", arrays, For("i", 0, "n", Do("a[i]", "a[i]")))
    drawn = draw_inputs(source, {"n": 40}, seed=1, signs=signs)
    assert {name: data.dtype.name for name, data in drawn.items()} == {
        "a": "float64",
        "u": "uint8",
        "s": "int32",
    }
    assert np.max(np.abs(drawn["a"])) == 3
    if signs is Signs.ANY:
        assert {-1, 0, 1} <= set(np.sign(drawn["a"]))
    else:
        assert set(np.sign(drawn["a"])) == {1 if signs is Signs.POSITIVE else -1}
        assert np.min(drawn["u"]) == 1
    again = draw_inputs(source, {"n": 40}, seed=1, signs=signs)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)
