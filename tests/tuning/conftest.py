"""Tests of searches: records of their own, a clock they set by hand, workers that start quickly."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopwright import clock, options
from loopwright.calls.einsum import forget_calls
from loopwright.child_process import Child
from loopwright.tuning import candidate_worker
from tuning.fake_tasks import HandClock
from tuning.warm_workers import Forker, forked_child


@pytest.fixture
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Records of this test only, here and in child processes."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv(options.variable("data_dir"), str(folder))
    with options.override(data_dir=str(folder)):
        forget_calls()
        yield
    forget_calls()


@pytest.fixture
def hand_clock(own_records: None, monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The clock of this process, stopped."""
    made = HandClock()
    monkeypatch.setattr(clock, "now", made.now)
    monkeypatch.setattr(clock, "wait", made.wait)
    return made


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    made = Forker()
    yield made
    made.close()


@pytest.fixture
def warm_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers be forks of a process that has imported the package."""
    if hasattr(os, "pidfd_open"):  # of Linux
        forker = request.getfixturevalue("forker")
        monkeypatch.setattr(candidate_worker, "Child", forked_child(forker))


@pytest.fixture
def started_workers(warm_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers be started, as they are for users."""
    monkeypatch.setattr(candidate_worker, "Child", Child)
