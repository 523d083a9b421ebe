"""Work that a signal handler cannot interrupt with an exception."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["undisturbed"]

T = TypeVar("T")


class _Outcome(Generic[T]):
    """The result of some work or the exception it raised, which this catches as a context."""

    result: T

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self.error = error
        self.ended.release()
        return True  # it is raised where the result is waited for


def undisturbed(work: Callable[[], T]) -> T:
    """`work()` on a thread of its own, where the caller's is the one that handles signals.

    Python runs signal handlers on the main thread, after any instruction, and Ctrl-C raises from
    there, at an unknown state of the work: llvmlite frees an object twice when it is interrupted
    just after freeing it. The caller may be interrupted while it waits; the work is not.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return work()
    outcome: _Outcome[T] = _Outcome()

    def run() -> None:
        with outcome:
            outcome.result = work()

    try:
        # Not a threading.Thread, which can be broken off while it starts: it would never run then.
        _thread.start_new_thread(run, ())
    except RuntimeError:  # no more threads: the interpreter is about to end, or the system is full
        return work()
    with outcome.ended:
        error, outcome.error = outcome.error, None
        if error is not None:
            raise error
        return outcome.result
