"""What options change about calls: who runs them, what is printed, checked, refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_same, clone, whole
from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.runtime.kernel import BoundKernel


def matvec(y, A, x):
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
        y[i] = max(s, 0.0)


def prefix_sums(x):
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1]
    return x


def fresh(n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = i
    return out, n


CALLS: dict[Callable[..., Any], tuple[Any, ...]] = {
    matvec: (whole(5), whole(5, 7), whole(7)),
    prefix_sums: (whole(14)[::-2],),
    fresh: (4,),
}


# -- the oracle --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", CALLS)
def test_the_oracle_runs_instead(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("compiled code has run")

    monkeypatch.setattr(BoundKernel, "__call__", refuse)
    plain, ours = (tuple(map(clone, CALLS[function])) for _ in range(2))
    compiled = lw.jit(threads=2)(function)
    with options.override(interpret=True):
        assert_same(compiled(*ours), function(*plain))
    assert_same(ours, plain)
    with pytest.raises(AssertionError, match="compiled code has run"):
        compiled(*ours)


# -- what is not supported ---------------------------------------------------------------------


def with_set(x):
    x[list({0})] = 2.0
    x[:] = 2.0
    return x


def test_unsupported_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = lw.jit(on_unsupported="python")(with_set)
    np.testing.assert_array_equal(compiled(np.ones(3)), np.full(3, 2.0))
    # Refused once, the types are not tried again.
    monkeypatch.setattr("loopwright.calls.jit.Specialisation", None)
    monkeypatch.setattr("loopwright.calls.jit.JitDefinition", None)
    np.testing.assert_array_equal(compiled(np.ones(4)), np.full(4, 2.0))
    assert compiled.signatures == []


def test_on_unsupported_has_two_values() -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(on_unsupported="ignore")  # type: ignore[call-overload]
    assert str(error.value) == (
        "on_unsupported has two values\nnote: found 'ignore'\ntry: 'raise' or 'python'"
    )
