"""The log: what is told, to whom, and nothing unasked."""

from __future__ import annotations

import itertools
import logging
import sys

import numpy as np
import pytest

import loopwright as lw
from loopwright import log as log_module
from loopwright import options
from loopwright.log import NAME, log
from no_kernels import forget_kernels

_count = itertools.count()


def fresh(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """A logger as a program finds it that has set up nothing; pytest knows nothing of it."""
    monkeypatch.setattr(log_module, "NAME", f"loopwright{next(_count)}")
    monkeypatch.setattr(log_module, "_logger", None)
    found = logging.getLogger(log_module.NAME)
    found.propagate = False
    return found


def refuse() -> str:
    raise AssertionError("text was made for nobody")


def test_nothing_is_told_unasked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh(monkeypatch)
    log("cache", refuse)
    with options.override(log=("plan",)):
        log("cache", refuse)
    assert capsys.readouterr() == ("", "")


def test_stderr_without_handlers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = fresh(monkeypatch)
    with options.override(log=("cache", "plan")):
        log("cache", lambda: "hit")
        log("plan", lambda: "loops")
    name = logger.name
    assert capsys.readouterr() == ("", f"{name} cache: hit\n{name} plan: loops\n")
    assert [type(handler) for handler in logger.handlers] == [logging.StreamHandler]


def test_handlers_and_levels_of_the_program_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = fresh(monkeypatch)
    handler = logging.StreamHandler(sys.stdout)
    logger.addHandler(handler)
    with options.override(log=("time",)):
        log("time", lambda: "3 ms")
        logger.setLevel(logging.WARNING)
        log("time", lambda: "4 ms")
    assert capsys.readouterr() == ("time: 3 ms\n", "")
    assert logger.handlers == [handler]


def test_compiled_functions(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_kernels(monkeypatch)
    offset = 1.0

    @lw.jit(threads=1)
    def shifted(x, n):
        for i in range(1, n):
            x[i] = x[i - 1] + offset

    def told() -> list[str]:
        shifted(np.zeros(4), 4)
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    name = "test_compiled_functions.<locals>.shifted"
    asked = options.override(log=("cache", "plan", "recompile", "time"))
    with caplog.at_level(logging.INFO, NAME), asked:
        first = told()
        assert [line.split(":")[0] for line in first] == [
            "recompile",
            "cache",
            "cache",
            "time",
            "time",
            "plan",
            "time",
        ]
        assert first[0] == f"recompile: {name}(float64[1], int64): types not seen before"
        assert first[1] == f"cache: miss, definition of '{name}'"
        assert first[2].startswith("cache: miss, loops of 'shifted', ")
        assert first[5] == "plan: loops of 'shifted': loops in source order"
        assert first[6].startswith("time: loops of 'shifted': compiled in ")
        assert told() == []
        offset = 2.0
        assert told()[0] == f"recompile: {name}(float64[1], int64): outer values changed"
