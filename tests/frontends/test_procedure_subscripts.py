"""Subscripts of whole NumPy functions that leave no dimension."""

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define


def test_an_ellipsis_that_stands_for_nothing_is_refused() -> None:
    """NumPy gives a view of rank 0, not a number."""
    with pytest.raises(lw.SourceError) as caught:
        lw.jit(define("def f(a):\n    return a[-2, ...], a * 2\n", file="f.py"))(np.arange(3))
    assert str(caught.value) == (
        "f.py:2:12: error: a subscript with '...' that leaves no dimension gives an array of rank "
        "0 [LW110]\n"
        "    return a[-2, ...], a * 2\n"
        "           ^^^^^^^^^^\n"
        "try: without '...' it is a number"
    )


def test_an_ellipsis_may_stand_for_nothing_in_a_write() -> None:
    function = define("def f(a):\n    a[-2, ...] = 7\n    a *= 2\n    return a[..., 1:]\n")
    one, other = np.arange(3), np.arange(3)
    np.testing.assert_array_equal(lw.jit(function)(one), function(other), strict=True)
    np.testing.assert_array_equal(one, other)
