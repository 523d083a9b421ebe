"""Records of calls, run: LLVM text (see ir/call_dispatch).

    @execute(state, record, args, out)       the result; null with an error set; or OTHERWISE
    lw_block_put(address, bytes, owner)      one more block of scratch memory for calls to come
    lw_blocks_drop()                         give up all blocks that wait, returns their bytes

All of this holds the GIL; only kernels may run without it, while the call holds references to the
record's owner and to its scratch memory.
"""

from __future__ import annotations

from loopwright.backends.llvm.llvm_call_fields import (
    DATA,
    FLAGS,
    HEADER,
    OTHERWISE,
    WRITEABLE,
    load_field,
    load_record,
    load_state,
    load_word,
)
from loopwright.ir.call_dispatch import (
    BLOCKS,
    CONSTANT,
    IN_PYTHON,
    MOST_OBJECTS,
    NEW,
    NEW_STRIDED,
    NUMBER,
    RELEASE,
    STATE,
    TEMPORARY,
)

__all__ = ["emit_execute"]


def emit_execute() -> str:
    """All of these functions."""
    return "\n\n".join((_blocks(), _objects(), _execute()))


def _push(address: str) -> str:
    """Put a block of scratch memory on the stack of those that wait."""
    return f"""  %block = call ptr @block(ptr %S, i64 %count)
  store i64 %{address}, ptr %block, align 8
  %b1 = getelementptr i64, ptr %block, i64 1
  store i64 %bytes, ptr %b1, align 8
  %b2 = getelementptr i64, ptr %block, i64 2
  store ptr %owner, ptr %b2, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %count.at, align 8"""


def _blocks() -> str:
    """Blocks of scratch memory lie on a stack: the one used last is the warmest."""
    return f"""define void @lw_block_put(i64 %address, i64 %bytes, ptr %owner) nounwind {{
start:
  %S = load ptr, ptr @state, align 8
{load_word("count", "S", STATE["blocks"])}
  %room = icmp ult i64 %count, {BLOCKS}
  br i1 %room, label %put, label %full
put:
{load_state("incref")}
  call void %incref(ptr %owner)
{_push("address")}
  ret void
full:
  ret void
}}

define internal ptr @block(ptr %S, i64 %number) nounwind {{
  %three = mul i64 %number, 3
  %word = add i64 %three, {STATE["first_block"]}
  %block = getelementptr i64, ptr %S, i64 %word
  ret ptr %block
}}

define i64 @lw_blocks_drop() nounwind {{
start:
  %S = load ptr, ptr @state, align 8
{load_state("decref")}
{load_word("generation", "S", STATE["generation"])}
  %newer = add i64 %generation, 1
  store i64 %newer, ptr %generation.at, align 8
  br label %look
look:
  %sum = phi i64 [ 0, %start ], [ %more, %drop ]
{load_word("count", "S", STATE["blocks"])}
  %any = icmp ne i64 %count, 0
  br i1 %any, label %drop, label %done
drop:
  %last = sub i64 %count, 1
  store i64 %last, ptr %count.at, align 8
  %block = call ptr @block(ptr %S, i64 %last)
{load_word("bytes", "block", 1)}
{load_word("owner", "block", 2, "ptr")}
  %more = add i64 %sum, %bytes
  call void %decref(ptr %owner)
  br label %look
done:
  ret i64 %sum
}}"""


