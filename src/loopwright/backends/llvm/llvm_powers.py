"""Powers of floating-point numbers whose exponent is a constant: products, roots and a quotient.

`x ** 1.5` as a call of the C library takes ten times as long as a product and a square root, and
no vectors. Here every product is kept as a sum hi + lo, whose second part is what rounding took
from the first: fused multiply-adds give it without an error. The result is rounded once from such a
sum, so it is the nearest number but for one in about 2^40 results, and where hi or lo is below the
normal numbers, where it may be the next one.

`x ** -1.5` needs neither the square root nor the division, which processors take many cycles for
and do not overlap. With y near x^-1/2 and e = 1 - x y^2,

    x^-(k + 1/2) = y^(2k + 1) (1 - e)^-(k + 1/2) = y^(2k + 1) (1 + (k + 1/2) e + ...).

y has so few digits that y^2 and y^3 have no rounding error, nor has e but its own, and the
binomial series adds a small term to y^3: such results are within 0.52 units in the last place.
glibc's pow is within 0.54.

Signs, zeros, infinities and NaN are those of IEEE 754's pow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from loopwright.backends.llvm.llvm_arithmetic import broadcast
from loopwright.backends.llvm.llvm_builder import (
    Flag,
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
    type_name,
)
from loopwright.ir.dtypes import DTYPES, DType

__all__ = ["constant_power"]

_MOST = 8.0  # beyond, the chain of products is longer than what it replaces
_EXACT = (-1.0, 0.5, 1.0, 2.0)  # rounded once by one instruction


@dataclass(frozen=True, slots=True)
class _RootEstimate:
    """y near x^-1/2 for a format, from below: 0 < e = 1 - x y^2 < `excess` for normal x.

    Half of x's bits subtracted from `magic`, as integers, are those of a number within 3.5% of
    x^-1/2, as the bits of a number are nearly its logarithm (C. Lomont, Fast inverse
    square root, 2003). w = x y^2 lies in [0.932, 1.0692], and `_NEAR_ROOT` of w corrects y.
    """

    magic: int
    dropped: int  # low bits of y's significand that are cleared, so that y^2 is exact
    is_cube_exact: bool
    excess: float
    last: float  # 2^-7 units in the last place: what may be left out of a series
    tiny: float  # the least normal number
    huge: float  # the greatest number


# The quadratic that interpolates w^-1/2 at Chebyshev's points of [0.9315, 1.0701], off by 2.7e-5 at
# most, times 1 - 2.8e-5: coefficients of 1, w, w^2.
_NEAR_ROOT = (1.876310282, -1.2515621917, 0.3752248106)
_GREATEST = {64: float.fromhex("0x1.fffffffffffffp+1023"), 32: float.fromhex("0x1.fffffep+127")}
_ESTIMATES = {
    64: _RootEstimate(0x5FE6EB50C7B537A9, 36, True, 1.5e-4, 2.0**-60, 2.0**-1022, _GREATEST[64]),
    32: _RootEstimate(0x5F375A86, 12, False, 1.1e-3, 2.0**-31, 2.0**-126, _GREATEST[32]),
}
# `excess` where y comes from an instruction that is within 2^-8 and one step of Newton's method.
_NEON_EXCESS = {64: 7.9e-5, 32: 1.1e-3}


def constant_power(
    code: FunctionBuilder, x: SSAValue, exponent: float, features: frozenset[str]
) -> SSAValue | None:
    """x to a constant power that is a multiple of a half; None where pow has to be called."""
    if not x.dtype.is_float or x.dtype.bits < 32:
        return None
    if exponent == 0 or abs(exponent) > _MOST or 2 * exponent != int(2 * exponent):
        return None
    if "fma" not in features and exponent not in _EXACT:
        return None
    return _Powers(code, x, features).power(exponent)


@dataclass(frozen=True, slots=True)
class _Sum:
    """The number hi + lo; lo is None where it is 0."""

    hi: str
    lo: str | None = None


class _Powers:
    """Writes the powers of one value. No instruction has flags: none may be contracted."""

    def __init__(self, code: FunctionBuilder, x: SSAValue, features: frozenset[str]) -> None:
        self.code, self.x, self.has_estimate = code, x, "neon" in features

    def power(self, exponent: float) -> SSAValue:
        x, is_half = self.x.text, exponent != int(exponent)
        if is_half:
            # pow takes -0 as 0 and -inf as inf where the exponent is no integer.
            x = self._choose("oeq", x, self._number(-float("inf")), self._number(float("inf")), x)
            x = self._do("fadd", x, self._number(0.0))
        if exponent == 0.5:
            return self._value(self._intrinsic("sqrt", x))
        if is_half and exponent < 0:
            return self._value(self._inverse_root_power(x, int(-exponent)))
        # The reciprocal comes first: a product that overflows would have none.
        base = _Sum(x) if exponent > 0 else self._reciprocal(x)
        if exponent == -1:
            return self._value(base.hi)
        count = int(abs(exponent))
        found = self._times_root(x) if is_half else base
        return self._rounded(self._product(found, base, count - 1))

    def _product(self, found: _Sum, base: _Sum, count: int) -> _Sum:
        """`found` times `base` to the power `count`, by squaring."""
        while count:
            if count & 1:
                found = self._times(found, base)
            count >>= 1
            if count:
                base = self._times(base, base)
        return found

    def _times(self, a: _Sum, b: _Sum) -> _Sum:
        hi = self._do("fmul", a.hi, b.hi)
        lo = self._fma(a.hi, b.hi, self._minus(hi))
        if b.lo is not None:
            lo = self._fma(a.hi, b.lo, lo)
        if a.lo is not None:
            lo = self._fma(a.lo, b.hi, lo)
        return _Sum(hi, lo)

    def _times_root(self, a: str) -> _Sum:
        """a sqrt(a), where sqrt(a) = s + (a - s^2) / 2s and a / s is s in the second term."""
        s = self._intrinsic("sqrt", a)
        rest = self._fma(self._minus(s), s, a)
        hi = self._do("fmul", a, s)
        lo = self._fma(a, s, self._minus(hi))
        return _Sum(hi, self._fma(self._do("fmul", s, self._number(0.5)), rest, lo))

    def _reciprocal(self, a: str) -> _Sum:
        """1 / a = q + q (1 - q a)."""
        q = self._do("fdiv", self._number(1.0), a)
        return _Sum(q, self._do("fmul", q, self._fma(self._minus(q), a, self._number(1.0))))

    def _inverse_root_power(self, x: str, count: int) -> str:
        """x^-(count + 1/2) for x that is neither -0 nor -infinity."""
        about = _ESTIMATES[self.x.dtype.bits]
        if count:
            # The least and the greatest normal number have the results of all beyond them:
            # infinity and 0. Between them y^2 is finite and not 0.
            near = self._clamped(x, about.tiny, about.huge)
            found = self._power_of_normal(near, count, about)
        else:
            found = self._inverse_root(x, about)
        return self._choose("olt", x, self._number(0.0), self._number(float("nan")), found)

    def _inverse_root(self, x: str, about: _RootEstimate) -> str:
        """x^-1/2 for x >= 0; numbers below the normal ones are multiplied by a power of 4 first."""
        small, factor = ("olt", x, self._number(about.tiny)), 2.0**self.x.dtype.bits
        lifted = self._do("fmul", x, self._number(factor**2))
        found = self._power_of_normal(self._choose(*small, lifted, x), 0, about)
        lifted = self._do("fmul", found, self._number(factor))
        found = self._choose(*small, lifted, found)
        zero, infinity = self._number(0.0), self._number(float("inf"))
        found = self._choose("oeq", x, zero, infinity, found)
        return self._choose("oeq", x, infinity, zero, found)

    def _power_of_normal(self, x: str, count: int, about: _RootEstimate) -> str:
        """x^-(count + 1/2) for normal x."""
        y = self._root_estimate(x, about)
        square = self._do("fmul", y, y)
        e = self._fma(self._minus(x), square, self._number(1.0))
        if count and about.is_cube_exact:
            found = _Sum(self._do("fmul", square, y))
            found = self._product(found, _Sum(square), count - 1)
        else:
            found = self._product(_Sum(y), _Sum(square), count)
        term = self._do("fmul", found.hi, e)
        excess = _NEON_EXCESS[self.x.dtype.bits] if self.has_estimate else about.excess
        series = self._polynomial(_series(count + 0.5, excess, about.last), e)
        if found.lo is None:
            return self._fma(term, series, found.hi)
        return self._rounded(_Sum(found.hi, self._fma(term, series, found.lo))).text

    def _root_estimate(self, x: str, about: _RootEstimate) -> str:
        """y of `about` for normal x."""
        if self.has_estimate:
            return self._truncated(self._refined_estimate(x), about)
        whole = type_name(self._integers, self.x.lanes)
        half = self.code.emit(f"lshr {whole} {self._bits(x)}, {self._integer(1)}")
        y = self._from_bits(self.code.emit(f"sub {whole} {self._integer(about.magic)}, {half}"))
        w = self._do("fmul", x, self._do("fmul", y, y))
        y = self._do("fmul", y, self._polynomial(_NEAR_ROOT, w))
        return self._truncated(y, about)

    def _refined_estimate(self, x: str) -> str:
        """x^-1/2 from below, by the instruction for 8 digits and a step of Newton's method.

        LLVM makes them of a quotient that need not be exact, and vectors of both. Were it to divide
        in earnest, `_truncated` would still leave few digits.
        """
        steps = ",".join(f"{name}:1" for name in ("sqrtd", "sqrtf", "vec-sqrtd", "vec-sqrtf"))
        self.code.attributes[f'"reciprocal-estimates"="{steps}"'] = None
        kind, name = self.x.type, f"llvm.sqrt.{intrinsic_suffix(self.x.dtype, self.x.lanes)}"
        self.code.declarations[f"declare {kind} @{name}({kind})"] = None
        root = self.code.emit(f"call arcp afn {kind} @{name}({kind} {x})")
        return self.code.emit(f"fdiv arcp afn {kind} {self._number(1.0)}, {root}")

    def _truncated(self, y: str, about: _RootEstimate) -> str:
        """y with the digits that `about` leaves it."""
        whole = type_name(self._integers, self.x.lanes)
        kept = self._integer(-1 << about.dropped)
        return self._from_bits(self.code.emit(f"and {whole} {self._bits(y)}, {kept}"))

    def _polynomial(self, coefficients: Sequence[float], x: str) -> str:
        """By Horner's scheme; coefficients begin with that of 1."""
        found = self._number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            found = self._fma(found, x, self._number(c))
        return found

    def _clamped(self, x: str, low: float, high: float) -> str:
        """The nearest number of an interval; NaN stays."""
        least, greatest = self._number(low), self._number(high)
        if self.has_estimate:  # one instruction each; x86 has one for compare and select
            return self._intrinsic("minimum", self._intrinsic("maximum", x, least), greatest)
        x = self._choose("olt", x, least, least, x)
        return self._choose("ogt", x, greatest, greatest, x)

    def _rounded(self, a: _Sum) -> SSAValue:
        """hi + lo, or hi where that is no number, as lo is none for infinite hi, or is 0."""
        if a.lo is None:
            return self._value(a.hi)
        total = self._do("fadd", a.hi, a.lo)
        return self._value(self._choose("one", total, self._number(0.0), total, a.hi))

    # -- instructions ---------------------------------------------------------------------------

    def _value(self, text: str) -> SSAValue:
        return SSAValue(text, self.x.dtype, self.x.lanes)

    def _number(self, value: float) -> str:
        return broadcast(self.code, literal(self.x.dtype, value), self.x.lanes).text

    @property
    def _integers(self) -> DType:
        return DTYPES[f"int{self.x.dtype.bits}"]

    def _integer(self, value: int) -> str:
        return broadcast(self.code, literal(self._integers, value), self.x.lanes).text

    def _bits(self, a: str) -> str:
        kind = type_name(self._integers, self.x.lanes)
        return self.code.emit(f"bitcast {self.x.type} {a} to {kind}")

    def _from_bits(self, a: str) -> str:
        kind = type_name(self._integers, self.x.lanes)
        return self.code.emit(f"bitcast {kind} {a} to {self.x.type}")

    def _do(self, instruction: str, a: str, b: str) -> str:
        return self.code.emit(f"{instruction} {self.x.type} {a}, {b}")

    def _minus(self, a: str) -> str:
        return self.code.emit(f"fneg {self.x.type} {a}")

    def _intrinsic(self, name: str, *args: str) -> str:
        suffix = intrinsic_suffix(self.x.dtype, self.x.lanes)
        return self.code.intrinsic(self.x.type, f"llvm.{name}.{suffix}", *args)

    def _fma(self, a: str, b: str, c: str) -> str:
        return self._intrinsic("fma", a, b, c)

    def _choose(self, test: str, a: str, b: str, yes: str, no: str) -> str:
        kind = self.x.type
        flag = Flag(self.code.emit(f"fcmp {test} {kind} {a}, {b}"), self.x.lanes)
        return self.code.emit(f"select {flag}, {kind} {yes}, {kind} {no}")


def _series(power: float, excess: float, last: float) -> tuple[float, ...]:
    """Coefficients of e, e^2, ... in (1 - e)^-power - 1 for 0 < e < `excess`.

    The binomial series, whose last term is replaced by a polynomial of lower degree that is nearest
    to it on the interval: the term less a multiple of Chebyshev's polynomial of its degree.
    """
    found = [0.0, power]
    while found[-1] * excess ** (len(found) - 1) * 2.0 ** (3 - 2 * len(found)) > last:
        count = len(found) - 1
        found.append(found[-1] * (power + count) / (count + 1))
    nearest = Chebyshev.basis(len(found) - 1, domain=(0, excess)).convert(kind=Polynomial).coef
    return tuple((np.array(found) - found[-1] / nearest[-1] * nearest)[1:-1].tolist())
