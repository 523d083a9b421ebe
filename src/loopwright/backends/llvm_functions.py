"""Functions on LLVM values: intrinsics, the parts of complex numbers, what the C library adds.

LLVM has intrinsics for functions of real numbers and calls libm for most of them. Powers of
integers and functions of complex numbers have none: they are computed lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.backends.llvm_memory import extract, gather
from loopwright.backends.llvm_ops import (
    binary,
    broadcast,
    cast,
    compare,
    same_lanes,
    select,
    unary,
)
from loopwright.backends.llvm_text import Code, Value, intrinsic_suffix, literal
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT64

__all__ = ["absolute", "call", "power"]

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
    code: Code, function: str, args: tuple[Value, ...], features: frozenset[str] = frozenset()
) -> Value:
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
    if last.dtype.is_complex:
        return _lane_by_lane(code, lambda x: _complex_call(code, function, x), *args)
    return _intrinsic(code, function, *args)


def _extreme_number(
    code: Code, function: str, x: Value, y: Value, features: frozenset[str]
) -> Value:
    """The lesser or greater number, -0.0 before +0.0; a NaN loses."""
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
    return Value(code.emit(f"call {x.type} @{name}({operands})"), x.dtype, x.lanes)


def power(code: Code, x: Value, y: Value) -> Value:
    """x to the power y, lane by lane."""
    x, y = same_lanes(code, x, y)
    if x.dtype.is_float:
        return _intrinsic(code, "pow", x, y)
    if x.dtype.is_complex:
        found = _lane_by_lane(code, lambda a, b: _complex_call(code, "pow", a, b), x, y)
        zero, one = (broadcast(code, literal(x.dtype, c), x.lanes) for c in (0.0, 1.0))
        return select(code, compare(code, "eq", y, zero), one, found)
    return _lane_by_lane(code, lambda a, b: _integer_power(code, a, b), x, y)


def absolute(code: Code, x: Value) -> Value:
    """The distance of complex numbers from 0; their squares might overflow."""
    kind = "f" if x.dtype.real.bits == 32 else ""

    def distance(z: Value) -> Value:
        parts = [Value(text, z.dtype.real) for text in (z.text, z.imag)]
        return Value(code.call(parts[0].type, f"hypot{kind}", *parts), z.dtype.real)

    return _lane_by_lane(code, distance, x)


def _lane_by_lane(code: Code, make: Callable[..., Value], *args: Value) -> Value:
    lanes = args[0].lanes
    if lanes == 1:
        return make(*args)
    return gather(code, [make(*(extract(code, x, k) for x in args)) for k in range(lanes)])


def _intrinsic(code: Code, function: str, *args: Value) -> Value:
    last = args[-1]
    name = f"llvm.{function}.{intrinsic_suffix(last.dtype, last.lanes)}"
    return Value(code.call(last.type, name, *args), last.dtype, last.lanes)


def _integer_power(code: Code, x: Value, n: Value) -> Value:
    """Modulo 2^bits; x to a negative power is 1/x^n rounded towards zero, and 0 for x = 0."""
    code.declarations[_POWER] = None
    base, exponent = cast(code, x, INT64), cast(code, n, INT64)
    whole = Value(code.emit(f"call i64 @lw_power({base}, {exponent})"), INT64)
    if x.dtype.kind == "i":
        # Of whole numbers only 1 and -1 have an inverse, their own.
        other = code.emit(f"add {base}, 1")
        is_unit = code.emit(f"icmp ult i64 {other}, 3")
        not_zero = code.emit(f"icmp ne {base}, 0")
        kept = code.emit(f"and i1 {is_unit}, {not_zero}")
        inverse = code.emit(f"select i1 {kept}, {whole}, i64 0")
        negative = code.emit(f"icmp slt {exponent}, 0")
        whole = Value(code.emit(f"select i1 {negative}, i64 {inverse}, {whole}"), INT64)
    return cast(code, whole, x.dtype)


def _complex_call(code: Code, function: str, *args: Value) -> Value:
    """A function of <complex.h> for double, whose numbers travel as two doubles each."""
    name, before, after = _COMPLEX[function]
    wide = DTYPES["complex128"]
    parts: list[Value] = []
    for arg in args:
        z = cast(code, arg, wide)
        parts += [_scaled(code, text, before) for text in (z.text, z.imag)]
    both = code.call("{double, double}", name, *parts)
    re, im = (code.emit(f"extractvalue {{double, double}} {both}, {k}") for k in (0, 1))
    re, im = (_scaled(code, text, after).text for text in (re, im))
    return cast(code, Value(re, wide, 1, im), args[0].dtype)


def _scaled(code: Code, text: str, factor: float) -> Value:
    value = Value(text, FLOAT64)
    return value if factor == 1.0 else binary(code, "mul", value, literal(FLOAT64, factor))


def _conj(code: Code, x: Value) -> Value:
    if not x.dtype.is_complex:
        return x
    negated = unary(code, "neg", Value(x.imag, x.dtype.real, x.lanes))
    return Value(x.text, x.dtype, x.lanes, negated.text)


def _imag(code: Code, x: Value) -> Value:
    if x.dtype.is_complex:
        return Value(x.imag, x.dtype.real, x.lanes)
    return broadcast(code, literal(x.dtype, 0), x.lanes)


_PARTS: dict[str, Callable[[Code, Value], Value]] = {
    "conj": _conj,
    "real": lambda code, x: Value(x.text, x.dtype.real, x.lanes),
    "imag": _imag,
}


def _fma(code: Code, x: Value, y: Value, z: Value) -> Value:
    """x*y + z; complex products are four real ones chained on the accumulator."""
    if x.dtype.is_float:
        return _intrinsic(code, "fma", x, y, z)
    if not x.dtype.is_complex:
        return binary(code, "add", binary(code, "mul", x, y), z)

    def part(text: str) -> Value:
        return Value(text, x.dtype.real, x.lanes)

    minus = unary(code, "neg", part(x.imag))
    re = _fma(code, minus, part(y.imag), _fma(code, part(x.text), part(y.text), part(z.text)))
    im = _fma(
        code, part(x.imag), part(y.text), _fma(code, part(x.text), part(y.imag), part(z.imag))
    )
    return Value(re.text, x.dtype, x.lanes, im.text)
