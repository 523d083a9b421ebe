"""Work that handlers of signals do not break off: it ends, its result or error arrives."""

from __future__ import annotations

import _imp
import _thread
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from loopwright.undisturbed import _Outcome, release_import_lock, undisturbed


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


def test_the_caller_is_broken_off_and_the_work_is_not() -> None:
    is_broken_off, ended = threading.Event(), threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        is_broken_off.wait(0.05)  # a signal just before the caller waits is seen after that
        ended.set()

    with pytest.raises(Interrupted):
        undisturbed(work)
    is_broken_off.set()
    assert ended.wait(600)


def test_a_thread_without_memory_for_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    start = _thread.start_new_thread

    def lost(work: object, given: tuple[object, ...]) -> int:
        return start(lambda *_: None, given)

    monkeypatch.setattr(_thread, "start_new_thread", lost)
    assert undisturbed(threading.get_ident) == threading.get_ident()


def test_a_thread_without_memory_for_its_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    start = _thread.start_new_thread

    def lost(work: Callable[..., None], given: tuple[object, ...]) -> int:
        def run(*given: object) -> None:
            with contextlib.suppress(MemoryError):
                work(*given)

        return start(run, given)

    def refuse(*_: object) -> bool:
        raise MemoryError

    monkeypatch.setattr(_thread, "start_new_thread", lost)
    monkeypatch.setattr(_Outcome, "__exit__", refuse)
    with pytest.raises(MemoryError, match="a thread has ended for want of memory"):
        undisturbed(threading.get_ident)


# An import takes Python's import lock, and the handler of a signal raises before the next
# instruction. Then other threads import: by `undisturbed`, and isl, which a thread loads.
BROKEN_OFF = """
import _imp, signal

def handle(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGUSR1, handle)
acquire = _imp.acquire_lock

def acquire_and_be_broken_off():
    acquire()
    _imp.acquire_lock = acquire
    signal.raise_signal(signal.SIGUSR1)

from loopwright.undisturbed import undisturbed

_imp.acquire_lock = acquire_and_be_broken_off
try:
    import wave
except KeyboardInterrupt as error:
    kept = error  # as an interactive session keeps the last one
assert _imp.lock_held()
print(undisturbed(lambda: __import__("{other}").__name__), end=" ")
assert not _imp.lock_held()
from loopwright.ir.islkit import isl
print(isl.__name__)
"""


@pytest.mark.parametrize("other", ["wave", "shelve"])
def test_a_broken_off_import_leaves_no_lock_to_wait_for(other: str) -> None:
    command = [sys.executable, "-c", BROKEN_OFF.format(other=other)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.returncode) == (f"{other} islpy\n", 0), done.stderr


def test_the_lock_of_another_thread_is_left_to_it() -> None:
    taken, told = threading.Event(), threading.Event()

    def hold() -> None:
        _imp.acquire_lock()
        taken.set()
        told.wait(10)
        _imp.release_lock()  # raises where it is not its own any more

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(10)
    assert release_import_lock()
    assert _imp.lock_held()
    told.set()
    thread.join()


def test_work_that_an_import_asks_for_needs_no_other_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A finder that importlib asks while it holds the lock: another thread could not import."""
    found: list[int] = []

    class Finder:
        def find_spec(self, *_: object) -> None:
            if _imp.lock_held():
                found.append(undisturbed(threading.get_ident))

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError):
        __import__("loopwright_has_no_such_module")
    assert found == [threading.get_ident()]
