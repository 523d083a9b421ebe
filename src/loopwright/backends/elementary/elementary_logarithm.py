"""log of real numbers in straight lines of arithmetic, which compilers take in vectors.

With x = 2^k (1 + f), 1 + f between the roots of 1/2 and 2, and s = f / (2 + f),

    log(x) = k ln 2 + log(1 + f),    log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 q(s^2))

ln 2 is taken in two parts, the first so short that its product with k is exact. q goes through the
values of (log((1 + s) / (1 - s)) - 2 s) / s^3 at Chebyshev's points. The result is within 1.2 ulp.
Numbers below the normal ones are multiplied by a power of two before.
"""

from __future__ import annotations

from loopwright.backends.elementary.elementary_arithmetic import Arithmetic, Condition, Value
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.lazy_dataclass import dataclass

__all__ = ["logarithm"]


@dataclass(frozen=True, slots=True)
class _Format:
    """What depends on the type of the numbers."""

    root: int  # the bits of the root of 1/2
    least: float  # the least normal number
    scale: int  # the power of two for numbers below
    ln2: tuple[float, float]  # ln 2 in a short part and the rest
    q: tuple[float, ...]  # coefficients


_FORMATS = {
    FLOAT32: _Format(
        0x3F3504F3,
        2.0**-126,
        25,
        (0.693359375, -2.1219444005469057e-4),
        (0.6666668653488159, 0.39988744258880615, 0.29581335186958313),
    ),
    FLOAT64: _Format(
        0x3FE6A09E667F3BCD,
        2.0**-1022,
        54,
        (0.6931471803691238, 1.9082149292705877e-10),
        (
            0.666666666666667,
            0.39999999999897995,
            0.2857142862649731,
            0.22222211061036468,
            0.18182894036402547,
            0.15331568159885126,
            0.1461826219998157,
        ),
    ),
}


def logarithm(on: Arithmetic[Value, Condition], x: Value) -> Value:
    """log(x)."""
    form = _FORMATS[on.dtype]
    zero, one, infinite = (on.number(value) for value in (0.0, 1.0, float("inf")))
    is_small = on.compare("lt", x, on.number(form.least))
    bits = on.bits_of(on.select(is_small, on.mul(x, on.number(2.0**form.scale)), x))
    # k and half of all powers, so that it is not negative: AVX2 has no shift that keeps signs.
    half = 1 << (on.dtype.bits - 2 - on.fraction)
    above = on.on_bits("add", bits, on.integer((half << on.fraction) - form.root))
    power = on.on_bits("lshr", above, on.integer(on.fraction))
    k = on.sub(on.small_number(power), on.number(half))
    k = on.sub(k, on.select(is_small, on.number(form.scale), zero))
    f = on.on_bits("shl", on.on_bits("sub", power, on.integer(half)), on.integer(on.fraction))
    f = on.sub(on.of_bits(on.on_bits("sub", bits, f)), one)
    s = on.div(f, on.add(f, on.number(2.0)))
    square = on.mul(s, s)
    bent = on.rounded_product(on.mul(f, on.number(0.5)), f)
    bend = on.fma(square, on.polynomial(form.q, square), bent)
    low = on.fma(s, bend, on.mul(k, on.number(form.ln2[1])))
    value = on.fma(k, on.number(form.ln2[0]), on.sub(f, on.sub(bent, low)))
    # NaN and infinity stay; zero and what is below have no logarithm.
    value = on.select(on.compare("lt", x, infinite), value, x)
    end = on.select(on.compare("eq", x, zero), on.number(-float("inf")), on.number(float("nan")))
    return on.select(on.compare("le", x, zero), end, value)
