"""The native side of the pool as LLVM IR: workers, how a call is opened and closed, pieces of work.

A call is a job with a number. The caller writes down the work, opens the gate, posts the job's
number to the slots of the workers it may use, and does its own part. A worker that sees its slot
rise enters through the gate, does its part, and leaves. When the caller has done its part it closes
the gate and waits for those inside: a worker that has not entered by then finds the gate shut and
waits for the next job, so nobody waits for a thread that the system never ran. Kernels whose
threads each have a fixed share of the work need them all; for those the gate stays open until all
have come (see ir/team, word 7).
"""

from __future__ import annotations

import os
import sys

from loopwright.ir.team import BARRIER, CLAIM, IS_OPEN, MEET
from loopwright.runtime.waiting import PLACE_WORDS, waiting_source

__all__ = ["MOST_THREADS", "POOL_WORDS", "SYMBOLS", "TEAM", "pool_source"]

MOST_THREADS = 256

# The pool is a block of int64 words, parts that different threads write on lines of their own:
#   _GATE     number of the job * 2^16 + (2^15 when closed) + workers that have entered
#   _WORK     function, launch, objects, the caller's processor, stop flag, number of the last job,
#             number of the last parallel loop
#   _LEFT     a place (see runtime/waiting): workers that have left this job
#   TEAM      the team (see ir/team), then
#   _DONE     a place: pieces of this job that are known to be done
#   _THREADS  16 words per thread: 0 its claims; 8 parallel loops, 9 pieces in them, 10 pieces done
#             here and not yet told, as the thread has counted them
#   _SLOTS    a place per thread: number of the last job posted to it
# A worker that has no part in a job is never spoken to.
_GATE, _WORK, _LEFT, TEAM, _DONE, _THREADS = 0, 16, 32, 48, 64, 80
_LINES = 16
_SLOTS = _THREADS + _LINES * MOST_THREADS
POOL_WORDS = _SLOTS + PLACE_WORDS * MOST_THREADS
_CLOSED, _ENTERED = 1 << 15, (1 << 15) - 1
_PROCESSORS = 1024  # as many as glibc's cpu_set_t holds

# The system likes to wake a worker on the processor of the thread that woke it. There it would wait
# until that thread pauses, which a caller at work does not do: half a call was seen to be lost so.
# A worker found beside its caller therefore forbids itself that processor, and stays elsewhere
# until it meets its caller again; where no other processor is allowed, it stays.
_AVOID_CALLER = f"""
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
_ANYWHERE = """
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

_WORK_WORDS = {
    name: _WORK + at
    for at, name in enumerate(("function", "launch", "objects", "caller", "stop", "job", "loops"))
}


