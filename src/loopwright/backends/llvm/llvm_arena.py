"""Scratch memory of a kernel: which buffers lie in it, and their sizes in LLVM."""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.backends.llvm import llvm_memory as memory
from loopwright.backends.llvm.llvm_builder import SSAValue, int_literal
from loopwright.backends.llvm.llvm_expressions import LLVMExpressions
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64
from loopwright.ir.loops import Alloc, LoopNest, Space
from loopwright.ir.visit import names, statements

__all__ = ["allocations", "reach", "size"]

_ALIGN = 128  # buffers start on cache-line pairs


def allocations(nest: LoopNest, space: Space) -> Iterator[Alloc]:
    """The buffers of a nest in one space, in order."""
    for stmt in statements(nest.body):
        if isinstance(stmt, Alloc) and stmt.buffer.space is space:
            yield stmt


def size(values: LLVMExpressions, alloc: Alloc, nest: LoopNest) -> SSAValue:
    """Bytes of a buffer, rounded up to whole cache lines."""
    used = set().union(*map(names, (*alloc.shape, *alloc.buffer.strides)))
    if not used <= set(nest.scalars):
        raise InternalError(f"the size of '{alloc.buffer.name}' is not known at the launch")
    code, element = values.code, SSAValue(str(alloc.buffer.dtype.bytes), INT64)
    total = memory.index_binary(code, "mul", reach(values, alloc), element)
    total = memory.index_binary(code, "add", total, SSAValue(str(_ALIGN - 1), INT64))
    found = int_literal(total)
    if found is not None:
        return SSAValue(str(max(found, 0) // _ALIGN * _ALIGN), INT64)
    some = code.call("i64", "llvm.smax.i64", total, SSAValue("0", INT64))
    return SSAValue(code.emit(f"and i64 {some}, {-_ALIGN}"), INT64)


def reach(values: LLVMExpressions, alloc: Alloc) -> SSAValue:
    """Elements from the first to the last of a buffer, with the gaps between them."""
    total = SSAValue("1", INT64)
    for extent, stride in zip(alloc.shape, alloc.buffer.strides, strict=True):
        far = memory.index_binary(
            values.code, "mul", values.index(extent - 1), values.index(stride)
        )
        total = memory.index_binary(values.code, "add", total, far)
    return total
