"""The native dispatcher: repeated calls are found and run without a line of Python.

    lw_einsum(self, args, count, names)      METH_FASTCALL | METH_KEYWORDS: a call of einsum
    lw_function(self, args, count, names)    the same of a compiled function, a method of it
    lw_dispatch_init(state)                  where the words of ir/call_dispatch lie

A call is written down as a signature and looked for in a table; a record then says what to do. What
is not found, or does not pass a check, goes to the function of Python that can do everything.
Python's functions are called through addresses in the state, so nothing of Python is linked.
"""

from __future__ import annotations

from loopwright.backends.llvm.llvm_call_execute import emit_execute
from loopwright.backends.llvm.llvm_call_fields import (
    DATA,
    HEADER,
    ITEMS,
    OTHERWISE,
    TYPE,
    load_field,
    load_state,
    load_word,
)
from loopwright.backends.llvm.llvm_call_lookup import emit_lookup
from loopwright.backends.llvm.llvm_call_result import emit_result
from loopwright.ir.call_dispatch import (
    MOST_ARGUMENTS,
    MOST_OPERANDS,
    MOST_WORDS,
    OPTIONS,
    STATE,
)

__all__ = ["DISPATCH_SYMBOLS", "emit_dispatch"]

DISPATCH_SYMBOLS = (
    "lw_einsum",
    "lw_function",
    "lw_dispatch_init",
    "lw_hash",
    "lw_block_put",
    "lw_blocks_drop",
)

_INIT = """define void @lw_dispatch_init(ptr %given) nounwind {
  store ptr %given, ptr @state, align 8
  ret void
}"""


def emit_dispatch() -> str:
    """LLVM text of the dispatcher, for this build of Python."""
    state = "@state = internal global ptr null"
    return "\n\n".join(
        (state, _INIT, emit_lookup(), emit_execute(), emit_result(), _einsum(), _function())
    )


