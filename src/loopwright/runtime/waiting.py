"""Waiting of threads as LLVM IR: spin briefly, then yield the processor, then sleep.

A thread waits at a place until its value has reached a target; values only rise while threads
wait. A place is 16 int64 words, two cache lines of its own:

    word 0   the value             word 1   threads that sleep here or are about to
    words 2 to 9   mutex           words 10 to 15   condition variable (where there is no futex)

No wake-up is lost: the sleeper counts itself in word 1 and then reads the value, the waker changes
the value and then reads word 1. All four are sequentially consistent, so at least one of them sees
what the other did: either the sleeper stays awake, or the waker wakes. Between the sleeper's last
look and its sleep the futex compares the value once more (the mutex closes the same gap). Waking
costs one load where no thread sleeps. Spurious wake-ups are allowed: the sleeper looks again, and
spins for a while before it sleeps again, which is how workers are woken ahead of a job.
"""

from __future__ import annotations

import sys

__all__ = ["PLACE_WORDS", "waiting_source"]

PLACE_WORDS = 16

# Workers that wait for the next region of a running program find it within the spinning time;
# afterwards a thread that has work to do gets the processor at once (measured: a yield with nobody
# waiting costs 0.3 us). A wake-up from sleep takes some 50 us.
SPIN_NS = 20_000
YIELD_NS = 200_000
_READS = 16  # between two looks at the clock

_SOURCE = f"""
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)

define internal i64 @nanoseconds() {{
  %time = alloca [2 x i64], align 8
  %got = call i32 @clock_gettime(i32 $CLOCK, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at, align 8
  %scaled = mul i64 %seconds, 1000000000
  %all = add i64 %scaled, %rest
  ret i64 %all
}}

; Return when the place's value has reached the target. What its raiser did before is then visible.
define internal void @await(ptr %place, i64 %target) noinline {{
entry:
  %first = load atomic i64, ptr %place acquire, align 8
  %ready = icmp sge i64 %first, %target
  br i1 %ready, label %done, label %begin
begin:
  %start = call i64 @nanoseconds()
  br label %spin
spin:
  %reads = phi i64 [ 0, %begin ], [ %more, %again ], [ 0, %look ]
  $PAUSE
  %now = load atomic i64, ptr %place acquire, align 8
  %fresh = icmp sge i64 %now, %target
  br i1 %fresh, label %done, label %again
again:
  %more = add i64 %reads, 1
  %tired = icmp uge i64 %more, {_READS}
  br i1 %tired, label %look, label %spin
look:
  %time = call i64 @nanoseconds()
  %spent = sub i64 %time, %start
  %short = icmp ult i64 %spent, {SPIN_NS}
  br i1 %short, label %spin, label %yield
yield:
  %y = call i32 @sched_yield()
  %later = load atomic i64, ptr %place acquire, align 8
  %came = icmp sge i64 %later, %target
  br i1 %came, label %done, label %still
still:
  %late = call i64 @nanoseconds()
  %waited = sub i64 %late, %start
  %patient = icmp ult i64 %waited, {YIELD_NS}
  br i1 %patient, label %yield, label %sleep
sleep:
  %sleepers = getelementptr i64, ptr %place, i64 1
  %a = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %last = load atomic i64, ptr %place seq_cst, align 8
  %up = icmp sge i64 %last, %target
  br i1 %up, label %awake, label %down
down:
  call void @sleep_at(ptr %place, i64 %last)
  br label %awake
awake:
  %b = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %found = load atomic i64, ptr %place acquire, align 8
  %over = icmp sge i64 %found, %target
  br i1 %over, label %done, label %begin
done:
  ret void
}}

; Wake all who sleep at a place. Whoever changed its value did so by a seq_cst operation.
define internal void @wake(ptr %place) {{
entry:
  %sleepers = getelementptr i64, ptr %place, i64 1
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %none = icmp eq i64 %asleep, 0
  br i1 %none, label %done, label %ring
ring:
  call void @wake_at(ptr %place)
  br label %done
done:
  ret void
}}
"""

# A futex has 32 bits: the low half of the value, which differs whenever the value has moved by less
# than 2^32 meanwhile. Its calls are those of one process (FUTEX_PRIVATE_FLAG, 128).
_FUTEX = """
declare i64 @syscall(i64, ...)

define internal void @open_place(ptr %place) {
  ret void
}

define internal void @sleep_at(ptr %place, i64 %seen) {
  %half = trunc i64 %seen to i32
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %place, i64 128, i32 %half, ptr null)
  ret void
}

define internal void @wake_at(ptr %place) {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %place, i64 129, i32 2147483647)
  ret void
}
"""

_CONDITION = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @open_place(ptr %place) {
  %mutex = getelementptr i64, ptr %place, i64 2
  %rung = getelementptr i64, ptr %place, i64 10
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %rung, ptr null)
  ret void
}

define internal void @sleep_at(ptr %place, i64 %seen) {
entry:
  %mutex = getelementptr i64, ptr %place, i64 2
  %rung = getelementptr i64, ptr %place, i64 10
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %now = load atomic i64, ptr %place seq_cst, align 8
  %same = icmp eq i64 %now, %seen
  br i1 %same, label %sleep, label %done
sleep:
  %b = call i32 @pthread_cond_wait(ptr %rung, ptr %mutex)
  br label %done
done:
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define internal void @wake_at(ptr %place) {
  %mutex = getelementptr i64, ptr %place, i64 2
  %rung = getelementptr i64, ptr %place, i64 10
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %rung)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
"""

# The hint of a spinning thread to its processor, by instruction set.
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}
_FUTEX_CALLS = {"x86_64": "202", "aarch64": "98"}
_MONOTONIC = {"linux": "1", "darwin": "6"}


def waiting_source(isa: str, system: str = sys.platform) -> str:
    """LLVM IR of `await`, `wake` and `open_place` for an instruction set and a system.

    `system` is as sys.platform says; another name than "linux" means no futex.
    """
    declaration, pause = _PAUSES.get(isa, ("", ""))
    call = _FUTEX_CALLS.get(isa) if system == "linux" else None
    sleep = _CONDITION if call is None else _FUTEX.replace("$FUTEX", call)
    clock = _MONOTONIC.get(sys.platform, "4")  # as the BSDs number it
    return _SOURCE.replace("$CLOCK", clock).replace("$PAUSE", pause) + sleep + declaration + "\n"
