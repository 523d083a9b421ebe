"""Threads: workers that wait in native code, and the call that runs a kernel on a team of them.

Each worker is a Python thread that entered `lw_worker` once and stays there without the GIL. It
spins for a short while after a job and sleeps on a condition variable when none comes, so a
region opens within microseconds in a busy program and costs nothing in an idle one.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.runtime.jit import LoadedObject

__all__ = ["Pool", "num_threads", "pool_source", "set_num_threads"]

MOST_THREADS = 256
TEAM_WORDS = 24  # the layout is that of backends/llvm_team, which emits the readers
SPINS = 100_000  # reads of the job number before a worker goes to sleep, some 100 us

# The pool is a block of int64 words: 0 workers done; 8 stop flag; 16 the work: function, launch,
# team, objects, the caller's processor; 24 sleepers; 32 mutex; 48 condition (each pthread type fits
# 128 bytes); from 64 on one slot of 16 words per thread, whose first word counts the jobs posted to
# it. A worker that has no part in a job is never spoken to, so it cannot read a job half written.
_DONE, _STOP, _WORK, _SLEEPERS, _MUTEX, _WAKE, _SLOTS, _SLOT = 0, 8, 16, 24, 32, 48, 64, 16
_PROCESSORS = 1024  # as many as glibc's cpu_set_t holds
POOL_WORDS = _SLOTS + _SLOT * MOST_THREADS

# The system likes to wake a worker on the processor of the thread that woke it. There it would wait
# until that thread pauses, which a caller at work does not do: half a call was seen to be lost so.
# A worker found beside its caller therefore forbids itself that processor, and stays elsewhere
# until it meets its caller again; where no other processor is allowed, it stays.
_APART = f"""
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @processor() {{
  %cpu = call i32 @sched_getcpu()
  %wide = sext i32 %cpu to i64
  ret i64 %wide
}}

