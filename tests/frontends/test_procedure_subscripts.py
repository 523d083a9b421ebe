"""Subscripts of whole NumPy functions that leave no dimension."""

import numpy as np

import loopwright as lw
from frontends.kernels import define


def test_an_ellipsis_that_stands_for_nothing_gives_rank_0() -> None:
    """NumPy gives a view of rank 0, not a number."""
    function = define("def f(a):\n    x = a[-2, ...]\n    x += 5\n    return x, a * 2\n")
    one, other = np.arange(3), np.arange(3)
    for found, right in zip(lw.jit(function)(one), function(other), strict=True):
        np.testing.assert_array_equal(found, right, strict=True)
    np.testing.assert_array_equal(one, other)


def test_an_ellipsis_may_stand_for_nothing_in_a_write() -> None:
    function = define("def f(a):\n    a[-2, ...] = 7\n    a *= 2\n    return a[..., 1:]\n")
    one, other = np.arange(3), np.arange(3)
    np.testing.assert_array_equal(lw.jit(function)(one), function(other), strict=True)
    np.testing.assert_array_equal(one, other)
