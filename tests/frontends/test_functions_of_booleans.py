"""Functions whose loops NumPy chooses in its own way: square, invert and reciprocal."""

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define

B = np.array([True, False])


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("np.square(a)", B),
        ("np.square(a)", np.float16([1.5, -2.0])),
        ("np.invert(a)", B),
        ("np.invert(a)", np.array([3, -4], np.int8)),
        ("np.invert(True) | a", B),
        ("np.reciprocal(a)", np.float32([2.0, 0.0])),
    ],
)
def test_types_are_numpys(text: str, given: np.ndarray) -> None:
    function = define(f"def f(a):\n    return {text}\n")
    with np.errstate(all="ignore"):
        right = function(given)
    np.testing.assert_array_equal(lw.jit(function)(given), right, strict=True)
