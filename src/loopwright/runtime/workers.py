"""The native side of the pool: what workers do while they wait, as LLVM IR.

A worker spins for a short while after a job and sleeps on a condition variable when none comes.
Who knows that a region is near can rouse the workers and go on meanwhile: waking takes some 100 us.
"""

from __future__ import annotations

import sys

__all__ = ["MOST_THREADS", "POOL_WORDS", "SYMBOLS", "pool_source"]

MOST_THREADS = 256
SPINS = 400_000  # reads of the job number before a worker goes to sleep, some 200 us

# The pool is a block of int64 words: 0 workers done; 8 stop flag; 16 the work: function, launch,
# team, objects, the caller's processor; 24 sleepers, threads roused; 32 mutex; 48 condition (each
# pthread type fits 128 bytes); from 64 on one slot of 16 words per thread, whose first word
# counts the jobs posted to it. A worker that has no part in a job is never spoken to, so it
# cannot read a job half written.
_DONE, _STOP, _WORK, _SLEEPERS, _MUTEX, _WAKE, _SLOTS, _SLOT = 0, 8, 16, 24, 32, 48, 64, 16
_ROUSED = _SLEEPERS + 1
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

; Wake threads 1 .. threads-1 before there is a job for them: they spin as after a job.
define void @lw_pool_rouse(ptr %pool, i64 %threads) {{
entry:
  %sleepers = getelementptr i64, ptr %pool, i64 {_SLEEPERS}
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %none = icmp eq i64 %asleep, 0
  br i1 %none, label %done, label %ring
ring:
  %roused = getelementptr i64, ptr %pool, i64 {_ROUSED}
  %mutex = getelementptr i64, ptr %pool, i64 {_MUTEX}
  %wake = getelementptr i64, ptr %pool, i64 {_WAKE}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  store i64 %threads, ptr %roused, align 8
  %b = call i32 @pthread_cond_broadcast(ptr %wake)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}}

; Return when the slot's count differs from %seen: spin first, then sleep; spin again when roused.
define internal void @await_job(ptr %pool, ptr %slot, i64 %seen, i64 %thread) {{
entry:
  %mutex = getelementptr i64, ptr %pool, i64 {_MUTEX}
  %wake = getelementptr i64, ptr %pool, i64 {_WAKE}
  %sleepers = getelementptr i64, ptr %pool, i64 {_SLEEPERS}
  %roused = getelementptr i64, ptr %pool, i64 {_ROUSED}
  br label %spin
spin:
  %count = phi i64 [ 0, %entry ], [ %more, %again ], [ 0, %up ]
  %now = load atomic i64, ptr %slot acquire, align 8
  %fresh = icmp ne i64 %now, %seen
  br i1 %fresh, label %done, label %again
again:
  %more = add i64 %count, 1
  %tired = icmp ugt i64 %more, {SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = atomicrmw add ptr %sleepers, i64 1 seq_cst
  ; Who was not asleep yet when others were roused has spun for long enough.
  store i64 0, ptr %roused, align 8
  br label %check
check:
  %later = load atomic i64, ptr %slot seq_cst, align 8
  %ready = icmp ne i64 %later, %seen
  %awake = load i64, ptr %roused, align 8
  %meant = icmp slt i64 %thread, %awake
  %rises = or i1 %ready, %meant
  br i1 %rises, label %up, label %down
down:
  %c = call i32 @pthread_cond_wait(ptr %wake, ptr %mutex)
  br label %check
up:
  %d = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %e = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %spin
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
  call void @await_job(ptr %pool, ptr %slot, i64 %seen, i64 %thread)
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

SYMBOLS = ("lw_pool_init", "lw_pool_rouse", "lw_pool_stop", "lw_worker", "lw_fork")


def pool_source() -> str:
    """LLVM IR of the pool's native side, for the pipeline to compile and cache like any kernel."""
    return _SOURCE + (_APART if sys.platform == "linux" else _TOGETHER)
