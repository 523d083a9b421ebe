"""A pytest plugin for a child process: `njit` and `jit` in numba's own tests are ours.

With OUTSIDE_NUMBA=plain they are plain Python: a test that fails so says nothing about us. `CALLS`
counts calls that came to us, by how they ended ("returned", "raised", "refused: ..." with the
reason); for each test that made such a call "TEST called", that met a refusal "TEST refused".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import numba
import pytest

import loopwright as lw
from outside_record import CALLS

IS_PLAIN = os.environ.get("OUTSIDE_NUMBA") == "plain"
_called = _refused = False


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        _enter()
        return function(*arguments, **named)

    call.py_func = function  # type: ignore[attr-defined]
    return call


def _ours(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        compiled = lw.jit(function)
    except (lw.SourceError, lw.UsageError) as error:
        _note(error)
        raise

    def call(*arguments: Any, **named: Any) -> Any:
        _enter()
        try:
            result = compiled(*arguments, **named)
        except (lw.SourceError, lw.UsageError) as error:
            _note(error)
            raise
        except Exception:
            CALLS["raised"] += 1
            raise
        CALLS["returned"] += 1
        return result

    call.py_func = compiled.py_func  # type: ignore[attr-defined]
    return call


def _enter() -> None:
    global _called
    _called = True


def _note(error: Exception) -> None:
    global _called, _refused
    _called = _refused = True
    first = str(error).splitlines()[0].rpartition("error: ")[2]
    CALLS["refused: " + re.sub(r"'[^']*'|\d+", "..", first)] += 1


def _decorator(*given: Any, **_: Any) -> Any:
    """`njit` bare, with options, or with signatures, which do not matter here."""
    decorate = _plain if IS_PLAIN else _ours
    if given and callable(given[0]) and hasattr(given[0], "__code__"):
        return decorate(given[0])
    return decorate


def pytest_configure() -> None:
    for name in ("jit", "njit"):
        setattr(numba, name, _decorator)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    global _called, _refused
    if report.when == "call":
        test = report.nodeid.partition("::")[2]
        CALLS.update([f"{test} called"] * _called + [f"{test} refused"] * _refused)
    if report.when == "teardown":
        _called = _refused = False
