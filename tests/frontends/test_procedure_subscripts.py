"""Subscripts of whole NumPy functions that leave no dimension."""

from types import FunctionType

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from loopwright.frontends.python.fingerprint import argument_types
from loopwright.frontends.python.procedures.read_procedure import read_procedure


def test_an_ellipsis_that_stands_for_nothing_is_refused() -> None:
    """NumPy gives a view of rank 0, not a number: `jit` lets Python make it."""
    function = define("def f(a):\n    return a[-2, ...], a * 2\n", file="f.py")
    a = np.arange(3)
    view, double = lw.jit(function)(a)
    assert view.shape == ()
    assert np.shares_memory(view, a)
    assert list(double) == [0, 2, 4]
    assert isinstance(function, FunctionType)
    with pytest.raises(lw.SourceError) as caught:
        read_procedure(function, argument_types((a,)))
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