def _einsum() -> str:
    return f"""define ptr @lw_einsum(ptr %self, ptr %args, i64 %given, ptr %names) nounwind {{
start:
  %words = alloca i64, i64 {MOST_WORDS}, align 8
  %chosen = alloca ptr, i64 {len(OPTIONS)}, align 8
  %S = load ptr, ptr @state, align 8
  %beyond = sub i64 %given, 2
  %fits = icmp ult i64 %beyond, {MOST_OPERANDS}
  br i1 %fits, label %settings, label %otherwise
settings:
  %settled = call i1 @settled(ptr %S)
  br i1 %settled, label %subscripts, label %otherwise
subscripts:
  %text = load ptr, ptr %args, align 8
  %known = call ptr @text(ptr %S, ptr %text)
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %head, label %otherwise
head:
{load_word("threads", "S", STATE["threads"])}
  store ptr %known, ptr %words, align 8
  %w1 = getelementptr i64, ptr %words, i64 1
  %w2 = getelementptr i64, ptr %words, i64 2
  store i64 %threads, ptr %w2, align 8
  %no.names = icmp eq ptr %names, null
  br i1 %no.names, label %operands, label %options
options:
  call void @llvm.memset.p0.i64(ptr align 8 %chosen, i8 0, i64 {8 * len(OPTIONS)}, i1 false)
{load_field("named", "names", HEADER, "i64")}
  %values = getelementptr ptr, ptr %args, i64 %given
  %items = getelementptr i8, ptr %names, i64 {ITEMS}
  %known.names = getelementptr i64, ptr %S, i64 {STATE["names"]}
{load_state("none", "text_type")}
  br label %option
option:
  %i = phi i64 [ 0, %options ], [ %i.next, %keep ]
  %i.more = icmp ult i64 %i, %named
  br i1 %i.more, label %seek.start, label %listed
seek.start:
{load_word("name", "items", "%i", "ptr")}
{load_word("value", "values", "%i", "ptr")}
  %i.next = add i64 %i, 1
  br label %seek
seek:
  %j = phi i64 [ 0, %seek.start ], [ %j.next, %seek.more ]
{load_word("candidate", "known.names", "%j", "ptr")}
  %is.this = icmp eq ptr %candidate, %name
  br i1 %is.this, label %take, label %seek.more
seek.more:
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, {len(OPTIONS)}
  br i1 %j.more, label %seek, label %otherwise
take:
  %value.type.at = getelementptr i8, ptr %value, i64 {TYPE}
  %value.type = load ptr, ptr %value.type.at, align 8
  %is.text = icmp eq ptr %value.type, %text_type
  br i1 %is.text, label %take.text, label %keep
take.text:
  %value.text = call ptr @text(ptr %S, ptr %value)
  %text.known = icmp ne ptr %value.text, null
  br i1 %text.known, label %keep, label %otherwise
keep:
  %kept = phi ptr [ %value, %take ], [ %value.text, %take.text ]
  %chosen.at = getelementptr ptr, ptr %chosen, i64 %j
  store ptr %kept, ptr %chosen.at, align 8
  br label %option
listed:
  %out.given = load ptr, ptr %chosen, align 8
  %out.none = icmp eq ptr %out.given, %none
  %out.kept = select i1 %out.none, ptr null, ptr %out.given
  br label %list
list:
  %l = phi i64 [ 1, %listed ], [ %l.next, %list.after ]
  %l.n = phi i64 [ 3, %listed ], [ %l.end, %list.after ]
  %l.bits = phi i64 [ 0, %listed ], [ %l.mask, %list.after ]
{load_word("l.value", "chosen", "%l")}
  %l.any = icmp ne i64 %l.value, 0
  br i1 %l.any, label %list.one, label %list.after
list.one:
  %l.word = getelementptr i64, ptr %words, i64 %l.n
  store i64 %l.value, ptr %l.word, align 8
  %l.more.words = add i64 %l.n, 1
  %l.bit = shl i64 1, %l
  %l.more.bits = or i64 %l.bits, %l.bit
  br label %list.after
list.after:
  %l.end = phi i64 [ %l.n, %list ], [ %l.more.words, %list.one ]
  %l.mask = phi i64 [ %l.bits, %list ], [ %l.more.bits, %list.one ]
  %l.next = add i64 %l, 1
  %l.again = icmp ult i64 %l.next, {len(OPTIONS)}
  br i1 %l.again, label %list, label %operands
operands:
  %out = phi ptr [ null, %head ], [ %out.kept, %list.after ]
  %n.first = phi i64 [ 3, %head ], [ %l.end, %list.after ]
  %mask = phi i64 [ 0, %head ], [ %l.mask, %list.after ]
  %has.out = icmp ne ptr %out, null
  %out.bit = zext i1 %has.out to i64
  %mask.out = or i64 %mask, %out.bit
  %mask.high = shl i64 %mask.out, 8
  %form = or i64 %mask.high, %given
  store i64 %form, ptr %w1, align 8
  br label %operand
operand:
  %o = phi i64 [ 1, %operands ], [ %o.next, %operand ]
  %n = phi i64 [ %n.first, %operands ], [ %n.end, %operand ]
{load_word("array", "args", "%o", "ptr")}
  %n.end = call i64 @array(ptr %S, ptr %array, ptr %words, i64 %n)
  %o.next = add i64 %o, 1
  %o.more = icmp ult i64 %o.next, %given
  %o.fits = icmp ne i64 %n.end, 0
  %o.again = and i1 %o.more, %o.fits
  br i1 %o.again, label %operand, label %operands.done
operands.done:
  br i1 %o.fits, label %result, label %otherwise
result:
  br i1 %has.out, label %append.out, label %look
append.out:
  %n.out = call i64 @array(ptr %S, ptr %out, ptr %words, i64 %n.end)
  %out.fits = icmp ne i64 %n.out, 0
  br i1 %out.fits, label %look, label %otherwise
look:
  %count = phi i64 [ %n.end, %result ], [ %n.out, %append.out ]
{load_state("einsum_table")}
  %R = call ptr @find(ptr %einsum_table, ptr %words, i64 %count)
  %missing = icmp eq ptr %R, null
  br i1 %missing, label %otherwise, label %found
found:
  %answer = call ptr @execute(ptr %S, ptr %R, ptr %args, ptr %out)
  %is.answer = icmp ne ptr %answer, inttoptr (i64 {OTHERWISE} to ptr)
  br i1 %is.answer, label %done, label %otherwise
done:
  ret ptr %answer
otherwise:
{load_state("vectorcall", "einsum_fallback")}
  %slow = tail call ptr %vectorcall(ptr %einsum_fallback, ptr %args, i64 %given, ptr %names)
  ret ptr %slow
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"""


