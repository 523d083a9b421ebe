"""Loops that the user may interrupt: LLVM text that looks for signals now and then.

A loop runs a number of iterations, its quota, then calls

    @lw_look(state, status)      the next quota; 0: Python has raised something

The loop compares its variable with the end of its quota in place of its own end, so iterations cost
what they cost without. The quota follows the clock: Python is asked about every 0.1 s, and only in
the process's first thread, as other threads never get signals. What a handler has raised is kept in
the status: -1, then the type, the value and the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from loopwright.backends.llvm.llvm_builder import FunctionBuilder, SSAValue
from loopwright.backends.llvm.llvm_memory import PointerBuffer, RegisterBuffer
from loopwright.ir.dtypes import INT64

__all__ = ["interruptible"]

_SOON_NS, _LATE_NS = 50_000_000, 200_000_000
_IS_LINUX = sys.platform == "linux"
_CLOCK = 6 if _IS_LINUX else 4  # the coarse monotonic one, which is read in 5 ns; of macOS the raw
_IS_FIRST = (
    """  %thread = call i32 @gettid()
  %process = call i32 @getpid()
  %is.first = icmp eq i32 %thread, %process"""
    if _IS_LINUX
    else """  %first = call i32 @pthread_main_np()
  %is.first = icmp ne i32 %first, 0"""
)
_WHO = ("i32 @gettid()", "i32 @getpid()") if _IS_LINUX else ("i32 @pthread_main_np()",)
_FUNCTIONS = (
    *_WHO,
    "i32 @clock_gettime(i32, ptr)",
    "i32 @PyGILState_Ensure()",
    "void @PyGILState_Release(i32)",
    "i32 @PyErr_CheckSignals()",
    "void @PyErr_Fetch(ptr, ptr, ptr)",
    "i64 @llvm.smin.i64(i64, i64)",
    "i64 @llvm.smax.i64(i64, i64)",
)

# The state: when the loop looked last, its quota.
_LOOK = f"""define internal i64 @lw_look(ptr %state, ptr %status) noinline cold nounwind {{
entry:
  %time = alloca [2 x i64], align 8
  %quota.at = getelementptr i64, ptr %state, i64 1
  %quota = load i64, ptr %quota.at, align 8
  %before = load i64, ptr %state, align 8
  %got = call i32 @clock_gettime(i32 {_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at, align 8
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  store i64 %now, ptr %state, align 8
  %is.begun = icmp ne i64 %before, 0
  br i1 %is.begun, label %judge, label %same
judge:
  %passed = sub i64 %now, %before
  %is.soon = icmp slt i64 %passed, {_SOON_NS}
  br i1 %is.soon, label %more, label %ask
more:
  %fourfold = shl i64 %quota, 2
  %most = call i64 @llvm.smin.i64(i64 %fourfold, i64 {1 << 40})
  store i64 %most, ptr %quota.at, align 8
  ret i64 %most
ask:
  %is.late = icmp sgt i64 %passed, {_LATE_NS}
  br i1 %is.late, label %less, label %who
less:
  %times = udiv i64 %passed, {_SOON_NS}
  %fewer = udiv i64 %quota, %times
  %least = call i64 @llvm.smax.i64(i64 %fewer, i64 1)
  store i64 %least, ptr %quota.at, align 8
  br label %who
who:
  %next = phi i64 [ %quota, %ask ], [ %least, %less ]
{_IS_FIRST}
  br i1 %is.first, label %signals, label %go.on
signals:
  %lock = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %is.quiet = icmp eq i32 %raised, 0
  br i1 %is.quiet, label %unlock, label %take
take:
  %type = getelementptr i64, ptr %status, i64 1
  %value = getelementptr i64, ptr %status, i64 2
  %traceback = getelementptr i64, ptr %status, i64 3
  store i64 -1, ptr %status, align 8
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  br label %unlock
unlock:
  %answer = phi i64 [ %next, %signals ], [ 0, %take ]
  call void @PyGILState_Release(i32 %lock)
  ret i64 %answer
go.on:
  ret i64 %next
same:
  ret i64 %quota
}}"""


@contextmanager
def interruptible(
    code: FunctionBuilder,
    bounds: tuple[SSAValue, SSAValue, SSAValue],
    quota: int,
    status: PointerBuffer | RegisterBuffer,
    interrupted: str,
) -> Iterator[SSAValue]:
    """The iterations of a loop from start to stop by a step; yields its variable.

    It first looks after `quota` iterations, and goes on from the label `interrupted` after an
    interrupt.
    """
    start, stop, step = bounds
    assert isinstance(status, PointerBuffer)
    code.declarations.update(dict.fromkeys(f"declare {function}" for function in _FUNCTIONS))
    code.declarations[_LOOK] = None
    state = code.alloca("i64", 2, align=8)
    code.effect(f"store i64 0, ptr {state}, align 8")
    place = code.emit(f"getelementptr i64, ptr {state}, i64 1")
    code.effect(f"store i64 {quota}, ptr {place}, align 8")
    first_end = _quota_end(code, start.text, str(quota), stop, step)
    body, edge, looking, going, done = map(code.label, ("turn.", "edge.", "look.", "go.", "done."))
    entered = code.block
    is_any = code.emit(f"icmp slt {start}, {stop.text}")
    code.effect(f"br i1 {is_any}, label %{body}, label %{done}")
    code.start(body)
    var, end, following = map(code.name, ("turn.", "end.", "next."))
    heads = len(code.lines)
    code.lines += ["", ""]
    with code.scope():
        yield SSAValue(var, INT64)
    code.lines.append(f"  {following} = add nsw i64 {var}, {step.text}")
    latch = code.block
    more = code.emit(f"icmp slt i64 {following}, {end}")
    code.effect(f"br i1 {more}, label %{body}, label %{edge}")
    code.start(edge)
    is_done = code.emit(f"icmp sge i64 {following}, {stop.text}")
    code.effect(f"br i1 {is_done}, label %{done}, label %{looking}")
    code.start(looking)
    # Arrays stay as they are: only what the call is given is written.
    others = "memory(argmem: readwrite, inaccessiblemem: readwrite)"
    given = code.emit(f"call i64 @lw_look(ptr {state}, ptr {status.pointer}) cold {others}")
    is_stopped = code.emit(f"icmp eq i64 {given}, 0")
    code.effect(f"br i1 {is_stopped}, label %{interrupted}, label %{going}")
    code.start(going)
    next_end = _quota_end(code, following, given, stop, step)
    code.branch(body)
    for line, name, values in (
        (heads, var, (start.text, following, following)),
        (heads + 1, end, (first_end, end, next_end)),
    ):
        pairs = zip(values, (entered, latch, going), strict=True)
        listed = ", ".join(f"[ {value}, %{block} ]" for value, block in pairs)
        code.lines[line] = f"  {name} = phi i64 {listed}"
    code.start(done)


def _quota_end(
    code: FunctionBuilder, first: str, quota: str, stop: SSAValue, step: SSAValue
) -> str:
    """The end of the iterations of a quota from `first` on.

    Where the sum wraps, the loop looks earlier.
    """
    count = code.emit(f"mul i64 {quota}, {step.text}")
    end = code.emit(f"add i64 {first}, {count}")
    return code.emit(f"call i64 @llvm.smin.i64(i64 {end}, i64 {stop.text})")
