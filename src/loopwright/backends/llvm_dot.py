"""Dot-product instructions: four products of bytes added to each 32-bit lane at once."""

from __future__ import annotations

from loopwright.backends.llvm_text import Code, Value, type_name
from loopwright.ir.dtypes import INT32

__all__ = ["GROUP", "dot"]

GROUP = 4  # products per lane


def dot(
    code: Code,
    x: tuple[Value, int | None],
    y: tuple[Value, int | None],
    total: Value,
    features: frozenset[str],
) -> Value:
    """total + the sums over groups of x*y.

    Operands are register rows of four times as many lanes as `total`; a lane number says that the
    group starting there meets every group of the other operand.
    """
    first, second = (_spread(code, row, lane) for row, lane in (x, y))
    if "dotprod" in features and total.lanes == 4 and first.dtype == second.dtype:
        letter = "s" if first.dtype.kind == "i" else "u"
        name = f"llvm.aarch64.neon.{letter}dot.v4i32.v16i8"
        code.features["+dotprod"] = None
        # The spread operand comes last: there the instruction takes one group of a register.
        ordered = (second, first) if x[1] is not None else (first, second)
        return Value(code.call(total.type, name, total, *ordered), total.dtype, total.lanes)
    wide = type_name(INT32, first.lanes)
    factors = [
        code.emit(f"{'sext' if v.dtype.kind == 'i' else 'zext'} {v} to {wide}")
        for v in (first, second)
    ]
    products = code.emit(f"mul {wide} {factors[0]}, {factors[1]}")
    # LLVM's own partial reduction may add any lanes together: which ones depends on the processor.
    result = total
    for part in range(GROUP):
        mask = ", ".join(f"i32 {part + GROUP * lane}" for lane in range(total.lanes))
        every = code.emit(
            f"shufflevector {wide} {products}, {wide} poison, <{total.lanes} x i32> <{mask}>"
        )
        text = code.emit(f"add {result}, {every}")
        result = Value(text, total.dtype, total.lanes)
    return result


def _spread(code: Code, row: Value, lane: int | None) -> Value:
    """A row itself, or its group at `lane` in every group."""
    if lane is None:
        return row
    words = row.lanes // GROUP
    as_words = code.emit(f"bitcast {row} to <{words} x i32>")
    mask = ", ".join([f"i32 {lane // GROUP}"] * words)
    spread = code.emit(
        f"shufflevector <{words} x i32> {as_words}, <{words} x i32> poison, "
        f"<{words} x i32> <{mask}>"
    )
    text = code.emit(f"bitcast <{words} x i32> {spread} to {row.type}")
    return Value(text, row.dtype, row.lanes)