def _function() -> str:
    """A call of a compiled function, whose table and fallback lie in an array it holds."""
    return f"""define ptr @lw_function(ptr %self, ptr %args, i64 %given, ptr %names) nounwind {{
start:
  %words = alloca i64, i64 {MOST_WORDS}, align 8
  %S = load ptr, ptr @state, align 8
{load_state("get_attribute", "function_name", "decref", "vectorcall")}
  %held = call ptr %get_attribute(ptr %self, ptr %function_name)
  %lacks = icmp eq ptr %held, null
  br i1 %lacks, label %error, label %own
own:
{load_field("own.words", "held", DATA)}
  call void %decref(ptr %held)
{load_word("fallback", "own.words", 0, "ptr")}
{load_word("table", "own.words", 1, "ptr")}
  %no.names = icmp eq ptr %names, null
  %fits = icmp ule i64 %given, {MOST_ARGUMENTS}
  %plain = and i1 %no.names, %fits
  br i1 %plain, label %settings, label %otherwise
settings:
  %settled = call i1 @settled(ptr %S)
  br i1 %settled, label %head, label %otherwise
head:
{load_word("threads", "S", STATE["threads"])}
{load_state("integer_type", "float_type", "array_type", "integer")}
  store i64 %threads, ptr %words, align 8
  br label %argument
argument:
  %i = phi i64 [ 0, %head ], [ %i.next, %next ]
  %n = phi i64 [ 1, %head ], [ %n.end, %next ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %one, label %look
one:
{load_word("value", "args", "%i", "ptr")}
  %i.next = add i64 %i, 1
{load_field("type", "value", TYPE)}
  %is.array = icmp eq ptr %type, %array_type
  br i1 %is.array, label %array, label %number
array:
  %n.array = call i64 @array(ptr %S, ptr %value, ptr %words, i64 %n)
  %array.fits = icmp ne i64 %n.array, 0
  br i1 %array.fits, label %next, label %otherwise
number:
  %n.room = icmp ult i64 %n, {MOST_WORDS - 2}
  br i1 %n.room, label %number.type, label %otherwise
number.type:
  %type.word = getelementptr i64, ptr %words, i64 %n
  store ptr %type, ptr %type.word, align 8
  %n.one = add i64 %n, 1
  %is.float = icmp eq ptr %type, %float_type
  br i1 %is.float, label %next, label %whole
whole:
  %is.integer = icmp eq ptr %type, %integer_type
  br i1 %is.integer, label %whole.value, label %otherwise
whole.value:
  %number.value = call i64 %integer(ptr %value)
  %is.doubtful = icmp eq i64 %number.value, -1
  br i1 %is.doubtful, label %whole.doubt, label %whole.keep
whole.doubt:
{load_state("error_occurred")}
  %raised = call ptr %error_occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %whole.keep, label %otherwise.clear
whole.keep:
  %value.word = getelementptr i64, ptr %words, i64 %n.one
  store i64 %number.value, ptr %value.word, align 8
  %n.two = add i64 %n, 2
  br label %next
next:
  %n.end = phi i64 [ %n.array, %array ], [ %n.one, %number.type ], [ %n.two, %whole.keep ]
  br label %argument
look:
  %R = call ptr @find(ptr %table, ptr %words, i64 %n)
  %missing = icmp eq ptr %R, null
  br i1 %missing, label %otherwise, label %found
found:
  %before = getelementptr ptr, ptr %args, i64 -1
  %answer = call ptr @execute(ptr %S, ptr %R, ptr %before, ptr null)
  %is.answer = icmp ne ptr %answer, inttoptr (i64 {OTHERWISE} to ptr)
  br i1 %is.answer, label %done, label %otherwise
done:
  ret ptr %answer
otherwise.clear:
{load_state("error_clear")}
  call void %error_clear()
  br label %otherwise
otherwise:
  %slow = call ptr %vectorcall(ptr %fallback, ptr %args, i64 %given, ptr %names)
  ret ptr %slow
error:
  ret ptr null
}}"""
