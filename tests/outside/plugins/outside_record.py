"""A pytest plugin for a child process: writes the outcome of every test to a file as JSON.

The file holds `{"outcomes": {test: "passed" | "failed" | "skipped"}, "errors": {test: last line},
"calls": {name: count}}`. Plugins that replace functions count their calls in `CALLS`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

CALLS: Counter[str] = Counter()
_outcomes: dict[str, str] = {}
_errors: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="where to write the outcome of every test")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(f"collecting {report.nodeid}", "failed", report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of set-up, call and tear-down; an expected failure counts as skipped."""
    if report.when == "call" or not report.passed:
        _note(report.nodeid.partition("::")[2], report.outcome, report)


def _note(test: str, outcome: str, report: pytest.CollectReport | pytest.TestReport) -> None:
    if _outcomes.get(test) != "failed":
        _outcomes[test] = outcome
    if outcome == "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
        _errors.setdefault(test, " ".join(text.split())[:300])


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--outcomes")
    if target is not None:
        found = {"outcomes": _outcomes, "errors": _errors, "calls": CALLS}
        Path(target).write_text(json.dumps(found), encoding="utf-8")
