"""Where isl takes too long or fails: slower code, or a refusal, never a wrong result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_as_python, whole
from frontends.kernels import define
from loopwright import options
from loopwright.calls import polyhedral_function
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.kernels import Unproven
from no_kernels import forget_kernels

T = TypeVar("T")


@pytest.fixture
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compile everything anew."""
    forget_kernels(monkeypatch)
    with options.override(cache=False):
        yield


def shifted(x, y):
    for i in range(x.shape[0]):
        for j in range(1, x.shape[1]):
            x[i, j] = y[i, j - 1]


def matvec(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j] * x[j]


@pytest.mark.usefixtures("_nothing_kept")
def test_planning_beyond_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    args = whole(5, 7), whole(5, 7, seed=1)
    monkeypatch.setattr("loopwright.planner.generic._QUOTA", 10)
    monkeypatch.setattr("loopwright.planner.generic._QUOTAS", {})
    compiled = assert_as_python(shifted, *args)
    assert compiled.explain(*args).endswith("\nloops in source order")


@pytest.mark.usefixtures("_nothing_kept")
def test_plans_that_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """... nor run as one without a proof."""

    def prove(*_: object, **__: object) -> None:
        raise Unproven

    args = whole(5), np.asfortranarray(whole(5, 7)), whole(7)  # rows in order are loops anyway
    monkeypatch.setattr(PolyhedralFunction, "kernel_nest", prove)
    asked: list[bool] = []
    compiled = PolyhedralFunction.compiled
    monkeypatch.setattr(
        PolyhedralFunction, "compiled", lambda *a, **b: asked.append(True) or compiled(*a, **b)
    )
    assert assert_as_python(matvec, *args).specialise(*args).is_contracted(args)
    assert asked == [True, True]


@pytest.mark.usefixtures("_nothing_kept")
@pytest.mark.parametrize(
    ("quotas", "told"),
    [
        ([10], "the conditions of 'shifted' are too hard to analyse"),
        ([5_000_000, 10], "the subscripts of 'shifted' are too hard to check"),
    ],
)
def test_reading_beyond_the_quota(
    quotas: list[int], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = iter(quotas)

    def small(work: Callable[[], T], otherwise: Callable[[GaveUp], T]) -> T:
        return bounded(work, otherwise, next(rest))

    monkeypatch.setattr(polyhedral_function, "bounded", small)
    with pytest.raises(UsageError) as error:
        lw.jit(shifted)(whole(5, 7), whole(5, 7))
    assert str(error.value) == f"{told}\ntry: simpler conditions, or several functions"


# What isl 0.28 fails at: dataflow on a domain whose lower bound follows from a division, and the
# smallest point of a set whose parameters were moved among its dimensions.
DATAFLOW = """
def f(A, B, C, n):
    s = 0
    for i in range(0, n, 2):
        for j in range(min(i + 2, n)):
            for k in range(n):
                if 0 < i <= i:
                    s += B[i]
                else:
                    C[i] = 0
                s += B[i]
    return s
"""
SMALLEST = """
def f(A, B, C, n):
    for i in range(0, n, 3):
        if i // 2 != n - 2 and n > 1:
            A[i, i], B[i] = A[i + i, i + 0], B[i]
        else:
            C[i // 2] = 0
        for j in range(i, n - 1):
            if (i + j) % 2 == 0:
                A[j + 0, -1] = 4
            else:
                C[2 * j] = 4
"""


@pytest.mark.parametrize("text", [DATAFLOW, SMALLEST])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_faults_of_isl(text: str, n: int) -> None:
    function: Callable[..., Any] = define(text)
    assert_as_python(function, whole(16, 16), whole(16, seed=1), whole(16, seed=2), n)
