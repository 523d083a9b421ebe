"""Signatures of calls, written down and looked for in tables: LLVM text (see ir/call_dispatch).

lw_hash(words, count)                the hash of a signature
@find(table, words, count)           its record, or null
@array(state, object, words, n)      append an array: the new length, 0 for what is none
@text(state, object)                 the one string of equal ones that signatures have, or null
@settled(state)                      whether the settings are those that records are made for
"""

from __future__ import annotations

from loopwright.backends.llvm.llvm_call_fields import (
    ALIGNED,
    DTYPE,
    EXTENTS,
    FLAGS,
    HEADER,
    RANK,
    STRIDES,
    TYPE,
    WARNS,
    load_field,
    load_record,
    load_state,
    load_word,
)
from loopwright.ir.call_dispatch import MOST_WORDS, PROBES, RECORD, STATE

__all__ = ["emit_lookup"]

_MULTIPLIER = 0x9E3779B97F4A7C15 - (1 << 64)


def emit_lookup() -> str:
    """All of these functions."""
    return "\n\n".join((_hash(), _find(), _array(), _settled(), _text()))


def _hash() -> str:
    return f"""define i64 @lw_hash(ptr %words, i64 %count) nounwind {{
start:
  br label %turn
turn:
  %i = phi i64 [ 0, %start ], [ %next, %turn ]
  %h = phi i64 [ %count, %start ], [ %mixed, %turn ]
{load_word("w", "words", "%i")}
  %turned = call i64 @llvm.fshl.i64(i64 %h, i64 %h, i64 23)
  %both = xor i64 %turned, %w
  %mixed = mul i64 %both, {_MULTIPLIER}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %turn, label %done
done:
  %high = lshr i64 %mixed, 32
  %hash = xor i64 %mixed, %high
  ret i64 %hash
}}

declare i64 @llvm.fshl.i64(i64, i64, i64)"""


def _find() -> str:
    """The record of a signature in a table, or null."""
    return f"""define internal ptr @find(ptr %table, ptr %words, i64 %count) nounwind {{
start:
  %hash = call i64 @lw_hash(ptr %words, i64 %count)
  %mask = load i64, ptr %table, align 8
  %slots = getelementptr i64, ptr %table, i64 1
  br label %probe
probe:
  %n = phi i64 [ 0, %start ], [ %n.next, %other ]
  %place = add i64 %hash, %n
  %slot = and i64 %place, %mask
{load_word("R", "slots", "%slot", "ptr")}
  %none = icmp eq ptr %R, null
  br i1 %none, label %missing, label %look
look:
{load_record(its_hash="hash", its_count="words")}
  %hash.equal = icmp eq i64 %its_hash, %hash
  %count.equal = icmp eq i64 %its_count, %count
  %equal = and i1 %hash.equal, %count.equal
  br i1 %equal, label %compare, label %other
compare:
  %known = getelementptr i64, ptr %R, i64 {RECORD["signature"]}
  br label %turn
turn:
  %i = phi i64 [ 0, %compare ], [ %i.next, %same ]
{load_word("x", "known", "%i")}
{load_word("y", "words", "%i")}
  %x.equal = icmp eq i64 %x, %y
  br i1 %x.equal, label %same, label %other
same:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %turn, label %found
other:
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, {PROBES}
  br i1 %n.more, label %probe, label %missing
found:
  ret ptr %R
missing:
  ret ptr null
}}"""


def _array() -> str:
    """Append an array to a signature: the new length, 0 for what is no array or does not fit."""
    return f"""define internal i64 @array(ptr %S, ptr %object, ptr %words, i64 %n) nounwind {{
start:
{load_state("array_type")}
{load_field("type", "object", TYPE)}
  %is.array = icmp eq ptr %type, %array_type
  br i1 %is.array, label %read, label %no
read:
{load_field("rank32", "object", RANK, "i32")}
{load_field("flags", "object", FLAGS, "i32")}
{load_field("dtype", "object", DTYPE, "i64")}
{load_field("extents", "object", EXTENTS)}
{load_field("strides", "object", STRIDES)}
  %rank = zext i32 %rank32 to i64
  %aligned = and i32 %flags, {ALIGNED - WARNS}
  %layout32 = or i32 %aligned, %rank32
  %layout = zext i32 %layout32 to i64
  %first = add i64 %n, 2
  %both = shl i64 %rank, 1
  %end = add i64 %first, %both
  %fits = icmp ule i64 %end, {MOST_WORDS}
  br i1 %fits, label %write, label %no
write:
  %w0 = getelementptr i64, ptr %words, i64 %n
  store i64 %dtype, ptr %w0, align 8
  %w1 = getelementptr i64, ptr %w0, i64 1
  store i64 %layout, ptr %w1, align 8
  %w2 = getelementptr i64, ptr %w0, i64 2
  %w3 = getelementptr i64, ptr %w2, i64 %rank
  %any = icmp ne i64 %rank, 0
  br i1 %any, label %turn, label %done
turn:
  %i = phi i64 [ 0, %write ], [ %next, %turn ]
{load_word("extent", "extents", "%i")}
{load_word("stride", "strides", "%i")}
  %e.at = getelementptr i64, ptr %w2, i64 %i
  store i64 %extent, ptr %e.at, align 8
  %s.at = getelementptr i64, ptr %w3, i64 %i
  store i64 %stride, ptr %s.at, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %rank
  br i1 %more, label %turn, label %done
done:
  ret i64 %end
no:
  ret i64 0
}}"""


def _settled() -> str:
    """Whether a dict still has a value under a key, or a cell has it; whether all settings do."""
    return f"""define internal i1 @same(ptr %S, ptr %dict, ptr %key, ptr %value) nounwind {{
start:
  %is.cell = icmp eq ptr %dict, null
  br i1 %is.cell, label %cell, label %name
cell:
{load_field("held", "key", HEADER)}
  br label %compare
name:
{load_state("dict_get")}
  %named = call ptr %dict_get(ptr %dict, ptr %key)
  br label %compare
compare:
  %found = phi ptr [ %held, %cell ], [ %named, %name ]
  %equal = icmp eq ptr %found, %value
  ret i1 %equal
}}

define internal i1 @settled(ptr %S) nounwind {{
start:
  %left.at = getelementptr i64, ptr %S, i64 {STATE["countdown"]}
  %left = load i64, ptr %left.at, align 8
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %left.at, align 8
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %look, label %no
look:
{load_state("options_dict", "options_key", "options_value", "team_dict", "team_key", "team_value")}
  %options = call i1 @same(ptr %S, ptr %options_dict, ptr %options_key, ptr %options_value)
  br i1 %options, label %more, label %no
more:
  %team = call i1 @same(ptr %S, ptr %team_dict, ptr %team_key, ptr %team_value)
  ret i1 %team
no:
  ret i1 false
}}"""


def _text() -> str:
    return f"""define internal ptr @text(ptr %S, ptr %value) nounwind {{
start:
{load_state("text_type", "texts", "dict_get")}
{load_field("type", "value", TYPE)}
  %is.text = icmp eq ptr %type, %text_type
  br i1 %is.text, label %look, label %no
look:
  %found = call ptr %dict_get(ptr %texts, ptr %value)
  ret ptr %found
no:
  ret ptr null
}}"""
