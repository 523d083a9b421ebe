"""The data check: bits where nothing rounds, slacks where something does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loopwright.validate.check_data import first_difference
from loopwright.validate.reference_run import Signs, draw_inputs
from programs import Do, For, program


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
