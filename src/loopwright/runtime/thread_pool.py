"""The thread pool: workers that wait in native code, and calls that run on a team of them.

Each worker is a Python thread that entered `lw_worker` once and stays there without the GIL. It
spins for a short while after a job and sleeps when none comes, so a region opens within
microseconds in a busy program and costs nothing in an idle one.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np

from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.runtime.address import Address, data_address, function_at
from loopwright.runtime.llvm_engine import LoadedObject
from loopwright.runtime.workers import MOST_THREADS, POOL_WORDS, TEAM
from loopwright.undisturbed import undisturbed

__all__ = ["Pool", "checked_threads", "num_threads", "set_num_threads", "thread_count"]

_TEAM = Struct("4q")  # the words of a team that a call fills in: see ir/team


class Pool:
    """A set of workers for one call at a time; concurrent calls run on their own thread."""

    def __init__(self, code: LoadedObject) -> None:
        self._code = code
        self._words = _aligned(POOL_WORDS)
        self._address = data_address(self._words)
        self._team = self._words[TEAM : TEAM + 4].data
        self._busy = threading.Lock()
        self._growing = threading.Lock()
        self._workers: list[threading.Thread] = []
        pointer = ctypes.c_void_p
        self._function("lw_pool_init", pointer)(self._address)
        self._stop = self._function("lw_pool_stop", pointer, ctypes.c_int64)
        self._rouse = self._function("lw_pool_rouse", pointer, ctypes.c_int64)
        self._enter = self._function("lw_worker", pointer, ctypes.c_int64)
        self._fork = self._function("lw_fork", *([pointer] * 4), ctypes.c_int64)
        self._owner = os.getpid()
        self._is_open = True
        atexit.register(self.close)

    def _function(self, symbol: str, *types: type) -> Callable[..., None]:
        return function_at(self._code.address(symbol), *types)

    def run(
        self,
        function: Address,
        launch: Address,
        scratch: tuple[Address, int, int],
        objects: bytes | Address,
        threads: int,
    ) -> bool:
        """Run threads 0 .. threads-1 of a kernel; False when the pool cannot serve now.

        It serves one call at a time, and none once the interpreter has begun to shut down.
        `scratch` gives the addresses of the shared memory and of the first thread's private
        memory, and the bytes from one thread's to the next.
        """
        if threads > MOST_THREADS or self._busy.locked():
            return False
        # To take a lock if it is free and then to look whether it was would lose it for ever when
        # a handler of a signal raises in between. Who comes a moment too late waits for one call.
        with self._busy:
            if not self._is_open or not self._grow(threads - 1):
                return False
            _TEAM.pack_into(self._team, 0, threads, *scratch)
            self._fork(self._address, function, launch, objects, threads)
        return True

    def rouse(self, threads: int) -> None:
        """Wake sleeping workers ahead of a call with that many threads; returns at once."""
        if self._workers and self._is_open:
            self._rouse(self._address, threads)

    def _grow(self, workers: int) -> bool:
        """Start workers up to that many; False when the system gives no more threads."""
        if len(self._workers) >= workers:
            return True
        # A worker that runs and is not counted, or the reverse, would be the end of every team.
        return undisturbed(lambda: self._start(workers))

    def _start(self, workers: int) -> bool:
        with self._growing:
            while len(self._workers) < workers:
                number = len(self._workers) + 1
                worker = threading.Thread(
                    target=self._enter, args=(self._address, number), daemon=True, name="loopwright"
                )
                try:
                    worker.start()
                except RuntimeError:
                    return False
                self._workers.append(worker)
            return True

    def close(self) -> None:
        """Stop the workers. A forked child has inherited none and only forgets them."""
        self._is_open = False
        if self._workers and self._owner == os.getpid():
            self._stop(self._address, len(self._workers) + 1)
            for worker in self._workers:
                worker.join()
        self._workers = []


def _aligned(words: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Zeroed int64 words that start on a pair of cache lines."""
    raw = np.zeros(words + 16, dtype=np.int64)
    first = -data_address(raw) // 8 % 16
    return raw[first : first + words]


_chosen: int | None = None


def set_num_threads(count: int) -> None:
    """Use at most `count` threads in every later call of this process."""
    global _chosen
    if not isinstance(count, int) or not 1 <= count <= MOST_THREADS:
        raise UsageError(
            "the number of threads must be a whole number",
            found=repr(count),
            hint=f"1 to {MOST_THREADS}",
        )
    _chosen = count


def num_threads() -> int:
    """Threads a call may use: set_num_threads, LOOPWRIGHT_NUM_THREADS, OMP_NUM_THREADS, cores."""
    if _chosen is not None:
        return _chosen
    asked = options.current().num_threads
    count = default_threads() if asked is None else asked
    return count if count <= MOST_THREADS else MOST_THREADS  # min() is a call more


def thread_count(threads: int | None) -> int:
    """Threads of one call that asks for `threads`; None leaves it to the settings."""
    return num_threads() if threads is None else checked_threads(threads)


def checked_threads(threads: int) -> int:
    """`threads`, if it is a whole number from 1 to MOST_THREADS; raises UsageError otherwise."""
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise UsageError(
            "threads must be a whole number", found=repr(threads), hint=f"1 to {MOST_THREADS}"
        )
    return threads


def default_threads() -> int:
    """OMP_NUM_THREADS, which users of numerical libraries know, else the cores of this process."""
    omp = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if omp.isascii() and omp.isdigit() and int(omp) > 0:
        return int(omp)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
