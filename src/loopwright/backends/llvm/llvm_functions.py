"""Functions on LLVM values: intrinsics, complex functions of the C library, dot products.

LLVM has intrinsics for functions of real numbers and calls libm for most of them. Powers of
integers and functions of complex numbers have none: they are computed lane by lane. Dot-product
instructions add several products of narrow integers to each 32-bit lane at once: four of bytes or
two of 16-bit integers. All their sums wrap modulo 2**32; the saturating forms are never used.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.backends.llvm.llvm_arithmetic import (
    binary,
    broadcast,
    cast,
    compare,
    same_lanes,
    select,
    unary,
)
from loopwright.backends.llvm.llvm_builder import (
    WITH_SSE2,
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
    type_name,
)
from loopwright.backends.llvm.llvm_elementary import elementary
from loopwright.backends.llvm.llvm_memory import extract, gather
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT64
from loopwright.ir.expr import REAL_INSTRUCTIONS, REAL_ONLY, REAL_PAIRS

__all__ = ["absolute", "call", "dot", "fused_complex_product", "power"]

_LOG2_E, _LOG10_E, _LN_2 = 1.4426950408889634, 0.4342944819032518, 0.6931471805599453
# Function -> the C function that computes it for complex numbers, a factor of its argument, a
# factor of its result.
_COMPLEX: dict[str, tuple[str, float, float]] = {
    "sqrt": ("csqrt", 1.0, 1.0),
    "exp": ("cexp", 1.0, 1.0),
    "exp2": ("cexp", _LN_2, 1.0),
    "log": ("clog", 1.0, 1.0),
    "log2": ("clog", 1.0, _LOG2_E),
    "log10": ("clog", 1.0, _LOG10_E),
    "sin": ("csin", 1.0, 1.0),
    "cos": ("ccos", 1.0, 1.0),
    "tan": ("ctan", 1.0, 1.0),
    "tanh": ("ctanh", 1.0, 1.0),
    "pow": ("cpow", 1.0, 1.0),
}

# x^n modulo 2^64 by squaring, n unsigned; narrower types take the low bits.
_POWER = """
define internal i64 @lw_power(i64 %x, i64 %n) noinline nounwind {
entry:
  br label %step
step:
  %base = phi i64 [ %x, %entry ], [ %square, %step ]
  %left = phi i64 [ %n, %entry ], [ %half, %step ]
  %total = phi i64 [ 1, %entry ], [ %chosen, %step ]
  %bit = and i64 %left, 1
  %odd = icmp ne i64 %bit, 0
  %product = mul i64 %total, %base
  %chosen = select i1 %odd, i64 %product, i64 %total
  %square = mul i64 %base, %base
  %half = lshr i64 %left, 1
  %more = icmp ne i64 %half, 0
  br i1 %more, label %step, label %done
done:
  ret i64 %chosen
}"""


def call(
    code: FunctionBuilder,
    function: str,
    args: tuple[SSAValue, ...],
    features: frozenset[str] = frozenset(),
) -> SSAValue:
    """A pure function, lane by lane; `features` are the machine's."""
    if function in _PARTS:
        return _PARTS[function](code, args[0])
    args = same_lanes(code, *args)
    last = args[-1]
    match function:
        case "fma" if last.dtype.bits == 16 and last.dtype.is_float and "fp16" not in features:
            # LLVM would go through double, from where x86 has no way back to half.
            wide = _fma(code, *(cast(code, x, FLOAT32) for x in args))
            return cast(code, wide, last.dtype)
        case "fma":
            return _fma(code, *args)
        case "min_number" | "max_number":
            return _extreme_number(code, function, args[0], args[1], features)
        case "add_sat":
            return _intrinsic(code, "sadd.sat", *args)
        case "pow":
            return power(code, *args)
    if function in REAL_ONLY or function in REAL_PAIRS:
        return _real_call(code, function, *args)
    if last.dtype.is_complex:
        return _lane_by_lane(code, lambda x: _complex_call(code, function, x), *args)
    ours = elementary(code, function, last, features)
    return _intrinsic(code, function, *args) if ours is None else ours


def _extreme_number(
    code: FunctionBuilder, function: str, x: SSAValue, y: SSAValue, features: frozenset[str]
) -> SSAValue:
    """The minimum or maximum that ignores NaN (IEEE minimumNumber), -0.0 before +0.0."""
    bits = x.lanes * x.dtype.bits
    whole = bits == 512 or (bits in (128, 256) and "avx512vl" in features)
    if "avx512dq" not in features or x.dtype.bits < 32 or not whole:
        return _intrinsic(code, "minimumnum" if function == "min_number" else "maximumnum", x, y)
    # LLVM knows no single instruction for it; x86 has one, which is asked for bits 2 (the sign is
    # that of the result) and 0 (the greater).
    letter = "s" if x.dtype.bits == 32 else "d"
    name = f"llvm.x86.avx512.mask.range.p{letter}.{bits}"
    mask = f"i{max(8, x.lanes)}"
    kinds, values = [x.type, x.type, "i32", x.type, mask], [x.text, y.text, "4", "poison", "-1"]
    values[2] = "4" if function == "min_number" else "5"
    if bits == 512:
        kinds.append("i32")
        values.append("4")  # rounding, of which there is none, as the processor is set
    code.declarations[f"declare {x.type} @{name}({', '.join(kinds)})"] = None
    operands = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, values, strict=True))
    code.features["+avx512dq"] = None
    if bits != 512:
        code.features["+avx512vl"] = None
    return SSAValue(code.emit(f"call {x.type} @{name}({operands})"), x.dtype, x.lanes)


