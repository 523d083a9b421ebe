"""Arithmetic on LLVM values: one function per kind of expression, tables for the operators.

Semantics are those of `ir/interpret.py`: integers wrap, `//` and `%` round down, division of an
integer by zero gives zero, min and max propagate NaN and order -0.0 before +0.0. The saturating
operators of semirings stop at the ends of a type instead.
"""

from __future__ import annotations

from loopwright.backends.llvm.llvm_builder import (
    Flag,
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
    type_name,
)
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import BOOL, FLOAT32, INT32, DType
from loopwright.ir.expr import COMPARISONS, SATURATING

__all__ = [
    "binary",
    "broadcast",
    "cast",
    "cast_by_selection",
    "compare",
    "same_lanes",
    "select",
    "truncated_division",
    "unary",
]

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_EXTREME = {
    ("min", "f"): "minimum",
    ("max", "f"): "maximum",
    ("min", "i"): "smin",
    ("max", "i"): "smax",
    ("min", "u"): "umin",
    ("max", "u"): "umax",
    ("min", "b"): "umin",
    ("max", "b"): "umax",
}
_UNSIGNED_ORDER = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_SIGNED_ORDER = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


def broadcast(code: FunctionBuilder, value: SSAValue, lanes: int) -> SSAValue:
    """A scalar in every lane."""
    if value.lanes == lanes:
        return value
    assert value.lanes == 1

    def splat(text: str) -> str:
        vector = type_name(value.dtype, lanes)
        if not text.startswith("%"):
            element = f"{type_name(value.dtype)} {text}"
            return f"<{', '.join([element] * lanes)}>"
        first = code.emit(f"insertelement {vector} poison, {type_name(value.dtype)} {text}, i64 0")
        return code.emit(
            f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    return SSAValue(splat(value.text), value.dtype, lanes, splat(value.imag) if value.imag else "")


def same_lanes(code: FunctionBuilder, *values: SSAValue) -> tuple[SSAValue, ...]:
    """The values with scalars broadcast to the greatest number of lanes among them."""
    lanes = max(v.lanes for v in values)
    return tuple(broadcast(code, v, lanes) for v in values)


def binary(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """`x op y`, lane by lane."""
    if op in ("floordiv", "mod") and x.dtype.is_integer and y.text.isdigit():
        found = _by_power_of_two(code, op, x, int(y.text))
        if found is not None:
            return found
    x, y = same_lanes(code, x, y)
    assert x.dtype == y.dtype, f"{op}: {x.dtype} and {y.dtype}"
    if op in COMPARISONS:
        flag = compare(code, op, x, y)
        return SSAValue(code.emit(f"zext {flag} to {type_name(BOOL, x.lanes)}"), BOOL, x.lanes)
    if x.dtype.is_complex:
        return _complex_binary(code, op, x, y)
    if op in ("min", "max"):
        name = f"llvm.{_EXTREME[op, x.dtype.kind]}.{intrinsic_suffix(x.dtype, x.lanes)}"
        return SSAValue(code.call(x.type, name, x, y), x.dtype, x.lanes)
    if x.dtype.is_float:
        return _float_binary(code, op, x, y)
    if x.dtype == BOOL:
        # NumPy's booleans: + is or, * is and.
        op = {"add": "or", "mul": "and"}.get(op, op)
    if op in _INTEGER:
        return SSAValue(code.emit(f"{_INTEGER[op]} {x}, {y.text}"), x.dtype, x.lanes)
    if op in ("floordiv", "mod"):
        return _integer_division(code, op, x, y)
    if op in ("shl", "shr"):
        return _shift(code, op, x, y)
    if op in SATURATING:
        return _saturating(code, op, x, y)
    raise InternalError(f"operator '{op}' is not defined for {x.dtype}")


def _shift(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """By the count modulo the bits of the type: beyond, LLVM's instructions give poison."""
    word = "shl" if op == "shl" else "ashr" if x.dtype.kind == "i" else "lshr"
    most = broadcast(code, literal(x.dtype, x.dtype.bits - 1), x.lanes)
    count = code.emit(f"and {y}, {most.text}")
    return SSAValue(code.emit(f"{word} {x}, {count}"), x.dtype, x.lanes)


def _float_binary(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    if op in _FLOAT:
        return SSAValue(code.emit(f"{_FLOAT[op]} {code.flags}{x}, {y.text}"), x.dtype, x.lanes)
    if op not in ("floordiv", "mod"):
        raise InternalError(f"operator '{op}' is not defined for {x.dtype}")
    if x.dtype.bits == 16:
        # As NumPy does: one rounding at the end, not one per step.
        wide = _float_division(code, op, cast(code, x, FLOAT32), cast(code, y, FLOAT32))
        return cast(code, wide, x.dtype)
    return _float_division(code, op, x, y)


def _float_division(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """Floor division or its remainder, which has the sign of the divisor, by NumPy's steps."""
    zero, half, one = (broadcast(code, literal(x.dtype, c), x.lanes) for c in (0.0, 0.5, 1.0))
    suffix, flag = intrinsic_suffix(x.dtype, x.lanes), Flag("", x.lanes).type

    def value(instruction: str) -> SSAValue:
        return SSAValue(code.emit(instruction), x.dtype, x.lanes)

    def choose(condition: str, yes: SSAValue, no: SSAValue) -> SSAValue:
        return value(f"select {flag} {condition}, {yes}, {no}")

    def zero_like(sign: SSAValue) -> SSAValue:
        name = f"llvm.copysign.{suffix}"
        return SSAValue(code.call(x.type, name, zero, sign), x.dtype, x.lanes)

    rest = value(f"frem {x}, {y.text}")
    inexact = code.emit(f"fcmp une {rest}, {zero.text}")
    negative = [code.emit(f"fcmp olt {part}, {zero.text}") for part in (rest, y)]
    differ = code.emit(f"xor {flag} {negative[0]}, {negative[1]}")
    down = code.emit(f"and {flag} {inexact}, {differ}")
    if op == "mod":
        exact = choose(inexact, rest, zero_like(y))
        return choose(down, value(f"fadd {rest}, {y.text}"), exact)
    near = value(f"fdiv {value(f'fsub {x}, {rest.text}')}, {y.text}")
    near = choose(down, value(f"fsub {near}, {one.text}"), near)
    floor = SSAValue(code.call(x.type, f"llvm.floor.{suffix}", near), x.dtype, x.lanes)
    gap = code.emit(f"fcmp ogt {value(f'fsub {near}, {floor.text}')}, {half.text}")
    whole = choose(gap, value(f"fadd {floor}, {one.text}"), floor)
    plain = value(f"fdiv {x}, {y.text}")
    whole = choose(code.emit(f"fcmp oeq {near}, {zero.text}"), zero_like(plain), whole)
    return choose(code.emit(f"fcmp oeq {y}, {zero.text}"), plain, whole)


def _by_power_of_two(code: FunctionBuilder, op: str, x: SSAValue, by: int) -> SSAValue | None:
    """Floor division or its remainder by a constant: shifts and masks round down by themselves."""
    if by < 1 or by & (by - 1):
        return None
    word = "and" if op == "mod" else "ashr" if x.dtype.kind == "i" else "lshr"
    number = literal(x.dtype, by - 1 if op == "mod" else by.bit_length() - 1)
    amount = broadcast(code, number, x.lanes)
    return SSAValue(code.emit(f"{word} {x}, {amount.text}"), x.dtype, x.lanes)


def _integer_division(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """Floor division or its remainder; a zero divisor gives zero, never a trap."""
    zero, one = (broadcast(code, literal(x.dtype, n), x.lanes) for n in (0, 1))
    flag = Flag("", x.lanes).type
    by_zero = code.emit(f"icmp eq {y}, {zero.text}")
    signed = x.dtype.kind == "i"
    unsafe = by_zero
    if signed:
        # INT_MIN // -1 traps on x86; x // -1 = -x wraps as NumPy's does.
        minus_one = broadcast(code, literal(x.dtype, -1), x.lanes)
        by_minus_one = code.emit(f"icmp eq {y}, {minus_one.text}")
        unsafe = code.emit(f"or {flag} {by_zero}, {by_minus_one}")
    safe = SSAValue(code.emit(f"select {flag} {unsafe}, {one}, {y}"), x.dtype, x.lanes)
    letter = "s" if signed else "u"
    quotient = code.emit(f"{letter}div {x}, {safe.text}")
    rest = code.emit(f"{letter}rem {x}, {safe.text}")
    if signed:
        mixed = code.emit(f"xor {x.type} {rest}, {safe.text}")
        negative = code.emit(f"icmp slt {x.type} {mixed}, {zero.text}")
        nonzero = code.emit(f"icmp ne {x.type} {rest}, {zero.text}")
        down = code.emit(f"and {flag} {negative}, {nonzero}")
        lower = code.emit(f"sub {x.type} {quotient}, {one.text}")
        quotient = code.emit(f"select {flag} {down}, {x.type} {lower}, {x.type} {quotient}")
        lifted = code.emit(f"add {x.type} {rest}, {safe.text}")
        rest = code.emit(f"select {flag} {down}, {x.type} {lifted}, {x.type} {rest}")
        negated = code.emit(f"sub {zero}, {x.text}")
        quotient = code.emit(
            f"select {flag} {by_minus_one}, {x.type} {negated}, {x.type} {quotient}"
        )
    result = quotient if op == "floordiv" else rest
    if op == "mod" and signed:
        result = code.emit(f"select {flag} {unsafe}, {zero}, {x.type} {result}")
    else:
        result = code.emit(f"select {flag} {by_zero}, {zero}, {x.type} {result}")
    return SSAValue(result, x.dtype, x.lanes)


def truncated_division(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """C's quotient ("div") or remainder ("rem") of integers, by a divisor that cannot trap."""
    x, y = same_lanes(code, x, y)
    letter = "s" if x.dtype.kind == "i" else "u"
    return SSAValue(code.emit(f"{letter}{op} {x}, {y.text}"), x.dtype, x.lanes)


def _saturating(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """Saturating sums and products; `add_top` and `add_bottom` have an absorbing end."""
    if op == "mul_sat":
        return _saturating_product(code, x, y)
    signed = x.dtype.kind == "i"
    name = f"llvm.{'s' if signed else 'u'}add.sat.{intrinsic_suffix(x.dtype, x.lanes)}"
    total = SSAValue(code.call(x.type, name, x, y), x.dtype, x.lanes)
    if not signed:
        return total  # nothing is negative: the greatest number absorbs by itself
    top = (1 << (x.dtype.bits - 1)) - 1
    number, towards = (top, "max") if op == "add_top" else (-top - 1, "min")
    end = broadcast(code, literal(x.dtype, number), x.lanes)
    # The extreme of both operands is the end where either is. Comparing each operand by itself
    # would save an instruction in a register tile, but its masks take the registers of sums
    # (measured, N1: 8% slower).
    extreme = binary(code, towards, x, y)
    is_end = Flag(code.emit(f"icmp eq {extreme}, {end.text}"), x.lanes)
    return select(code, is_end, end, total)


def _saturating_product(code: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The product in twice as many bits, clamped to the range of the type."""
    bits, signed = x.dtype.bits, x.dtype.kind == "i"
    letter, word = ("s", "sext") if signed else ("u", "zext")
    scalar = f"i{2 * bits}"
    wide = scalar if x.lanes == 1 else f"<{x.lanes} x {scalar}>"
    suffix = scalar if x.lanes == 1 else f"v{x.lanes}{scalar}"
    factors = [code.emit(f"{word} {side} to {wide}") for side in (x, y)]
    found = code.emit(f"mul {wide} {factors[0]}, {factors[1]}")
    top = (1 << (bits - signed)) - 1
    for name, end in (("min", top), ("max", -top - 1))[: 1 + signed]:
        limit = str(end) if x.lanes == 1 else f"<{', '.join([f'{scalar} {end}'] * x.lanes)}>"
        found = code.intrinsic(wide, f"llvm.{letter}{name}.{suffix}", found, limit)
    return SSAValue(code.emit(f"trunc {wide} {found} to {x.type}"), x.dtype, x.lanes)


def _complex_binary(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
    def part(text: str, of: SSAValue = x) -> SSAValue:
        return SSAValue(text, of.dtype.real, of.lanes)

    def real(name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return binary(code, name, a, b)

    xr, xi, yr, yi = part(x.text), part(x.imag), part(y.text), part(y.imag)
    match op:
        case "add" | "sub":
            re, im = real(op, xr, yr), real(op, xi, yi)
        case "mul":
            re = real("sub", real("mul", xr, yr), real("mul", xi, yi))
            im = real("add", real("mul", xr, yi), real("mul", xi, yr))
        case "div":
            return _complex_quotient(code, x, y)
        case _:
            raise InternalError(f"operator '{op}' is not defined for {x.dtype}")
    return SSAValue(re.text, x.dtype, x.lanes, im.text)


def _complex_quotient(code: FunctionBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Smith's division, as NumPy's: the squares of y's parts may overflow, their ratio does not."""

    def part(text: str) -> SSAValue:
        return SSAValue(text, x.dtype.real, x.lanes)

    def real(op: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return binary(code, op, a, b)

    xr, xi, yr, yi = part(x.text), part(x.imag), part(y.text), part(y.imag)
    sizes = [unary(code, "abs", z) for z in (yr, yi)]
    flag = code.emit(f"fcmp ult {sizes[0]}, {sizes[1].text}")
    swap = Flag(flag, x.lanes)
    large, small = select(code, swap, yi, yr), select(code, swap, yr, yi)
    first, second = select(code, swap, xi, xr), select(code, swap, xr, xi)
    ratio = real("div", small, large)
    one = broadcast(code, literal(x.dtype.real, 1.0), x.lanes)
    scale = real("div", one, real("add", large, real("mul", small, ratio)))
    re = real("mul", real("add", first, real("mul", second, ratio)), scale)
    turned = real("mul", first, ratio)
    # A negated difference would have another zero.
    parts = select(code, swap, turned, second), select(code, swap, second, turned)
    im = real("mul", real("sub", *parts), scale)
    nothing = compare(code, "eq", large, broadcast(code, literal(x.dtype.real, 0.0), x.lanes))
    re = select(code, nothing, real("div", xr, sizes[0]), re)
    im = select(code, nothing, real("div", xi, sizes[0]), im)
    return SSAValue(re.text, x.dtype, x.lanes, im.text)


def compare(code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue) -> Flag:
    """A comparison, lane by lane."""
    x, y = same_lanes(code, x, y)
    if x.dtype.is_complex:
        predicate, join = ("oeq", "and") if op == "eq" else ("une", "or")
        re = code.emit(f"fcmp {predicate} {x}, {y.text}")
        im = code.emit(f"fcmp {predicate} {x.type} {x.imag}, {y.imag}")
        return Flag(code.emit(f"{join} {Flag(re, x.lanes)}, {im}"), x.lanes)
    if x.dtype.is_float:
        predicate = "une" if op == "ne" else f"o{op}"
        return Flag(code.emit(f"fcmp {predicate} {x}, {y.text}"), x.lanes)
    order = _SIGNED_ORDER if x.dtype.kind == "i" else _UNSIGNED_ORDER
    return Flag(code.emit(f"icmp {order.get(op, op)} {x}, {y.text}"), x.lanes)


def unary(code: FunctionBuilder, op: str, x: SSAValue) -> SSAValue:
    """`op x`, lane by lane."""
    if x.dtype.is_complex:
        return _complex_unary(code, op, x)
    if op == "neg":
        if x.dtype.is_float:
            return SSAValue(code.emit(f"fneg {x}"), x.dtype, x.lanes)
        zero = broadcast(code, literal(x.dtype, 0), x.lanes)
        return SSAValue(code.emit(f"sub {zero}, {x.text}"), x.dtype, x.lanes)
    if op == "not":
        ones = broadcast(code, literal(x.dtype, 1 if x.dtype == BOOL else -1), x.lanes)
        return SSAValue(code.emit(f"xor {x}, {ones.text}"), x.dtype, x.lanes)
    assert op == "abs"
    suffix = intrinsic_suffix(x.dtype, x.lanes)
    if x.dtype.is_float:
        return SSAValue(code.call(x.type, f"llvm.fabs.{suffix}", x), x.dtype, x.lanes)
    if x.dtype.kind != "i":
        return x
    return SSAValue(code.call(x.type, f"llvm.abs.{suffix}", x, Flag("false")), x.dtype, x.lanes)


def _complex_unary(code: FunctionBuilder, op: str, x: SSAValue) -> SSAValue:
    re, im = SSAValue(x.text, x.dtype.real, x.lanes), SSAValue(x.imag, x.dtype.real, x.lanes)
    if op == "neg":
        return SSAValue(unary(code, "neg", re).text, x.dtype, x.lanes, unary(code, "neg", im).text)
    raise InternalError(f"operator '{op}' is not defined for {x.dtype}")


def select(code: FunctionBuilder, flag: Flag, x: SSAValue, y: SSAValue) -> SSAValue:
    """`x` where `flag` holds, else `y`."""
    lanes = max(flag.lanes, x.lanes, y.lanes)
    x, y = broadcast(code, x, lanes), broadcast(code, y, lanes)
    text = code.emit(f"select {flag}, {x}, {y}")
    imag = code.emit(f"select {flag}, {x.type} {x.imag}, {y.type} {y.imag}") if x.imag else ""
    return SSAValue(text, x.dtype, x.lanes, imag)


def cast(code: FunctionBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """Conversion by NumPy's `astype` rules; floats outside an integer's range saturate."""
    if x.dtype == dtype:
        return x
    if dtype.is_complex:
        real = cast(code, SSAValue(x.text, x.dtype.real, x.lanes), dtype.real)
        imag = cast(code, SSAValue(x.imag, x.dtype.real, x.lanes), dtype.real) if x.imag else None
        zero = broadcast(code, literal(dtype.real, 0.0), x.lanes)
        return SSAValue(real.text, dtype, x.lanes, (imag or zero).text)
    if dtype == BOOL:
        zero = broadcast(code, literal(x.dtype, 0), x.lanes)
        return binary(code, "ne", x, zero)
    if x.dtype.is_complex:
        return cast(code, SSAValue(x.text, x.dtype.real, x.lanes), dtype)
    target = type_name(dtype, x.lanes)
    signed = x.dtype.kind == "i"
    if x.dtype.bits == 64 and dtype.bits == 16 and x.dtype.is_float and dtype.is_float:
        x = _odd_float(code, x)
    if x.dtype.is_float and dtype.is_float:
        word = "fpext" if dtype.bits > x.dtype.bits else "fptrunc"
    elif x.dtype.is_float:
        letter = "s" if dtype.kind == "i" else "u"
        if x.dtype.bits == 16:
            # LLVM 22 takes NaN for the least int16 on processors with arithmetic on half floats.
            x = cast(code, x, FLOAT32)
        to, of = intrinsic_suffix(dtype, x.lanes), intrinsic_suffix(x.dtype, x.lanes)
        return SSAValue(code.call(target, f"llvm.fpto{letter}i.sat.{to}.{of}", x), dtype, x.lanes)
    elif dtype.is_float:
        word = "sitofp" if signed else "uitofp"
    elif dtype.bits == x.dtype.bits:
        return SSAValue(x.text, dtype, x.lanes)
    elif dtype.bits < x.dtype.bits:
        return _truncated(code, x, dtype)
    else:
        word = "sext" if signed else "zext"
    return SSAValue(code.emit(f"{word} {x} to {target}"), dtype, x.lanes)


def cast_by_selection(code: FunctionBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """A real number as an integer, as `cast` has it, of comparisons and selections.

    LLVM has x86 convert vectors lane by lane where they saturate.
    """
    if x.dtype.bits == 16:
        x = cast(code, x, FLOAT32)

    def number(value: int) -> SSAValue:
        return broadcast(code, literal(x.dtype, float(value)), x.lanes)

    def end(value: int) -> SSAValue:
        return broadcast(code, literal(dtype, value), x.lanes)

    # What is truncated to the least integer is greater than the number before it, where there is
    # such a number.
    is_exact = not dtype.least or dtype.bits <= (53 if x.dtype.bits == 64 else 24)
    low, inside, outside = (dtype.least - 1, "gt", "le") if is_exact else (dtype.least, "ge", "lt")
    is_above = compare(code, "ge", x, number(dtype.greatest + 1))
    safe = select(code, compare(code, inside, x, number(low)), x, number(0))
    safe = select(code, is_above, number(0), safe)
    word = "fptosi" if dtype.kind == "i" else "fptoui"
    text = code.emit(f"{word} {safe} to {type_name(dtype, x.lanes)}")
    found = SSAValue(text, dtype, x.lanes)
    if dtype.least:
        found = select(code, compare(code, outside, x, number(low)), end(dtype.least), found)
    return select(code, is_above, end(dtype.greatest), found)


def _truncated(code: FunctionBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """The low bits of integers, truncated in a power of two of lanes.

    LLVM 22 aborts on some stores of 3 truncated lanes.
    """
    lanes = 1 << (x.lanes - 1).bit_length()
    if lanes == x.lanes:
        return SSAValue(code.emit(f"trunc {x} to {type_name(dtype, lanes)}"), dtype, lanes)

    def first(value: SSAValue, count: int) -> SSAValue:
        mask = ", ".join(f"i32 {k if k < x.lanes else 'poison'}" for k in range(count))
        text = f"shufflevector {value}, {value.type} poison, <{count} x i32> <{mask}>"
        return SSAValue(code.emit(text), value.dtype, count)

    return first(_truncated(code, first(x, lanes), dtype), x.lanes)


def _odd_float(code: FunctionBuilder, x: SSAValue) -> SSAValue:
    """A double as a float, rounded to odd: rounding that again to half gives the nearest half.

    x86 has no instruction from double to half, and LLVM's helper for it need not be there.
    """
    kind, bits = type_name(FLOAT32, x.lanes), type_name(INT32, x.lanes)
    flag = Flag("", x.lanes).type
    near = SSAValue(code.emit(f"fptrunc {x} to {kind}"), FLOAT32, x.lanes)
    back = SSAValue(code.emit(f"fpext {near} to {x.type}"), x.dtype, x.lanes)
    sizes = [unary(code, "abs", value) for value in (back, x)]
    inexact = code.emit(f"fcmp one {back}, {x.text}")
    beyond = code.emit(f"fcmp ogt {sizes[0]}, {sizes[1].text}")
    word = SSAValue(code.emit(f"bitcast {near} to {bits}"), INT32, x.lanes)
    step = code.emit(f"zext {flag} {beyond} to {bits}")
    below = code.emit(f"sub {word}, {step}")
    one = broadcast(code, literal(INT32, 1), x.lanes)
    odd = code.emit(f"or {one}, {below}")
    chosen = code.emit(f"select {flag} {inexact}, {bits} {odd}, {word}")
    return SSAValue(code.emit(f"bitcast {bits} {chosen} to {kind}"), FLOAT32, x.lanes)
