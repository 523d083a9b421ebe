"""What a recorded call returns, put together from its objects: LLVM text (see ir/call_dispatch).

@result(state, record, objects)      a new reference; null with an error set

Each step puts a value on a stack, or makes a tuple of the last ones.
"""

from __future__ import annotations

from loopwright.backends.llvm.llvm_call_fields import (
    DATA,
    DTYPE,
    FLAGS,
    ITEMS,
    WRITEABLE,
    load_field,
    load_record,
    load_state,
    load_word,
)
from loopwright.ir.call_dispatch import (
    GIVE_NUMBER,
    GIVE_OBJECT,
    GIVE_SCALAR,
    GIVE_TUPLE,
    GIVE_VIEW,
    MOST_RESULTS,
    PYTHON_NUMBERS,
)

__all__ = ["emit_result"]


def emit_result() -> str:
    """The function and those it calls."""
    return "\n\n".join((_result(), _number(), _view(), _tuple()))


def _result() -> str:
    return f"""define internal ptr @result(ptr %S, ptr %R, ptr %objects) nounwind {{
start:
  %stack = alloca ptr, i64 {MOST_RESULTS}, align 8
{load_record(count="results", first="first_result")}
{load_state("incref", "decref", "as_scalar", "none")}
  %list = inttoptr i64 %first to ptr
  br label %turn
turn:
  %i = phi i64 [ 0, %start ], [ %next, %keep ]
  %n = phi i64 [ 0, %start ], [ %n.kept, %keep ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %make, label %done
make:
  %next = add i64 %i, 1
  %four = shl i64 %i, 2
  %entry = getelementptr i64, ptr %list, i64 %four
{load_word("kind", "entry", 0)}
{load_word("a", "entry", 1)}
{load_word("b", "entry", 2)}
{load_word("c", "entry", 3, "ptr")}
  %slot = getelementptr ptr, ptr %objects, i64 %a
  switch i64 %kind, label %none.of [
    i64 {GIVE_OBJECT}, label %object
    i64 {GIVE_SCALAR}, label %object
    i64 {GIVE_NUMBER}, label %number
    i64 {GIVE_VIEW}, label %view
    i64 {GIVE_TUPLE}, label %tuple
  ]
none.of:
  call void %incref(ptr %none)
  br label %put
object:
  %given = load ptr, ptr %slot, align 8
  call void %incref(ptr %given)
  %is.scalar = icmp eq i64 %kind, {GIVE_SCALAR}
  br i1 %is.scalar, label %scalar, label %put
scalar:
  %unboxed = call ptr %as_scalar(ptr %given)
  br label %put
number:
  %holder = load ptr, ptr %slot, align 8
  %boxed = call ptr @number(ptr %S, ptr %holder, i64 %b)
  br label %put
view:
  %source = load ptr, ptr %slot, align 8
  %seen = call ptr @view(ptr %S, ptr %source, i64 %b, ptr %c)
  br label %put
tuple:
  %low = sub i64 %n, %a
  %items = getelementptr ptr, ptr %stack, i64 %low
  %joined = call ptr @tuple(ptr %S, ptr %items, i64 %a)
  %is.joined = icmp ne ptr %joined, null
  %n.joined = select i1 %is.joined, i64 %low, i64 %n
  br label %put
put:
  %value = phi ptr [ %none, %none.of ], [ %given, %object ], [ %unboxed, %scalar ],
                   [ %boxed, %number ], [ %seen, %view ], [ %joined, %tuple ]
  %n.here = phi i64 [ %n, %none.of ], [ %n, %object ], [ %n, %scalar ], [ %n, %number ],
                    [ %n, %view ], [ %n.joined, %tuple ]
  %failed = icmp eq ptr %value, null
  br i1 %failed, label %drop, label %keep
keep:
  %place = getelementptr ptr, ptr %stack, i64 %n.here
  store ptr %value, ptr %place, align 8
  %n.kept = add i64 %n.here, 1
  br label %turn
drop:
  %d = phi i64 [ %n.here, %put ], [ %d.less, %drop.one ]
  %d.any = icmp ne i64 %d, 0
  br i1 %d.any, label %drop.one, label %no
drop.one:
  %d.less = sub i64 %d, 1
{load_word("gone", "stack", "%d.less", "ptr")}
  call void %decref(ptr %gone)
  br label %drop
done:
  %answer = load ptr, ptr %stack, align 8
  ret ptr %answer
no:
  ret ptr null
}}"""


def _number() -> str:
    kinds = {name: number for number, name in enumerate(PYTHON_NUMBERS)}
    return f"""define internal ptr @number(ptr %S, ptr %holder, i64 %kind) nounwind {{
start:
{load_field("data", "holder", DATA)}
{load_state("from_float", "from_integer", "from_flag", "from_complex")}
  switch i64 %kind, label %float [
    i64 {kinds["int64"]}, label %integer
    i64 {kinds["bool"]}, label %flag
    i64 {kinds["complex128"]}, label %complex
  ]
float:
  %x = load double, ptr %data, align 8
  %float.made = call ptr %from_float(double %x)
  ret ptr %float.made
integer:
  %n = load i64, ptr %data, align 8
  %integer.made = call ptr %from_integer(i64 %n)
  ret ptr %integer.made
flag:
  %byte = load i8, ptr %data, align 1
  %wide = zext i8 %byte to i64
  %flag.made = call ptr %from_flag(i64 %wide)
  ret ptr %flag.made
complex:
  %imaginary.at = getelementptr double, ptr %data, i64 1
  %real = load double, ptr %data, align 8
  %imaginary = load double, ptr %imaginary.at, align 8
  %complex.made = call ptr %from_complex(double %real, double %imaginary)
  ret ptr %complex.made
}}"""


def _view() -> str:
    return f"""define internal ptr @view(ptr %S, ptr %source, i64 %rank, ptr %layout) nounwind {{
start:
{load_state("new_array", "array_type", "set_base", "incref")}
{load_field("dtype", "source", DTYPE)}
{load_field("data", "source", DATA)}
{load_field("flags", "source", FLAGS, "i32")}
  %writeable = and i32 %flags, {WRITEABLE}
{load_word("offset", "layout", 0)}
  %extents = getelementptr i64, ptr %layout, i64 1
  %strides = getelementptr i64, ptr %extents, i64 %rank
  %first = getelementptr i8, ptr %data, i64 %offset
  call void %incref(ptr %dtype)
  %rank32 = trunc i64 %rank to i32
  %seen = call ptr %new_array(ptr %array_type, ptr %dtype, i32 %rank32, ptr %extents, ptr %strides,
                              ptr %first, i32 %writeable, ptr null)
  %failed = icmp eq ptr %seen, null
  br i1 %failed, label %no, label %own
own:
  call void %incref(ptr %source)
  %rc = call i32 %set_base(ptr %seen, ptr %source)
  %refused = icmp ne i32 %rc, 0
  br i1 %refused, label %drop, label %done
drop:
{load_state("decref")}
  call void %decref(ptr %seen)
  ret ptr null
done:
  ret ptr %seen
no:
  ret ptr null
}}"""


def _tuple() -> str:
    """A tuple that takes the references of its items."""
    return f"""define internal ptr @tuple(ptr %S, ptr %items, i64 %count) nounwind {{
start:
{load_state("new_tuple")}
  %made = call ptr %new_tuple(i64 %count)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %fill
fill:
  %into = getelementptr i8, ptr %made, i64 {ITEMS}
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %into, ptr align 8 %items, i64 %bytes, i1 false)
  br label %done
done:
  ret ptr %made
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"""
