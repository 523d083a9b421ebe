"""A pytest plugin that writes, for each test, the lines of source that it executes.

Each process writes `NAME.jsonl` into the folder MUTANTS_RECORDS: one object per test with its
outcome, its processor seconds, the number of processes it starts, and its lines as compressed bits.
What runs before the first test (imports) stands under the name "".
"""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
import sitecustomize
from line_events import HITS

from .processes import DONE, RECORDS, spent, take_two_cores

_STARTS_PROCESS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")


class Recorder:
    """Writes the record of one process."""

    def __init__(self, folder: Path, name: str) -> None:
        events = sitecustomize.EVENTS
        assert events is not None, "the folder tests/mutants/at_start is not on PYTHONPATH"
        self._events = events
        self._out = (folder / f"{name}.jsonl").open("a", encoding="utf-8")
        self._outcome, self._processes, self._is_first = "", 0, True
        hits = folder / f"{name}.hits"
        hits.write_bytes(bytes(len(events.hits)))
        os.environ[HITS] = str(hits)  # for children
        events.attach(hits)
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _: object) -> None:
        if event in _STARTS_PROCESS:
            self._processes += 1

    def _write(self, test: str, seconds: float) -> None:
        bits = zlib.compress(np.packbits(np.frombuffer(self._events.hits, np.uint8)).tobytes(), 1)
        row = {
            "test": test,
            "outcome": self._outcome,
            "seconds": round(seconds, 4),
            "processes": self._processes,
            "lines": base64.b85encode(bits).decode(),
        }
        print(json.dumps(row), file=self._out, flush=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self._is_first:
            self._write("", 0.0)
            self._is_first = False
        self._outcome, self._processes = "passed", 0
        self._events.restart()
        begun = spent()
        try:
            return (yield)
        finally:
            self._write(item.nodeid, spent() - begun)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed and self._outcome == "passed":
            self._outcome = report.outcome


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an earlier run has recorded."""
    if path := os.environ.get(DONE):
        done = set(json.loads(Path(path).read_text(encoding="utf-8")))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]


def pytest_configure(config: pytest.Config) -> None:
    """Record in the processes that run tests."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and config.getoption("numprocesses", default=None):
        return
    if worker is not None:
        take_two_cores(int(worker.removeprefix("gw")))
    config.pluginmanager.register(Recorder(Path(os.environ[RECORDS]), worker or "main"))
