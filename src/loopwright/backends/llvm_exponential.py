"""exp of real numbers in straight lines of arithmetic, which compilers take in vectors.

The library's function takes one number at a time, and a loop that calls it has no vectors. With n
the integer nearest to x / ln 2 and r = x - n ln 2, at most ln 2 / 2,

    exp(x) = 2^n exp(r),    exp(r) = 1 + (r + r^2 q(r))

ln 2 is taken in two parts, so that r is exact to the last bits. q is the polynomial through the
values of (exp(r) - 1 - r) / r^2 at Chebyshev's points, of a degree that leaves an eighth of an ulp
of the result at most, and is computed by halves (Estrin), which wait for each other less than its
terms do one after the other. The result is within 1.2 ulp of exp(x). n is found by adding 3/2
of the largest power of two that has a half: the last bits of that sum are those of n, so NaN goes
through and nothing is converted. 2^n is taken in two factors, because one may be no normal number.
"""

from __future__ import annotations

from loopwright.backends.llvm_arithmetic import binary, broadcast, compare, select
from loopwright.backends.llvm_builder import (
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
)
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from loopwright.lazy_dataclass import dataclass

__all__ = ["exponential", "has_exponential"]

_VECTOR_BITS = {"avx512f": 512, "avx2": 256, "neon": 128}  # the widest first
_LEAST_LANES = 4
_LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class _Format:
    """What depends on the type of the numbers."""

    integer: DType  # of as many bits
    fraction: int  # bits of the fraction
    q: tuple[float, ...]  # coefficients
    lowest: float  # below it the result is zero
    highest: float  # above it, infinite
    ln2: tuple[float, float]  # ln 2 in a short part and the rest
    offset: int  # even; makes n positive


_FORMATS = {
    FLOAT32: _Format(
        DTYPES["int32"],
        23,
        (
            0.5,
            0.16666577018959405,
            0.041666554653757494,
            0.00836317418011074,
            0.0013926177501010365,
        ),
        -104.0,
        89.0,
        (0.693359375, -2.1219444005469057e-4),
        256,
    ),
    FLOAT64: _Format(
        DTYPES["int64"],
        52,
        (
            0.5,
            0.16666666666666669,
            0.04166666666662416,
            0.008333333333330063,
            0.0013888888917199863,
            0.00019841269863042963,
            2.4801521317484083e-05,
            2.7557268476553695e-06,
            2.7620078203806394e-07,
            2.5100377619606372e-08,
        ),
        -746.0,
        710.0,
        (0.6931471803691238, 1.9082149292705877e-10),
        2048,
    ),
}


def has_exponential(x: SSAValue, features: frozenset[str]) -> bool:
    """Whether that is faster than the library: vectors have four lanes, fused products exist.

    With two lanes it is not (Neoverse N1: 7.4 ns for 6.3 in float64, 2.7 for 5.5 in float32).
    """
    bits = next((bits for name, bits in _VECTOR_BITS.items() if name in features), 0)
    return x.dtype in _FORMATS and "fma" in features and bits >= _LEAST_LANES * x.dtype.bits


def exponential(code: FunctionBuilder, x: SSAValue) -> SSAValue:
    """exp(x), lane by lane."""
    form = _FORMATS[x.dtype]

    def number(value: float) -> SSAValue:
        return broadcast(code, literal(x.dtype, value), x.lanes)

    def integer(value: int) -> SSAValue:
        return broadcast(code, literal(form.integer, value), x.lanes)

    def fma(a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        name = f"llvm.fma.{intrinsic_suffix(x.dtype, x.lanes)}"
        return SSAValue(code.call(x.type, name, a, b, c), x.dtype, x.lanes)

    def bits_as(value: SSAValue, dtype: DType) -> SSAValue:
        found = SSAValue("", dtype, x.lanes)
        return SSAValue(code.emit(f"bitcast {value} to {found.type}"), dtype, x.lanes)

    for op, end in (("gt", form.highest), ("lt", form.lowest)):
        x = select(code, compare(code, op, x, number(end)), number(end), x)
    shift = number(1.5 * 2.0**form.fraction)
    shifted = fma(x, number(_LOG2_E), shift)
    n = binary(code, "sub", shifted, shift)
    rest = fma(n, number(-form.ln2[0]), x)
    rest = fma(n, number(-form.ln2[1]), rest)
    square = binary(code, "mul", rest, rest)
    parts, power = [number(c) for c in form.q], rest
    while len(parts) > 1:
        pairs = zip(parts[::2], [*parts[1::2], None], strict=False)
        parts = [low if high is None else fma(high, power, low) for low, high in pairs]
        power = square if power is rest else binary(code, "mul", power, power)
    beyond = fma(square, parts[0], rest)
    value = binary(code, "add", beyond, number(1.0))
    # n + offset is the sum of two numbers, each of which gives a power of two.
    first = bits_as(shift, form.integer)
    whole = binary(code, "sub", bits_as(shifted, form.integer), first)
    whole = binary(code, "add", whole, integer(form.offset))
    half = SSAValue(code.emit(f"lshr {whole}, {integer(1).text}"), form.integer, x.lanes)
    for part in (half, binary(code, "sub", whole, half)):
        exponent = binary(code, "sub", part, integer(1))
        shifted_up = code.emit(f"shl {exponent}, {integer(form.fraction).text}")
        factor = bits_as(SSAValue(shifted_up, form.integer, x.lanes), x.dtype)
        value = binary(code, "mul", value, factor)
    return value
