"""Work that a signal handler cannot interrupt with an exception."""

from __future__ import annotations

import _imp
import _thread
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Generic, TypeVar

__all__ = ["release_import_lock", "undisturbed"]

T = TypeVar("T")

_TICK = 0.1  # seconds
_LOCKING = frozenset({"_get_module_lock", "cb", "_find_spec", "__enter__", "__exit__"})


class _Token:
    """What a thread holds as long as it is there."""

    __slots__ = ("__weakref__",)


class _Outcome(Generic[T]):
    """The result of some work or the exception it raised, which this catches as a context."""

    result: T

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.has_begun = False
        self.ended = threading.Lock()
        self.ended.acquire()

    def __enter__(self) -> None:
        self.has_begun = True

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
    if threading.get_ident() != threading.main_thread().ident or not release_import_lock():
        return work()
    outcome: _Outcome[T] = _Outcome()

    def run(token: object) -> None:
        with outcome:
            outcome.result = work()

    token = _Token()
    thread = weakref.ref(token)  # which is gone when the thread is
    try:
        # Not a threading.Thread, which can be broken off while it starts: it would never run then.
        _thread.start_new_thread(run, (token,))
    except RuntimeError:  # no more threads: the interpreter is about to end, or the system is full
        return work()
    del token
    # Not one long wait: a signal that comes between Python's last look for signals and the wait
    # would be handled after the work only, which may last for ever.
    while not outcome.ended.acquire(timeout=_TICK):
        if thread() is not None:
            continue
        if outcome.ended.acquire(blocking=False):
            break
        # There was no memory for the first or for the last call of the thread.
        if outcome.has_begun:
            raise MemoryError("a thread has ended for want of memory")
        return work()
    error, outcome.error = outcome.error, None
    if error is not None:
        raise error
    result = outcome.result
    del outcome.result  # the thread, which may still be ending, keeps the outcome
    return result


def release_import_lock() -> bool:
    """Release Python's import lock where an import of this thread was broken off holding it.

    Imports of all threads take that lock for moments, and what they do holding it begins after the
    call that takes it: a handler that raises between the two leaves it with the thread for ever
    (CPython 3.11 to 3.14, `importlib._bootstrap._get_module_lock`). The thread itself goes on, for
    the lock is recursive; another one waits at its first import of a new module.

    False where an import of this thread holds the lock still: a handler or a finaliser interrupted
    it and asks. Another thread that imports would then wait for the one that waits for it.
    """
    while _imp.lock_held():
        if _is_interrupted_import(sys._getframe(1)):
            return False
        try:
            _imp.release_lock()
        except RuntimeError:  # another thread holds it, for a moment
            break
    return True


def _is_interrupted_import(frame: FrameType | None) -> bool:
    """Whether one of the functions of importlib that take the lock called, at any distance."""
    while frame is not None:
        code, frame = frame.f_code, frame.f_back
        if code.co_filename == "<frozen importlib._bootstrap>" and code.co_name in _LOCKING:
            return True
    return False