_POOL = f"""
define void @lw_pool_init(ptr %pool) {{
entry:
  %team = getelementptr i64, ptr %pool, i64 {TEAM}
  %claim.at = getelementptr i64, ptr %team, i64 {CLAIM}
  store ptr @claim, ptr %claim.at, align 8
  %meet.at = getelementptr i64, ptr %team, i64 {MEET}
  store ptr @meet, ptr %meet.at, align 8
  %barrier.at = getelementptr i64, ptr %team, i64 {BARRIER}
  store ptr @barrier, ptr %barrier.at, align 8
  %left = getelementptr i64, ptr %pool, i64 {_LEFT}
  call void @open_place(ptr %left)
  %done = getelementptr i64, ptr %pool, i64 {_DONE}
  call void @open_place(ptr %done)
  br label %each
each:
  %thread = phi i64 [ 0, %entry ], [ %next, %each ]
  %slot = call ptr @slot(ptr %pool, i64 %thread)
  call void @open_place(ptr %slot)
  %next = add i64 %thread, 1
  %more = icmp slt i64 %next, {MOST_THREADS}
  br i1 %more, label %each, label %end
end:
  ret void
}}

define internal ptr @slot(ptr %pool, i64 %thread) {{
  %distance = mul i64 %thread, {PLACE_WORDS}
  %first = add i64 %distance, {_SLOTS}
  %slot = getelementptr i64, ptr %pool, i64 %first
  ret ptr %slot
}}

; Post a job to threads 1 .. threads-1, all of them before the first is woken.
define internal void @post(ptr %pool, i64 %threads, i64 %job) {{
entry:
  %any = icmp sgt i64 %threads, 1
  br i1 %any, label %each, label %done
each:
  %thread = phi i64 [ 1, %entry ], [ %next, %each ]
  %slot = call ptr @slot(ptr %pool, i64 %thread)
  %old = atomicrmw xchg ptr %slot, i64 %job seq_cst
  %next = add i64 %thread, 1
  %more = icmp slt i64 %next, %threads
  br i1 %more, label %each, label %wake
wake:
  call void @lw_pool_rouse(ptr %pool, i64 %threads)
  br label %done
done:
  ret void
}}

; Wake threads 1 .. threads-1; who finds no job spins as after one.
define void @lw_pool_rouse(ptr %pool, i64 %threads) {{
entry:
  %any = icmp sgt i64 %threads, 1
  br i1 %any, label %each, label %done
each:
  %thread = phi i64 [ 1, %entry ], [ %next, %each ]
  %slot = call ptr @slot(ptr %pool, i64 %thread)
  call void @wake(ptr %slot)
  %next = add i64 %thread, 1
  %more = icmp slt i64 %next, %threads
  br i1 %more, label %each, label %done
done:
  ret void
}}

define void @lw_pool_stop(ptr %pool, i64 %threads) {{
  %stop = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["stop"]}
  store atomic i64 1, ptr %stop seq_cst, align 8
  call void @post(ptr %pool, i64 %threads, i64 9223372036854775807)
  ret void
}}

; What a thread counts for itself, at the begin of a job. The number of the last parallel loop goes
; on from job to job, so that claims of earlier jobs are known as such.
define internal void @begin(ptr %pool, i64 %thread) {{
  %distance = mul i64 %thread, {_LINES}
  %first = add i64 %distance, {_THREADS + 8}
  %loop = getelementptr i64, ptr %pool, i64 %first
  %loops.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["loops"]}
  %loops = load i64, ptr %loops.at, align 8
  store i64 %loops, ptr %loop, align 8
  %pieces = getelementptr i64, ptr %loop, i64 1
  store i64 0, ptr %pieces, align 8
  %own = getelementptr i64, ptr %loop, i64 2
  store i64 0, ptr %own, align 8
  ret void
}}

; The gate word orders everything: the caller writes the work, then opens it (release); a worker
; that has entered by compare-and-exchange (acquire) sees that work. The caller closes it by one
; operation that also tells how many are inside; nobody enters after it. So the work, the launch
; values and the scratch memory are the caller's own again once that many have left (each leaves by
; a seq_cst addition, which the caller's wait acquires). A worker whose slot names an older job than
; the gate may have no part in the new one, and does not enter.
define void @lw_worker(ptr %pool, i64 %thread) {{
entry:
  %slot = call ptr @slot(ptr %pool, i64 %thread)
  %team = getelementptr i64, ptr %pool, i64 {TEAM}
  %gate = getelementptr i64, ptr %pool, i64 {_GATE}
  %left = getelementptr i64, ptr %pool, i64 {_LEFT}
  %function.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["function"]}
  %launch.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["launch"]}
  %objects.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["objects"]}
  %caller.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["caller"]}
  %stop = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["stop"]}
  %allowed = alloca [{_PROCESSORS // 8} x i8], align 8
  call void @allowed_processors(ptr %allowed)
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %job, %look ], [ %job, %leave ]
  %target = add i64 %seen, 1
  call void @await(ptr %slot, i64 %target)
  %job = load atomic i64, ptr %slot acquire, align 8
  %halt = load atomic i64, ptr %stop acquire, align 8
  %over = icmp ne i64 %halt, 0
  br i1 %over, label %exit, label %move
move:
  %caller = load atomic i64, ptr %caller.at monotonic, align 8
  call void @keep_apart(i64 %caller, ptr %allowed)
  br label %look
look:
  %state = load atomic i64, ptr %gate monotonic, align 8
  %number = ashr i64 %state, 16
  %current = icmp eq i64 %number, %job
  %bit = and i64 %state, {_CLOSED}
  %open = icmp eq i64 %bit, 0
  %may = and i1 %current, %open
  br i1 %may, label %enter, label %wait
enter:
  %entered = add i64 %state, 1
  %pair = cmpxchg ptr %gate, i64 %state, i64 %entered acq_rel monotonic
  %inside = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %inside, label %do, label %look
do:
  %function = load ptr, ptr %function.at, align 8
  %launch = load ptr, ptr %launch.at, align 8
  %objects = load ptr, ptr %objects.at, align 8
  call void @begin(ptr %pool, i64 %thread)
  call void %function(ptr %launch, ptr %team, i64 %thread, ptr %objects)
  br label %leave
leave:
  %before = atomicrmw add ptr %left, i64 1 seq_cst
  call void @wake(ptr %left)
  br label %wait
exit:
  ret void
}}

define void @lw_fork(ptr %pool, ptr %function, ptr %launch, ptr %objects, i64 %threads) {{
entry:
  %team = getelementptr i64, ptr %pool, i64 {TEAM}
  %gate = getelementptr i64, ptr %pool, i64 {_GATE}
  %left = getelementptr i64, ptr %pool, i64 {_LEFT}
  %done = getelementptr i64, ptr %pool, i64 {_DONE}
  %is_open = getelementptr i64, ptr %team, i64 {IS_OPEN}
  %function.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["function"]}
  store ptr %function, ptr %function.at, align 8
  %launch.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["launch"]}
  store ptr %launch, ptr %launch.at, align 8
  %objects.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["objects"]}
  store ptr %objects, ptr %objects.at, align 8
  %caller.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["caller"]}
  %caller = call i64 @processor()
  store atomic i64 %caller, ptr %caller.at monotonic, align 8
  store atomic i64 0, ptr %is_open monotonic, align 8
  store atomic i64 0, ptr %left monotonic, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  %job.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["job"]}
  %last = load i64, ptr %job.at, align 8
  %job = add i64 %last, 1
  store i64 %job, ptr %job.at, align 8
  %opened = shl i64 %job, 16
  store atomic i64 %opened, ptr %gate release, align 8
  call void @post(ptr %pool, i64 %threads, i64 %job)
  call void @begin(ptr %pool, i64 0)
  call void %function(ptr %launch, ptr %team, i64 0, ptr %objects)
  %loops.at = getelementptr i64, ptr %pool, i64 {_WORK_WORDS["loops"]}
  %met.at = getelementptr i64, ptr %pool, i64 {_THREADS + 8}
  %met = load i64, ptr %met.at, align 8
  %others = sub i64 %threads, 1
  %some = load atomic i64, ptr %is_open monotonic, align 8
  %all = icmp eq i64 %some, 0
  br i1 %all, label %every, label %close
every:
  call void @await(ptr %left, i64 %others)
  br label %exit
close:
  %state = atomicrmw or ptr %gate, i64 {_CLOSED} acq_rel
  %inside = and i64 %state, {_ENTERED}
  call void @await(ptr %left, i64 %inside)
  br label %exit
exit:
  store i64 %met, ptr %loops.at, align 8
  ret void
}}
"""

