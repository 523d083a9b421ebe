"""sin and cos of real numbers in straight lines of arithmetic, which compilers take in vectors.

With n the integer nearest to x / (pi/2) and r = x - n pi/2, which is at most pi/4,

    sin(x) = sin(r), cos(r), -sin(r), -cos(r)    for n = 0, 1, 2, 3 modulo 4
    sin(r) = r - r^3 s(r^2),    cos(r) = 1 - r^2/2 + r^4 c(r^2)

and cos(x) is what sin has for n + 1. pi/2 is taken in three numbers. x less n times the first is
exact: both are multiples of one small power of two, and the difference is small. What is lost when
n times the second is taken from it is known, and so is what is lost in 1 - r^2/2: both are added
last. So r has all bits that count for numbers up to 2^47 in float64 and 2^18 in float32. Numbers
beyond go to the library, behind a branch that is hardly ever taken and is not made here. s and c
are polynomials through Chebyshev's points. Results are within 1.2 ulp.
"""

from __future__ import annotations

from loopwright.backends.elementary.elementary_arithmetic import Arithmetic, Condition, Value
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.lazy_dataclass import dataclass

__all__ = ["FAR", "cosine", "sine"]

_TWO_OVER_PI = 0.6366197723675814


@dataclass(frozen=True, slots=True)
class _Format:
    """What depends on the type of the numbers."""

    half_pi: tuple[float, float, float]  # parts of pi/2
    far: float  # numbers from here on are the library's
    s: tuple[float, ...]
    c: tuple[float, ...]


_FORMATS = {
    FLOAT32: _Format(
        (1.570796251296997, 7.549790126404332e-08, -1.7151245100058819e-15),
        2.0**18,
        (0.166666641831398, -0.008332742378115654, 0.00019586978305596858),
        (0.0416666641831398, -0.0013888297835364938, 2.4547027351218276e-05),
    ),
    FLOAT64: _Format(
        (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        2.0**47,
        (
            0.16666666666666666,
            -0.008333333333330853,
            0.0001984126983665751,
            -2.755731605985054e-06,
            2.5051124070533486e-08,
            -1.5917620799633646e-10,
        ),
        (
            0.041666666666666664,
            -0.0013888888888887337,
            2.480158729870247e-05,
            -2.755731724501808e-07,
            2.0876141405091423e-09,
            -1.1382314332823624e-11,
        ),
    ),
}


FAR = {dtype: form.far for dtype, form in _FORMATS.items()}


def sine(on: Arithmetic[Value, Condition], x: Value) -> Value:
    """sin(x) of numbers before `FAR`."""
    return _turned(on, x, 0)


def cosine(on: Arithmetic[Value, Condition], x: Value) -> Value:
    """cos(x) of numbers before `FAR`."""
    return _turned(on, x, 1)


def _turned(on: Arithmetic[Value, Condition], x: Value, quarters: int) -> Value:
    """sin(x + quarters pi/2)."""
    form = _FORMATS[on.dtype]
    n, bits = on.nearest(x, _TWO_OVER_PI)
    first, second, third = form.half_pi
    near = on.fma(n, on.number(-first), x)
    part = on.rounded_product(n, on.number(second))
    rest = on.sub(near, part)
    # What the difference has too much, and what it still lacks: the error of `part`, and the third.
    excess = on.sub(part, on.sub(near, rest))
    excess = on.sub(excess, on.fma(on.negative(n), on.number(second), part))
    excess = on.fma(n, on.number(third), excess)
    square = on.mul(rest, rest)
    fourth = on.mul(square, square)
    slope = on.fma(square, on.number(-0.5), on.number(1.0))
    bend = on.mul(on.mul(rest, square), on.polynomial(form.s, square, fourth))
    # For -0.0 this is -0.0 - 0.0.
    sine = on.sub(rest, on.fma(excess, slope, bend))
    left = on.fma(square, on.number(-0.5), on.sub(on.number(1.0), slope))
    cosine = on.fma(fourth, on.polynomial(form.c, square, fourth), left)
    cosine = on.add(slope, on.fma(rest, excess, cosine))
    if quarters:
        bits = on.on_bits("add", bits, on.integer(quarters))
    one_bit = on.on_bits("and", bits, on.integer(1))
    value = on.select(on.compare("eq", one_bit, on.integer(0)), sine, cosine)
    # The second of the last bits becomes the sign.
    sign = on.on_bits("shl", bits, on.integer(on.dtype.bits - 2))
    sign = on.on_bits("and", sign, on.integer(-1 << (on.dtype.bits - 1)))
    return on.of_bits(on.on_bits("xor", on.bits_of(value), sign))
