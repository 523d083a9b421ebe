"""Buffers in C: how an element is written down, and how memory is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loopwright.backends.c_operations import Helper
from loopwright.backends.c_types import PRODUCT, Code, c_type
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, as_expr
from loopwright.ir.loops import Alloc, Buffer

__all__ = ["ALLOCATE", "Place", "array_extents", "declaration", "total_elements"]

# Cache lines of memory that vectors like to begin on; never no bytes, for which the answer is open.
ALLOCATE = Helper(
    "lw_allocate",
    "void *",
    ("unsigned long",),
    (
        "void *lw_p = __builtin_aligned_alloc(64, lw_a / 64 * 64 + 64);",
        "if (!lw_p) __builtin_abort();",
    ),
    "lw_p",
)
Index = Callable[[Expr], Code]  # writes an index expression


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer that the text can name."""

    name: str  # in C
    dtype: DType
    # None: an array of C with all its extents, or a variable. Otherwise a pointer to the element
    # with all subscripts zero, and the strides.
    strides: tuple[Expr, ...] | None

    def element(self, index: tuple[Expr, ...], write: Index) -> str:
        """The lvalue of one element."""
        if self.strides is None:
            return self.name + "".join(f"[{write(entry)}]" for entry in index)
        offset: Expr = Const(0)
        for entry, stride in zip(index, self.strides, strict=True):
            offset = offset + entry * stride
        return f"{self.name}[{write(offset)}]"


def array_extents(buffer: Buffer, shape: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Extents of a C array with the strides of `buffer`; None when there is none.

    The distance from one row to the next is the extent of a row, which may be more than is used.
    """
    strides = buffer.strides
    if not strides:
        return ()
    if strides[-1] != Const(1):
        return None
    extents = [shape[0]]
    for outer, inner, least in zip(strides, strides[1:], shape[1:], strict=False):
        if outer == least * inner:
            extents.append(least)
            continue
        match outer, inner, least:
            case Const(value=int(o)), Const(value=int(i)), Const(value=int(m)):
                if i <= 0 or o % i or o // i < m:
                    return None
                extents.append(Const(o // i))
            case _:
                return None
    return tuple(extents)


def total_elements(stmt: Alloc, extents: tuple[Expr, ...] | None) -> Expr:
    """How many elements the memory has; none where an extent is negative."""
    total: Expr = Const(1)
    if extents is not None:
        for extent in extents:
            total = total * extent.max(0)
        return total
    for extent, stride in zip(stmt.shape, stmt.buffer.strides, strict=True):
        total = total + (extent - 1).max(0) * stride
    return total


def declaration(
    name: str, dtype: DType, extents: tuple[Expr, ...] | None, count: Expr, write: Index, heap: bool
) -> str:
    """The declaration of local memory; `count` elements where it has no extents of its own."""
    element = c_type(dtype)
    sizes = (count,) if extents is None else extents
    if not heap:
        return f"{element} {name}" + "".join(f"[{write(as_expr(n))}]" for n in sizes) + ";"
    rows = "".join(f"[{write(n)}]" for n in sizes[1:])
    pointer = f"(*{name}){rows}" if rows else f"*{name}"
    return f"{element} {pointer} = lw_allocate({write(count).within(PRODUCT)} * sizeof({element}));"