def power(code: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x to the power y, lane by lane."""
    x, y = same_lanes(code, x, y)
    if x.dtype.is_float:
        return _intrinsic(code, "pow", x, y)
    if x.dtype.is_complex:
        found = _lane_by_lane(code, lambda a, b: _complex_call(code, "pow", a, b), x, y)
        zero, one = (broadcast(code, literal(x.dtype, c), x.lanes) for c in (0.0, 1.0))
        return select(code, compare(code, "eq", y, zero), one, found)
    return _lane_by_lane(code, lambda a, b: _integer_power(code, a, b), x, y)


def absolute(code: FunctionBuilder, x: SSAValue) -> SSAValue:
    """The absolute value of complex numbers by hypot, since squares might overflow."""
    kind = "f" if x.dtype.real.bits == 32 else ""

    def distance(z: SSAValue) -> SSAValue:
        parts = [SSAValue(text, z.dtype.real) for text in (z.text, z.imag)]
        return _library(code, f"hypot{kind}", *parts)

    return _lane_by_lane(code, distance, x)


def _lane_by_lane(
    code: FunctionBuilder, make: Callable[..., SSAValue], *args: SSAValue
) -> SSAValue:
    lanes = args[0].lanes
    if lanes == 1:
        return make(*args)
    return gather(code, [make(*(extract(code, x, k) for x in args)) for k in range(lanes)])


def _intrinsic(code: FunctionBuilder, function: str, *args: SSAValue) -> SSAValue:
    last = args[-1]
    name = f"llvm.{function}.{intrinsic_suffix(last.dtype, last.lanes)}"
    return SSAValue(code.call(last.type, name, *args), last.dtype, last.lanes)


def _real_call(code: FunctionBuilder, function: str, *args: SSAValue) -> SSAValue:
    """A function of real numbers: an instruction, or calls of the C library, lane by lane."""
    dtype = args[-1].dtype
    if dtype.bits == 16:
        wide = _real_call(code, function, *(cast(code, x, FLOAT32) for x in args))
        return cast(code, wide, dtype)
    if function in REAL_INSTRUCTIONS:
        return _intrinsic(code, function, *args)
    name = f"{function}{'f' if dtype.bits == 32 else ''}"
    return _lane_by_lane(code, lambda *parts: _library(code, name, *parts), *args)


def _library(code: FunctionBuilder, name: str, *args: SSAValue) -> SSAValue:
    """A call of a function of <math.h>, whose errno nobody reads."""
    types = ", ".join(arg.type for arg in args)
    pure = "nounwind willreturn memory(none)"
    code.declarations[f"declare {args[-1].type} @{name}({types}) {pure}"] = None
    given = ", ".join(map(str, args))
    return SSAValue(code.emit(f"call {args[-1].type} @{name}({given})"), args[-1].dtype)


def _integer_power(code: FunctionBuilder, x: SSAValue, n: SSAValue) -> SSAValue:
    """Modulo 2^bits; x to a negative power is 1/x^n rounded towards zero, and 0 for x = 0."""
    code.declarations[_POWER] = None
    base, exponent = cast(code, x, INT64), cast(code, n, INT64)
    whole = SSAValue(code.emit(f"call i64 @lw_power({base}, {exponent})"), INT64)
    if x.dtype.kind == "i":
        # Of whole numbers only 1 and -1 have an inverse, their own.
        other = code.emit(f"add {base}, 1")
        is_unit = code.emit(f"icmp ult i64 {other}, 3")
        not_zero = code.emit(f"icmp ne {base}, 0")
        kept = code.emit(f"and i1 {is_unit}, {not_zero}")
        inverse = code.emit(f"select i1 {kept}, {whole}, i64 0")
        negative = code.emit(f"icmp slt {exponent}, 0")
        whole = SSAValue(code.emit(f"select i1 {negative}, i64 {inverse}, {whole}"), INT64)
    return cast(code, whole, x.dtype)


def _complex_call(code: FunctionBuilder, function: str, *args: SSAValue) -> SSAValue:
    """Call a function of <complex.h>; the ABI passes a double complex as two doubles."""
    name, before, after = _COMPLEX[function]
    wide = DTYPES["complex128"]
    parts: list[SSAValue] = []
    for arg in args:
        z = cast(code, arg, wide)
        parts += [_scaled(code, text, before) for text in (z.text, z.imag)]
    both = code.call("{double, double}", name, *parts)
    re, im = (code.emit(f"extractvalue {{double, double}} {both}, {k}") for k in (0, 1))
    re, im = (_scaled(code, text, after).text for text in (re, im))
    return cast(code, SSAValue(re, wide, 1, im), args[0].dtype)


def _scaled(code: FunctionBuilder, text: str, factor: float) -> SSAValue:
    value = SSAValue(text, FLOAT64)
    return value if factor == 1.0 else binary(code, "mul", value, literal(FLOAT64, factor))


def _conj(code: FunctionBuilder, x: SSAValue) -> SSAValue:
    if not x.dtype.is_complex:
        return x
    negated = unary(code, "neg", SSAValue(x.imag, x.dtype.real, x.lanes))
    return SSAValue(x.text, x.dtype, x.lanes, negated.text)


def _imag(code: FunctionBuilder, x: SSAValue) -> SSAValue:
    if x.dtype.is_complex:
        return SSAValue(x.imag, x.dtype.real, x.lanes)
    return broadcast(code, literal(x.dtype, 0), x.lanes)


_PARTS: dict[str, Callable[[FunctionBuilder, SSAValue], SSAValue]] = {
    "conj": _conj,
    "real": lambda code, x: SSAValue(x.text, x.dtype.real, x.lanes),
    "imag": _imag,
}


def _fma(code: FunctionBuilder, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    """x*y + z; complex products are four real ones chained on the accumulator."""
    if x.dtype.is_float:
        return _intrinsic(code, "fma", x, y, z)
    if not x.dtype.is_complex:
        return binary(code, "add", binary(code, "mul", x, y), z)

    def part(text: str) -> SSAValue:
        return SSAValue(text, x.dtype.real, x.lanes)

    minus = unary(code, "neg", part(x.imag))
    re = _fma(code, minus, part(y.imag), _fma(code, part(x.text), part(y.text), part(z.text)))
    im = _fma(
        code, part(x.imag), part(y.text), _fma(code, part(x.text), part(y.imag), part(z.imag))
    )
    return SSAValue(re.text, x.dtype, x.lanes, im.text)


def fused_complex_product(code: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x*y of complex numbers: each part is a product, and a second one added to it."""
    x, y = same_lanes(code, x, y)

    def part(text: str) -> SSAValue:
        return SSAValue(text, x.dtype.real, x.lanes)

    xr, xi, yr, yi = part(x.text), part(x.imag), part(y.text), part(y.imag)
    re = _fma(code, unary(code, "neg", xi), yi, binary(code, "mul", xr, yr))
    im = _fma(code, xi, yr, binary(code, "mul", xr, yi))
    return SSAValue(re.text, x.dtype, x.lanes, im.text)


# -- dot products ---------------------------------------------------------------------------------

# Lanes of the sum -> the intrinsic for pairs of 16-bit products, and the extension it needs.
_PAIRS = {4: ("sse2.pmadd.wd", "sse2"), 8: ("avx2.pmadd.wd", "avx2")}
_PAIRS[16] = ("avx512.pmaddw.d.512", "avx512bw")


def dot(
    code: FunctionBuilder,
    x: tuple[SSAValue, int | None],
    y: tuple[SSAValue, int | None],
    total: SSAValue,
    features: frozenset[str],
) -> SSAValue:
    """total + the sums over groups of x*y.

    Operands are rows of narrow integers, as many groups as `total` has lanes. One with a lane
    number is the group that starts there, broadcast to every group of the other operand.
    """
    first, second = (_spread_group(code, row, lane, total) for row, lane in (x, y))
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
        return SSAValue(code.emit(f"add {total}, {products}"), total.dtype, total.lanes)
    return _widened(code, first, second, total)


def _vnni(lanes: int, features: frozenset[str]) -> str:
    """The extensions with dot products of `lanes` sums on x86; empty where there are none."""
    if "avx512vnni" in features and (lanes == 16 or (lanes in (4, 8) and "avx512vl" in features)):
        return "+avx512vnni" if lanes == 16 else "+avx512vnni,+avx512vl"
    return "+avxvnni" if "avxvnni" in features and lanes in (4, 8) else ""


def _has_pairs(lanes: int, features: frozenset[str]) -> bool:
    if lanes == 4:
        return bool(features & WITH_SSE2)
    return lanes in _PAIRS and _PAIRS[lanes][1] in features


def _fused(
    code: FunctionBuilder, name: str, extension: str, total: SSAValue, x: SSAValue, y: SSAValue
) -> SSAValue:
    """One instruction for products and sum."""
    code.features[extension] = None
    return SSAValue(code.call(total.type, name, total, x, y), total.dtype, total.lanes)


def _widened(code: FunctionBuilder, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
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
        result = SSAValue(code.emit(f"add {result}, {every}"), total.dtype, total.lanes)
    return result


def _spread_group(
    code: FunctionBuilder, row: SSAValue, lane: int | None, total: SSAValue
) -> SSAValue:
    """The row itself, or its group at `lane` broadcast to every group."""
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
    return SSAValue(text, row.dtype, group * total.lanes)
