"""The thread team as emitted code sees it: its layout in memory and the barrier.

A team is one block of int64 words, shared by all threads of a call:

    word 0   number of threads          word 1   address of the shared scratch memory
    word 2   address of the private scratch of thread 0      word 3   bytes from one to the next
    word 8   threads that have arrived  word 16  generation of the barrier

Words 8 and 16 stand on cache lines of their own because all threads spin on them.
"""

from __future__ import annotations

__all__ = ["BARRIER", "TEAM_WORDS"]

TEAM_WORDS = 24

# Spin-then-yield: a waiting thread reads the generation until the last one to arrive raises it.
# After SPINS reads it offers the core to others, so that more threads than cores still progress.
SPINS = 4000

BARRIER = f"""
declare i32 @sched_yield()

define internal void @lw_barrier(ptr %team) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %count = getelementptr i64, ptr %team, i64 8
  %clock = getelementptr i64, ptr %team, i64 16
  %now = load atomic i64, ptr %clock acquire, align 8
  %before = atomicrmw add ptr %count, i64 1 acq_rel
  %mine = add i64 %before, 1
  %last = icmp eq i64 %mine, %threads
  br i1 %last, label %release, label %wait
release:
  store atomic i64 0, ptr %count monotonic, align 8
  %next = add i64 %now, 1
  store atomic i64 %next, ptr %clock release, align 8
  br label %done
wait:
  %spins = phi i64 [ 0, %arrive ], [ %spent, %again ], [ 0, %yield ]
  %seen = load atomic i64, ptr %clock acquire, align 8
  %moved = icmp ne i64 %seen, %now
  br i1 %moved, label %done, label %again
again:
  %spent = add i64 %spins, 1
  %tired = icmp ugt i64 %spent, {SPINS}
  br i1 %tired, label %yield, label %wait
yield:
  %ignored = call i32 @sched_yield()
  br label %wait
done:
  ret void
}}
"""
