"""A clock that tests of searches set by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopwright import clock, options
from loopwright.calls.einsum import forget_calls
from tuning.fake_tasks import HandClock


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
