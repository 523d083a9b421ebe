"""Repeated calls of functions of C: native code runs them, and every check is made as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.calls.c_function import CFunction
from loopwright.diagnostics import DtypeError, UsageError

SCALED = """
void scaled(int n, {real} a, {real} y[n], {real} x[n]) {{
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] += a * x[i];
#pragma endscop
}}
"""


def compiled(text: str, name: str) -> CFunction:
    return lw.compile(text, race=False, threads=1)[name]


def python_calls(function: CFunction, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of calls that Python runs from now on."""
    seen: list[tuple[Any, ...]] = []
    run = function._run

    def counted(args: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(args)
        run(args, named)

    monkeypatch.setattr(function, "_run", counted)
    return seen


@pytest.mark.parametrize("n", [1, 2, 7, 61])
def test_repeated_calls_are_native(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function = compiled(SCALED.format(real="double"), "scaled")
    seen = python_calls(function, monkeypatch)
    x = np.arange(n, dtype=np.float64)
    y = np.zeros(n)
    for a in (1.0, 2.0, 3.0, 4.0, -5.5):
        function(n, a, y, x)
    np.testing.assert_array_equal(y, 4.5 * x)
    assert function._native is None or len(seen) < 4
    others = np.zeros(n), np.full(n, 2.0)
    function(n, 0.5, *others)
    np.testing.assert_array_equal(others[0], np.ones(n))


def test_checks_are_made_in_every_call() -> None:
    function = compiled(SCALED.format(real="double"), "scaled")
    y, x = np.zeros(8), np.ones(8)
    for _ in range(4):
        function(8, 1.0, y, x)
    with pytest.raises(UsageError, match="'x' has other extents"):
        function(8, 1.0, y, np.ones(9))
    with pytest.raises(UsageError, match="'y' has other extents"):
        function(7, 1.0, y, x)
    with pytest.raises(DtypeError, match="'x' is of float64"):
        function(8, 1.0, y, x.astype(np.float32))
    with pytest.raises(UsageError, match="not laid out as in C"):
        function(8, 1.0, y, np.ones(16)[::2])
    with pytest.raises(UsageError, match="missing x"):
        function(8, 1.0, y)
    fixed = np.zeros(8)
    fixed.flags.writeable = False
    with pytest.raises(UsageError):
        function(8, 1.0, fixed, x)
    np.testing.assert_array_equal(y, np.full(8, 4.0))
