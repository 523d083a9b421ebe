"""Compute in lanes of 16 bits what fits into them.

C computes with bytes and shorts in int, and a vector of ints has half the lanes of one of shorts.
Intervals tell that a value v of a wide type W lies within a type T of 16 bits. Sums, differences
and products are the same modulo 2^16 in whatever type they are computed, so that v may be made of
operands modulo 2^16, whatever their own range:

    v = 77 * W(a) + 150 * W(b) + 29 * W(c) in [0, 65280]  ==  W(77 * T(a) + 150 * T(b) + 29 * T(c))

Quotients, minima and comparisons need operands that fit themselves.

This is the last that happens to a nest, where its code is emitted: value numbers, by which the
order of computation is checked, know nothing of intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.intervals import Interval, assumed, fits, interval
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.truncated_division import truncated_division
from loopwright.ir.visit import expressions, names, rebuild, rewrite, statements, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import substitute_statement

__all__ = ["narrow_arithmetic"]

_SIGNED, _UNSIGNED = DTYPES["int16"], DTYPES["uint16"]
_MODULAR = frozenset({"add", "sub", "mul", "and", "or", "xor"})  # same modulo 2^bits in any type
_EXACT = frozenset({"min", "max", "floordiv", "mod"})  # of operands that fit


def narrow_arithmetic(nest: LoopNest) -> LoopNest:
    """Compute integers of simd loops in 16 bits where all their values fit.

        s: int32 = int32(a[j - 1]) + 2 * int32(a[j]) + int32(a[j + 1]); b[j] = uint8(s // 4)
    ->  s: int16 = int16(a[j - 1]) + 2 * int16(a[j]) + int16(a[j + 1]); b[j] = uint8(s // 4)
    """

    def loop(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD or not _reads_narrow(stmt):
            return stmt
        inside = {stmt.var} | {s.name for s in statements(stmt.body) if isinstance(s, Let)}
        return replace(stmt, body=_Narrow(frozenset(inside), {}).statement(stmt.body))

    return replace(nest, body=rebuild(nest.body, loop))


def _reads_narrow(stmt: Stmt) -> bool:
    """Whether integers of less than 32 bits are widened anywhere."""
    return any(
        isinstance(node, Cast) and node.dtype.is_integer and _is_narrow(node.x.dtype)
        for inner in statements(stmt)
        for expr in expressions(inner)
        for node in walk(expr)
    )


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits <= _SIGNED.bits


@dataclass(frozen=True, slots=True)
class _Narrow:
    """Narrows the body of one loop; `known` grows by what its bindings hold."""

    inside: frozenset[str]  # variables that differ from iteration to iteration
    known: Mapping[str, Interval] = field(default_factory=dict)

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Store(value=value):
                found = self.value(value)
                return stmt if found is value else replace(stmt, value=found)
            case Let(name=name, value=value, body=body):
                found = self.value(value)
                if isinstance(found, Cast) and found is not value and _is_narrow(found.x.dtype):
                    wide = Cast(Var(name, found.x.dtype), found.dtype)
                    body = substitute_statement(body, {name: wide})
                    found = found.x
                more = self.known
                if found.dtype.is_integer:
                    more = {**self.known, name: interval(found, self.known)}
                return replace(stmt, value=found, body=_Narrow(self.inside, more).statement(body))
            case Block(body=parts):
                return Block(tuple(map(self.statement, parts)))
            case For(body=body) | Alloc(body=body):
                return replace(stmt, body=self.statement(body))
            case If(cond=cond, body=body, orelse=orelse):
                return If(cond, self.statement(body), orelse and self.statement(orelse))
        return stmt

    def value(self, expr: Expr) -> Expr:
        """`expr` with the largest parts that fit computed in 16 bits."""
        return rewrite(self._down(expr), _without_detours)

    def _down(self, expr: Expr) -> Expr:
        if isinstance(expr, Load | Const | Var):
            return expr
        if isinstance(expr, Binary) and expr.op in COMPARISONS:
            return self._comparison(expr)
        if expr.dtype.is_integer and expr.dtype.bits > _SIGNED.bits and not isinstance(expr, Cast):
            found = self._fitted(expr)
            if found is not None:
                return Cast(found, expr.dtype)
        match expr:
            case Select() if truncated_division(expr) is not None:
                return expr  # the form of a quotient, which compilers know
            case Binary(op=op, x=x, y=y):
                return Binary(op, self._down(x), self._down(y))
            case Unary(x=x) | Cast(x=x):
                return replace(expr, x=self._down(x))
            case Select(cond=cond, x=x, y=y):
                one, other = (_Narrow(self.inside, m) for m in self._branches(cond))
                return Select(self._down(cond), one._down(x), other._down(y))
        return expr

    def _branches(self, cond: Expr) -> tuple[Mapping[str, Interval], Mapping[str, Interval]]:
        return assumed(cond, self.known, holds=True), assumed(cond, self.known, holds=False)

    def _fitted(self, expr: Expr) -> Expr | None:
        """An integer in the first type of 16 bits that holds it and has a form of it."""
        found = interval(expr, self.known)
        for dtype in (_SIGNED, _UNSIGNED):
            if fits(found, dtype):
                narrow = self._modulo(expr, dtype)
                if narrow is not None:
                    return narrow
        return None

    def _comparison(self, expr: Binary) -> Expr:
        """A comparison in 16 bits, where both sides fit or one is the same in all iterations."""
        x, y = expr.x, expr.y
        if not x.dtype.is_integer or x.dtype.bits <= _SIGNED.bits:
            return expr
        both = interval(x, self.known), interval(y, self.known)
        for dtype in (_SIGNED, _UNSIGNED):
            if all(fits(one, dtype) for one in both):
                sides = self._modulo(x, dtype), self._modulo(y, dtype)
                if sides[0] is not None and sides[1] is not None:
                    return Binary(expr.op, sides[0], sides[1])
            for at in (0, 1):
                near, far = (x, y) if at == 0 else (y, x)
                low, high = both[at]
                if not self._is_fixed(far) or not fits((low - 1, high + 1), dtype):
                    continue
                narrow = self._modulo(near, dtype)
                if narrow is not None:
                    # Beyond the ends all numbers compare alike.
                    least, most = Const(low - 1, far.dtype), Const(high + 1, far.dtype)
                    other = Cast(Binary("max", Binary("min", far, most), least), dtype)
                    return Binary(expr.op, *((narrow, other) if at == 0 else (other, narrow)))
        return Binary(expr.op, self._down(x), self._down(y))

    def _is_fixed(self, expr: Expr) -> bool:
        """Whether an expression is of scalars that no iteration changes."""
        is_plain = all(isinstance(node, Var | Cast | Const) for node in walk(expr))
        return is_plain and not isinstance(expr, Const) and not names(expr) & self.inside

    def _modulo(self, expr: Expr, dtype: DType) -> Expr | None:
        """An expression of a type of 16 bits, equal to `expr` modulo 2^16; None: there is none."""
        match expr:
            case Const(value=int(value)):
                wrapped = value & 0xFFFF
                is_low = dtype is _UNSIGNED or wrapped <= dtype.greatest
                return Const(wrapped if is_low else wrapped - 0x10000, dtype)
            case Cast(x=x) if x.dtype == dtype:
                return x
            case Cast(x=x) if _is_narrow(x.dtype):
                return Cast(x, dtype)
            case Cast(x=x) if x.dtype.is_integer:
                return self._modulo(x, dtype)
            case Unary(op="neg", x=x):
                inner = self._modulo(x, dtype)
                return None if inner is None else Unary("neg", inner)
            case Binary(op=op, x=x, y=y) if op in _MODULAR:
                return self._operation(op, x, y, dtype)
            case Binary(op=op, x=x, y=y) if op in _EXACT:
                is_exact = all(fits(interval(side, self.known), dtype) for side in (x, y))
                is_exact = is_exact and (op in ("min", "max") or _is_divisor(y))
                return self._operation(op, x, y, dtype) if is_exact else None
            case Select(cond=cond, x=x, y=y):
                return self._choice(expr, cond, x, y, dtype)
        return None

    def _operation(self, op: str, x: Expr, y: Expr, dtype: DType) -> Expr | None:
        left, right = self._modulo(x, dtype), self._modulo(y, dtype)
        return None if left is None or right is None else Binary(op, left, right)

    def _choice(self, expr: Select, cond: Expr, x: Expr, y: Expr, dtype: DType) -> Expr | None:
        quotient = truncated_division(expr)
        if quotient is not None:
            op, whole, divisor = quotient
            # Of a number that is not negative it rounds down.
            low, high = interval(whole, self.known)
            is_exact = low >= 0 and fits((low, high), dtype) and _is_divisor(divisor)
            down = "floordiv" if op == "div" else "mod"
            return self._operation(down, whole, divisor, dtype) if is_exact else None
        first, second = (_Narrow(self.inside, m) for m in self._branches(cond))
        one, other = first._modulo(x, dtype), second._modulo(y, dtype)
        return None if one is None or other is None else Select(self._down(cond), one, other)


def _is_divisor(expr: Expr) -> bool:
    return isinstance(expr, Const) and isinstance(expr.value, int) and expr.value > 0


def _without_detours(expr: Expr) -> Expr:
    """A conversion to the type of a narrow value by way of a wider one is none."""
    match expr:
        case Cast(x=Cast(x=x, dtype=wide), dtype=dtype) if (
            _is_narrow(x.dtype) and wide.is_integer and dtype.is_integer and dtype.bits <= wide.bits
        ):
            if dtype.bits <= x.dtype.bits or x.dtype.kind == "u" or wide.kind == dtype.kind == "i":
                return x if x.dtype == dtype else Cast(x, dtype)
    return expr
