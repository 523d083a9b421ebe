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


def test_the_reciprocal_of_integers_is_refused() -> None:
    with pytest.raises(lw.SourceError) as caught:
        lw.jit(define("def f(a):\n    return np.reciprocal(a)\n", file="f.py"))(np.arange(1, 3))
    assert str(caught.value) == (
        "f.py:2:12: error: 'reciprocal' is not compiled for int64 [LW103]\n"
        "    return np.reciprocal(a)\n"
        "           ^^^^^^^^^^^^^^^^\n"
        "try: 1 / x in floating point, 1 // x of integers"
    )