def _objects() -> str:
    """Fill in the objects of a record: the number filled in; fewer than all when one failed.

    What stands for an object that only kernels see has an address of data where an array has it.
    """
    return f"""define internal ptr @argument(ptr %args, ptr %out, i64 %place) nounwind {{
  %slot = getelementptr ptr, ptr %args, i64 %place
  %is.out = icmp eq i64 %place, 0
  br i1 %is.out, label %given, label %other
given:
  ret ptr %out
other:
  %object = load ptr, ptr %slot, align 8
  ret ptr %object
}}

define internal i64 @fill(ptr %S, ptr %R, ptr %args, ptr %out, i64 %base, ptr %objects,
                          ptr %stands) nounwind {{
start:
{load_record(count="objects", first="first_object")}
  %list = inttoptr i64 %first to ptr
  br label %turn
turn:
  %i = phi i64 [ 0, %start ], [ %next, %put ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %make, label %done
make:
  %four = shl i64 %i, 2
  %entry = getelementptr i64, ptr %list, i64 %four
{load_word("kind", "entry", 0)}
{load_word("a", "entry", 1)}
{load_word("b", "entry", 2)}
{load_word("c", "entry", 3, "ptr")}
  %stand = getelementptr [{HEADER + 16} x i8], ptr %stands, i64 %i
  %stand.data = getelementptr i8, ptr %stand, i64 {DATA}
  %stand.value = getelementptr i8, ptr %stand, i64 {DATA + 8}
  switch i64 %kind, label %argument [
    i64 {CONSTANT}, label %constant
    i64 {NEW}, label %new
    i64 {NEW_STRIDED}, label %strided
    i64 {TEMPORARY}, label %temporary
    i64 {NUMBER}, label %number
  ]
argument:
  %given = call ptr @argument(ptr %args, ptr %out, i64 %a)
  br label %put
constant:
  %known = inttoptr i64 %a to ptr
  br label %put
strided:
  %given.strides = getelementptr i64, ptr %c, i64 %b
  br label %new
new:
  %strides = phi ptr [ null, %make ], [ %given.strides, %strided ]
{load_state("new_array", "array_type", "incref")}
  %dtype = inttoptr i64 %a to ptr
  call void %incref(ptr %dtype)
  %rank = trunc i64 %b to i32
  %fresh = call ptr %new_array(ptr %array_type, ptr %dtype, i32 %rank, ptr %c, ptr %strides,
                               ptr null, i32 0, ptr null)
  br label %put
temporary:
  %place = add i64 %base, %a
  store i64 %place, ptr %stand.data, align 8
  br label %put
number:
  %boxed = call ptr @argument(ptr %args, ptr %out, i64 %a)
{load_field("value", "boxed", HEADER, "double")}
  %short = fptrunc double %value to float
  %is.short = icmp ne i64 %b, 0
  store ptr %stand.value, ptr %stand.data, align 8
  br i1 %is.short, label %single, label %double
single:
  store float %short, ptr %stand.value, align 8
  br label %put
double:
  store double %value, ptr %stand.value, align 8
  br label %put
put:
  %object = phi ptr [ %given, %argument ], [ %known, %constant ], [ %fresh, %new ],
                    [ %stand, %temporary ], [ %stand, %single ], [ %stand, %double ]
  %slot = getelementptr ptr, ptr %objects, i64 %i
  store ptr %object, ptr %slot, align 8
  %next = add i64 %i, 1
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %broken, label %turn
broken:
  ret i64 %i
done:
  ret i64 %i
}}

define internal void @unmake(ptr %S, ptr %R, ptr %objects, i64 %count) nounwind {{
start:
{load_record(first="first_object")}
{load_state("decref")}
  %list = inttoptr i64 %first to ptr
  br label %turn
turn:
  %i = phi i64 [ 0, %start ], [ %next, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %next = add i64 %i, 1
  %four = shl i64 %i, 2
{load_word("kind", "list", "%four")}
  %is.plain = icmp eq i64 %kind, {NEW}
  %is.strided = icmp eq i64 %kind, {NEW_STRIDED}
  %is.new = or i1 %is.plain, %is.strided
  br i1 %is.new, label %drop, label %after
drop:
{load_word("object", "objects", "%i", "ptr")}
  call void %decref(ptr %object)
  br label %after
after:
  br label %turn
done:
  ret void
}}"""


