"""Calls that are refused: the whole text of the error, and nothing has been touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import clone
from frontends.kernels import define
from loopwright.diagnostics import SourceError, UsageError


@lw.jit
def scale(x, factor=3.0, *, shift=0.0):
    for i in range(x.shape[0]):
        x[i] = x[i] * factor + shift
    return x


@lw.jit
def add(x, y):
    for i in range(x.shape[0]):
        x[i] += y[i]


def refusal(function: Any, *args: Any, **named: Any) -> str:
    """The text of the error that a call raises, which must leave its arrays alone."""
    before = [clone(a) for a in args]
    with pytest.raises((SourceError, UsageError)) as error:
        function(*args, **named)
    for one, other in zip(args, before, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return str(error.value)


def floored(n):
    return n // 3 + n % 5


@pytest.mark.parametrize("wrong", [2**63, np.uint64(2**63), -(2**63) - 1])
def test_integers_beyond_int64(wrong: Any) -> None:
    told = refusal(lw.jit(floored), wrong)
    assert told == f"argument 'n' does not fit int64\nnote: found {int(wrong)}"


def test_wrong_arguments() -> None:
    x = np.ones(3)
    assert refusal(add, x) == "add(): missing a required argument: 'y'"
    assert refusal(add, x, x, x) == "add(): too many positional arguments"
    assert refusal(scale, x, other=1) == "scale(): got an unexpected keyword argument 'other'"
    assert refusal(add, x, [1.0, 2.0]) == (
        "argument 2 has a type that cannot be compiled\n"
        "note: found an object of type 'builtins.list'\n"
        "try: pass NumPy arrays (np.asarray makes one) and numbers"
    )


def test_memory_shared_with_what_is_written() -> None:
    x = np.ones(6)
    told = "arguments 'x' and 'y' share memory, and 'x' is written\ntry: pass a copy of one of them"
    assert refusal(add, x, x) == told
    assert refusal(add, x[:4], x[2:]) == told
    assert refusal(add, x[1:], x[:-1][::-1]) == told
    add(x[::2], x[1::2])  # interleaved, and apart
    np.testing.assert_array_equal(x, [2.0, 1.0] * 3)


def test_elements_that_share_memory() -> None:
    x = np.lib.stride_tricks.as_strided(np.ones(4), (3, 2), (8, 8))

    def f(x):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] += 1.0

    assert refusal(lw.jit(f), x) == (
        "elements of argument 'x' share memory, and 'x' is written\ntry: pass a copy"
    )


def test_read_only_arrays() -> None:
    x = np.ones(3)
    x.flags.writeable = False
    assert refusal(scale, x) == "argument 'x' is written but read-only\ntry: pass a copy"
    add(np.zeros(3), x)


def test_unaligned_arrays_are_not_written() -> None:
    packed = np.zeros(5, dtype=[("tag", "i1"), ("value", "f8")])
    assert refusal(scale, packed["value"]) == (
        "argument 'x' is not aligned to its elements, and 'x' is written\ntry: pass a copy"
    )


BOUNDS = define(
    """
    def shifted(x, y, k):
        for i in range(x.shape[0]):
            x[i] = y[i + k]
    """,
    "bounds.py",
)


@pytest.mark.parametrize(
    ("shift", "found", "hint"),
    [
        (2, "y[5] in y of shape (5), at i = 3", ""),
        (-1, "y[-1] in y of shape (5), at i = 0", "\ntry: only a constant subscript below zero"),
        (2**62, f"y[{2**62}] in y of shape (5), at i = 0", ""),
    ],
)
def test_accesses_outside_an_array(shift: int, found: str, hint: str) -> None:
    told = refusal(lw.jit(BOUNDS), np.zeros(5), np.ones(5), shift)
    assert told.startswith(
        "bounds.py:3:9: error: subscript 1 of 'y' is outside the array [LW112]\n"
        "    x[i] = y[i + k]\n"
        "    ^^^^^^^^^^^^^^^\n"
        f"note: found {found}" + hint
    )


def test_values_never_set() -> None:
    function = define(
        """
        def last(x):
            for i in range(x.shape[0]):
                s = x[i]
            return s
        """,
        "unset.py",
    )
    assert lw.jit(function)(np.arange(3.0)) == 2.0
    told = refusal(lw.jit(function), np.zeros(0))
    assert told.startswith("unset.py:3:9: error: 's' is returned before it is assigned [LW108]")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", 10_000])
def test_number_of_threads(wrong: Any) -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(threads=wrong)
    assert str(error.value) == (
        f"threads must be a whole number\nnote: found {wrong!r}\ntry: 1 to 256"
    )
