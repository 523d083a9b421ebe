"""Powers of floating-point numbers whose exponent is a constant: products, roots and a quotient.

`x ** 1.5` as a call of the C library takes ten times as long as a product and a square root, and
no vectors. Here every product is kept as a sum hi + lo, whose second part is what rounding took
from the first: fused multiply-adds give it without an error. The result is rounded once from such a
sum, so it is the nearest number but for one in about 2^40 results, and where hi or lo is below the
normal numbers, where it may be the next one. glibc's pow is within 0.54 units in the last place.

Signs, zeros, infinities and NaN are those of IEEE 754's pow.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.backends.llvm_arithmetic import broadcast
from loopwright.backends.llvm_builder import (
    Flag,
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
)

__all__ = ["constant_power"]

_MOST = 8.0  # beyond, the chain of products is longer than what it replaces
_EXACT = (-1.0, 0.5, 1.0, 2.0)  # rounded once by one instruction


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
    return _Powers(code, x).power(exponent)


@dataclass(frozen=True, slots=True)
class _Sum:
    """The number hi + lo; lo is None where it is 0."""

    hi: str
    lo: str | None = None


class _Powers:
    """Writes the powers of one value. No instruction has flags: none may be contracted."""

    def __init__(self, code: FunctionBuilder, x: SSAValue) -> None:
        self.code, self.x = code, x

    def power(self, exponent: float) -> SSAValue:
        x, is_half = self.x.text, exponent != int(exponent)
        if is_half:
            # pow takes -0 as 0 and -inf as inf where the exponent is no integer.
            x = self._choose("oeq", x, self._number(-float("inf")), self._number(float("inf")), x)
            x = self._do("fadd", x, self._number(0.0))
        if exponent == 0.5:
            return self._value(self._intrinsic("sqrt", x))
        if exponent == -0.5:
            return self._rounded(self._reciprocal_root(x))
        # The reciprocal comes first: a product that overflows would have none.
        base = _Sum(x) if exponent > 0 else self._reciprocal(x)
        if exponent == -1:
            return self._value(base.hi)
        count = int(abs(exponent))
        found = self._times_root(base) if is_half else base
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

    def _times_root(self, a: _Sum) -> _Sum:
        """a sqrt(a), where sqrt(a) = s + (a - s^2) / 2s and a / s is s in the second term."""
        s = self._intrinsic("sqrt", a.hi)
        rest = self._fma(self._minus(s), s, a.hi)
        if a.lo is not None:
            rest = self._do("fadd", rest, a.lo)
        hi = self._do("fmul", a.hi, s)
        lo = self._fma(a.hi, s, self._minus(hi))
        lo = self._fma(self._do("fmul", s, self._number(0.5)), rest, lo)
        return _Sum(hi, lo if a.lo is None else self._fma(a.lo, s, lo))

    def _reciprocal(self, a: str) -> _Sum:
        """1 / a = q + q (1 - q a)."""
        q = self._do("fdiv", self._number(1.0), a)
        return _Sum(q, self._do("fmul", q, self._fma(self._minus(q), a, self._number(1.0))))

    def _reciprocal_root(self, a: str) -> _Sum:
        """1 / sqrt(a) = q + q (1 - q s) - q^3 (a - s^2) / 2 with q = 1 / s."""
        s = self._intrinsic("sqrt", a)
        found = self._reciprocal(s)
        q, lo = found.hi, found.lo
        assert lo is not None
        rest = self._fma(self._minus(s), s, a)
        # One factor after another: q^3 alone might overflow.
        term = self._do("fmul", self._do("fmul", rest, q), q)
        half = self._do("fmul", q, self._number(-0.5))
        return _Sum(q, self._fma(term, half, lo))

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
