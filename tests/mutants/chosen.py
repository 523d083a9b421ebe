"""A pytest plugin that runs chosen tests in a given order and logs each of them at once.

A test that takes twenty times its usual time ends the process: a fault made it hang.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from .processes import CHOSEN, JOB, LOG, take_two_cores

HANGS, TIMES = 60.0, 20.0  # seconds, and multiples of what a test usually takes
MEMORY = 24 << 30  # bytes that a process with a fault may allocate


class Chosen:
    """The tests of one process."""

    def __init__(self, seconds: dict[str, float], log: Path) -> None:
        self._seconds = seconds
        self._log = log.open("a", encoding="utf-8", buffering=1)

    def _write(self, event: str, name: str) -> None:
        print(json.dumps([event, name]), file=self._log)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("not collected", report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, in their order."""
        there = {item.nodeid: item for item in items}
        items[:] = [there[name] for name in self._seconds if name in there]
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._write("begun", item.nodeid)
        limit = max(HANGS, TIMES * self._seconds[item.nodeid])
        faulthandler.dump_traceback_later(limit, exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._write("ended", item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    seconds: dict[str, Any] = json.loads(Path(os.environ[CHOSEN]).read_text(encoding="utf-8"))
    take_two_cores(int(os.environ[JOB]))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    faulthandler.dump_traceback_later(4 * HANGS, exit=True)  # an import that never ends
    config.pluginmanager.register(Chosen(seconds, Path(os.environ[LOG])))
