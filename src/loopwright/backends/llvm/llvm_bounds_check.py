"""Bounds checks in emitted code: every subscript is compared with the extents of its buffer.

Programs are proven to stay inside their arrays; these checks (LOOPWRIGHT_BOUNDSCHECK) test the
compiler from the proof to the instruction. They are emitted where addresses are computed; of a
vector access the first and the last lane are checked.

The limits of arguments are scalars behind those of the nest; those of local memory are its extents.
The first access outside is recorded in the last words of the scalars, and is redirected to memory
of its own. Loops end then, for their ends may have been read there, but for those around barriers:
no thread waits for ever.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.backends.llvm import llvm_memory as memory
from loopwright.backends.llvm.llvm_arithmetic import select
from loopwright.backends.llvm.llvm_builder import Flag, FunctionBuilder, SSAValue, int_literal
from loopwright.ir.dtypes import INT64
from loopwright.ir.loops import Alloc, LoopNest, Space
from loopwright.ir.visit import statements

__all__ = [
    "INSIDE",
    "VIOLATION",
    "checked_names",
    "inside",
    "limit_names",
    "redirected",
    "unless_violated",
    "with_limits",
]

# Number of the buffer (from 1; 0 while all is well), dimension, subscript, and its limits.
_RECORD = ("buffer", "dimension", "subscript", "low", "high")
VIOLATION = tuple(f"violation.{word}" for word in _RECORD)

INSIDE = """
define internal i1 @lw_inside(
    ptr %told, i64 %buffer, i64 %dimension, i64 %first, i64 %last, i64 %low, i64 %high
) noinline nounwind {
entry:
  %first.low = icmp sge i64 %first, %low
  %first.high = icmp slt i64 %first, %high
  %last.low = icmp sge i64 %last, %low
  %last.high = icmp slt i64 %last, %high
  %first.inside = and i1 %first.low, %first.high
  %last.inside = and i1 %last.low, %last.high
  %inside = and i1 %first.inside, %last.inside
  br i1 %inside, label %done, label %outside
outside:
  %swap = cmpxchg ptr %told, i64 0, i64 %buffer seq_cst seq_cst
  %is.first = extractvalue { i64, i1 } %swap, 1
  br i1 %is.first, label %tell, label %done
tell:
  %subscript = select i1 %first.inside, i64 %last, i64 %first
  %told1 = getelementptr i64, ptr %told, i64 1
  store i64 %dimension, ptr %told1, align 8
  %told2 = getelementptr i64, ptr %told, i64 2
  store i64 %subscript, ptr %told2, align 8
  %told3 = getelementptr i64, ptr %told, i64 3
  store i64 %low, ptr %told3, align 8
  %told4 = getelementptr i64, ptr %told, i64 4
  store i64 %high, ptr %told4, align 8
  br label %done
done:
  ret i1 %inside
}
"""


def limit_names(buffer: str, dimension: int) -> tuple[str, str]:
    """The scalars with the least subscript of a dimension and the first one beyond it."""
    return f"{buffer}.low{dimension}", f"{buffer}.high{dimension}"


def with_limits(nest: LoopNest) -> LoopNest:
    """`nest` with scalars for the limits of its arguments and for the record of a violation."""
    limits = [
        name
        for buffer in nest.buffers
        for dimension in range(len(buffer.strides))
        for name in limit_names(buffer.name, dimension)
    ]
    return replace(nest, scalars=(*nest.scalars, *limits, *VIOLATION))


def checked_names(nest: LoopNest) -> tuple[str, ...]:
    """The buffers in memory, by the number (from 1) that identifies them in a violation."""
    local = (
        stmt.buffer.name
        for stmt in statements(nest.body)
        if isinstance(stmt, Alloc) and stmt.buffer.space is not Space.REGISTER
    )
    return tuple(dict.fromkeys([*(buffer.name for buffer in nest.buffers), *local]))


def inside(
    code: FunctionBuilder,
    violation: str,
    place: tuple[int, int],
    ends: tuple[SSAValue, SSAValue],
    limits: tuple[SSAValue, SSAValue],
) -> Flag:
    """Whether the subscripts of the first and last lane lie in a dimension.

    `place` is the number of the buffer and that of the dimension; `violation` points to the
    record.
    """
    numbers = ", ".join(f"i64 {number}" for number in place)
    values = ", ".join(map(str, (*ends, *limits)))
    return Flag(code.emit(f"call i1 @lw_inside(ptr {violation}, {numbers}, {values})"))


def unless_violated(code: FunctionBuilder, violation: str, more: str) -> str:
    """Whether a loop goes on: `more`, and no access was outside."""
    told = code.emit(f"load atomic i64, ptr {violation} monotonic, align 8")
    is_well = code.emit(f"icmp eq i64 {told}, 0")
    return code.emit(f"and i1 {more}, {is_well}")


def redirected(
    code: FunctionBuilder,
    is_inside: Flag,
    spare: str,
    place: memory.PointerBuffer,
    found: tuple[SSAValue, SSAValue, int],
) -> tuple[memory.PointerBuffer, tuple[SSAValue, SSAValue, int]]:
    """An access that is redirected to the memory `spare`, of as many lanes, where it is outside."""
    offset, stride, lanes = found
    pointer = code.emit(f"select {is_inside}, ptr {place.pointer}, ptr {spare}")
    # Lanes that run backwards end at the first element of that memory.
    start = lanes - 1 if int_literal(stride) == -1 else 0
    offset = select(code, is_inside, offset, SSAValue(str(start), INT64))
    if int_literal(stride) not in (-1, 0, 1):
        stride = select(code, is_inside, stride, SSAValue("0", INT64))
    return memory.PointerBuffer(pointer, place.dtype), (offset, stride, lanes)
