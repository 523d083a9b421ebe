"""Procedures of Python functions beside the functions themselves."""

import copy
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from loopwright.frontends.python.fingerprint import NewCapture, argument_types, lookup
from loopwright.frontends.python.procedures.read_procedure import read_procedure
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.ir.check_procedure import check_procedure
from loopwright.ir.expr import Var
from loopwright.ir.interpret_procedure import breaks_guard, interpret_procedure
from loopwright.ir.procedure import Procedure


def variant_of(args: Sequence[Any], *, trusting: bool = True) -> Variant:
    """The variant that a call with these arguments is for."""
    arrays = [(k, a) for k, a in enumerate(args) if isinstance(a, np.ndarray)]
    ones = frozenset((k, d) for k, a in arrays for d, n in enumerate(a.shape) if n == 1)
    orders = []
    for k, a in arrays:
        order = tuple(sorted(range(a.ndim), key=lambda d: -abs(a.strides[d])))
        if order != tuple(range(a.ndim)):
            orders.append((k, order))
    gapped = frozenset(k for k, a in arrays if not a.flags.forc)
    return Variant(ones, tuple(orders), gapped, trusting)


def interpreted(procedure: Procedure, args: Sequence[Any]) -> tuple[bool, Any]:
    """Whether a call is for Python, and what the procedure returns otherwise."""
    integers: dict[str, int] = {}
    values: dict[str, Any] = {}
    for parameter, arg in zip(procedure.parameters, args, strict=True):
        if parameter.kind == "int":
            integers[parameter.name] = int(arg)
            continue
        values[parameter.name] = arg
        shape = procedure.array(parameter.name).shape
        for extent, number in zip(shape, np.shape(arg), strict=True):
            if isinstance(extent, Var):
                integers[extent.name] = number
    if breaks_guard(procedure, integers):
        return True, None
    return False, interpret_procedure(procedure, values, integers)


def read_for(
    function: FunctionType, args: Sequence[Any], *, trusting: bool
) -> tuple[Procedure, tuple[Any, ...]]:
    """The procedure for a call, and its arguments with the arrays from outside behind them."""
    given, hidden = tuple(args), ()
    while True:
        variant = variant_of(given, trusting=trusting)
        try:
            return read_procedure(function, argument_types(given), variant, hidden), given
        except NewCapture as capture:
            hidden = (*hidden, capture.name)
            given = (*given, lookup(function, capture.name))


def agree(
    function: Callable[..., Any], *args: Any, wanted: str = "trusting", slack: float = 0.0
) -> None:
    """Procedures mean what Python computes; the first whose guards hold is the `wanted` one.

    `wanted` is "" where it may be any.
    """
    assert isinstance(function, FunctionType)
    first = "python"
    for mode in ("exact", "trusting"):
        given = copy.deepcopy(args)
        procedure, given = read_for(function, given, trusting=mode == "trusting")
        check_procedure(procedure)
        expected = copy.deepcopy(args)
        with np.errstate(all="ignore"):
            result = outcome(lambda: function(*expected))  # noqa: B023
            found = outcome(lambda: interpreted(procedure, given))  # noqa: B023
        if not isinstance(found, BaseException):
            is_for_python, found = found
            if is_for_python:
                continue
        first = mode
        compare(found, result, slack)
        compare(tuple(given[: len(args)]), tuple(expected), slack)
    assert wanted in ("", first), f"the first variant that takes the call is {first}"


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives: its result, or the exception it raises."""
    try:
        return run()
    except (ValueError, TypeError, NameError, IndexError, ArithmeticError, AssertionError) as error:
        return error


def compare(found: Any, expected: Any, slack: float = 0.0) -> None:
    """Both are the same to the bit, or to a relative slack; exceptions have one type."""
    if isinstance(expected, BaseException):
        assert type(found) is type(expected), found
        return
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            compare(x, y, slack)
        return
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if expected.size:  # the stride of an axis of one element says nothing
            axes = [k for k, extent in enumerate(expected.shape) if extent > 1]
            assert [found.strides[k] for k in axes] == [expected.strides[k] for k in axes]
    if slack:
        np.testing.assert_allclose(found, expected, rtol=slack, atol=slack)
    else:
        np.testing.assert_array_equal(found, expected)
        both = zip(reals(found), reals(expected), strict=True)
        assert all(np.array_equal(np.signbit(x), np.signbit(y)) for x, y in both)


def reals(value: Any) -> Iterator[Any]:
    """The real parts of numbers that have signs of zeros."""
    if isinstance(value, float | complex | np.ndarray | np.inexact):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            yield np.nan_to_num(array.real)
            yield np.nan_to_num(array.imag)
