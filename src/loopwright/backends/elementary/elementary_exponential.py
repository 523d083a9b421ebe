"""exp and tanh of real numbers in straight lines of arithmetic, which compilers take in vectors.

The library's functions take one number at a time, and a loop that calls them has no vectors. With n
the integer nearest to x / ln 2 and r = x - n ln 2, at most ln 2 / 2,

    exp(x) = 2^n exp(r),    exp(r) = 1 + (r + r^2 q(r))

ln 2 is taken in two parts, so that r is exact to the last bits. q is the polynomial through the
values of (exp(r) - 1 - r) / r^2 at Chebyshev's points, of a degree that leaves an eighth of an ulp
of the result at most. The result is within 1.2 ulp of exp(x). 2^n is taken in two factors, because
one may be no normal number.

    tanh(x) = t / (t + 2),    t = exp(2 x) - 1 = 2^n (exp(r) - 1) + (2^n - 1)

of x without its sign, which is given back at the end, and which is 20 at most: from there on the
result is 1. It is within 2.2 ulp of tanh(x).
"""

from __future__ import annotations

from loopwright.backends.elementary.elementary_arithmetic import Arithmetic, Condition, Value
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.lazy_dataclass import dataclass

__all__ = ["exponential", "hyperbolic_tangent"]

_LOG2_E = 1.4426950408889634
_ONE_FROM = 20.0  # where tanh is 1


@dataclass(frozen=True, slots=True)
class _Format:
    """What depends on the type of the numbers."""

    q: tuple[float, ...]  # coefficients
    most: float  # beyond it the result is infinite, or zero for numbers below zero
    ln2: tuple[float, float]  # ln 2 in a short part and the rest


_FORMATS = {
    FLOAT32: _Format(
        (
            0.5,
            0.16666577018959405,
            0.041666554653757494,
            0.00836317418011074,
            0.0013926177501010365,
        ),
        104.0,
        (0.693359375, -2.1219444005469057e-4),
    ),
    FLOAT64: _Format(
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
        746.0,
        (0.6931471803691238, 1.9082149292705877e-10),
    ),
}


def exponential(on: Arithmetic[Value, Condition], x: Value) -> Value:
    """exp(x)."""
    zero, most = on.number(0.0), on.number(_FORMATS[on.dtype].most)
    beyond, whole = _beyond_one(on, x)
    half = on.on_bits("lshr", whole, on.integer(1))
    first = _scaled(on, on.add(beyond, on.number(1.0)), half)
    second = _scaled(on, on.number(1.0), on.on_bits("sub", whole, half))
    # Nothing waits for what is beyond the ends, or NaN.
    end = on.select(on.compare("lt", x, zero), zero, on.add(x, on.number(float("inf"))))
    is_inside = on.compare("le", on.absolute(x), most)
    return on.select(is_inside, on.mul(first, second), end)


def hyperbolic_tangent(on: Arithmetic[Value, Condition], x: Value) -> Value:
    """tanh(x)."""
    size, most = on.absolute(x), on.number(_ONE_FROM)
    size = on.select(on.compare("gt", size, most), most, size)
    beyond, whole = _beyond_one(on, on.add(size, size))
    power = _scaled(on, on.number(1.0), whole)
    t = on.fma(beyond, power, on.sub(power, on.number(1.0)))
    return on.with_sign(on.div(t, on.add(t, on.number(2.0))), x)


def _beyond_one(on: Arithmetic[Value, Condition], x: Value) -> tuple[Value, Value]:
    """exp(r) - 1, and bits whose last ones are those of n."""
    form = _FORMATS[on.dtype]
    n, whole = on.nearest(x, _LOG2_E)
    rest = on.fma(n, on.number(-form.ln2[0]), x)
    rest = on.fma(n, on.number(-form.ln2[1]), rest)
    square = on.mul(rest, rest)
    return on.fma(square, on.polynomial(form.q, rest, square), rest), whole


def _scaled(on: Arithmetic[Value, Condition], value: Value, whole: Value) -> Value:
    """`value` times 2 to the power that the last bits of `whole` say; the others leave."""
    up = on.on_bits("shl", whole, on.integer(on.fraction))
    return on.of_bits(on.on_bits("add", on.bits_of(value), up))
