"""A pytest plugin for a child process: counts what networkx's own tests ask of our backend.

`CALLS` has for each function the calls that came to us ("name"), those that were refused ("name
refused"), and the tests that called it, by their outcome ("name tests passed", "... failed", "...
xfailed"). An expected failure comes from networkx itself, where a test calls a function that no
backend has and nothing falls back; we add none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from _loopwright_networkx import FUNCTIONS
from loopwright.integrations.networkx_backend import interface
from outside_record import CALLS

_called: set[str] = set()


def _counted(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        CALLS[name] += 1
        _called.add(name)
        try:
            return ours(*arguments, **keywords)
        except NotImplementedError:
            CALLS[f"{name} refused"] += 1
            raise

    return call


def pytest_configure() -> None:
    for name in FUNCTIONS:
        setattr(interface, name, _counted(name, getattr(interface, name)))
    usual = interface.can_run

    def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
        found = usual(name, args, kwargs)
        if found is not True:
            CALLS[f"{name} refused"] += 1
        return found

    interface.can_run = can_run


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        for name in _called:
            CALLS[f"{name} tests {outcome}"] += 1
    if report.when == "teardown":
        _called.clear()
