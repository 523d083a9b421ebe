"""Dot-product instructions: several products of narrow integers added to each 32-bit lane at once.

A lane takes four products of bytes or two of 16-bit integers. All sums wrap modulo 2**32; the
saturating forms of these instructions are never used.
"""

from __future__ import annotations

from loopwright.backends.llvm_text import Code, Value, type_name

__all__ = ["dot"]

# Lanes of the sum -> the intrinsic for pairs of 16-bit products, and the extension it needs.
_PAIRS = {4: ("sse2.pmadd.wd", "sse2"), 8: ("avx2.pmadd.wd", "avx2")}
_PAIRS[16] = ("avx512.pmaddw.d.512", "avx512bw")
# Extensions that only processors with sse2 have.
_WITH_SSE2 = frozenset({"sse3", "sse4.1", "sse4.2", "avx", "avx2"})


def dot(
    code: Code,
    x: tuple[Value, int | None],
    y: tuple[Value, int | None],
    total: Value,
    features: frozenset[str],
) -> Value:
    """total + the sums over groups of x*y.

    Operands are rows of narrow integers, as many groups as `total` has lanes; a lane number says
    that the group starting there meets every group of the other operand.
    """
    first, second = (_spread(code, row, lane, total) for row, lane in (x, y))
    kinds, bits = first.dtype.kind + second.dtype.kind, first.dtype.bits
    if bits == 8 and kinds in ("ii", "uu") and "dotprod" in features and total.lanes == 4:
        # The spread operand comes last: there the instruction takes one group of a register.
        ordered = (second, first) if x[1] is not None else (first, second)
        name = f"llvm.aarch64.neon.{'s' if kinds == 'ii' else 'u'}dot.v4i32.v16i8"
        return _fused(code, name, "+dotprod", total, *ordered)
    vnni = _vnni(total.lanes, features)
    width = 32 * total.lanes
    if bits == 8 and kinds in ("iu", "ui") and vnni:
        unsigned, signed = (second, first) if kinds == "iu" else (first, second)
        return _fused(code, f"llvm.x86.avx512.vpdpbusd.{width}", vnni, total, unsigned, signed)
    if bits == 16 and kinds == "ii" and vnni:
        return _fused(code, f"llvm.x86.avx512.vpdpwssd.{width}", vnni, total, first, second)
    if bits == 16 and kinds == "ii" and _has_pairs(total.lanes, features):
        name, extension = _PAIRS[total.lanes]
        code.features[f"+{extension}"] = None
        # Two products of -32768 by itself wrap in the instruction, as they do in the sum.
        products = code.call(total.type, f"llvm.x86.{name}", first, second)
        return Value(code.emit(f"add {total}, {products}"), total.dtype, total.lanes)
    return _widened(code, first, second, total)


def _vnni(lanes: int, features: frozenset[str]) -> str:
    """The extensions with dot products of `lanes` sums on x86; empty where there are none."""
    if "avx512vnni" in features and (lanes == 16 or (lanes in (4, 8) and "avx512vl" in features)):
        return "+avx512vnni" if lanes == 16 else "+avx512vnni,+avx512vl"
    return "+avxvnni" if "avxvnni" in features and lanes in (4, 8) else ""


def _has_pairs(lanes: int, features: frozenset[str]) -> bool:
    if lanes == 4:
        return bool(features & _WITH_SSE2)
    return lanes in _PAIRS and _PAIRS[lanes][1] in features


def _fused(code: Code, name: str, extension: str, total: Value, x: Value, y: Value) -> Value:
    """One instruction for products and sum."""
    code.features[extension] = None
    return Value(code.call(total.type, name, total, x, y), total.dtype, total.lanes)


def _widened(code: Code, x: Value, y: Value, total: Value) -> Value:
    """Products in the type of the sum, for processors without an instruction."""
    wide = type_name(total.dtype, x.lanes)
    factors = [
        code.emit(f"{'sext' if v.dtype.kind == 'i' else 'zext'} {v} to {wide}") for v in (x, y)
    ]
    products = code.emit(f"mul {wide} {factors[0]}, {factors[1]}")
    # LLVM's own partial reduction may add any lanes together: which ones depends on the processor.
    result, group = total, x.lanes // total.lanes
    for part in range(group):
        mask = ", ".join(f"i32 {part + group * lane}" for lane in range(total.lanes))
        every = code.emit(
            f"shufflevector {wide} {products}, {wide} poison, <{total.lanes} x i32> <{mask}>"
        )
        result = Value(code.emit(f"add {result}, {every}"), total.dtype, total.lanes)
    return result


def _spread(code: Code, row: Value, lane: int | None, total: Value) -> Value:
    """A row itself, or its group at `lane` in every group."""
    if lane is None:
        return row
    group = total.dtype.bits // row.dtype.bits
    words, word = row.lanes // group, type_name(total.dtype)
    as_words = code.emit(f"bitcast {row} to <{words} x {word}>")
    mask = ", ".join([f"i32 {lane // group}"] * total.lanes)
    spread = code.emit(
        f"shufflevector <{words} x {word}> {as_words}, <{words} x {word}> poison, "
        f"<{total.lanes} x i32> <{mask}>"
    )
    whole = type_name(row.dtype, group * total.lanes)
    text = code.emit(f"bitcast <{total.lanes} x {word}> {spread} to {whole}")
    return Value(text, row.dtype, group * total.lanes)
