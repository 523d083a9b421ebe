"""What a run says about itself: how long it takes, what it skipped and left out, what was slow."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

# Minutes of a whole run on two quiet cores: measured, to be measured again when they change.
MINUTES = {"test": 8, "all": 60}
SLOWEST = 20  # tests that are named
LEFT = pytest.StashKey[Counter[str]]()  # tests that a run does not take, by reason


def expected(tests: int, level: str, cores: int, *, is_whole: bool) -> str:
    """The line at the start of a run on so many cores."""
    where = "one core" if cores == 1 else f"{cores} cores"
    begin = f"{tests:,} tests on {where}"
    if not is_whole:
        return begin
    if level not in MINUTES:
        return f"{begin}: hours"
    minutes = max(1, round(MINUTES[level] * 2 / cores))
    are_quiet = "it is" if cores == 1 else "they are"
    return f"{begin}: about {minutes} minute{'s' * (minutes > 1)} if {are_quiet} quiet"


def counted(reasons: Iterable[str]) -> list[str]:
    """A line for each reason with its number, the most frequent first."""
    numbers = Counter(" ".join(reason.split()) for reason in reasons)
    in_order = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number:6,}  {reason}" for reason, number in in_order]


def slowest(seconds: dict[str, float]) -> list[str]:
    """A line for each of the tests that took longest, with their fixtures."""
    in_order = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    return [f"{spent:6.1f}  {test}" for test, spent in in_order[:SLOWEST]]


class RunReport:
    """Writes the lines: at the start, when tests are counted, and at the end of the run."""

    def __init__(self, config: pytest.Config, level: str) -> None:
        self._config = config
        self._level = level
        self._is_begun = False
        self._left: Counter[str] = Counter()

    def _begin(self, tests: int, workers: int) -> None:
        if self._is_begun:
            return
        self._is_begun = True
        cores = min(workers, len(os.sched_getaffinity(0)))
        is_whole = self._config.args_source == pytest.Config.ArgsSource.TESTPATHS
        self._write([expected(tests, self._level, cores, is_whole=is_whole)])

    def _write(self, lines: Iterable[str]) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert reporter is not None
        reporter.ensure_newline()
        for line in lines:
            reporter.write_line(line)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin, where the process that writes runs the tests itself."""
        if not self._config.getoption("numprocesses", default=None):
            self._left = session.config.stash.get(LEFT, Counter())
            self._begin(len(session.items), 1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Begin, where workers run them: all have found the same tests."""
        self._begin(len(ids), node.workerinput["workercount"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keep what a worker has left out; all have left out the same."""
        self._left = Counter(getattr(node, "workeroutput", {}).get("left", self._left))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write skips by reason, what was left to longer runs, and the slowest tests."""
        every = [
            report
            for reports in terminalreporter.stats.values()
            for report in reports
            if isinstance(report, pytest.TestReport)
        ]
        seconds: defaultdict[str, float] = defaultdict(float)
        for report in every:
            seconds[report.nodeid] += report.duration
        skips = [
            report.longrepr[2].removeprefix("Skipped: ")
            for report in terminalreporter.stats.get("skipped", ())
            if isinstance(report.longrepr, tuple)
        ]
        if skips:
            self._write(["", f"skipped, {len(skips):,} tests:", *counted(skips)])
        if self._left:
            title = f"left to longer runs (docs/testing.md), {self._left.total():,} tests:"
            self._write(["", title, *counted(self._left.elements())])
        self._write(["", "slowest tests, in seconds, with their fixtures:", *slowest(seconds)])
        self._write([f"{sum(seconds.values()):6,.0f}  all tests together", ""])