# Claims. Word 0 of a thread's lines is (number of a parallel loop) * 256 + (pieces claimed of this
# thread's in it), and only rises. All threads that have entered meet the same parallel loops in the
# same order and count them, whether they get a piece or not; numbers go on from job to job. A
# thread at loop l that reads the word w of another:
#   w's loop > l   all its pieces of loop l are claimed: nobody goes on to a later loop before
#   w's loop = l   the next piece is free if there is one
#   w's loop < l   no piece of loop l is claimed yet; those of earlier loops are all claimed
# so that a compare-and-exchange to (l, next + 1) or (l, 1) claims a piece for one thread only. A
# thread that comes late runs through what is over without a piece and joins where the others are.
#
# Barriers. Pieces that are done are added to one sum, by each thread at its next barrier. A barrier
# lets a thread on when the sum has reached the number of pieces of all parallel loops before it,
# which every thread has counted for itself. Behind the barrier no piece is begun before, so the sum
# cannot get there by later pieces: all pieces before it are done, and their effects are visible
# (the sum is raised by seq_cst additions, and its reader acquires). Everybody who waits there has
# seen all pieces claimed and has told its own, so somebody else is at work, never asleep: nobody
# waits for a thread that has no piece. The last one to tell is the one whose addition reaches the
# number, and it alone wakes who sleeps.
_TEAM = f"""
define internal ptr @lines(ptr %team, i64 %thread) {{
  %distance = mul i64 %thread, {_LINES}
  %first = add i64 %distance, {_THREADS - TEAM}
  %lines = getelementptr i64, ptr %team, i64 %first
  ret ptr %lines
}}

; The next piece for a thread after `last` (-1 at the begin of a parallel loop that has `count`
; pieces for every thread); as many as there are when all are claimed.
define internal i64 @claim(ptr %team, i64 %thread, i64 %count, i64 %last) {{
entry:
  %threads = load i64, ptr %team, align 8
  %pieces = mul i64 %threads, %count
  %own = call ptr @lines(ptr %team, i64 %thread)
  %loop.at = getelementptr i64, ptr %own, i64 8
  %before = load i64, ptr %loop.at, align 8
  %is_first = icmp slt i64 %last, 0
  br i1 %is_first, label %open, label %go_on
open:
  %number = add i64 %before, 1
  store i64 %number, ptr %loop.at, align 8
  %sum.at = getelementptr i64, ptr %own, i64 9
  %sum = load i64, ptr %sum.at, align 8
  %longer = add i64 %sum, %pieces
  store i64 %longer, ptr %sum.at, align 8
  %empty = icmp sle i64 %count, 0
  br i1 %empty, label %none, label %scan
go_on:
  %holder = sdiv i64 %last, %count
  br label %scan
scan:
  %loop = phi i64 [ %number, %open ], [ %before, %go_on ], [ %loop, %next ], [ %loop, %take ]
  %victim = phi i64 [ %thread, %open ], [ %holder, %go_on ], [ %following, %next ],
                    [ %victim, %take ]
  %claims = call ptr @lines(ptr %team, i64 %victim)
  %word = load atomic i64, ptr %claims monotonic, align 8
  %tag = ashr i64 %word, 8
  %taken = and i64 %word, 255
  %is_over = icmp sgt i64 %tag, %loop
  %is_here = icmp eq i64 %tag, %loop
  %piece = select i1 %is_here, i64 %taken, i64 0
  %is_out = icmp sge i64 %piece, %count
  %gone = or i1 %is_over, %is_out
  br i1 %gone, label %next, label %take
next:
  %after = add i64 %victim, 1
  %wraps = icmp eq i64 %after, %threads
  %following = select i1 %wraps, i64 0, i64 %after
  %round = icmp eq i64 %following, %thread
  br i1 %round, label %none, label %scan
take:
  %shifted = shl i64 %loop, 8
  %tagged = add i64 %shifted, %piece
  %new = add i64 %tagged, 1
  %pair = cmpxchg ptr %claims, i64 %word, i64 %new monotonic monotonic
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %mine, label %scan
mine:
  call void @count_done(ptr %own)
  %place = mul i64 %victim, %count
  %found = add i64 %place, %piece
  ret i64 %found
none:
  ret i64 %pieces
}}

; One more piece that its thread will have done when it comes to a barrier.
define internal void @count_done(ptr %own) {{
  %done.at = getelementptr i64, ptr %own, i64 10
  %old = load i64, ptr %done.at, align 8
  %new = add i64 %old, 1
  store i64 %new, ptr %done.at, align 8
  ret void
}}

define internal void @meet(ptr %team, i64 %thread) {{
entry:
  %done = getelementptr i64, ptr %team, i64 {_DONE - TEAM}
  %own = call ptr @lines(ptr %team, i64 %thread)
  %sum.at = getelementptr i64, ptr %own, i64 9
  %sum = load i64, ptr %sum.at, align 8
  %mine.at = getelementptr i64, ptr %own, i64 10
  %mine = load i64, ptr %mine.at, align 8
  %any = icmp ne i64 %mine, 0
  br i1 %any, label %tell, label %wait
tell:
  store i64 0, ptr %mine.at, align 8
  %before = atomicrmw add ptr %done, i64 %mine seq_cst
  %now = add i64 %before, %mine
  %last = icmp sge i64 %now, %sum
  br i1 %last, label %wake, label %wait
wake:
  call void @wake(ptr %done)
  ret void
wait:
  call void @await(ptr %done, i64 %sum)
  ret void
}}

; A barrier of kernels with fixed shares: a share is a piece that its thread alone can do.
define internal void @barrier(ptr %team, i64 %thread) {{
  %threads = load i64, ptr %team, align 8
  %own = call ptr @lines(ptr %team, i64 %thread)
  %sum.at = getelementptr i64, ptr %own, i64 9
  %sum = load i64, ptr %sum.at, align 8
  %longer = add i64 %sum, %threads
  store i64 %longer, ptr %sum.at, align 8
  call void @count_done(ptr %own)
  call void @meet(ptr %team, i64 %thread)
  ret void
}}
"""

SYMBOLS = ("lw_pool_init", "lw_pool_rouse", "lw_pool_stop", "lw_worker", "lw_fork")


def pool_source(system: str = sys.platform) -> str:
    """LLVM IR of the pool's native side, for the pipeline to compile and cache like any kernel."""
    placement = _AVOID_CALLER if system == "linux" else _ANYWHERE
    return waiting_source(_isa(), system) + _POOL + _TEAM + placement


def _isa() -> str:
    """The instruction set as Linux calls it."""
    name = os.uname().machine.lower() if hasattr(os, "uname") else ""
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)
