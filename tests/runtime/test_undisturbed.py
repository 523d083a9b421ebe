"""Work that handlers of signals do not break off: it ends, its result or error arrives."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from loopwright.undisturbed import undisturbed


class Interrupted(BaseException):
    """Raised by the handler."""


@pytest.fixture(autouse=True)
def _raising_handler() -> Iterator[None]:
    def handle(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_results_and_errors_arrive() -> None:
    assert undisturbed(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        undisturbed(lambda: 1 // 0)


def test_other_threads_need_no_other_thread() -> None:
    found: list[tuple[int, int]] = []
    thread = threading.Thread(
        target=lambda: found.append((threading.get_ident(), undisturbed(threading.get_ident)))
    )
    thread.start()
    thread.join()
    assert found[0][0] == found[0][1]


def test_the_caller_is_broken_off_and_the_work_is_not() -> None:
    ended = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.05)
        ended.set()

    with pytest.raises(Interrupted):
        undisturbed(work)
    assert ended.wait(10)


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert undisturbed(threading.get_ident) == threading.get_ident()