def _execute() -> str:
    """Run a record: its result, null with an error set, or OTHERWISE for Python to run it."""
    return f"""define internal ptr @execute(ptr %S, ptr %R, ptr %args, ptr %out) nounwind {{
start:
  %objects = alloca ptr, i64 {MOST_OBJECTS}, align 8
  %stands = alloca [{HEADER + 16} x i8], i64 {MOST_OBJECTS}, align 16
  %pointers = alloca ptr, i64 {MOST_OBJECTS}, align 8
  %team = alloca i64, i64 16, align 128
{load_record("owner", "flags", "scratch", "steps", "first_step", "written", "first_written")}
{load_record("apart", "first_apart", "checks", "first_check", "status")}
  %owner.ptr = inttoptr i64 %owner to ptr
  %written.list = inttoptr i64 %first_written to ptr
  %apart.list = inttoptr i64 %first_apart to ptr
  %check.list = inttoptr i64 %first_check to ptr
  br label %check
check:
  %q = phi i64 [ 0, %start ], [ %q.next, %check.one ]
  %q.more = icmp ult i64 %q, %checks
  br i1 %q.more, label %check.one, label %writable
check.one:
  %q.place = mul i64 %q, 3
  %q.entry = getelementptr i64, ptr %check.list, i64 %q.place
{load_word("q.dict", "q.entry", 0, "ptr")}
{load_word("q.key", "q.entry", 1, "ptr")}
{load_word("q.value", "q.entry", 2, "ptr")}
  %q.next = add i64 %q, 1
  %q.same = call i1 @same(ptr %S, ptr %q.dict, ptr %q.key, ptr %q.value)
  br i1 %q.same, label %check, label %otherwise
writable:
  %w = phi i64 [ 0, %check ], [ %w.next, %writable.one ]
  %w.more = icmp ult i64 %w, %written
  br i1 %w.more, label %writable.one, label %distinct
writable.one:
{load_word("w.place", "written.list", "%w")}
  %w.next = add i64 %w, 1
  %w.array = call ptr @argument(ptr %args, ptr %out, i64 %w.place)
{load_field("w.flags", "w.array", FLAGS, "i32")}
  %w.bits = and i32 %w.flags, {WRITEABLE}
  %w.may = icmp ne i32 %w.bits, 0
  br i1 %w.may, label %writable, label %otherwise
distinct:
  %d = phi i64 [ 0, %writable ], [ %d.next, %distinct.one ]
  %d.more = icmp ult i64 %d, %apart
  br i1 %d.more, label %distinct.one, label %memory
distinct.one:
  %d.six = mul i64 %d, 6
  %d.entry = getelementptr i64, ptr %apart.list, i64 %d.six
{load_word("x.place", "d.entry", 0)}
{load_word("x.low", "d.entry", 1)}
{load_word("x.high", "d.entry", 2)}
{load_word("y.place", "d.entry", 3)}
{load_word("y.low", "d.entry", 4)}
{load_word("y.high", "d.entry", 5)}
  %d.next = add i64 %d, 1
  %x = call ptr @argument(ptr %args, ptr %out, i64 %x.place)
  %y = call ptr @argument(ptr %args, ptr %out, i64 %y.place)
{load_field("x.data", "x", DATA, "i64")}
{load_field("y.data", "y", DATA, "i64")}
  %x.first = add i64 %x.data, %x.low
  %x.end = add i64 %x.data, %x.high
  %y.first = add i64 %y.data, %y.low
  %y.end = add i64 %y.data, %y.high
  %x.before = icmp ule i64 %x.end, %y.first
  %y.before = icmp ule i64 %y.end, %x.first
  %d.apart = or i1 %x.before, %y.before
  br i1 %d.apart, label %distinct, label %otherwise
memory:
  %generation.at = getelementptr i64, ptr %S, i64 {STATE["generation"]}
  %generation = load i64, ptr %generation.at, align 8
  %wants = icmp ne i64 %scratch, 0
  br i1 %wants, label %borrow, label %make
borrow:
{load_word("blocks", "S", STATE["blocks"])}
  %any = icmp ne i64 %blocks, 0
  br i1 %any, label %top, label %otherwise
top:
  %last = sub i64 %blocks, 1
  %top.block = call ptr @block(ptr %S, i64 %last)
{load_word("top.base", "top.block", 0)}
{load_word("top.bytes", "top.block", 1)}
{load_word("top.owner", "top.block", 2, "ptr")}
  %enough = icmp uge i64 %top.bytes, %scratch
  br i1 %enough, label %take, label %otherwise
take:
  store i64 %last, ptr %blocks.at, align 8
  br label %make
make:
  %base = phi i64 [ 0, %memory ], [ %top.base, %take ]
  %bytes = phi i64 [ 0, %memory ], [ %top.bytes, %take ]
  %block = phi ptr [ null, %memory ], [ %top.owner, %take ]
{load_record(count="objects")}
{load_state("incref", "decref", "save_thread", "restore_thread", "vectorcall")}
  call void %incref(ptr %owner.ptr)
  %filled = call i64 @fill(ptr %S, ptr %R, ptr %args, ptr %out, i64 %base, ptr %objects,
                           ptr %stands)
  %all = icmp eq i64 %filled, %count
  br i1 %all, label %hold, label %failed
hold:
  %python.bit = and i64 %flags, {IN_PYTHON}
  %in.python = icmp ne i64 %python.bit, 0
  br i1 %in.python, label %python, label %native
python:
{load_record("function")}
  %function.ptr = inttoptr i64 %function to ptr
  %told = call ptr %vectorcall(ptr %function.ptr, ptr %objects, i64 %count, ptr null)
  %python.failed = icmp eq ptr %told, null
  br i1 %python.failed, label %python.error, label %python.done
python.error:
  call void @give_back(ptr %S, i64 %generation, i64 %base, i64 %bytes, ptr %block)
  call void @unmake(ptr %S, ptr %R, ptr %objects, i64 %count)
  call void %decref(ptr %owner.ptr)
  ret ptr null
python.done:
  call void %decref(ptr %told)
  br label %ended
native:
  %release.bit = and i64 %flags, {RELEASE}
  %releases = icmp ne i64 %release.bit, 0
  store i64 1, ptr %team, align 8
  %team1 = getelementptr i64, ptr %team, i64 1
  store i64 %base, ptr %team1, align 8
  %team2 = getelementptr i64, ptr %team, i64 2
  %team3 = getelementptr i64, ptr %team, i64 3
  store i64 0, ptr %team3, align 8
  %first.step = inttoptr i64 %first_step to ptr
  br i1 %releases, label %let.go, label %run
let.go:
  %thread = call ptr %save_thread()
  br label %run
run:
  %held = phi ptr [ null, %native ], [ %thread, %let.go ]
  br label %step
step:
  %s = phi i64 [ 0, %run ], [ %s.next, %launch ]
  %at = phi ptr [ %first.step, %run ], [ %at.next, %launch ]
  %s.more = icmp ult i64 %s, %steps
  br i1 %s.more, label %step.one, label %ran
step.one:
{load_word("entry", "at", 0, "ptr")}
{load_word("values", "at", 1, "ptr")}
{load_word("shared", "at", 2)}
{load_word("takes", "at", 3)}
  %numbers = getelementptr i64, ptr %at, i64 4
  %private = add i64 %base, %shared
  store i64 %private, ptr %team2, align 8
  %s.next = add i64 %s, 1
  %at.next = getelementptr i64, ptr %numbers, i64 %takes
  br label %pick
pick:
  %k = phi i64 [ 0, %step.one ], [ %k.next, %pick.one ]
  %k.more = icmp ult i64 %k, %takes
  br i1 %k.more, label %pick.one, label %launch
pick.one:
{load_word("number", "numbers", "%k")}
{load_word("picked", "objects", "%number", "ptr")}
  %k.slot = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %picked, ptr %k.slot, align 8
  %k.next = add i64 %k, 1
  br label %pick
launch:
  call void %entry(ptr %values, ptr %team, i64 0, ptr %pointers)
  br label %step
ran:
  br i1 %releases, label %take.up, label %ended
take.up:
  call void %restore_thread(ptr %held)
  br label %ended
ended:
  call void @give_back(ptr %S, i64 %generation, i64 %base, i64 %bytes, ptr %block)
  %may.fail = icmp sge i64 %status, 0
  br i1 %may.fail, label %judge, label %answer
judge:
{load_word("said", "objects", "%status", "ptr")}
{load_field("said.data", "said", DATA)}
  %verdict = load i64, ptr %said.data, align 8
  %is.fine = icmp eq i64 %verdict, 0
  br i1 %is.fine, label %answer, label %raise
raise:
{load_record(raises="failed")}
  %raises.ptr = inttoptr i64 %raises to ptr
  %raised = call ptr %vectorcall(ptr %raises.ptr, ptr %said.at, i64 1, ptr null)
  br label %finish
answer:
  %made = call ptr @result(ptr %S, ptr %R, ptr %objects)
  br label %finish
finish:
  %answer.given = phi ptr [ %raised, %raise ], [ %made, %answer ]
  call void @unmake(ptr %S, ptr %R, ptr %objects, i64 %count)
  call void %decref(ptr %owner.ptr)
  ret ptr %answer.given
failed:
  call void @give_back(ptr %S, i64 %generation, i64 %base, i64 %bytes, ptr %block)
  call void @unmake(ptr %S, ptr %R, ptr %objects, i64 %filled)
  call void %decref(ptr %owner.ptr)
  ret ptr null
otherwise:
  ret ptr inttoptr (i64 {OTHERWISE} to ptr)
}}

define internal void @give_back(ptr %S, i64 %generation, i64 %base, i64 %bytes,
                                ptr %owner) nounwind {{
start:
  %any = icmp ne ptr %owner, null
  br i1 %any, label %look, label %done
look:
{load_word("now", "S", STATE["generation"])}
{load_word("count", "S", STATE["blocks"])}
  %current = icmp eq i64 %now, %generation
  %room = icmp ult i64 %count, {BLOCKS}
  %keeps = and i1 %current, %room
  br i1 %keeps, label %keep, label %drop
keep:
{_push("base")}
  ret void
drop:
{load_state("decref")}
  call void %decref(ptr %owner)
  ret void
done:
  ret void
}}"""