; The processors that a worker may use, as it finds them at its start.
define internal void @allowed_processors(ptr %allowed) {{
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 {_PROCESSORS // 8}, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 {_PROCESSORS // 8}, ptr %allowed)
  ret void
}}

define internal void @keep_apart(i64 %caller, ptr %allowed) {{
entry:
  %here = call i64 @processor()
  %same = icmp eq i64 %here, %caller
  %known = icmp ult i64 %here, {_PROCESSORS}
  %together = and i1 %same, %known
  br i1 %together, label %move, label %done
move:
  %others = alloca [{_PROCESSORS // 8} x i8], align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr %allowed, i64 {_PROCESSORS // 8}, i1 false)
  %word = lshr i64 %here, 6
  %bit = and i64 %here, 63
  %mask = shl i64 1, %bit
  %keep = xor i64 %mask, -1
  %at = getelementptr i64, ptr %others, i64 %word
  %old = load i64, ptr %at, align 8
  %new = and i64 %old, %keep
  store i64 %new, ptr %at, align 8
  %moved = call i32 @sched_setaffinity(i32 0, i64 {_PROCESSORS // 8}, ptr %others)
  br label %done
done:
  ret void
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
_TOGETHER = """
define internal i64 @processor() {
  ret i64 -1
}

define internal void @allowed_processors(ptr %allowed) {
  ret void
}

define internal void @keep_apart(i64 %caller, ptr %allowed) {
  ret void
}
"""

_SOURCE = f"""
declare i32 @sched_yield()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define void @lw_pool_init(ptr %pool) {{
  %mutex = getelementptr i64, ptr %pool, i64 {_MUTEX}
  %wake = getelementptr i64, ptr %pool, i64 {_WAKE}
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %wake, ptr null)
  ret void
}}

; Post a job to the slots of threads 1 .. threads-1 and wake those that sleep.
define internal void @post(ptr %pool, i64 %threads) {{
entry:
  %slots = getelementptr i64, ptr %pool, i64 {_SLOTS}
  %any = icmp sgt i64 %threads, 1
  br i1 %any, label %each, label %done
each:
  %thread = phi i64 [ 1, %entry ], [ %next, %each ]
  %at = mul i64 %thread, {_SLOT}
  %slot = getelementptr i64, ptr %slots, i64 %at
  %old = atomicrmw add ptr %slot, i64 1 seq_cst
  %next = add i64 %thread, 1
  %more = icmp slt i64 %next, %threads
  br i1 %more, label %each, label %look
look:
  %sleepers = getelementptr i64, ptr %pool, i64 {_SLEEPERS}
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %none = icmp eq i64 %asleep, 0
  br i1 %none, label %done, label %ring
ring:
  %mutex = getelementptr i64, ptr %pool, i64 {_MUTEX}
  %wake = getelementptr i64, ptr %pool, i64 {_WAKE}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %wake)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}}

define void @lw_pool_stop(ptr %pool, i64 %threads) {{
  %stop = getelementptr i64, ptr %pool, i64 {_STOP}
  store atomic i64 1, ptr %stop seq_cst, align 8
  call void @post(ptr %pool, i64 %threads)
  ret void
}}

; Return when the slot's count differs from %seen: spin first, then sleep.
define internal void @await_job(ptr %pool, ptr %slot, i64 %seen) {{
entry:
  br label %spin
spin:
  %count = phi i64 [ 0, %entry ], [ %more, %again ]
  %now = load atomic i64, ptr %slot acquire, align 8
  %fresh = icmp ne i64 %now, %seen
  br i1 %fresh, label %done, label %again
again:
  %more = add i64 %count, 1
  %tired = icmp ugt i64 %more, {SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  %mutex = getelementptr i64, ptr %pool, i64 {_MUTEX}
  %wake = getelementptr i64, ptr %pool, i64 {_WAKE}
  %sleepers = getelementptr i64, ptr %pool, i64 {_SLEEPERS}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %later = load atomic i64, ptr %slot seq_cst, align 8
  %ready = icmp ne i64 %later, %seen
  br i1 %ready, label %up, label %down
down:
  %c = call i32 @pthread_cond_wait(ptr %wake, ptr %mutex)
  br label %check
up:
  %d = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %e = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}}

define void @lw_worker(ptr %pool, i64 %thread) {{
entry:
  %slots = getelementptr i64, ptr %pool, i64 {_SLOTS}
  %at = mul i64 %thread, {_SLOT}
  %slot = getelementptr i64, ptr %slots, i64 %at
  %work = getelementptr i64, ptr %pool, i64 {_WORK}
  %stop = getelementptr i64, ptr %pool, i64 {_STOP}
  %finished = getelementptr i64, ptr %pool, i64 {_DONE}
  %allowed = alloca [{_PROCESSORS // 8} x i8], align 8
  call void @allowed_processors(ptr %allowed)
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %now, %do ]
  call void @await_job(ptr %pool, ptr %slot, i64 %seen)
  %now = load atomic i64, ptr %slot acquire, align 8
  %halt = load atomic i64, ptr %stop acquire, align 8
  %over = icmp ne i64 %halt, 0
  br i1 %over, label %exit, label %do
do:
  %function = load ptr, ptr %work, align 8
  %launch.at = getelementptr i64, ptr %work, i64 1
  %launch = load ptr, ptr %launch.at, align 8
  %team.at = getelementptr i64, ptr %work, i64 2
  %team = load ptr, ptr %team.at, align 8
  %objects.at = getelementptr i64, ptr %work, i64 3
  %objects = load ptr, ptr %objects.at, align 8
  %caller.at = getelementptr i64, ptr %work, i64 4
  %caller = load i64, ptr %caller.at, align 8
  call void @keep_apart(i64 %caller, ptr %allowed)
  call void %function(ptr %launch, ptr %team, i64 %thread, ptr %objects)
  %before = atomicrmw add ptr %finished, i64 1 release
  br label %wait
exit:
  ret void
}}

define void @lw_fork(ptr %pool, ptr %function, ptr %launch, ptr %team, ptr %objects,
                     i64 %threads) {{
entry:
  %work = getelementptr i64, ptr %pool, i64 {_WORK}
  store ptr %function, ptr %work, align 8
  %launch.at = getelementptr i64, ptr %work, i64 1
  store ptr %launch, ptr %launch.at, align 8
  %team.at = getelementptr i64, ptr %work, i64 2
  store ptr %team, ptr %team.at, align 8
  %objects.at = getelementptr i64, ptr %work, i64 3
  store ptr %objects, ptr %objects.at, align 8
  %caller.at = getelementptr i64, ptr %work, i64 4
  %caller = call i64 @processor()
  store i64 %caller, ptr %caller.at, align 8
  %finished = getelementptr i64, ptr %pool, i64 {_DONE}
  store atomic i64 0, ptr %finished seq_cst, align 8
  call void @post(ptr %pool, i64 %threads)
  call void %function(ptr %launch, ptr %team, i64 0, ptr %objects)
  %others = sub i64 %threads, 1
  br label %wait
wait:
  %count = phi i64 [ 0, %entry ], [ %more, %again ], [ 0, %yield ]
  %done = load atomic i64, ptr %finished acquire, align 8
  %all = icmp eq i64 %done, %others
  br i1 %all, label %exit, label %again
again:
  %more = add i64 %count, 1
  %tired = icmp ugt i64 %more, {SPINS}
  br i1 %tired, label %yield, label %wait
yield:
  %y = call i32 @sched_yield()
  br label %wait
exit:
  ret void
}}
"""

SYMBOLS = ("lw_pool_init", "lw_pool_stop", "lw_worker", "lw_fork")


def pool_source() -> str:
    """LLVM IR of the pool's native side, for the pipeline to compile and cache like any kernel."""
    return _SOURCE + (_APART if sys.platform == "linux" else _TOGETHER)


class Pool:
    """A set of workers. One call uses it at a time; others run on their own thread meanwhile."""

    def __init__(self, code: LoadedObject) -> None:
        self._code = code
        self._words = _aligned(POOL_WORDS)
        self._address = self._words.ctypes.data
        self._team = _aligned(TEAM_WORDS)
        self._team_address = self._team.ctypes.data
        self._busy = threading.Lock()
        self._workers: list[threading.Thread] = []
        pointer = ctypes.c_void_p
        self._function("lw_pool_init", pointer)(self._address)
        self._stop = self._function("lw_pool_stop", pointer, ctypes.c_int64)
        self._enter = self._function("lw_worker", pointer, ctypes.c_int64)
        self._fork = self._function("lw_fork", *([pointer] * 5), ctypes.c_int64)
        self._owner = os.getpid()
        self._is_open = True
        atexit.register(self.close)

    def _function(self, symbol: str, *types: type) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *types)(self._code.address(symbol))

    def run(
        self, function: int, launch: int, scratch: tuple[int, int, int], objects: int, threads: int
    ) -> bool:
        """Run threads 0 .. threads-1 of a kernel; False when the pool cannot serve now.

        It serves one call at a time, and none once the interpreter has begun to shut down.
        `scratch` gives the addresses of the shared memory and of the first thread's private
        memory, and the bytes from one thread's to the next.
        """
        if threads > MOST_THREADS or not self._busy.acquire(blocking=False):
            return False
        try:
            if not self._is_open or not self._grow(threads - 1):
                return False
            self._team[:4] = (threads, *scratch)
            self._fork(self._address, function, launch, self._team_address, objects, threads)
        finally:
            self._busy.release()
        return True

    def _grow(self, workers: int) -> bool:
        """Have that many workers; False when the system gives no more threads."""
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
        """Stop the workers. A child process has inherited none and only forgets them."""
        self._is_open = False
        if self._workers and self._owner == os.getpid():
            self._stop(self._address, len(self._workers) + 1)
            for worker in self._workers:
                worker.join()
        self._workers = []


def _aligned(words: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Zeroed int64 words that start on a pair of cache lines."""
    raw = np.zeros(words + 16, dtype=np.int64)
    first = -raw.ctypes.data // 8 % 16
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
    return min(asked if asked is not None else default_threads(), MOST_THREADS)


def thread_count(threads: int | None) -> int:
    """Threads of one call that asks for `threads`; None leaves it to the settings."""
    if threads is None:
        return num_threads()
    if not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise UsageError(
            f"threads must be a whole number from 1 to {MOST_THREADS}", found=repr(threads)
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
